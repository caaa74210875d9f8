//! Records which signals are managed, and by which actions. Handlers read this; `install.rs` and
//! `cover.rs` write it.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use super::super::event::{Chained, Handler, Interrupted};
use super::super::options::Options;
use super::controls;
use super::passing::while_passing_on;
use crate::platform::{Context, Disposition, RESERVED_SET, SIGNALS, bit, change_mask};

/// Signals that faults raise. A fault ends the process if its signal is blocked.
pub const FAULTS: [c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Signals that are never blocked and never held back: those of faults, `SIGABRT`, and the C
/// library's.
pub const NEVER_BLOCKED: u64 = {
    let mut set = bit(libc::SIGABRT) | RESERVED_SET;
    let mut index = 0;
    while index < FAULTS.len() {
        set |= bit(FAULTS[index]);
        index += 1;
    }
    set
};

/// Returns the fault signals and `SIGABRT`.
pub fn unmaskable() -> impl Iterator<Item = c_int> {
    FAULTS.into_iter().chain([libc::SIGABRT])
}

/// Returns whether a signal is one of [`unmaskable`].
pub fn is_unmaskable(signal: c_int) -> bool {
    unmaskable().any(|unmaskable| unmaskable == signal)
}

/// The fault signals, as a set.
pub const FAULT_SET: u64 =
    !OTHERS & !(bit(libc::SIGABRT) | bit(libc::SIGKILL) | bit(libc::SIGSTOP));

/// All signals except those: blocked until a delivery has decided. So a handler of other code never
/// runs in the middle of a delivery, and cannot jump out of one.
const OTHERS: u64 = {
    let mut set = !(bit(libc::SIGABRT) | bit(libc::SIGKILL) | bit(libc::SIGSTOP));
    let mut index = 0;
    while index < FAULTS.len() {
        set &= !bit(FAULTS[index]);
        index += 1;
    }
    set
};

/// The same set for the entries, which block it first of all.
#[cfg(feature = "unstable-internals")]
pub static BLOCKED_ON_ENTRY: AtomicU64 = AtomicU64::new(OTHERS);
#[cfg(not(feature = "unstable-internals"))]
pub static BLOCKED_ON_ENTRY: u64 = OTHERS;

/// What the entries block.
pub fn blocked_on_entry() -> u64 {
    #[cfg(feature = "unstable-internals")]
    return BLOCKED_ON_ENTRY.load(Ordering::SeqCst);
    #[cfg(not(feature = "unstable-internals"))]
    BLOCKED_ON_ENTRY
}

/// Turns the blocking by the entries on or off, for controls.
#[cfg(feature = "unstable-internals")]
pub fn block_on_entry(is_on: bool) {
    BLOCKED_ON_ENTRY.store(if is_on { OTHERS } else { 0 }, Ordering::SeqCst);
}

/// Returns the signals that are blocked until a delivery has decided.
pub fn undecided_mask() -> u64 {
    match controls::is_off(controls::FOREIGN) || controls::is_off(controls::COVERING_MASK) {
        true => covering_mask(),
        false => OTHERS,
    }
}

/// Returns whether any signal has a handler that was installed through this module.
pub fn is_any_managed() -> bool {
    managed() != 0 || handles_unmaskable()
}

/// Returns whether a signal that no mask holds back has a handler that was installed through this
/// module.
pub fn handles_unmaskable() -> bool {
    unmaskable().any(has_handler)
}

/// Managed signals that can be blocked.
static MANAGED: AtomicU64 = AtomicU64::new(0);

/// Returns the managed signals that can be blocked: what is blocked while any handler runs, during
/// rollforwards, and by deferral.
pub fn managed() -> u64 {
    MANAGED.load(Ordering::SeqCst)
}

/// Returns the same set for the `sa_mask` of handlers; a control may empty it.
pub fn covering_mask() -> u64 {
    if controls::is_off(controls::COVERING_MASK) {
        return 0;
    }
    managed()
}

/// Adds a signal to the managed ones. Returns `false` if it was managed, or cannot be blocked.
pub fn manage(signal: c_int) -> bool {
    let added = bit(signal) & !NEVER_BLOCKED;
    MANAGED.fetch_or(added, Ordering::SeqCst) & added != added
}

pub fn no_longer_manage(signal: c_int) {
    MANAGED.fetch_and(!bit(signal), Ordering::SeqCst);
}

/// As [`no_longer_manage`], where another thread may be installing a handler. That thread sets the
/// action before it calls [`manage`]. So either this sees the action, or that call comes later.
pub fn manage_no_longer_unless_handled(signal: c_int) {
    if !has_handler(signal) {
        no_longer_manage(signal);
        if has_handler(signal) {
            manage(signal);
        }
    }
}

/// Signals with a used-up handler whose entry may still be installed.
static USED_UP: AtomicU64 = AtomicU64::new(0);

/// Notes that a handler of one signal was used up, which is retired already.
pub fn note_used_up(signal: c_int) {
    USED_UP.fetch_or(bit(signal), Ordering::SeqCst);
}

/// Takes the signals that were noted by [`note_used_up`].
pub fn take_used_up() -> u64 {
    USED_UP.swap(0, Ordering::SeqCst)
}

/// The kind of handler that an action has.
#[derive(Clone, Copy)]
pub enum By {
    /// A handler installed through this module.
    Handler(Handler),
    /// The handler of other code that was installed before, called through this module. For signals
    /// that cannot be blocked, so that none arrives in the middle of a delivery or observes a
    /// clone.
    Adopted,
}

/// How a signal is handled. Immutable except for three flags, and never freed, because a handler
/// may be using it.
pub struct Action {
    pub by: By,
    pub options: Options,
    /// The disposition that was there before.
    pub previous: Previous,
    /// Whether a signal was delivered to it, for `once`.
    pub spent: AtomicBool,
    /// Whether it was uninstalled or used up. Its entry may still be called: by a delivery that had
    /// begun before, by other code that puts a saved disposition back, and until a used-up one is
    /// removed.
    pub retired: AtomicBool,
    /// Whether the entry of a used-up handler was found displaced, or removed. If it is installed
    /// after that, other code has put it back.
    pub removed: AtomicBool,
}

impl Action {
    /// Makes an action that was neither called nor removed yet.
    pub fn new(by: By, options: Options, previous: Previous) -> Action {
        Action {
            by,
            options,
            previous,
            spent: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            removed: AtomicBool::new(false),
        }
    }

    /// Returns whether it is a used-up handler for one signal.
    pub fn is_used_up(&self) -> bool {
        self.spent.load(Ordering::SeqCst) && self.is_retired()
    }

    /// Returns whether it is one whose entry was not removed since.
    pub fn lingers(&self) -> bool {
        self.is_used_up() && !self.removed.load(Ordering::SeqCst)
    }

    /// Returns whether it was uninstalled or used up.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    /// Returns what its entry stands for once it is retired: the disposition before it, or the
    /// default action for a used-up handler.
    pub fn rest(&self) -> Disposition {
        self.rest_to_call().disposition()
    }

    /// Returns the same, to be called.
    pub fn rest_to_call(&self) -> &Previous {
        match self.spent.load(Ordering::SeqCst) {
            true => &DEFAULT,
            false => &self.previous,
        }
    }

    /// Returns the signals that the handler asked to block, beside the managed ones.
    pub fn extra_mask(&self) -> u64 {
        match self.by {
            By::Handler(_) => self.options.blocked as u64 & !NEVER_BLOCKED,
            By::Adopted => self.previous.disposition().mask,
        }
    }

    /// Returns what the kernel must block when it calls our entry: `sa_mask` and the signal itself.
    /// The handler may run with fewer signals blocked.
    pub fn kernel_mask(&self, signal: c_int) -> u64 {
        let own = if self.is_adopted_without_defer() {
            0
        } else {
            bit(signal)
        };
        covering_mask() | own | self.extra_mask()
    }

    fn is_adopted_without_defer(&self) -> bool {
        matches!(self.by, By::Adopted) && self.previous.disposition().has(libc::SA_NODEFER)
    }

    /// Returns the mask that the handler runs with, if the interrupted code had `mask`. While a
    /// sequence is half done, every signal that can be blocked is blocked, except the C library's,
    /// for whose handlers other threads wait.
    pub fn mask_while_running(&self, signal: c_int, mask: u64, interrupted: Interrupted) -> u64 {
        let is_whole = interrupted != Interrupted::Inside;
        let lets_itself_in = match self.by {
            By::Handler(_) => self.options.no_defer,
            By::Adopted => self.is_adopted_without_defer(),
        } && (is_whole || bit(signal) & NEVER_BLOCKED != 0);
        let own = if lets_itself_in { 0 } else { bit(signal) };
        let others = match self.by {
            By::Handler(_) if self.options.nesting && is_whole => 0,
            By::Handler(_) if lets_itself_in && is_whole => covering_mask() & !bit(signal),
            _ if is_whole => covering_mask(),
            _ => undecided_mask() & !NEVER_BLOCKED,
        };
        mask | own | others | self.extra_mask()
    }
}

/// The number of entries: functions that the kernel can call, which differ only in their number.
///
/// One entry would suffice if no other code kept its address. But a handler that is installed over
/// an entry passes signals on to it, and may itself be called by a newer entry. If both were the
/// same entry, a signal would cycle between the two. So an entry that is installed over a handler
/// is one that the handler cannot know, as long as there are enough.
pub const ENTRIES: usize = crate::arch::SIGNAL_ENTRIES;

/// The action of each entry for each signal; null if the entry was never installed for it.
static ACTIONS: [[AtomicPtr<Action>; ENTRIES]; SIGNALS as usize + 1] =
    [const { [const { AtomicPtr::new(core::ptr::null_mut()) }; ENTRIES] }; SIGNALS as usize + 1];

/// The entry that was installed last for each signal.
static NEWEST: [AtomicUsize; SIGNALS as usize + 1] =
    [const { AtomicUsize::new(0) }; SIGNALS as usize + 1];

/// Returns the number of the entry that was installed last for a signal; 0 for a number that is not
/// a signal.
pub fn newest_entry(signal: c_int) -> usize {
    let newest = NEWEST.get(signal as usize);
    newest.map_or(0, |newest| newest.load(Ordering::SeqCst))
}

/// Returns the action of an entry for a signal, also if it is retired. Async-signal-safe.
pub fn of_entry(signal: c_int, entry: usize) -> Option<&'static Action> {
    let place = ACTIONS.get(signal as usize)?.get(entry)?;
    // SAFETY: null, or leaked before `set_action`. Acquire: pairs with the Release there.
    unsafe { place.load(Ordering::Acquire).as_ref() }
}

