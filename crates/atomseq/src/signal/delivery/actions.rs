//! Which signals are managed, and by what. Handlers read this; `install.rs` writes it.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use super::super::event::{Chained, Handler, Interrupted};
use super::super::options::Options;
use super::controls;
use super::passing::while_passing_on;
use crate::platform::{Context, Disposition, RESERVED_SET, SIGNALS, bit, change_mask};

/// Signals that faults raise. Blocked, they would kill.
pub const FAULTS: [c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// What is never blocked and never held back: the faults, `SIGABRT`, the C library's two.
pub const NEVER_BLOCKED: u64 = {
    let mut set = bit(libc::SIGABRT) | RESERVED_SET;
    let mut index = 0;
    while index < FAULTS.len() {
        set |= bit(FAULTS[index]);
        index += 1;
    }
    set
};

/// The faults and `SIGABRT`.
pub fn unmaskable() -> impl Iterator<Item = c_int> {
    FAULTS.into_iter().chain([libc::SIGABRT])
}

/// Is it one of these?
pub fn is_unmaskable(signal: c_int) -> bool {
    unmaskable().any(|unmaskable| unmaskable == signal)
}

/// The faults, as a set.
pub const FAULT_SET: u64 =
    !OTHERS & !(bit(libc::SIGABRT) | bit(libc::SIGKILL) | bit(libc::SIGSTOP));

/// All signals but these: blocked until a delivery has decided. A handler of others' never runs in
/// the middle of a delivery, so it cannot jump out of one.
const OTHERS: u64 = {
    let mut set = !(bit(libc::SIGABRT) | bit(libc::SIGKILL) | bit(libc::SIGSTOP));
    let mut index = 0;
    while index < FAULTS.len() {
        set &= !bit(FAULTS[index]);
        index += 1;
    }
    set
};

/// The same, for the entries, which block it before anything else.
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

/// For controls: do the entries block anything?
#[cfg(feature = "unstable-internals")]
pub fn block_on_entry(is_on: bool) {
    BLOCKED_ON_ENTRY.store(if is_on { OTHERS } else { 0 }, Ordering::SeqCst);
}

/// What is blocked until a delivery has decided.
pub fn undecided_mask() -> u64 {
    match controls::is_off(controls::FOREIGN) || controls::is_off(controls::COVERING_MASK) {
        true => covering_mask(),
        false => OTHERS,
    }
}

/// Has any signal a handler that was installed through this module?
pub fn is_any_managed() -> bool {
    managed() != 0 || handles_unmaskable()
}

/// Has one of these a handler that was installed through this module? No mask holds it back.
pub fn handles_unmaskable() -> bool {
    unmaskable().any(has_handler)
}

/// Managed signals that can be blocked.
static MANAGED: AtomicU64 = AtomicU64::new(0);

/// The set that covers sequences: what is blocked while any handler runs, during rollforwards, and
/// by deferral.
pub fn managed() -> u64 {
    MANAGED.load(Ordering::SeqCst)
}

/// The same as the `sa_mask` of handlers.
pub fn covering_mask() -> u64 {
    if controls::is_off(controls::COVERING_MASK) {
        return 0;
    }
    managed()
}

/// Adds a signal; `false` if there was nothing to add.
pub fn manage(signal: c_int) -> bool {
    let added = bit(signal) & !NEVER_BLOCKED;
    MANAGED.fetch_or(added, Ordering::SeqCst) & added != added
}

pub fn no_longer_manage(signal: c_int) {
    MANAGED.fetch_and(!bit(signal), Ordering::SeqCst);
}

/// As [`no_longer_manage`], where another thread may be installing a handler. That sets the action,
/// and then manages: either this sees the action, or that comes later.
pub fn manage_no_longer_unless_handled(signal: c_int) {
    if !has_handler(signal) {
        no_longer_manage(signal);
        if has_handler(signal) {
            manage(signal);
        }
    }
}

/// Who handles a signal.
#[derive(Clone, Copy)]
pub enum By {
    /// A handler installed through this module.
    Handler(Handler),
    /// Whoever did before, called by way of this module: of signals that cannot be blocked, so that
    /// none comes in the middle of a delivery or sees a clone.
    Adopted,
}

/// What is done on a signal. Immutable but for two flags, and never freed: a handler may be using
/// it.
pub struct Action {
    pub by: By,
    pub options: Options,
    /// What was there before.
    pub previous: Previous,
    /// For `once`: has it been delivered?
    pub spent: AtomicBool,
    /// Was it removed, or spent? Its entry may be called all the same: by a delivery that had
    /// begun, and because other code puts back a disposition that it read before.
    pub retired: AtomicBool,
}

impl Action {
    /// Whether it was removed, or spent.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    /// What is below it: what was there before it, and the default action after a handler of one
    /// signal. Its entry stands for that once it is retired.
    pub fn rest(&self) -> Disposition {
        if self.spent.load(Ordering::SeqCst) {
            return Disposition::DEFAULT;
        }
        self.previous.0
    }

    /// What the handler has asked to be blocked beside the managed signals.
    pub fn extra_mask(&self) -> u64 {
        match self.by {
            By::Handler(_) => self.options.blocked as u64 & !NEVER_BLOCKED,
            By::Adopted => self.previous.0.mask,
        }
    }

    /// What the kernel blocks when it calls our entry: `sa_mask` and the signal itself. The handler
    /// may run with less.
    pub fn kernel_mask(&self, signal: c_int) -> u64 {
        let own = if self.is_adopted_without_defer() {
            0
        } else {
            bit(signal)
        };
        covering_mask() | own | self.extra_mask()
    }

    fn is_adopted_without_defer(&self) -> bool {
        matches!(self.by, By::Adopted) && self.previous.0.has(libc::SA_NODEFER)
    }

    /// The mask that the handler runs with, where the interrupted code had `mask`. As long as a
    /// sequence is half done, no signal that can be blocked is let in; but the C library's are, for
    /// which other threads wait.
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

/// How many entries there are: functions that the kernel can call, all alike but for their number.
///
/// One would do if no other code kept its address. But a handler that is installed over an entry
/// passes signals on to that entry, and may be called by way of a newer one: with one entry for
/// both, each signal would go round without end. So an entry that is installed over a handler is
/// one that the handler cannot know, while there are enough.
pub const ENTRIES: usize = crate::arch::SIGNAL_ENTRIES;

/// What each entry does on a signal; null if it was never installed for it.
static ACTIONS: [[AtomicPtr<Action>; ENTRIES]; SIGNALS as usize + 1] =
    [const { [const { AtomicPtr::new(core::ptr::null_mut()) }; ENTRIES] }; SIGNALS as usize + 1];

/// The entry that was installed last for each signal.
static NEWEST: [AtomicUsize; SIGNALS as usize + 1] =
    [const { AtomicUsize::new(0) }; SIGNALS as usize + 1];

/// The number of the entry that was installed last for a signal; of a number that is no signal's,
/// one that does nothing.
pub fn newest_entry(signal: c_int) -> usize {
    let newest = NEWEST.get(signal as usize);
    newest.map_or(0, |newest| newest.load(Ordering::SeqCst))
}

/// What an entry does on a signal, also if that is retired. Async-signal-safe.
pub fn of_entry(signal: c_int, entry: usize) -> Option<&'static Action> {
    let place = ACTIONS.get(signal as usize)?.get(entry)?;
    // SAFETY: null, or leaked before `set_action`. Acquire: pairs with the Release there.
    unsafe { place.load(Ordering::Acquire).as_ref() }
}

/// As [`of_entry`], unless that is retired.
pub fn live_of_entry(signal: c_int, entry: usize) -> Option<&'static Action> {
    of_entry(signal, entry).filter(|action| !action.is_retired())
}

