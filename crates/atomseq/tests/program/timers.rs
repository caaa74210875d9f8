//! A process without timers, for the tests of examples that use them.

/// Keeps this process from making POSIX timers: the kernel counts them as queued signals.
pub fn allow_none() {
    // SAFETY: reads the limit into one, and sets one.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_SIGPENDING, &mut limit), 0);
        limit.rlim_cur = 0;
        assert_eq!(libc::setrlimit(libc::RLIMIT_SIGPENDING, &limit), 0);
    }
}