/// As [`of_entry`], but returns `None` for a retired action.
pub fn live_of_entry(signal: c_int, entry: usize) -> Option<&'static Action> {
    of_entry(signal, entry).filter(|action| !action.is_retired())
}

/// Returns the set of entries that have this action for a signal.
pub fn entries_of(signal: c_int, action: &Action) -> usize {
    let is_it =
        |&entry: &usize| of_entry(signal, entry).is_some_and(|of| core::ptr::eq(of, action));
    (0..ENTRIES)
        .filter(is_it)
        .fold(0, |set, entry| set | 1 << entry)
}

/// Returns the current action of a signal: that of its newest entry, unless it is retired.
/// Async-signal-safe.
pub fn action(signal: c_int) -> Option<&'static Action> {
    live_of_entry(signal, newest_entry(signal))
}

/// Which entry to install over `before`, which is none of them: one that `before` cannot know, and
/// not that of a used-up handler: what other code saved while that was installed stands for the
/// default action.
pub fn entry_over(signal: c_int, before: &Disposition) -> usize {
    let newest = newest_entry(signal);
    if controls::is_off(controls::ENTRIES) {
        return newest;
    }
    let is_free = of_entry(signal, newest).is_none_or(|action| {
        // It was there before: what it passes signals on to is older than this entry.
        let is_older =
            action.is_retired() && action.previous.disposition().handler == before.handler;
        (is_older || !before.is_function()) && !action.is_used_up()
    });
    if is_free {
        return newest;
    }
    let mut others = (1..ENTRIES).map(|step| (newest + step) % ENTRIES);
    let unused = others.find(|&entry| of_entry(signal, entry).is_none());
    unused.unwrap_or((newest + 1) % ENTRIES)
}

