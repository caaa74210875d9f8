//! The process itself: what the command puts right before it begins, and how it ends.

use std::io::{self, Write};

/// Undoes what a parent may have left behind: signals that are blocked, and children that vanish when they exit because
/// `SIGCHLD` is ignored. Both outlive `exec`. The experiments, the doctor and the torture interrupt threads and wait for children.
///
/// Called before there is another thread, all of which then inherit it.
pub fn begin() {
    #[cfg(unix)]
    // SAFETY: all zero is a set, which the calls fill in and read; SIGCHLD has no handler yet that anybody counts on.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
}

/// Ends the process once everything is written, without the destructors of the libraries that the benchmark compares with: where
/// memory was refused, mimalloc's crashes.
pub fn end(code: u8) -> ! {
    // Whoever could be told of a failure has been told.
    let _ = io::stdout().flush();
    #[cfg(unix)]
    // SAFETY: it takes a number, and does not return.
    unsafe {
        libc::_exit(code.into())
    }
    #[cfg(not(unix))]
    std::process::exit(code.into())
}
