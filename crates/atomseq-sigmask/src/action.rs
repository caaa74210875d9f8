//! Handlers: what the program installed, and what the kernel knows.
//!
//! Actions are changed while the kernel blocks all signals, and while there is one thread. Once
//! there may be another, the kernel has the program's handlers, see [`hand_over`].

use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize};

use crate::control::{Protection, protects};
use crate::delivery::entry;
use crate::real::{self, Function, function};
use crate::thread::{EAGER, FATAL, IGNORED, INTERNAL, NEVER, Thread, UNBLOCKABLE, UNFIT, bit};
use crate::{arch, mask};

/// The number of signals, and one more.
const SIGNALS: usize = 65;

/// A handler that the program installed.
#[derive(Clone, Copy)]
pub struct Action {
    /// Its address, or `SIG_DFL` for a signal that [`promote`] made lazy.
    pub handler: usize,
    /// The flags.
    pub flags: i32,
    /// The signals that are blocked meanwhile.
    pub mask: u64,
}

/// The memory of an action: zeros are the default action.
struct Place {
    handler: AtomicUsize,
    flags: AtomicI32,
    mask: AtomicU64,
}

/// The action of each signal for which this library's handler was installed last.
static ACTIONS: [Place; SIGNALS] = [const {
    Place {
        handler: AtomicUsize::new(libc::SIG_DFL),
        flags: AtomicI32::new(0),
        mask: AtomicU64::new(0),
    }
}; SIGNALS];
/// The signals for which it was installed.
static INSTALLED: AtomicU64 = AtomicU64::new(0);

/// Returns the action of a signal for which this library's handler was installed last.
pub fn of(signal: i32) -> Action {
    let place = &ACTIONS[signal as usize];
    Action {
        handler: place.handler.load(Relaxed),
        flags: place.flags.load(Relaxed),
        mask: place.mask.load(Relaxed),
    }
}

/// Stores it.
fn store(signal: i32, action: Action) {
    let place = &ACTIONS[signal as usize];
    place.handler.store(action.handler, Relaxed);
    place.flags.store(action.flags, Relaxed);
    place.mask.store(action.mask, Relaxed);
    INSTALLED.store(INSTALLED.load(Relaxed) | bit(signal), Relaxed);
}

/// Returns the first eight bytes of a set, which are the kernel's.
///
/// # Safety
///
/// A valid set.
pub unsafe fn set_of(set: *const libc::sigset_t) -> u64 {
    // SAFETY: the caller's promise; a set is at least as large. The kernel's calls take one at any
    // address.
    unsafe { set.cast::<u64>().read_unaligned() }
}

/// Returns a set with these signals.
pub fn to_set(mask: u64) -> libc::sigset_t {
    // SAFETY: zeros are a valid set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a set is at least as large, and aligned.
    unsafe { *(&raw mut set).cast::<u64>() = mask };
    set
}

/// Returns whether a handler in the kernel is this library's.
fn is_entry(handler: usize) -> bool {
    handler == entry as *const () as usize
}

/// What the kernel gets for an action of the program with these flags.
fn installed(flags: i32) -> libc::sigaction {
    libc::sigaction {
        sa_sigaction: entry as *const () as usize,
        sa_flags: flags | libc::SA_SIGINFO,
        sa_mask: to_set(!0),
        sa_restorer: None,
    }
}

/// The default action, or a place for one that is asked for.
fn unknown() -> libc::sigaction {
    libc::sigaction {
        sa_sigaction: libc::SIG_DFL,
        sa_flags: 0,
        sa_mask: to_set(0),
        sa_restorer: None,
    }
}

/// Makes lazy what of `signals` this library handles or has the default action to end the process,
/// if that is all of them.
pub fn promote(thread: &Thread, signals: u64) {
    let error = mask::error();
    for signal in (1..32).filter(|&signal| signals & bit(signal) != 0) {
        thread
            .untried
            .store(thread.untried.load(Relaxed) & !bit(signal), Relaxed);
        thread.add_system_calls(2);
        let mask = arch::change_mask(libc::SIG_SETMASK, !0);
        let is_lazy = promote_one(thread, signal);
        arch::set_mask(mask);
        if !is_lazy {
            break;
        }
    }
    mask::set_error(error);
}

