//! Handlers over `sigaction`: a handler is called directly. A mask is the kernel's: the outermost
//! one blocks every signal that may be blocked, and its end restores the mask before it.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::heap::boxed;
use crate::platform::{masks, wait, wake_one};
use crate::signal::audit::{Audit, Fault};
use crate::signal::event::{Chained, Event, Handler, Interrupted};
use crate::signal::options::{Error, Options};
use crate::signal::stack::{check_alternate_stack, while_handling};
use crate::signal::statistics::COUNTS;

/// One more than the largest signal number of any system.
const SIGNALS: usize = 129;

/// The number of entries: functions that the system can call, which differ only in their number.
///
/// One entry would suffice if no other code kept its address. But a handler that is installed over
/// an entry passes signals on to it, and may itself be called by a newer handler of ours. If both
/// had the same entry, a signal would cycle between the two.
const ENTRIES: usize = 16;

type Entry = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The entries. Their addresses are taken here only: a function may have several.
static ENTRY: [Entry; ENTRIES] = [
    entry::<0>,
    entry::<1>,
    entry::<2>,
    entry::<3>,
    entry::<4>,
    entry::<5>,
    entry::<6>,
    entry::<7>,
    entry::<8>,
    entry::<9>,
    entry::<10>,
    entry::<11>,
    entry::<12>,
    entry::<13>,
    entry::<14>,
    entry::<15>,
];

/// The disposition that was there before a handler of ours.
pub struct Previous {
    disposition: libc::sigaction,
    /// Whether it was called and had `SA_RESETHAND`: the system would have reset it.
    is_reset: AtomicBool,
}

/// How a signal is handled. Never freed, because a handler may be using it.
struct Action {
    handler: Handler,
    options: Options,
    previous: Previous,
    spent: AtomicBool,
    /// Whether it was uninstalled, used up or replaced. Its entry may still be installed.
    retired: AtomicBool,
    /// Whether the entry of a used-up handler was removed. If it is installed after that, other
    /// code has put it back.
    removed: AtomicBool,
}

impl Action {
    /// Returns what its entry stands for once it is retired: the disposition before it, or the
    /// default action for a used-up handler. `None` stands for that, too.
    fn rest(&self) -> Option<&Previous> {
        (!self.spent.load(Ordering::SeqCst)).then_some(&self.previous)
    }

    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    fn is_used_up(&self) -> bool {
        self.is_retired() && self.spent.load(Ordering::SeqCst)
    }
}

/// The action of each entry for each signal; null if the entry was never installed for it.
static ACTIONS: [[AtomicPtr<Action>; ENTRIES]; SIGNALS] =
    [const { [const { AtomicPtr::new(core::ptr::null_mut()) }; ENTRIES] }; SIGNALS];

/// The entry that was installed last for each signal.
static NEWEST: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

/// The lock of the thread that changes handlers: 1 while it is held.
static CHANGING: AtomicU32 = AtomicU32::new(0);

/// The right to change handlers.
struct Changing;

impl Changing {
    fn start() -> Changing {
        // Acquire: pairs with the Release in `drop`.
        while CHANGING.swap(1, Ordering::Acquire) != 0 {
            wait(&CHANGING, 1);
        }
        Changing
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `start`.
        CHANGING.store(0, Ordering::Release);
        wake_one(&CHANGING);
    }
}

/// Returns the action of an entry for a signal, also if it is retired.
fn of_entry(signal: c_int, entry: usize) -> Option<&'static Action> {
    let place = ACTIONS.get(usize::try_from(signal).ok()?)?.get(entry)?;
    // SAFETY: null, or leaked. Acquire: pairs with the Release in `set_action`.
    unsafe { place.load(Ordering::Acquire).as_ref() }
}

fn newest_entry(signal: c_int) -> usize {
    let newest = usize::try_from(signal).ok().and_then(|at| NEWEST.get(at));
    newest.map_or(0, |newest| newest.load(Ordering::SeqCst))
}

/// Returns the current action of a signal: that of its newest entry, unless it is retired.
fn action(signal: c_int) -> Option<&'static Action> {
    of_entry(signal, newest_entry(signal)).filter(|action| !action.is_retired())
}

/// Makes an action that of an entry, which is the newest one from now on.
fn set_action(signal: c_int, entry: usize, action: &'static Action) {
    let pointer = core::ptr::from_ref(action).cast_mut();
    // Release: pairs with the Acquire in `of_entry`.
    ACTIONS[signal as usize][entry].store(pointer, Ordering::Release);
    NEWEST[signal as usize].store(entry, Ordering::SeqCst);
}

