//! Handlers over `sigaction`: a handler is called directly. A mask is the kernel's: the outermost
//! one blocks every signal that may be blocked, and its end restores the mask before it.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::heap::boxed;
use crate::platform::{masks, wait, wake_one};
use crate::signal::audit::{Audit, Fault};
use crate::signal::event::{Chained, Event, Handler, Interrupted};
use crate::signal::options::{Error, Options};
use crate::signal::statistics::COUNTS;

/// One more than the largest signal number of any system.
const SIGNALS: usize = 129;

/// The disposition that was there before a handler of ours.
#[derive(Clone, Copy)]
pub struct Previous(libc::sigaction);

/// How a signal is handled. Never freed, because a handler may be using it.
struct Action {
    handler: Handler,
    options: Options,
    previous: Previous,
    spent: AtomicBool,
    /// Whether it was uninstalled or used up. Its disposition may still be installed.
    retired: AtomicBool,
}

impl Action {
    /// Returns the disposition before it, or the default action for a used-up handler.
    fn rest(&self) -> libc::sigaction {
        match self.spent.load(Ordering::SeqCst) {
            true => uninstalled(),
            false => self.previous.0,
        }
    }
}

static ACTIONS: [AtomicPtr<Action>; SIGNALS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; SIGNALS];

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

fn action(signal: c_int) -> Option<&'static Action> {
    last_action(signal).filter(|action| !action.retired.load(Ordering::SeqCst))
}

/// Returns the last action of a signal, which may be retired.
fn last_action(signal: c_int) -> Option<&'static Action> {
    let place = ACTIONS.get(usize::try_from(signal).ok()?)?;
    // SAFETY: null, or leaked. Acquire: pairs with the Release stores in `install`.
    unsafe { place.load(Ordering::Acquire).as_ref() }
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

/// # Safety
/// As [`crate::signal::install_with`].
pub unsafe fn install(signal: c_int, handler: Handler, options: Options) -> Result<(), Error> {
    if cfg!(miri) {
        return Err(Error::Unsupported);
    }
    if !(1..SIGNALS as c_int).contains(&signal) {
        return Err(Error::NoSignal(signal));
    }
    if signal == libc::SIGKILL || signal == libc::SIGSTOP {
        return Err(Error::Reserved(signal));
    }
    if let Some(bytes) = options.stack {
        check_alternate_stack(signal, bytes)?;
    }
    let changing = Changing::start();
    remove_used_up(&changing, signal);
    // The C library knows which numbers are signals.
    let now = disposition(signal).map_err(|_| Error::NoSignal(signal))?;
    let old = action(signal);
    let action = boxed(Action {
        handler,
        options,
        previous: match (old, last_action(signal)) {
            (Some(old), _) => old.previous,
            (None, Some(retired)) if is_ours(&now) => Previous(retired.rest()),
            _ => Previous(now),
        },
        spent: AtomicBool::new(false),
        retired: AtomicBool::new(false),
    });
    let errno = libc::ENOMEM;
    let action = Box::leak(action.ok_or(Error::Refused { signal, errno })?);
    // Release: pairs with the Acquire in `action`.
    ACTIONS[signal as usize].store(action, Ordering::Release);
    set_disposition(signal, &wanted(signal, &options)).map_err(|errno| {
        let old = old.map_or(core::ptr::null_mut(), |old| {
            core::ptr::from_ref(old).cast_mut()
        });
        ACTIONS[signal as usize].store(old, Ordering::Release);
        Error::Refused { signal, errno }
    })
}

/// Returns the disposition with which a signal of ours is installed.
fn wanted(signal: c_int, options: &Options) -> libc::sigaction {
    // SAFETY: plain old data.
    let mut wanted: libc::sigaction = unsafe { core::mem::zeroed() };
    wanted.sa_sigaction = entry as *const () as usize;
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

fn check_alternate_stack(signal: c_int, bytes: usize) -> Result<(), Error> {
    // SAFETY: plain old data.
    let mut stack: libc::stack_t = unsafe { core::mem::zeroed() };
    // SAFETY: asks only.
    if unsafe { libc::sigaltstack(core::ptr::null(), &mut stack) } != 0 {
        let errno = std::io::Error::last_os_error().raw_os_error();
        let errno = errno.unwrap_or_default();
        return Err(Error::Refused { signal, errno });
    }
    let needs = stack_needs(bytes);
    if stack.ss_flags & libc::SS_DISABLE == 0 && !stack.ss_sp.is_null() && stack.ss_size < needs {
        return Err(Error::AlternateStackTooSmall {
            has: stack.ss_size,
            needs,
        });
    }
    Ok(())
}

/// Returns the size in bytes of a stack that holds three deliveries and `bytes`.
pub fn stack_needs(bytes: usize) -> usize {
    libc::MINSIGSTKSZ.saturating_mul(3).saturating_add(bytes)
}

pub fn uninstall(signal: c_int) -> Result<(), Error> {
    if !(1..SIGNALS as c_int).contains(&signal) {
        return Err(Error::NoSignal(signal));
    }
    let changing = Changing::start();
    remove_used_up(&changing, signal);
    let Some(action) = action(signal) else {
        return Err(Error::NotInstalled(signal));
    };
    let refused = |errno| Error::Refused { signal, errno };
    if !is_ours(&disposition(signal).map_err(refused)?) {
        return Err(Error::Displaced(signal));
    }
    set_disposition(signal, &action.previous.0).map_err(refused)?;
    action.retired.store(true, Ordering::SeqCst);
    Ok(())
}

fn is_ours(now: &libc::sigaction) -> bool {
    now.sa_sigaction == entry as *const () as usize
}

unsafe extern "C" fn entry(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(action) = action(signal) else {
        // SAFETY: what the kernel passed.
        return unsafe { pass_on(signal, info, context) };
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
    (action.handler)(&mut Event {
        signal,
        info,
        context,
        program_counter: 0,
        original_pc: 0,
        interrupted: Interrupted::Plain,
        previous: &action.previous,
    });
    errno.restore();
    masks::resume(&interrupted);
    core::mem::forget(bomb);
}

/// Handles a signal whose handler was uninstalled or used up. If its disposition is still
/// installed, or was put back, this does what it stands for. Otherwise other code has called it,
/// and has handled the signal.
///
/// # Safety
/// In a handler, with what the kernel passed to it.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if !disposition(signal).is_ok_and(|now| is_ours(&now)) {
        return;
    }
    let rest = last_action(signal).map_or_else(uninstalled, Action::rest);
    // SAFETY: the caller's promise.
    if unsafe { Previous(rest).call(signal, info, context) } == Chained::Default {
        act_by_default(signal);
    }
}