/// Makes one signal lazy, and returns whether it is. The kernel blocks all signals.
fn promote_one(thread: &Thread, signal: i32) -> bool {
    let signal_bit = bit(signal);
    // A handler may have started a thread until here, but not from here on.
    if !thread.can_be_lazy() {
        return false;
    }
    let mut old = unknown();
    thread.add_system_calls(1);
    // SAFETY: only the old action is asked for.
    let known = unsafe { real::sigaction(signal, ptr::null(), &mut old) } == 0;
    if !known || UNFIT.load(Relaxed) & signal_bit != 0 {
        return false;
    }
    if !is_entry(old.sa_sigaction) || !can_be_lazy(old.sa_flags) {
        if old.sa_sigaction != libc::SIG_DFL || signal_bit & fatal() == 0 {
            return false;
        }
        translate(&mut old, signal);
        thread.add_system_calls(1);
        // SAFETY: `entry` is a handler of this type.
        if unsafe { real::sigaction(signal, &installed(libc::SA_RESTART), ptr::null_mut()) } != 0 {
            return false;
        }
        let action = Action {
            handler: libc::SIG_DFL,
            flags: old.sa_flags,
            // SAFETY: the kernel has written it.
            mask: unsafe { set_of(&old.sa_mask) },
        };
        store(signal, action);
    }
    thread
        .lazy
        .store(thread.lazy.load(Relaxed) | signal_bit, Relaxed);
    true
}

/// Gives the kernel the default action of a signal back.
pub fn default(thread: &Thread, signal: i32) {
    thread
        .lazy
        .store(thread.lazy.load(Relaxed) & !bit(signal), Relaxed);
    // SAFETY: no handler is installed.
    unsafe { real::sigaction(signal, &unknown(), ptr::null_mut()) };
}

/// Gives the kernel the program's actions: it calls the handlers from then on. There is no other
/// thread yet, and all signals are blocked.
pub fn hand_over(thread: &Thread) {
    let installed = INSTALLED.load(Relaxed);
    for signal in (1..SIGNALS as i32).filter(|&signal| installed & bit(signal) != 0) {
        hand_over_one(thread, signal);
    }
}

/// Gives the kernel the program's action of one signal, if the kernel has one of this library.
fn hand_over_one(thread: &Thread, signal: i32) {
    let mut kernels = unknown();
    thread.add_system_calls(1);
    // SAFETY: only the old action is asked for.
    if unsafe { real::sigaction(signal, ptr::null(), &mut kernels) } != 0 {
        return;
    }
    // The kernel discards what is pending of a signal whose action becomes to ignore it, even if it
    // was that before. Such an action would only get the mask of one that ran once.
    if !translate(&mut kernels, signal)
        || kernels.sa_sigaction == libc::SIG_DFL && bit(signal) & IGNORED != 0
    {
        return;
    }
    thread.add_system_calls(1);
    let action = KernelAction::new(&kernels);
    // By the kernel's call, since the C library adds a flag to the default action.
    // SAFETY: the program's action, with the C library's restorer.
    unsafe { arch::kernels_sigaction(signal, &raw const action as usize, 0) };
}

/// `sigaction`.
///
/// # Safety
///
/// As of `sigaction(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigaction(
    signal: i32,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> i32 {
    let thread = match Thread::current() {
        Some(thread) if (1..SIGNALS as i32).contains(&signal) => thread,
        // SAFETY: the caller's promise.
        _ => return unsafe { real::sigaction(signal, new, old) },
    };
    // SAFETY: the caller's promise: null or valid.
    let action = unsafe { new.as_ref() }.copied();
    let mut previous = unknown();
    // The handler of another signal may change this one's action until here, but not from here on.
    let mut mask = arch::change_mask(libc::SIG_SETMASK, !0);
    // SAFETY: the caller's promise.
    let result = unsafe { exchange(thread, signal, action, &mut previous, &mut mask) };
    arch::set_mask(mask);
    // Not earlier: if this address is not valid, a handler of `SIGSEGV` can run.
    if result == 0 && !old.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *old = previous };
    }
    result
}