/// Returns the number of the entry in a disposition; `None` if it contains none.
fn entry_of(now: &libc::sigaction) -> Option<usize> {
    ENTRY
        .iter()
        .position(|&entry| entry as usize == now.sa_sigaction)
}

/// Which entry to install over `before`, which is none of them: one that `before` cannot know, and
/// not that of a used-up handler, which stands for the default action.
fn entry_over(signal: c_int, before: &libc::sigaction) -> usize {
    let newest = newest_entry(signal);
    let is_free = of_entry(signal, newest).is_none_or(|action| {
        // It was there before: what it passes signals on to is older than this entry.
        let is_older = action.is_retired()
            && action.previous.disposition().sa_sigaction == before.sa_sigaction;
        (is_older || !is_function(before)) && !action.is_used_up()
    });
    if is_free {
        return newest;
    }
    let mut others = (1..ENTRIES).map(|step| (newest + step) % ENTRIES);
    let unused = others.find(|&entry| of_entry(signal, entry).is_none());
    unused.unwrap_or((newest + 1) % ENTRIES)
}

fn is_function(disposition: &libc::sigaction) -> bool {
    ![libc::SIG_DFL, libc::SIG_IGN].contains(&disposition.sa_sigaction)
}

pub fn is_managed(signal: c_int) -> bool {
    action(signal).is_some()
}

fn disposition(signal: c_int) -> Result<libc::sigaction, c_int> {
    let mut now = MaybeUninit::uninit();
    // SAFETY: asks only; fills `now` in when it succeeds.
    unsafe {
        if libc::sigaction(signal, core::ptr::null(), now.as_mut_ptr()) != 0 {
            return Err(last_error());
        }
        Ok(now.assume_init())
    }
}

fn set_disposition(signal: c_int, new: &libc::sigaction) -> Result<(), c_int> {
    // SAFETY: a whole action, read from the kernel or made by `install`.
    match unsafe { libc::sigaction(signal, new, core::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

fn last_error() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Returns the disposition of a signal that can have a handler.
fn checked(signal: c_int) -> Result<libc::sigaction, Error> {
    if !(1..SIGNALS as c_int).contains(&signal) {
        return Err(Error::NoSignal(signal));
    }
    if signal == libc::SIGKILL || signal == libc::SIGSTOP || is_reserved(signal) {
        return Err(Error::Reserved(signal));
    }
    disposition(signal).map_err(|errno| match errno {
        // The C library knows which numbers are signals.
        libc::EINVAL => Error::NoSignal(signal),
        _ => Error::Refused { signal, errno },
    })
}

/// Returns whether a signal belongs to the C library: on Linux, the first real-time signals.
fn is_reserved(_signal: c_int) -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return (32..libc::SIGRTMIN()).contains(&_signal);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    return false;
}

/// Keeps the object that contains the entries loaded until the process ends, whatever `dlclose` is
/// called for: the system calls them. Does nothing where another library's `dlopen` does not find
/// the object, as for the program itself, which is never unloaded.
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    not(target_feature = "crt-static")
))]
fn pin() {
    /// As glibc defines it; the crate `libc` does not.
    const RTLD_NODELETE: c_int = 0x1000;
    // SAFETY: the description is plain data, for which zero is valid.
    let mut found: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: any address may be asked for; the description is valid for writes.
    if unsafe { libc::dladdr(ENTRY[0] as *const c_void, &mut found) } == 0 {
        return;
    }
    let how = libc::RTLD_LAZY | libc::RTLD_NOLOAD | RTLD_NODELETE;
    // The handle is not closed, as other code may close more handles than it has opened.
    // SAFETY: the name is the dynamic linker's own, of an object that stays loaded while this code
    // runs. Nothing is loaded, so no constructor runs.
    unsafe { libc::dlopen(found.dli_fname, how) };
}

/// Does nothing: a static program unloads nothing, musl's `dlclose` neither, and how other systems
/// keep an object is not known here.
#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    not(target_feature = "crt-static")
)))]
fn pin() {}

