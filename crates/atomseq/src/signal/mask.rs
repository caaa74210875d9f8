//! The user-level signal mask.

use core::marker::PhantomData;

use super::runtime;

/// While one lives, managed signals wait on this thread. See [`mask()`].
#[must_use = "the mask ends when the guard is dropped"]
#[derive(Debug)]
pub struct Masked {
    /// The mask is this thread's.
    _not_send: PhantomData<*mut ()>,
}

/// Puts managed signals off on this thread until the guard is dropped: any code in between is
/// atomic against their handlers. Scope `SameThread`; wait-free; async-signal-safe.
///
/// Masks nest, in any order of dropping: the signals are delivered when the last guard goes. A
/// panic that unwinds drops guards as it should. Where sequences are [protected](crate::signal), a
/// start costs three instructions and an end five, on thread-local words, no system call; only if a
/// signal arrives meanwhile, its delivery costs more. Other threads, and [some
/// signals](crate::signal#signals-that-are-never-held-back), are not held back.
///
/// A guard that is forgotten (`mem::forget`) leaves the thread masked for good: managed signals are
/// then never delivered to it, and what was sent to the process and put off here is lost.
///
/// A handler ends the masks that it begins before it returns, otherwise they may not count: it may
/// have interrupted the thread in the middle of the beginning or end of a mask, which then
/// overwrites the number of masks with its own.
///
/// Long masks delay signals; a mask around a call that blocks delays them until it returns. Calls
/// that wait for signals need [`with_kernel_mask`].
///
/// ```
/// use std::collections::HashMap;
///
/// let mut table = HashMap::new();
/// {
///     let _masked = atomseq::signal::mask();
///     table.insert("any", "code"); // no handler sees the table in the middle of this
/// }
/// ```
///
/// The guard belongs to its thread:
///
/// ```compile_fail,E0277
/// let masked = atomseq::signal::mask();
/// std::thread::spawn(move || drop(masked));
/// ```
#[inline(always)]
pub fn mask() -> Masked {
    runtime::start_mask();
    Masked {
        _not_send: PhantomData,
    }
}

impl Drop for Masked {
    #[inline(always)]
    fn drop(&mut self) {
        runtime::end_mask();
    }
}

/// Is this thread inside a [`mask()`]? Async-signal-safe.
pub fn is_masked() -> bool {
    runtime::is_masked()
}

/// Runs `f` with the managed signals blocked by the kernel's mask instead of a [`mask()`], inside
/// one or not.
///
/// For calls that wait for signals, or change which ones are blocked while they wait: `sigsuspend`,
/// `ppoll`, `pselect`, `epoll_pwait`, `sigwait`, `sigtimedwait`, reading a `signalfd`. To these, a
/// signal that a mask merely puts off looks as if it were not blocked: they would be interrupted,
/// and the handler would still wait. Inside `f` they behave as after `pthread_sigmask`, and where
/// they unblock a signal, its handler runs.
///
/// Inside `f`, masks that were begun outside do not count, and those that `f` begins do. A guard
/// may be dropped on the other side of where it was made: masks are counted, so inside `f` the end
/// of any mask ends one of `f`'s own, if there is one.
///
/// What is blocked is what is managed when this begins. A signal that becomes managed during `f`,
/// since another thread installs a handler, is not blocked until `f` has returned: its handler may
/// run inside `f`, and so inside a mask that surrounds it. A [gate](crate::percpu::GateGuard) that
/// was closed before may be opened inside `f`: the signals stay blocked.
///
/// Costs two system calls, and some more if the thread [keeps](crate::signal#deferred-signals) a
/// signal, which goes to the kernel first. (A signal of the opposite kind that arrives in that very
/// moment is discarded.) `f` must leave the blocked signals as it found them; those that are
/// pending are deferred or delivered when it ends, also by a panic.
///
/// ```
/// # #[cfg(target_os = "linux")] {
/// let masked = atomseq::signal::mask();
/// let waited = atomseq::signal::with_kernel_mask(|| {
///     // SAFETY: plain old data; waits a millisecond, with no signal blocked meanwhile.
///     unsafe {
///         let none: libc::sigset_t = std::mem::zeroed();
///         let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
///         libc::ppoll(std::ptr::null_mut(), 0, &time, &none)
///     }
/// });
/// assert_eq!(waited, 0);
/// # drop(masked);
/// # }
/// ```
pub fn with_kernel_mask<R>(f: impl FnOnce() -> R) -> R {
    runtime::with_kernel_mask(f)
}

/// This thread's signal mask as the program has set it: without what a [`mask()`] has added to it
/// in putting a signal off.
///
/// For `posix_spawnattr_setsigmask` and other calls that give a mask to someone else: a new program
/// would otherwise start with those signals blocked. One system call; async-signal-safe.
#[cfg(unix)]
pub fn own_mask() -> libc::sigset_t {
    runtime::own_mask()
}

/// Makes of a new thread's function one that gives the thread its creator's [`own_mask`].
///
/// A thread inherits the kernel's mask of its creator. If that is inside a [`mask()`] in which a
/// signal was put off, the managed signals would stay blocked on the new thread.
///
/// ```
/// use atomseq::signal;
///
/// let masked = signal::mask();
/// let thread = std::thread::spawn(signal::inheriting(|| 6 * 7));
/// drop(masked);
/// assert_eq!(thread.join().unwrap(), 42);
/// ```
#[cfg(unix)]
pub fn inheriting<R>(f: impl FnOnce() -> R) -> impl FnOnce() -> R {
    runtime::inheriting(f)
}

/// Lets a command start its program with this thread's [`own_mask`], by a fork of its own.
///
/// A program inherits the kernel's mask. Started inside a [`mask()`] in which a signal was put off,
/// it would have the managed signals blocked. Outside of masks, and if nothing is put off, this is
/// not needed.
///
/// ```
/// use atomseq::signal;
/// use std::process::Command;
///
/// let masked = signal::mask();
/// let status = signal::give_own_mask(&mut Command::new("true")).status()?;
/// assert!(status.success());
/// # drop(masked);
/// # Ok::<(), std::io::Error>(())
/// ```
#[cfg(unix)]
pub fn give_own_mask(command: &mut std::process::Command) -> &mut std::process::Command {
    use std::os::unix::process::CommandExt;
    // SAFETY: between fork and exec, this makes at most two system calls.
    unsafe {
        command.pre_exec(|| {
            libc::pthread_sigmask(libc::SIG_SETMASK, &own_mask(), std::ptr::null_mut());
            Ok(())
        })
    }
}