/// `sigaction` of a signal that exists, while the kernel blocks all signals: `mask` is what it will
/// block afterwards.
///
/// # Safety
///
/// As of `sigaction(2)`.
unsafe fn exchange(
    thread: &Thread,
    signal: i32,
    new: Option<libc::sigaction>,
    old: &mut libc::sigaction,
    mask: &mut u64,
) -> i32 {
    thread.add_system_calls(2);
    let signal_bit = bit(signal);
    // A handler may have ended that signals are lazy until here.
    let handles = !EAGER.load(Relaxed) && new.is_some_and(|new| wants_entry(thread, signal, &new));
    let kernels = match new {
        Some(new) if handles => Some(installed(new.sa_flags)),
        new => new,
    };
    if let Some(new) = new {
        if !handles {
            // The kernel would drop, or act upon, what is blocked without its knowledge.
            if protects(Protection::Disposition) {
                thread.exclude_from(signal_bit, mask);
            }
            if thread.can_be_lazy() {
                // One whose default is to be ignored gets no handler, which would end system calls.
                let untried = signal_bit & fatal();
                thread
                    .untried
                    .store(thread.untried.load(Relaxed) | untried, Relaxed);
            }
        } else if !can_be_lazy(new.sa_flags) {
            thread.exclude_from(signal_bit, mask);
        }
    }
    let new_kernels = kernels.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the caller's action, or `entry`, which is a handler of its type.
    let result = unsafe { real::sigaction(signal, new_kernels, old) };
    if result != 0 {
        return result;
    }
    if !EAGER.load(Relaxed) {
        translate(old, signal);
    }
    if let Some(new) = new
        && handles
    {
        let action = Action {
            handler: new.sa_sigaction,
            flags: new.sa_flags,
            // SAFETY: a valid set.
            mask: unsafe { set_of(&new.sa_mask) } & !UNBLOCKABLE,
        };
        store(signal, action);
        if thread.can_be_lazy()
            && signal_bit & (never() | UNFIT.load(Relaxed)) == 0
            && can_be_lazy(new.sa_flags)
        {
            thread
                .lazy
                .store(thread.lazy.load(Relaxed) | signal_bit, Relaxed);
        }
    }
    0
}

/// Returns whether a signal can be lazy whose handler has these flags.
fn can_be_lazy(flags: i32) -> bool {
    // The kernel resets a handler when its signal is dequeued: not before it is handled.
    let one_shot = flags & libc::SA_RESETHAND != 0 && protects(Protection::OneShot);
    // A program may unmap, or use, a signal stack while it blocks the signals that need it.
    let on_stack = flags & libc::SA_ONSTACK != 0
        && HAS_SIGNAL_STACK.load(Relaxed)
        && protects(Protection::SignalStack);
    !one_shot && !on_stack
}

/// Whether the program has set a signal stack.
static HAS_SIGNAL_STACK: AtomicBool = AtomicBool::new(false);

/// `sigaltstack`, also by `syscall(3)`: the kernel checks both addresses.
///
/// # Safety
///
/// As of `sigaltstack(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigaltstack(new: usize, old: usize) -> i32 {
    const FLAGS: usize = std::mem::offset_of!(libc::stack_t, ss_flags);
    let sets = || {
        let flags = arch::read(new.wrapping_add(FLAGS)).unwrap_or(0) as i32;
        flags & libc::SS_DISABLE == 0
    };
    // The stack of a child of `vfork` is its own, but this memory is its parent's.
    if let Some(thread) = Thread::current()
        && new != 0
        && sets()
        && !thread.is_vforked()
    {
        HAS_SIGNAL_STACK.store(true, Relaxed);
        // Each time: a handler may have jumped out of the first call here.
        let on_stack = (1..32).filter(|&signal| !can_be_lazy(of(signal).flags));
        thread.exclude(on_stack.fold(0, |signals, signal| signals | bit(signal)));
    }
    // SAFETY: the caller's promise.
    match unsafe { arch::signal_stack(new, old) } {
        error if error < 0 => mask::fail(-error as i32),
        _ => 0,
    }
}