/// A set: the entries that do this on a signal.
pub fn entries_of(signal: c_int, action: &Action) -> usize {
    let is_it =
        |&entry: &usize| of_entry(signal, entry).is_some_and(|of| core::ptr::eq(of, action));
    (0..ENTRIES)
        .filter(is_it)
        .fold(0, |set, entry| set | 1 << entry)
}

/// What is done on a signal. Async-signal-safe.
pub fn action(signal: c_int) -> Option<&'static Action> {
    live_of_entry(signal, newest_entry(signal))
}

/// Which entry to install over `before`, which is none of them: one that `before` cannot know.
pub fn entry_over(signal: c_int, before: &Disposition) -> usize {
    let newest = newest_entry(signal);
    if controls::is_off(controls::ENTRIES) {
        return newest;
    }
    let is_known = of_entry(signal, newest).is_none_or(|action| {
        // It was there before: what it passes signals on to is older than this entry.
        action.is_retired() && action.previous.0.handler == before.handler
    });
    if is_known || !before.is_function() {
        return newest;
    }
    let mut others = (1..ENTRIES).map(|step| (newest + step) % ENTRIES);
    let unused = others.find(|&entry| of_entry(signal, entry).is_none());
    unused.unwrap_or((newest + 1) % ENTRIES)
}