fn uninstalled() -> libc::sigaction {
    // SAFETY: plain old data; zero is the default action.
    unsafe { core::mem::zeroed() }
}

/// Makes the system carry out the default action as soon as the signal is unblocked. Where that
/// does nothing, the disposition stays. If another thread has installed a handler meanwhile, that
/// handler gets the signal.
fn act_by_default(signal: c_int) {
    if is_ignored_by_default(signal) || !disposition(signal).is_ok_and(|now| is_ours(&now)) {
        return;
    }
    if action(signal).is_none() {
        // The system cannot refuse it.
        let _ = set_disposition(signal, &uninstalled());
        if let Some(action) = action(signal) {
            // It was installed between the two calls.
            let _ = set_disposition(signal, &wanted(signal, &action.options));
        }
    }
    // SAFETY: sends a signal to this thread.
    unsafe { libc::raise(signal) };
}

/// Makes the system carry out the default action of a signal whose handler runs and asks for it:
/// when the handler returns, or at once for a stop signal.
pub fn default_action(signal: c_int, _info: &libc::siginfo_t) {
    if [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal) {
        // SAFETY: sends a signal to this thread.
        unsafe { libc::raise(libc::SIGSTOP) };
    } else if !is_ignored_by_default(signal) {
        // The system cannot refuse it.
        let _ = set_disposition(signal, &uninstalled());
        // SAFETY: sends a signal to this thread. A fault is repeated as well.
        unsafe { libc::raise(signal) };
    }
}

/// Returns whether the default action does nothing on delivery, on every system. (`SIGCONT`
/// continues the process when it is sent.)
fn is_ignored_by_default(signal: c_int) -> bool {
    [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH].contains(&signal)
}

/// Replaces the entry of a used-up handler for one signal by the default action.
fn remove_used_up(_changing: &Changing, signal: c_int) {
    let is_used_up = |action: &Action| {
        action.retired.load(Ordering::SeqCst) && action.spent.load(Ordering::SeqCst)
    };
    if last_action(signal).is_some_and(is_used_up)
        && disposition(signal).is_ok_and(|now| is_ours(&now))
    {
        // The system cannot refuse it.
        let _ = set_disposition(signal, &uninstalled());
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
    /// Calls it if it is a function.
    ///
    /// # Safety
    /// In a handler, with what the kernel passed to it.
    pub unsafe fn call(
        &self,
        signal: c_int,
        info: *const libc::siginfo_t,
        context: *mut c_void,
    ) -> Chained {
        match self.0.sa_sigaction {
            libc::SIG_DFL => return Chained::Default,
            libc::SIG_IGN => return Chained::Ignored,
            _ => {}
        }
        let mut blocked = self.0.sa_mask;
        if self.0.sa_flags & libc::SA_NODEFER == 0 {
            // SAFETY: an initialised set and a signal that exists.
            unsafe { libc::sigaddset(&mut blocked, signal) };
        }
        let old = masks::change(libc::SIG_BLOCK, &blocked);
        if self.0.sa_flags & libc::SA_SIGINFO != 0 {
            // SAFETY: the flag says that it is a function of three arguments.
            let function: unsafe extern "C" fn(c_int, *const libc::siginfo_t, *mut c_void) =
                unsafe { core::mem::transmute(self.0.sa_sigaction) };
            // SAFETY: the function was installed as a handler; the caller vouches for the
            // arguments.
            unsafe { function(signal, info, context) };
        } else {
            // SAFETY: without the flag it is a function of one argument.
            let function: unsafe extern "C" fn(c_int) =
                unsafe { core::mem::transmute(self.0.sa_sigaction) };
            // SAFETY: as above.
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
    let mut audit = Audit::CLEAN;
    let changing = Changing::start();
    (1..SIGNALS as c_int).for_each(|signal| remove_used_up(&changing, signal));
    for signal in (1..SIGNALS as c_int).filter(|&signal| is_managed(signal)) {
        if disposition(signal).is_ok_and(|now| !is_ours(&now)) {
            audit.add(signal, Fault::Displaced);
        }
    }
    audit
}