/// # Safety
/// As [`crate::signal::install_with`].
pub unsafe fn install(signal: c_int, handler: Handler, options: Options) -> Result<(), Error> {
    if cfg!(miri) {
        return Err(Error::Unsupported);
    }
    checked(signal)?;
    if let Some(bytes) = options.stack {
        check_alternate_stack(signal, bytes)?;
    }
    pin();
    let changing = Changing::start();
    remove_used_up(&changing, signal);
    let refused = |errno| Error::Refused { signal, errno };
    let now = disposition(signal).map_err(refused)?;
    let newest = newest_entry(signal);
    let old = action(signal);
    // One of ours that signals still reach: this takes its place.
    let in_place = old.filter(|_| entry_of(&now) == Some(newest) || !is_function(&now));
    let (entry, previous) = match (in_place, entry_of(&now)) {
        // What was there before our first handler.
        (Some(in_place), _) => (newest, in_place.previous.disposition()),
        (None, Some(entry)) => {
            let below = of_entry(signal, entry);
            let rest = rest_of(below);
            match below.is_some_and(Action::is_used_up) {
                true => (entry_over(signal, &rest), rest),
                false => (entry, rest),
            }
        }
        (None, None) => (entry_over(signal, &now), now),
    };
    let action = boxed(Action {
        handler,
        options,
        previous: Previous::new(previous),
        spent: AtomicBool::new(false),
        retired: AtomicBool::new(false),
        removed: AtomicBool::new(false),
    });
    let action = Box::leak(action.ok_or(refused(libc::ENOMEM))?);
    let [of_entry, of_newest] = [entry, newest].map(|entry| of_entry(signal, entry));
    set_action(signal, entry, action);
    if let Err(errno) = set_disposition(signal, &wanted(signal, entry, &options)) {
        action.retired.store(true, Ordering::SeqCst);
        for (entry, before) in [(entry, of_entry), (newest, of_newest)] {
            if let Some(before) = before {
                set_action(signal, entry, before);
            }
        }
        return Err(refused(errno));
    }
    if let Some(displaced) = old.filter(|_| in_place.is_none()) {
        displaced.retired.store(true, Ordering::SeqCst);
    }
    Ok(())
}

/// Returns the disposition that a retired action's entry stands for.
fn rest_of(retired: Option<&Action>) -> libc::sigaction {
    let rest = retired.and_then(Action::rest);
    rest.map_or_else(default_action, Previous::disposition)
}

/// Returns the disposition with which a signal of ours is installed.
fn wanted(signal: c_int, entry: usize, options: &Options) -> libc::sigaction {
    // SAFETY: plain old data.
    let mut wanted: libc::sigaction = unsafe { core::mem::zeroed() };
    wanted.sa_sigaction = ENTRY[entry] as usize;
    wanted.sa_flags = libc::SA_SIGINFO;
    if !options.interrupting {
        wanted.sa_flags |= libc::SA_RESTART;
    }
    if options.no_defer {
        wanted.sa_flags |= libc::SA_NODEFER;
    }
    if options.stack.is_some() {
        wanted.sa_flags |= libc::SA_ONSTACK;
    }
    wanted.sa_mask = if options.nesting {
        masks::none()
    } else {
        masks::blockable()
    };
    for number in 1..SIGNALS as c_int {
        if options.blocked >> (number - 1) & 1 == 1 && !masks::NEVER_BLOCKED.contains(&number) {
            // SAFETY: an initialised set; a number that is no signal's is refused.
            unsafe { libc::sigaddset(&mut wanted.sa_mask, number) };
        }
    }
    if options.no_defer {
        // SAFETY: an initialised set and a signal that exists.
        unsafe { libc::sigdelset(&mut wanted.sa_mask, signal) };
    }
    wanted
}

pub fn uninstall(signal: c_int) -> Result<(), Error> {
    checked(signal)?;
    let changing = Changing::start();
    remove_used_up(&changing, signal);
    let Some(action) = action(signal) else {
        return Err(Error::NotInstalled(signal));
    };
    let refused = |errno| Error::Refused { signal, errno };
    if entry_of(&disposition(signal).map_err(refused)?) != Some(newest_entry(signal)) {
        return Err(Error::Displaced(signal));
    }
    set_disposition(signal, &action.previous.disposition()).map_err(refused)?;
    action.retired.store(true, Ordering::SeqCst);
    Ok(())
}

/// Returns whether an entry is installed for a signal.
fn is_installed(signal: c_int, entry: usize) -> bool {
    disposition(signal).is_ok_and(|now| entry_of(&now) == Some(entry))
}

unsafe extern "C" fn entry<const N: usize>(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: what the kernel passed.
    unsafe { deliver(N, signal, info, context) };
}