/// Makes of an action as the kernel has it, if it is one of this library's, the program's. Returns
/// whether it was.
fn translate(kernels: &mut libc::sigaction, signal: i32) -> bool {
    let program = of(signal);
    if is_entry(kernels.sa_sigaction) {
        kernels.sa_sigaction = program.handler;
        if program.handler == libc::SIG_DFL {
            /// The C library sets this flag in each action, and none has it at the start.
            const SA_RESTORER: i32 = 0x0400_0000;
            if program.flags & SA_RESTORER == 0 {
                kernels.sa_restorer = None;
            }
            kernels.sa_flags = program.flags;
        }
    } else if !protects(Protection::OneShot)
        || INSTALLED.load(Relaxed) & bit(signal) == 0
        || kernels.sa_flags & libc::SA_RESETHAND == 0
        || kernels.sa_sigaction != libc::SIG_DFL
        // SAFETY: a valid set.
        || unsafe { set_of(&kernels.sa_mask) } & INTERNAL != INTERNAL
    {
        // The mask shows what a handler was reset to: the C library hides these two signals.
        return false;
    }
    // Of the others the kernel keeps those that it knows.
    kernels.sa_flags = kernels.sa_flags & !libc::SA_SIGINFO | program.flags & libc::SA_SIGINFO;
    kernels.sa_mask = to_set(program.mask);
    true
}

/// Returns the signals whose default action can be lazy, unless a test makes others so.
fn fatal() -> u64 {
    if protects(Protection::Ignored) {
        FATAL
    } else {
        !NEVER
    }
}

/// Returns the signals that are never lazy, unless a test makes them so.
fn never() -> u64 {
    if protects(Protection::Never) {
        NEVER
    } else {
        0
    }
}

