//! The user-level signal mask.

use core::marker::PhantomData;

use super::runtime;

/// A guard that defers managed signals on its thread while it lives. See [`mask()`].
#[must_use = "the mask ends when the guard is dropped"]
#[derive(Debug)]
pub struct Masked {
    /// The guard must be dropped on the thread whose mask it is.
    _not_send: PhantomData<*mut ()>,
}

/// Defers managed signals on this thread until the guard is dropped.
///
/// The code in between is atomic against their handlers. Scope `SameThread`; wait-free;
/// async-signal-safe. Other threads, and [some
/// signals](crate::signal#signals-that-are-never-held-back), are not held back.
///
/// Masks nest, and their guards may be dropped in any order: the signals are delivered when the
/// last one is dropped. A panic that unwinds drops guards as usual. Where sequences are
/// [protected](crate::signal), a start costs three instructions and an end five, on thread-local
/// words, without a system call. Only the delivery of a signal that arrives meanwhile costs more.
///
/// A guard that is forgotten (`mem::forget`) leaves the thread masked permanently. It then receives
/// no managed signals, and process-directed signals that it deferred are lost.
///
/// A handler must end the masks that it begins before it returns. It may have interrupted the
/// thread in the middle of the start or the end of a mask, which then overwrites the count of masks
/// with its own.
///
/// A long mask delays signals; a mask around a blocking call delays them until the call returns.
/// Calls that wait for signals need [`with_kernel_mask`].
///
/// ```
/// use std::collections::HashMap;
///
/// let mut table = HashMap::new();
/// {
///     let _masked = atomseq::signal::mask();
///     table.insert("any", "code"); // no managed handler runs during this
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

/// Returns whether this thread is inside a [`mask()`]. Async-signal-safe.
pub fn is_masked() -> bool {
    runtime::is_masked()
}

/// Runs `f` with the managed signals blocked in the kernel instead of by a [`mask()`].
///
/// For calls that wait for signals, or change which ones are blocked while they wait: `sigsuspend`,
/// `ppoll`, `pselect`, `epoll_pwait`, `sigwait`, `sigtimedwait`, reading a `signalfd`. To these, a
/// signal that a mask would defer looks unblocked: it would interrupt them, and its handler would
/// not run. Inside `f` they behave as after `pthread_sigmask`. Where they unblock a signal, its
/// handler runs. May be called inside a mask or outside.
///
/// Inside `f`, masks that were begun outside do not count, and those that `f` begins do. A guard
/// may be dropped on the other side of where it was made. Masks are only counted, so inside `f` the
/// end of any mask ends one of `f`'s own, if there is one.
///
/// The blocked signals are those that are managed at the start. A signal that another thread makes
/// managed during `f` is not blocked until `f` has returned. Its handler may run inside `f`, and so
/// inside a mask that surrounds it. A [gate](crate::percpu::GateGuard) that was closed before may
/// be opened inside `f`: the signals stay blocked.
///
/// Costs two system calls, and some more if the thread [keeps](crate::signal#deferred-signals) a
/// signal, which is queued to the kernel first. (A signal of the opposite kind that arrives in that
/// very moment is discarded.) `f` must leave the blocked signals as it found them. Signals that are
/// pending when it ends, also by a panic, are deferred or delivered.
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

/// Returns this thread's signal mask as the program has set it.
///
/// That is the kernel's mask without the signals that a [`mask()`] has blocked to defer one, and
/// without those that a [gate](crate::percpu::GateGuard) has blocked. For
/// `posix_spawnattr_setsigmask` and other calls that give a mask to another program or thread,
/// which would otherwise start with those signals blocked. At most one system call;
/// async-signal-safe.
#[cfg(unix)]
pub fn own_mask() -> libc::sigset_t {
    runtime::own_mask()
}

/// Wraps a new thread's function so that the thread starts with its creator's [`own_mask`].
///
/// A thread inherits the kernel's mask of its creator. If the creator is inside a [`mask()`] that
/// has deferred a signal, or holds a gate, the managed signals would stay blocked on the new
/// thread. Call this on the creating thread. Costs one system call here and one on the new thread.
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

/// Makes a command start its program with this thread's [`own_mask`].
///
/// A program inherits the kernel's mask. Started inside a [`mask()`] that has deferred a signal, it
/// would have the managed signals blocked. Not needed outside of masks, or if nothing is deferred.
/// The command then starts its program by a fork, not by `posix_spawn`.
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