/// # Safety
/// In a handler, with what the kernel passed to it.
unsafe fn deliver(entry: usize, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(action) = of_entry(signal, entry).filter(|action| !action.is_retired()) else {
        // SAFETY: the caller's promise.
        return unsafe { pass_on(entry, signal, info, context) };
    };
    if action.options.once {
        let is_first = !action.spent.swap(true, Ordering::SeqCst);
        // The entry stays installed and stands for the default action: another thread may be
        // installing over it. `remove_used_up` removes it under the lock.
        action.retired.store(true, Ordering::SeqCst);
        if !is_first {
            return act_by_default(signal);
        }
    }
    COUNTS.deliveries.add();
    let bomb = NoPanic;
    let errno = Errno::save();
    let interrupted = masks::interrupted();
    // SAFETY: the kernel's record of the signal.
    let info = unsafe { &*info };
    let mut event = Event {
        signal,
        info,
        context,
        program_counter: 0,
        original_pc: 0,
        interrupted: Interrupted::Plain,
        previous: &action.previous,
    };
    while_handling(|| (action.handler)(&mut event));
    errno.restore();
    masks::resume(&interrupted);
    core::mem::forget(bomb);
}

// The context, signal and set of entries with which this thread is passing a signal on.
std::thread_local!(static PASSING: Cell<(usize, c_int, u32)> = const { Cell::new((0, 0, 0)) });
const _: () = assert!(ENTRIES <= u32::BITS as usize);

/// Handles a signal whose handler is retired: calls what the entry stands for. If that is the
/// default action, it is carried out if the entry is still installed, or was put back. Otherwise
/// other code has called the entry, and has handled the signal.
///
/// A handler that was installed a second time, over the entry that stands for it, calls that entry
/// again with the same signal. This then ends the circle: it does nothing. A handler that has left
/// by a jump may leave a record that looks like such a circle. So a record is cleared when it is
/// met, and at most one signal goes no further for it.
///
/// # Safety
/// In a handler, with what the kernel passed to it.
unsafe fn pass_on(entry: usize, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let before = PASSING.get();
    let is_same = (before.0, before.1) == (context as usize, signal);
    let entries = if is_same { before.2 } else { 0 };
    if entries >> entry & 1 == 1 {
        PASSING.set((0, 0, 0));
        return;
    }
    let rest = of_entry(signal, entry).and_then(Action::rest);
    PASSING.set((context as usize, signal, entries | 1 << entry));
    // SAFETY: the caller's promise.
    let call = |rest: &Previous| unsafe { rest.call(signal, info, context) };
    let chained = rest.map_or(Chained::Default, call);
    PASSING.set(before);
    if chained == Chained::Default && is_installed(signal, entry) {
        act_by_default(signal);
    }
}

fn default_action() -> libc::sigaction {
    // SAFETY: plain old data; zero is the default action.
    unsafe { core::mem::zeroed() }
}

/// Makes the system carry out the default action as soon as the signal is unblocked. Where that
/// does nothing, the disposition stays. If another thread has installed a handler meanwhile, that
/// handler gets the signal.
fn act_by_default(signal: c_int) {
    let is_ours = disposition(signal).is_ok_and(|now| entry_of(&now).is_some());
    if is_ignored_by_default(signal) || !is_ours {
        return;
    }
    if action(signal).is_none() {
        // The system cannot refuse it.
        let _ = set_disposition(signal, &default_action());
        if let Some(action) = action(signal) {
            // It was installed between the two calls.
            let wanted = wanted(signal, newest_entry(signal), &action.options);
            let _ = set_disposition(signal, &wanted);
        }
    } else if !is_installed(signal, newest_entry(signal)) {
        return;
    }
    // SAFETY: sends a signal to this thread.
    unsafe { libc::raise(signal) };
}

/// Makes the system carry out the default action of a signal whose handler runs and asks for it:
/// when the handler returns, or at once for a stop signal.
pub fn carry_out_default(signal: c_int, info: &libc::siginfo_t) {
    let is_fault = is_raised_by_fault(signal, info);
    if is_ignored_by_default(signal) || !is_fault && is_first_process() {
        return;
    }
    if [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal) {
        // SAFETY: sends a signal to this thread.
        unsafe { libc::raise(libc::SIGSTOP) };
        return;
    }
    // After a trap the thread continues behind the instruction, and a refused system call is not
    // repeated.
    let is_repeated = is_fault && ![libc::SIGTRAP, libc::SIGSYS].contains(&signal);
    if !is_repeated {
        // A handler that lets its own signal in returns before the signal is delivered, too.
        let mut own = masks::none();
        // SAFETY: an initialised set and a signal that exists.
        unsafe { libc::sigaddset(&mut own, signal) };
        masks::change(libc::SIG_BLOCK, &own);
    }
    // The system cannot refuse it.
    let _ = set_disposition(signal, &default_action());
    if !is_repeated {
        // SAFETY: sends a signal to this thread.
        unsafe { libc::raise(signal) };
    }
}

