//! The process itself: what the command puts right before it begins, and how it ends.

use std::io::{self, StdoutLock, Write};

use crate::error::Error;
use crate::memory;

/// Undoes what a parent may have left behind: signals that are blocked, and children that vanish
/// when they exit because `SIGCHLD` is ignored. Both outlive `exec`. The experiments, the doctor
/// and the torture interrupt threads and wait for children.
///
/// Called before there is another thread, all of which then inherit it.
pub fn begin() {
    memory::watch();
    #[cfg(unix)]
    // SAFETY: all zero is a set, which the calls fill in and read; SIGCHLD has no handler yet that
    // anybody counts on.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
}

/// Standard output, for results.
///
/// # Errors
///
/// If there was none when the process began.
pub fn output() -> Result<StdoutLock<'static>, Error> {
    #[cfg(target_os = "linux")]
    closed::check()?;
    Ok(io::stdout().lock())
}

/// Rust opens `/dev/null` in the place of a standard stream that is closed, which takes everything.
/// So this looks before Rust does.
#[cfg(target_os = "linux")]
mod closed {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};

    static CLOSED: AtomicBool = AtomicBool::new(false);

    /// The C library calls it before `main`.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;

    extern "C" fn look() {
        // SAFETY: numbers only.
        let flags = unsafe { libc::fcntl(1, libc::F_GETFD) };
        // Relaxed, here and below: there is no other thread yet.
        let closed = flags == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EBADF);
        CLOSED.store(closed, Ordering::Relaxed);
    }

    /// Whether standard output was open.
    pub fn check() -> io::Result<()> {
        match CLOSED.load(Ordering::Relaxed) {
            true => Err(io::Error::from_raw_os_error(libc::EBADF)),
            false => Ok(()),
        }
    }
}

/// Ends the process with what came of it: all that was written is out, or the exit code is no
/// success.
pub fn end(result: Result<(), Error>) -> ! {
    let flushed = io::stdout().flush().map_err(Error::from);
    let code = match result.and(flushed) {
        Ok(()) => 0,
        // Whoever read the output has seen enough.
        Err(error) if error.is_broken_pipe() => 0,
        Err(error) => {
            // Where standard error takes nothing either, the exit code is all that is left to say.
            let _ = writeln!(io::stderr(), "atomseq: {error}");
            1
        }
    };
    exit(code)
}

/// Ends the process without the destructors of the libraries that the benchmark compares with:
/// where memory was refused, mimalloc's crashes.
pub fn exit(code: u8) -> ! {
    #[cfg(unix)]
    // SAFETY: it takes a number, and does not return.
    unsafe {
        libc::_exit(code.into())
    }
    #[cfg(not(unix))]
    std::process::exit(code.into())
}

/// Looks whether the system allows what every thread needs, Rust's library included: where it does
/// not, that ends the process in the middle, or keeps it from ending.
///
/// # Errors
///
/// [`Error::Refused`] with the first that is refused.
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
    // SAFETY: a valid time, and nothing to be filled in.
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
    // SAFETY: a new mapping, at an address of the kernel's choice, takes nothing from anybody.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4_096, protection, flags, -1, 0) };
    now(page != libc::MAP_FAILED, "map a page")?;
    // SAFETY: mapped above, and nobody else's.
    let unmapped = unsafe { libc::munmap(page, 4_096) };
    now(unmapped == 0, "unmap a page")?;
    crate::bench::signals::mask_works()?;
    // In a child, for whom it ends badly. Without a child this cannot be known.
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
        Ok((Ending::Starved, _)) | Err(_) => Ok(()),
        Ok((Ending::Died(_) | Ending::Panicked | Ending::Hung, _)) | Ok((_, false)) => {
            let what = "return from a signal handler";
            Err(Refused { what, errno: 0 }.into())
        }
        Ok((Ending::Done, true)) => Ok(()),
    }
}

/// Nothing is known of other systems.
///
/// # Errors
///
/// None.
#[cfg(not(target_os = "linux"))]
pub fn check() -> Result<(), Error> {
    Ok(())
}