/// Returns whether a new action is a handler that this library calls. In a child of `vfork` it is
/// the kernel that calls: the parent's memory must not change.
fn wants_entry(thread: &Thread, signal: i32, new: &libc::sigaction) -> bool {
    new.sa_sigaction != libc::SIG_DFL
        && new.sa_sigaction != libc::SIG_IGN
        && !thread.is_vforked()
        && ![libc::SIGKILL, libc::SIGSTOP, 32, 33].contains(&signal)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __sigaction(
    signal: i32,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { sigaction(signal, new, old) }
}

/// Signals whose handlers interrupt system calls, by `siginterrupt`.
static INTERRUPT: AtomicU64 = AtomicU64::new(0);

/// Installs a handler, and returns the old one, or `SIG_ERR`.
unsafe fn install(signal: i32, handler: usize, flags: i32, mask: u64) -> usize {
    let new = libc::sigaction {
        sa_sigaction: handler,
        sa_flags: flags,
        sa_mask: to_set(mask),
        sa_restorer: None,
    };
    let mut old = new;
    // SAFETY: the caller's handler, and valid places.
    match unsafe { sigaction(signal, &new, &mut old) } {
        0 => old.sa_sigaction,
        _ => libc::SIG_ERR,
    }
}

fn is_signal(signal: i32) -> bool {
    let valid = (1..SIGNALS as i32).contains(&signal);
    if !valid {
        // SAFETY: the address of this thread's error number.
        unsafe { *libc::__errno_location() = libc::EINVAL };
    }
    valid
}

/// `signal`, with BSD's meaning.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn signal(signal: i32, handler: usize) -> usize {
    if handler == libc::SIG_ERR || !is_signal(signal) {
        // SAFETY: the address of this thread's error number.
        unsafe { *libc::__errno_location() = libc::EINVAL };
        return libc::SIG_ERR;
    }
    let restart = match INTERRUPT.load(Relaxed) & bit(signal) {
        0 => libc::SA_RESTART,
        _ => 0,
    };
    // SAFETY: the caller's handler.
    unsafe { install(signal, handler, restart, bit(signal)) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn bsd_signal(number: i32, handler: usize) -> usize {
    // SAFETY: the caller's handler.
    unsafe { signal(number, handler) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ssignal(number: i32, handler: usize) -> usize {
    // SAFETY: the caller's handler.
    unsafe { signal(number, handler) }
}

/// `sysv_signal`: the handler runs once, and blocks nothing.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sysv_signal(signal: i32, handler: usize) -> usize {
    const SA_INTERRUPT: i32 = 0x2000_0000;
    if handler == libc::SIG_ERR || !is_signal(signal) {
        // SAFETY: the address of this thread's error number.
        unsafe { *libc::__errno_location() = libc::EINVAL };
        return libc::SIG_ERR;
    }
    let flags = libc::SA_RESETHAND | libc::SA_NODEFER | SA_INTERRUPT;
    // SAFETY: the caller's handler.
    unsafe { install(signal, handler, flags, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __sysv_signal(signal: i32, handler: usize) -> usize {
    // SAFETY: the caller's handler.
    unsafe { sysv_signal(signal, handler) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn siginterrupt(signal: i32, interrupt: i32) -> i32 {
    if !is_signal(signal) {
        return -1;
    }
    let mut action = unknown();
    // SAFETY: valid places, and the handler that the program installed.
    unsafe {
        if sigaction(signal, ptr::null(), &mut action) < 0 {
            return -1;
        }
        // Relaxed: only the calls after it on this thread must see it.
        if interrupt != 0 {
            INTERRUPT.fetch_or(bit(signal), Relaxed);
            action.sa_flags &= !libc::SA_RESTART;
        } else {
            INTERRUPT.fetch_and(!bit(signal), Relaxed);
            action.sa_flags |= libc::SA_RESTART;
        }
        sigaction(signal, &action, ptr::null_mut())
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigignore(signal: i32) -> i32 {
    // SAFETY: no handler.
    match unsafe { install(signal, libc::SIG_IGN, 0, 0) } {
        libc::SIG_ERR => -1,
        _ => 0,
    }
}

/// The disposition of `sigset` that blocks.
const SIG_HOLD: usize = 2;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigset(signal: i32, disposition: usize) -> usize {
    if disposition == libc::SIG_ERR || !is_signal(signal) {
        // SAFETY: the address of this thread's error number.
        unsafe { *libc::__errno_location() = libc::EINVAL };
        return libc::SIG_ERR;
    }
    let this = bit(signal) & !(UNBLOCKABLE | INTERNAL);
    if disposition == SIG_HOLD {
        if mask::change(libc::SIG_BLOCK, this) & this != 0 {
            return SIG_HOLD;
        }
        let mut old = unknown();
        // SAFETY: a valid place.
        return match unsafe { sigaction(signal, ptr::null(), &mut old) } {
            0 => old.sa_sigaction,
            _ => libc::SIG_ERR,
        };
    }
    // SAFETY: the caller's handler.
    let old = unsafe { install(signal, disposition, 0, 0) };
    if old == libc::SIG_ERR {
        return old;
    }
    match mask::change(libc::SIG_UNBLOCK, this) & this {
        0 => old,
        _ => SIG_HOLD,
    }
}

/// `timer_create`: a signal of a timer counts what it missed from when it is dequeued, so it must
/// not be dequeued before it is handled.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn timer_create(
    clock: i32,
    event: *const libc::sigevent,
    id: usize,
) -> i32 {
    // SAFETY: null or valid by the contract.
    let (notify, signal) = match unsafe { event.as_ref() } {
        None => (libc::SIGEV_SIGNAL, libc::SIGALRM),
        Some(event) => (event.sigev_notify, event.sigev_signo),
    };
    if notify == libc::SIGEV_THREAD {
        crate::thread::end_laziness();
    } else if notify != libc::SIGEV_NONE && (1..SIGNALS as i32).contains(&signal) {
        keep_for_timer(signal);
    }
    // SAFETY: the C library's function of this type, and the caller's promise.
    unsafe {
        let create = function!(
            Function::timer_create,
            fn(i32, *const libc::sigevent, usize) -> i32
        );
        create(clock, event, id)
    }
}

/// Ends that a signal is lazy, for a timer: one with an interval stops until its signal is
/// dequeued. The kernel gets a default action back: a signal that is queued again for it coalesces
/// with the timer's, which the kernel drops if the timer is deleted. In a child of `vfork` nothing
/// is lazy, and this memory is its parent's.
fn keep_for_timer(signal: i32) {
    if let Some(thread) = Thread::current()
        && UNFIT.load(Relaxed) & bit(signal) == 0
        && protects(Protection::Timers)
        && !thread.is_vforked()
    {
        thread.add_system_calls(2);
        let mut mask = arch::change_mask(libc::SIG_SETMASK, !0);
        UNFIT.fetch_or(bit(signal), Relaxed);
        thread.exclude_from(bit(signal), &mut mask);
        if of(signal).handler == libc::SIG_DFL && !EAGER.load(Relaxed) {
            hand_over_one(thread, signal);
        }
        arch::set_mask(mask);
    }
}

/// Looks whether the program that executed this one has set such a timer.
pub fn begin() {
    // SAFETY: zeros are a valid value.
    let mut value: libc::itimerval = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes the value.
    unsafe { arch::interval_timer(&mut value) };
    if (value.it_interval.tv_sec, value.it_interval.tv_usec) != (0, 0) {
        keep_for_timer(libc::SIGALRM);
    }
}

/// `setitimer`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn setitimer(
    timer: i32,
    new: *const libc::itimerval,
    old: *mut libc::itimerval,
) -> i32 {
    // SAFETY: null or valid by the contract.
    let value = unsafe { new.as_ref() };
    if timer == libc::ITIMER_REAL
        && let Some(new) = value
        && (new.it_interval.tv_sec, new.it_interval.tv_usec) != (0, 0)
    {
        keep_for_timer(libc::SIGALRM);
    }
    // SAFETY: the C library's function of this type, and the caller's promise.
    unsafe {
        let set = function!(
            Function::setitimer,
            fn(i32, *const libc::itimerval, *mut libc::itimerval) -> i32
        );
        set(timer, new, old)
    }
}

/// `ualarm`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ualarm(microseconds: u32, interval: u32) -> u32 {
    if interval != 0 {
        keep_for_timer(libc::SIGALRM);
    }
    // SAFETY: the C library's function of this type.
    unsafe { function!(Function::ualarm, fn(u32, u32) -> u32)(microseconds, interval) }
}

/// `rt_sigaction` by `syscall(3)`: the kernel's structure has another order, addresses are checked,
/// and the old action is stored before a handler can run.
///
/// # Safety
///
/// As of `rt_sigaction`.
pub unsafe fn kernels_sigaction(signal: i32, new: usize, old: usize) -> i32 {
    let thread = match Thread::current() {
        Some(thread) if (1..SIGNALS as i32).contains(&signal) && INTERNAL & bit(signal) == 0 => {
            thread
        }
        // The kernel knows whether these are signals; the C library hides its own.
        // SAFETY: the caller's promise.
        _ => match unsafe { arch::kernels_sigaction(signal, new, old) } {
            error if error < 0 => return mask::fail(-error as i32),
            _ => return 0,
        },
    };
    // The structure's first and last words: it spans at most two pages.
    const LAST: usize = size_of::<KernelAction>() - 8;
    if new != 0 && !(arch::is_readable(new) && arch::is_readable(new.wrapping_add(LAST))) {
        return mask::fail(libc::EFAULT);
    }
    let action = (new != 0).then(|| {
        // SAFETY: the kernel has just read these bytes.
        let new = unsafe { (new as *const KernelAction).read_unaligned() };
        libc::sigaction {
            sa_sigaction: new.handler,
            sa_flags: new.flags as i32,
            sa_mask: to_set(new.mask),
            // It becomes the C library's, which does the same.
            sa_restorer: None,
        }
    });
    let mut previous = unknown();
    let mut mask = arch::change_mask(libc::SIG_SETMASK, !0);
    // SAFETY: the caller's promise.
    let result = unsafe { exchange(thread, signal, action, &mut previous, &mut mask) };
    let is_stored = result != 0 || old == 0 || {
        let is_writable = arch::is_writable(old) && arch::is_writable(old.wrapping_add(LAST));
        if is_writable {
            // SAFETY: the kernel has just written there.
            unsafe { (old as *mut KernelAction).write_unaligned(KernelAction::new(&previous)) };
        }
        is_writable
    };
    arch::set_mask(mask);
    match is_stored {
        true => result,
        false => mask::fail(libc::EFAULT),
    }
}

/// The kernel's `struct sigaction`.
#[repr(C)]
pub struct KernelAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

impl KernelAction {
    fn new(action: &libc::sigaction) -> KernelAction {
        KernelAction {
            handler: action.sa_sigaction,
            flags: action.sa_flags as u32 as u64,
            restorer: action.sa_restorer.map_or(0, |restorer| restorer as usize),
            // SAFETY: a valid set.
            mask: unsafe { set_of(&action.sa_mask) },
        }
    }
}