/// Returns whether an instruction has raised the signal.
fn is_raised_by_fault(signal: c_int, info: &libc::siginfo_t) -> bool {
    /// On some systems the codes of signals that were sent are positive, and begin here.
    const SENT: c_int = 0x10000;
    /// A tag did not match at some earlier instruction (AArch64).
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const SEGV_MTEAERR: c_int = 8;
    // Linux reports these two asynchronously, wherever the thread is.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let is_late = matches!(
        (signal, info.si_code),
        (libc::SIGBUS, libc::BUS_MCEERR_AO) | (libc::SIGSEGV, SEGV_MTEAERR)
    );
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let is_late = false;
    let is_fault_signal = masks::NEVER_BLOCKED.contains(&signal) && signal != libc::SIGABRT;
    is_fault_signal && (1..SENT).contains(&info.si_code) && !is_late
}

/// Returns whether this is the first process of a PID namespace: Linux discards every signal of it
/// that has no handler, unless an instruction raises it.
fn is_first_process() -> bool {
    // SAFETY: takes no arguments.
    cfg!(any(target_os = "linux", target_os = "android")) && unsafe { libc::getpid() } == 1
}

/// Returns whether the default action does nothing on delivery, on every system. (`SIGCONT`
/// continues the process when it is sent.)
fn is_ignored_by_default(signal: c_int) -> bool {
    [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH].contains(&signal)
}

/// Replaces the entry of a used-up handler for one signal by the default action, unless it was
/// removed before.
fn remove_used_up(_changing: &Changing, signal: c_int) {
    for entry in 0..ENTRIES {
        let used_up = of_entry(signal, entry).filter(|action| action.is_used_up());
        let Some(action) = used_up.filter(|action| !action.removed.load(Ordering::SeqCst)) else {
            continue;
        };
        if is_installed(signal, entry) {
            // The system cannot refuse it.
            let _ = set_disposition(signal, &default_action());
        }
        action.removed.store(true, Ordering::SeqCst);
    }
}

/// Aborts the process when it is dropped, by a panic, which must not unwind into the interrupted
/// code.
struct NoPanic;

impl Drop for NoPanic {
    fn drop(&mut self) {
        let text = b"atomseq: a signal handler panicked, which would unwind through the code it interrupted; aborting\n";
        // SAFETY: a text and its length.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        std::process::abort();
    }
}

/// This thread's error number, on systems where its place is known.
struct Errno(c_int);

impl Errno {
    fn place() -> *mut c_int {
        // SAFETY: takes no arguments.
        #[cfg(any(target_os = "linux", target_os = "emscripten"))]
        return unsafe { libc::__errno_location() };
        // SAFETY: takes no arguments.
        #[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
        return unsafe { libc::__error() };
        // SAFETY: takes no arguments.
        #[cfg(any(target_os = "android", target_os = "openbsd", target_os = "netbsd"))]
        return unsafe { libc::__errno() };
        #[allow(unreachable_code, reason = "the systems above know better")]
        core::ptr::null_mut()
    }

    fn save() -> Errno {
        let place = Errno::place();
        if place.is_null() {
            return Errno(0);
        }
        // SAFETY: this thread's error number.
        Errno(unsafe { *place })
    }

    fn restore(self) {
        let place = Errno::place();
        if !place.is_null() {
            // SAFETY: this thread's error number.
            unsafe { *place = self.0 };
        }
    }
}

impl Previous {
    fn new(disposition: libc::sigaction) -> Previous {
        Previous {
            disposition,
            is_reset: AtomicBool::new(false),
        }
    }

    /// Returns the disposition as the system would have it now.
    fn disposition(&self) -> libc::sigaction {
        match self.is_reset.load(Ordering::SeqCst) {
            true => default_action(),
            false => self.disposition,
        }
    }

