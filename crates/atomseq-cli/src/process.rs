//! The process: what the command resets at its start, and how it exits.

use std::io::{self, StdoutLock, Write};

use crate::error::Error;
use crate::memory;

/// Resets what a parent may have set and `exec` keeps: blocked signals, and an ignored `SIGCHLD`,
/// by which children leave no exit status. The command interrupts threads and waits for children.
///
/// Called before there is another thread, so that all threads inherit it.
pub fn begin() {
    memory::watch();
    #[cfg(unix)]
    // SAFETY: zero is a valid set, which the calls write and read; no code relies on a handler of
    // SIGCHLD yet.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
}

/// Returns standard output, for results.
///
/// # Errors
///
/// If it was closed when the process started.
pub fn output() -> Result<StdoutLock<'static>, Error> {
    #[cfg(target_os = "linux")]
    closed::check()?;
    Ok(io::stdout().lock())
}

/// Detects a closed standard output. Rust opens `/dev/null` in place of it, to which every write
/// succeeds; so this checks before Rust does.
#[cfg(target_os = "linux")]
mod closed {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};

    static CLOSED: AtomicBool = AtomicBool::new(false);

    /// The C library calls this before `main`.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;

    extern "C" fn look() {
        // SAFETY: numbers only.
        let flags = unsafe { libc::fcntl(1, libc::F_GETFD) };
        // Relaxed, here and below: written before there is another thread.
        let closed = flags == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EBADF);
        CLOSED.store(closed, Ordering::Relaxed);
    }

    /// Returns an error if standard output was closed.
    pub fn check() -> io::Result<()> {
        match CLOSED.load(Ordering::Relaxed) {
            true => Err(io::Error::from_raw_os_error(libc::EBADF)),
            false => Ok(()),
        }
    }
}

/// Exits with the result: code 0 only if all output was written.
pub fn end(result: Result<(), Error>) -> ! {
    let flushed = io::stdout().flush().map_err(Error::from);
    let code = match result.and(flushed) {
        Ok(()) => 0,
        // The reader has closed the pipe.
        Err(error) if error.is_broken_pipe() => 0,
        Err(error) => {
            // If standard error cannot be written either, only the exit code remains.
            let _ = writeln!(io::stderr(), "atomseq: {error}");
            1
        }
    };
    exit(code)
}

/// Exits without running the destructors of the libraries that the benchmark compares with: that of
/// mimalloc crashes where memory was refused.
pub fn exit(code: u8) -> ! {
    #[cfg(unix)]
    // SAFETY: it takes a number, and does not return.
    unsafe {
        libc::_exit(code.into())
    }
    #[cfg(not(unix))]
    std::process::exit(code.into())
}

/// Checks that the system allows what each thread needs, also in the Rust standard library. A
/// thread that is refused it would end the process, or keep it from exiting.
///
/// # Errors
///
/// [`Error::Refused`] with the first refusal.
#[cfg(target_os = "linux")]
pub fn check() -> Result<(), Error> {
    use crate::child::{self, Ending};
    use crate::error::Refused;

    let now = |done: bool, what| match done {
        true => Ok(()),
        false => Err(Refused::now(what)),
    };
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1,
    };
    // SAFETY: a valid time, and no result to write.
    let errno =
        unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &time, std::ptr::null_mut()) };
    if ![0, libc::EINTR].contains(&errno) {
        let what = "let a thread sleep";
        return Err(Refused { what, errno }.into());
    }
    let word = 0_u32;
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: a word of this process, and numbers.
    let woken = unsafe { libc::syscall(libc::SYS_futex, &raw const word, wake, 1) };
    now(woken >= 0, "let a thread wake another (futex)")?;
    let (protection, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4_096, protection, flags, -1, 0) };
    now(page != libc::MAP_FAILED, "map a page")?;
    // SAFETY: mapped above, and unmapped once.
    let unmapped = unsafe { libc::munmap(page, 4_096) };
    now(unmapped == 0, "unmap a page")?;
    crate::bench::signals::mask_works()?;
    // In a child, which dies if that fails. Without a child this is not known.
    extern "C" fn handle(_signal: libc::c_int) {}
    let tried = child::fork(false, |returned| {
        // SAFETY: a handler of this signature that does nothing, and a signal to this thread.
        unsafe {
            libc::signal(libc::SIGUSR1, handle as *const () as usize);
            libc::raise(libc::SIGUSR1);
        }
        returned.set(true);
    });
    match tried {
        Ok((Ending::OutOfMemory, _)) | Err(_) => Ok(()),
        Ok((Ending::Died(_) | Ending::Panicked | Ending::Hung, _)) | Ok((_, false)) => {
            let what = "return from a signal handler";
            Err(Refused { what, errno: 0 }.into())
        }
        Ok((Ending::Done, true)) => Ok(()),
    }
}

/// Checks nothing on other systems.
///
/// # Errors
///
/// None.
#[cfg(not(target_os = "linux"))]
pub fn check() -> Result<(), Error> {
    Ok(())
}