/// Returns what the kernel must block when it calls this entry.
pub fn kernel_mask_of(signal: c_int, entry: usize) -> u64 {
    of_entry(signal, entry).map_or(covering_mask() | bit(signal), |action| {
        action.kernel_mask(signal)
    })
}

/// The mask with which an entry was last installed here for each signal. The kernel blocks this
/// mask and the signal.
///
/// That may be more than is managed now. Masks never shrink, because another copy of atomseq may
/// manage a signal that it has found in a mask. And no mask can be changed when a handler for one
/// signal is used up.
///
/// The kernel may block still more: other code can install the entry again with another mask, and
/// another copy of atomseq adds the signals that it manages. These stay blocked while the handler
/// runs, as if the interrupted code had them blocked.
static INSTALLED: [AtomicU64; SIGNALS as usize + 1] =
    [const { AtomicU64::new(0) }; SIGNALS as usize + 1];

/// Returns what the kernel blocks because of atomseq when it calls an entry of this signal.
pub fn installed_mask(signal: c_int) -> u64 {
    let installed = INSTALLED.get(signal as usize);
    // Relaxed: no other data depends on it. Deliveries that begin during a change find both masks.
    bit(signal) | installed.map_or(0, |mask| mask.load(Ordering::Relaxed))
}

/// Records the mask with which `install` installs an entry. `install` returns whether it has.
pub fn installing(
    signal: c_int,
    mask: u64,
    install: impl FnOnce() -> Result<bool, i32>,
) -> Result<bool, i32> {
    let installed = &INSTALLED[signal as usize];
    let before = installed.fetch_or(mask, Ordering::SeqCst);
    let result = install();
    let after = if result == Ok(true) { mask } else { before };
    installed.store(after, Ordering::SeqCst);
    result
}

