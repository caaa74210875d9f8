//! Masks, handlers and sending by the C library, as a program without atomseq would do it; and the
//! same through atomseq, with less to write.

use std::mem::MaybeUninit;

/// Signals that faults raise.
pub const FAULTS: [i32; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// A handler of three arguments.
pub type Three = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// A set with these signals.
pub fn set(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: initialises the set, then adds signals that exist.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            assert_eq!(libc::sigaddset(set.as_mut_ptr(), signal), 0);
        }
        set.assume_init()
    }
}

/// Is `signal` in `set`?
pub fn holds(set: &libc::sigset_t, signal: i32) -> bool {
    // SAFETY: an initialised set.
    unsafe { libc::sigismember(set, signal) == 1 }
}

/// Changes this thread's mask; returns the old one.
pub fn change_mask(how: i32, signals: &[i32]) -> libc::sigset_t {
    let mut old = set(&[]);
    // SAFETY: both sets are initialised.
    let result = unsafe { libc::pthread_sigmask(how, &set(signals), &mut old) };
    assert_eq!(result, 0);
    old
}

/// Does the kernel block `signal` on this thread?
pub fn is_blocked(signal: i32) -> bool {
    holds(&change_mask(libc::SIG_BLOCK, &[]), signal)
}

/// This thread's mask as the kernel has it, with the signals of which the C library says nothing.
pub fn kernel_mask() -> u64 {
    let mut mask = 0u64;
    // SAFETY: asks only; the kernel's set has 8 bytes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_BLOCK,
            std::ptr::null::<u64>(),
            &raw mut mask,
            8,
        )
    };
    assert_eq!(result, 0);
    mask
}

/// Is `signal` pending for this thread or its process?
pub fn is_pending(signal: i32) -> bool {
    let mut pending = set(&[]);
    // SAFETY: an initialised set.
    assert_eq!(unsafe { libc::sigpending(&mut pending) }, 0);
    holds(&pending, signal)
}

/// What is installed for `signal`.
pub fn installed(signal: i32) -> libc::sigaction {
    let mut now = MaybeUninit::uninit();
    // SAFETY: asks only; fills `now` in.
    unsafe {
        let result = libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr());
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        now.assume_init()
    }
}

/// Installs a handler as a library would that knows nothing of atomseq; returns what was installed.
pub fn install_plainly(signal: i32, handler: Three, flags: i32, mask: &[i32]) -> libc::sigaction {
    replace(
        signal,
        handler as usize,
        flags | libc::SA_SIGINFO,
        set(mask),
    )
}

/// Installs a handler that takes the signal only, and during which nothing else is blocked.
pub fn install_short(signal: i32, handler: extern "C" fn(i32), flags: i32) {
    replace(signal, handler as usize, flags, set(&[]));
}

/// Installs a handler during which all signals are blocked.
pub fn install_alone(signal: i32, handler: Three, flags: i32) {
    let mut all = set(&[]);
    // SAFETY: fills an initialised set.
    unsafe { libc::sigfillset(&mut all) };
    replace(signal, handler as usize, flags | libc::SA_SIGINFO, all);
}

fn replace(signal: i32, handler: usize, flags: i32, mask: libc::sigset_t) -> libc::sigaction {
    let mut old = MaybeUninit::uninit();
    // SAFETY: plain old data, filled in; the tests' handlers are async-signal-safe, and of the type
    // that the flags ask for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        action.sa_mask = mask;
        let result = libc::sigaction(signal, &action, old.as_mut_ptr());
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        old.assume_init()
    }
}

/// Installs what was found before.
pub fn put_back(signal: i32, old: &libc::sigaction) {
    // SAFETY: what was installed before, or differs from that in flags and mask.
    let result = unsafe { libc::sigaction(signal, old, std::ptr::null_mut()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Sends a signal to this thread.
pub fn raise(signal: i32) {
    // SAFETY: no memory involved.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

/// Queues a signal with a value to this thread.
#[cfg(target_pointer_width = "64")]
pub fn queue(signal: i32, value: usize) {
    queue_record(signal, libc::SI_QUEUE, 0, |info| {
        let words: *mut u64 = (&raw mut *info).cast();
        // SAFETY: a record as `sigqueue` would make it: the sender and the value follow two words.
        unsafe {
            words.add(2).write(u64::from(std::process::id()));
            words.add(3).write(value as u64);
        }
    });
}

/// Queues a signal to this thread with a code as the kernel gives it.
pub fn queue_with_code(signal: i32, code: i32) {
    queue_record(signal, code, 0, |_| ());
}

/// Queues a signal to this thread as `kill` would send it.
#[cfg(target_pointer_width = "64")]
pub fn queue_of_kill(signal: i32) {
    queue_record(signal, libc::SI_USER, 0, |info| {
        let words: *mut u64 = (&raw mut *info).cast();
        // SAFETY: the sender follows two words.
        unsafe { words.add(2).write(u64::from(std::process::id())) };
    });
}

/// Queues a signal to this thread as a timer's that has expired `overruns` times more. `password`
/// is for a sandbox that [traps](crate::sandbox::trap) the call.
pub fn queue_of_timer(signal: i32, overruns: i32, password: u32) {
    queue_record(signal, libc::SI_TIMER, password, |info| {
        let words: *mut i32 = (&raw mut *info).cast();
        // SAFETY: a timer's record: its number and the overruns follow four words.
        unsafe { words.add(5).write(overruns) };
    });
}

fn queue_record(signal: i32, code: i32, password: u32, fill: impl FnOnce(&mut libc::siginfo_t)) {
    // SAFETY: plain old data.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    info.si_signo = signal;
    info.si_code = code;
    fill(&mut info);
    // SAFETY: a record, which the kernel copies.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            libc::getpid(),
            libc::syscall(libc::SYS_gettid, 0, 0, 0, 0, 0, password),
            signal,
            &raw const info,
            0,
            password,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// What an audit finds.
pub fn findings() -> Vec<atomseq::signal::Finding> {
    atomseq::signal::audit().findings().collect()
}

/// Installs through atomseq, with the default options.
pub fn install(signal: i32, handler: atomseq::signal::Handler) {
    install_with(signal, handler, atomseq::signal::Options::new());
}

/// Installs through atomseq.
pub fn install_with(
    signal: i32,
    handler: atomseq::signal::Handler,
    options: atomseq::signal::Options,
) {
    // SAFETY: the tests' handlers are async-signal-safe.
    unsafe { atomseq::signal::install_with(signal, handler, options) }.expect("installed");
}

/// From now on, the queue has room for so many signals.
pub fn limit_queue(room: libc::rlim_t) {
    // SAFETY: reads the limit into one, and sets one.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_SIGPENDING, &mut limit), 0);
        limit.rlim_cur = room.min(limit.rlim_max);
        assert_eq!(libc::setrlimit(libc::RLIMIT_SIGPENDING, &limit), 0);
    }
}

/// Waits with nothing blocked until a handler has run; it has ten seconds.
pub fn wait_for_handler() {
    let time = libc::timespec {
        tv_sec: 10,
        tv_nsec: 0,
    };
    // SAFETY: no descriptors, a time and an initialised set.
    let ended = unsafe { libc::ppoll(std::ptr::null_mut(), 0, &time, &set(&[])) };
    assert_eq!(ended, -1, "it took ten seconds");
}