    /// Calls it if it is a function. One with `SA_RESETHAND` is called once, and is the default
    /// action from then on.
    ///
    /// # Safety
    /// In a handler, with what the kernel passed to it.
    pub unsafe fn call(
        &self,
        signal: c_int,
        info: *const libc::siginfo_t,
        context: *mut c_void,
    ) -> Chained {
        match self.disposition.sa_sigaction {
            libc::SIG_DFL => return Chained::Default,
            libc::SIG_IGN => return Chained::Ignored,
            _ => {}
        }
        let is_for_one = self.disposition.sa_flags & libc::SA_RESETHAND != 0;
        if is_for_one && self.is_reset.swap(true, Ordering::SeqCst) {
            return Chained::Default;
        }
        let mut blocked = self.disposition.sa_mask;
        if self.disposition.sa_flags & libc::SA_NODEFER == 0 {
            // SAFETY: an initialised set and a signal that exists.
            unsafe { libc::sigaddset(&mut blocked, signal) };
        }
        let old = masks::change(libc::SIG_BLOCK, &blocked);
        if self.disposition.sa_flags & libc::SA_SIGINFO != 0 {
            // SAFETY: the flag says that it is a function of three arguments.
            let function: unsafe extern "C" fn(c_int, *const libc::siginfo_t, *mut c_void) =
                unsafe { core::mem::transmute(self.disposition.sa_sigaction) };
            // SAFETY: the function was installed as a handler; the caller vouches for the
            // arguments.
            unsafe { function(signal, info, context) };
        } else {
            // SAFETY: without the flag it is a function of one argument.
            let function: unsafe extern "C" fn(c_int) =
                unsafe { core::mem::transmute(self.disposition.sa_sigaction) };
            // SAFETY: the function was installed as a handler of one argument.
            unsafe { function(signal) };
        }
        masks::change(libc::SIG_SETMASK, &old);
        Chained::Called
    }
}

pub use masks::{end_mask, is_masked, own as own_mask, start_mask};

pub fn with_kernel_mask<R>(f: impl FnOnce() -> R) -> R {
    struct ComeBack(masks::Left);
    impl Drop for ComeBack {
        fn drop(&mut self) {
            masks::come_back(&self.0);
        }
    }
    let _come_back = ComeBack(masks::leave());
    f()
}

pub fn inheriting<R>(f: impl FnOnce() -> R) -> impl FnOnce() -> R {
    let mask = own_mask();
    move || {
        masks::change(libc::SIG_SETMASK, &mask);
        f()
    }
}

unsafe extern "C" {
    #[cfg_attr(target_os = "netbsd", link_name = "__siglongjmp14")]
    #[cfg_attr(not(target_os = "netbsd"), link_name = "siglongjmp")]
    fn libc_siglongjmp(environment: *mut c_void, value: c_int) -> !;
}

/// Jumps by the C library's `siglongjmp` out of a handler.
///
/// # Safety
///
/// As in C: `environment` was filled in by a `sigsetjmp` (with a mask saved) whose caller has not
/// returned. No frame of Rust code that has something to drop may lie between, and no
/// [`mask`](crate::signal::mask()).
///
/// If the handler has interrupted an operation of [`dcas`](crate::dcas) or
/// [`nonblocking`](crate::nonblocking), the structure is neither moved nor freed from then on, nor
/// is what it is in. An operation that is left half done stays in the structure by its address, and
/// the next thread that meets it completes it or rolls it back there.
pub unsafe fn siglongjmp(environment: *mut c_void, value: c_int) -> ! {
    // SAFETY: the caller's promise.
    unsafe { libc_siglongjmp(environment, value) }
}

pub fn audit() -> Audit {
    examine(|_, _| false)
}

/// Removes entries that other code has put back after their handlers were removed.
pub fn repair() -> Audit {
    examine(|signal, entry| set_disposition(signal, &rest_of(of_entry(signal, entry))).is_ok())
}

/// Returns the findings that `repair` does not repair: it gets a signal and the entry that was put
/// back.
fn examine(repair: impl Fn(c_int, usize) -> bool) -> Audit {
    let mut audit = Audit::CLEAN;
    let changing = Changing::start();
    let signals = 1..SIGNALS as c_int;
    signals
        .clone()
        .for_each(|signal| remove_used_up(&changing, signal));
    // While nothing is managed, nothing is promised.
    if !signals.clone().any(is_managed) {
        return audit;
    }
    for signal in signals {
        let Ok(now) = disposition(signal) else {
            continue;
        };
        match entry_of(&now) {
            Some(entry) if is_managed(signal) && entry == newest_entry(signal) => {}
            _ if is_managed(signal) => audit.add(signal, Fault::Displaced),
            Some(entry) if !repair(signal, entry) => audit.add(signal, Fault::PutBack),
            _ => {}
        }
    }
    audit
}