/// Sets the action of a signal, and the entry that has it.
pub fn set_action(signal: c_int, entry: usize, action: &'static Action) {
    let pointer = core::ptr::from_ref(action).cast_mut();
    // Release: pairs with the Acquire in `of_entry`.
    ACTIONS[signal as usize][entry].store(pointer, Ordering::Release);
    NEWEST[signal as usize].store(entry, Ordering::SeqCst);
}

/// Returns whether a signal has a handler that was installed through this module.
pub fn has_handler(signal: c_int) -> bool {
    action(signal).is_some_and(|action| matches!(action.by, By::Handler(_)))
}

/// The default action.
pub static DEFAULT: Previous = Previous::new(Disposition::DEFAULT);

/// The disposition that was there before a handler of ours.
pub struct Previous {
    disposition: Disposition,
    /// Whether it was called and had `SA_RESETHAND`: the kernel would have reset it.
    is_reset: AtomicBool,
}

impl Previous {
    pub const fn new(disposition: Disposition) -> Previous {
        Previous {
            disposition,
            is_reset: AtomicBool::new(false),
        }
    }

    /// Returns the disposition as the kernel would have it now.
    pub fn disposition(&self) -> Disposition {
        match self.is_reset.load(Ordering::SeqCst) {
            true => Disposition::DEFAULT,
            false => self.disposition,
        }
    }

    /// Calls it if it is a function, with the mask that the kernel would set. One with
    /// `SA_RESETHAND` is called once, and is the default action from then on.
    ///
    /// # Safety
    /// The caller runs in a handler, and the arguments are what the kernel passed to it.
    pub unsafe fn call(
        &self,
        signal: c_int,
        info: *const libc::siginfo_t,
        context: *mut c_void,
    ) -> Chained {
        match self.disposition.handler {
            libc::SIG_DFL => return Chained::Default,
            libc::SIG_IGN => return Chained::Ignored,
            _ => {}
        }
        let is_for_one = self.disposition.has(libc::SA_RESETHAND);
        if is_for_one && self.is_reset.swap(true, Ordering::SeqCst) {
            return Chained::Default;
        }
        let own = match self.disposition.has(libc::SA_NODEFER) {
            true => 0,
            false => bit(signal),
        };
        let old = change_mask(libc::SIG_BLOCK, self.disposition.mask | own);
        // SAFETY: the function was installed as a handler; the caller vouches for the arguments.
        unsafe { self.call_function(signal, info, context) };
        change_mask(libc::SIG_SETMASK, old);
        Chained::Called
    }

    /// As [`call`](Previous::call), for a function, without changing the mask.
    ///
    /// # Safety
    /// As `call`, and the disposition is a function.
    pub unsafe fn call_function(
        &self,
        signal: c_int,
        info: *const libc::siginfo_t,
        context: *mut c_void,
    ) {
        // SAFETY: the caller's promise.
        let delivered_with = unsafe { Context::new(context) };
        // SAFETY: the caller's promise.
        while_passing_on(delivered_with, 0, || unsafe {
            self.call_passed_on(signal, info, context);
        });
    }

    /// As [`call_function`](Previous::call_function), where the context already records that the
    /// signal is being passed on.
    ///
    /// # Safety
    /// As `call_function`.
    #[inline(always)]
    pub unsafe fn call_passed_on(
        &self,
        signal: c_int,
        info: *const libc::siginfo_t,
        context: *mut c_void,
    ) {
        if self.disposition.has(libc::SA_SIGINFO) {
            // SAFETY: the flag says that it is a function of three arguments.
            let function: unsafe extern "C" fn(c_int, *const libc::siginfo_t, *mut c_void) =
                unsafe { core::mem::transmute(self.disposition.handler) };
            // SAFETY: the caller's promise.
            unsafe { function(signal, info, context) };
        } else {
            // SAFETY: without the flag it is a function of one argument.
            let function: unsafe extern "C" fn(c_int) =
                unsafe { core::mem::transmute(self.disposition.handler) };
            // SAFETY: the caller's promise.
            unsafe { function(signal) };
        }
    }
}