/// What the kernel has to block when it calls this entry.
pub fn kernel_mask_of(signal: c_int, entry: usize) -> u64 {
    of_entry(signal, entry).map_or(covering_mask() | bit(signal), |action| {
        action.kernel_mask(signal)
    })
}

/// The mask with which an entry was last installed here for each signal. The kernel blocks it, and
/// the signal. That may be more than it has to: nothing is taken from a mask when fewer signals are
/// managed, since another copy of atomseq may manage them, and has found them in it. (And where a
/// handler of one signal is used up, no mask can be changed.)
///
/// The kernel may block still more: other code can install the entry again with another mask, and
/// another copy of atomseq adds what it manages. While the handler runs, that stays blocked, as if
/// the interrupted code had it blocked.
static INSTALLED: [AtomicU64; SIGNALS as usize + 1] =
    [const { AtomicU64::new(0) }; SIGNALS as usize + 1];

/// What the kernel blocks because of atomseq when it calls an entry of this signal.
pub fn installed_mask(signal: c_int) -> u64 {
    let installed = INSTALLED.get(signal as usize);
    // Relaxed: a number on its own. Deliveries that begin while it changes find both masks in it.
    bit(signal) | installed.map_or(0, |mask| mask.load(Ordering::Relaxed))
}

/// Notes the mask with which `install` installs an entry; that returns whether it did.
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

/// Changes what is done on a signal, and by which entry.
pub fn set_action(signal: c_int, entry: usize, action: &'static Action) {
    let pointer = core::ptr::from_ref(action).cast_mut();
    // Release: pairs with the Acquire in `of_entry`.
    ACTIONS[signal as usize][entry].store(pointer, Ordering::Release);
    NEWEST[signal as usize].store(entry, Ordering::SeqCst);
}

/// Is there a handler that was installed through this module?
pub fn has_handler(signal: c_int) -> bool {
    action(signal).is_some_and(|action| matches!(action.by, By::Handler(_)))
}

/// What was there before a handler of ours.
pub struct Previous(pub Disposition);

impl Previous {
    /// Calls it if it is a function, as the kernel would.
    ///
    /// # Safety
    /// In a handler, with what the kernel passed to it.
    pub unsafe fn call(
        &self,
        signal: c_int,
        info: *const libc::siginfo_t,
        context: *mut c_void,
    ) -> Chained {
        match self.0.handler {
            libc::SIG_DFL => return Chained::Default,
            libc::SIG_IGN => return Chained::Ignored,
            _ => {}
        }
        let own = match self.0.has(libc::SA_NODEFER) {
            true => 0,
            false => bit(signal),
        };
        let old = change_mask(libc::SIG_BLOCK, self.0.mask | own);
        // SAFETY: whoever installed it wanted to be called so; the caller vouches for the
        // arguments.
        unsafe { self.call_function(signal, info, context) };
        change_mask(libc::SIG_SETMASK, old);
        Chained::Called
    }

    /// As [`call`](Previous::call), for a function, with the mask as it is.
    ///
    /// # Safety
    /// As `call`; it is a function.
    pub unsafe fn call_function(
        &self,
        signal: c_int,
        info: *const libc::siginfo_t,
        context: *mut c_void,
    ) {
        // SAFETY: the caller's promise.
        let delivered_with = unsafe { Context::new(context) };
        while_passing_on(delivered_with, 0, || {
            if self.0.has(libc::SA_SIGINFO) {
                // SAFETY: the flag says that it is a function of three arguments.
                let function: unsafe extern "C" fn(c_int, *const libc::siginfo_t, *mut c_void) =
                    unsafe { core::mem::transmute(self.0.handler) };
                // SAFETY: the caller's promise.
                unsafe { function(signal, info, context) };
            } else {
                // SAFETY: without the flag it is a function of one argument.
                let function: unsafe extern "C" fn(c_int) =
                    unsafe { core::mem::transmute(self.0.handler) };
                // SAFETY: the caller's promise.
                unsafe { function(signal) };
            }
        });
    }
}
