//! What threads share in the handling of signals: the tables of handlers and the counts, and what
//! senders and workers share. A storm runs while another thread changes all of that. `.ci/run`
//! builds it with `-Zsanitizer=thread` and `--cfg atomseq_sanitized`: an unordered access ends it.
//!
//! The sanitizer does not see into sequences, which are assembly; only one thread runs each of
//! them. A handler must not interrupt the sanitizer's own code, or it hangs. Its replacement of
//! `sigaction` prevents that, but hides from atomseq which handler is installed. So this test
//! bypasses the replacement, and lets signals arrive only where they interrupt no code of the
//! sanitizer. No report is suppressed.

#[cfg(atomseq_sections)]
fn main() {
    if std::env::args().any(|argument| argument == meeting::RACE) {
        meeting::race();
        return;
    }
    meeting::storm();
    if cfg!(atomseq_sanitized) {
        meeting::control();
    }
}

#[cfg(not(atomseq_sections))]
fn main() {
    println!("sanitized: does not apply to the portable build");
}

#[cfg(atomseq_sections)]
mod meeting {
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use atomseq::signal;
    use verify_stress::storm::arena::{Arena, Outcome};
    use verify_stress::storm::senders::{self, SENT, TIMER, Timer, Victim, queued};
    use verify_stress::storm::sequences::Protected;
    use verify_stress::storm::trial;

    /// The argument for the race that must be detected.
    pub const RACE: &str = "race";

    /// The C library's other name of `sigaction`, which the sanitizer does not replace.
    #[cfg(atomseq_sanitized)]
    #[unsafe(no_mangle)]
    unsafe extern "C" fn sigaction(
        signal: libc::c_int,
        new: *const libc::sigaction,
        old: *mut libc::sigaction,
    ) -> libc::c_int {
        unsafe extern "C" {
            fn __sigaction(
                signal: libc::c_int,
                new: *const libc::sigaction,
                old: *mut libc::sigaction,
            ) -> libc::c_int;
        }
        // SAFETY: the same function with the same arguments.
        unsafe { __sigaction(signal, new, old) }
    }

    /// How many threads work.
    const WORKERS: usize = 3;

    /// The min number of handlers that are installed and removed meanwhile.
    const CHANGES: u64 = 20;

    pub fn storm() {
        trial::install::<Protected>();
        // Inherited by each thread started from here on.
        block();
        let victims: [Victim; WORKERS] = Default::default();
        let (calm, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let (outcome, sent, changes) = thread::scope(|scope| {
            let changing = scope.spawn(|| change_until(&over));
            let sending = scope.spawn(|| senders::send_until(&calm, &victims, &trial::POST));
            let mut outcome = Outcome::default();
            // Threads start and exit.
            for _ in 0..8 {
                let working: Vec<_> = victims
                    .iter()
                    .map(|victim| scope.spawn(|| work(victim)))
                    .collect();
                let outcomes = working
                    .into_iter()
                    .map(|worker| worker.join().expect("a worker"));
                outcome = outcomes.fold(outcome, Outcome::and);
            }
            calm.store(true, Ordering::Relaxed);
            over.store(true, Ordering::Relaxed);
            let sent = sending.join().expect("the sibling");
            (outcome, sent, changing.join().expect("nothing panics"))
        });
        let (post, lost) = trial::POST.check_final();
        println!(
            "sanitized: {} ThreadSanitizer: {} operations by threads, {} by handlers, {} wrong; {sent} signals sent, {post} with \
             values, {lost} lost; {} handled; {changes} handlers installed and removed",
            if cfg!(atomseq_sanitized) {
                "with"
            } else {
                "without"
            },
            outcome.by_thread,
            outcome.by_handlers,
            outcome.wrong,
            trial::delivered(),
        );
        assert_eq!(outcome.wrong + lost, 0);
        assert!(outcome.by_handlers > 100 && post > 10);
    }

    /// Runs a worker, which lets signals arrive periodically.
    fn work(victim: &Victim) -> Outcome {
        let arena = Arena::new(fastrand::u64(..), true);
        let never = AtomicBool::new(false);
        trial::with_arena(&arena, || {
            victim.volunteer();
            let timer = Timer::start(TIMER, trial::PERIOD);
            for _ in 0..100 {
                trial::work::<Protected>(&arena, arena.made_by_thread() + 256, &never);
                // A handler blocks the others.
                (0..3).for_each(|_| _ = open());
            }
            drop(timer);
            victim.resign();
            while open() {}
        });
        arena.check_final()
    }

    /// Blocks the signals of the workers, which arrive only in [`open`].
    fn block() {
        let bit = |signal: libc::c_int| 1u64 << (signal - 1);
        let set = bit(TIMER) | bit(SENT) | bit(queued());
        // SAFETY: a set of the kernel's size.
        let result = unsafe {
            libc::syscall(
                libc::SYS_rt_sigprocmask,
                libc::SIG_BLOCK,
                &raw const set,
                std::ptr::null_mut::<u64>(),
                8,
            )
        };
        assert_eq!(result, 0);
    }

    /// Lets one pending signal arrive, if there is one, inside one system call. Between a call that
    /// unblocks signals and one that blocks them, handlers would interrupt the sanitizer's own
    /// code, which records each function that runs.
    fn open() -> bool {
        let (now, none) = ([0u64; 2], 0u64);
        // SAFETY: no descriptors, a time of two words, a set of the kernel's size.
        let result = unsafe {
            libc::syscall(
                libc::SYS_ppoll,
                std::ptr::null_mut::<libc::pollfd>(),
                0,
                &raw const now,
                &raw const none,
                8,
            )
        };
        // A handler interrupts it.
        result != 0
    }

    /// Installs and removes a handler, and reads all that other threads change.
    fn change_until(over: &AtomicBool) -> u64 {
        let number = libc::SIGRTMIN() + 5;
        let mut changes = 0;
        while changes < CHANGES || !over.load(Ordering::Relaxed) {
            // SAFETY: a handler that does nothing.
            unsafe { signal::install(number, |_| {}) }.expect("a signal without a manager");
            assert!(signal::is_managed(number));
            // SAFETY: no arguments.
            senders::signal(unsafe { libc::gettid() }, number);
            let audit = signal::audit();
            assert!(audit.is_clean(), "{audit}");
            assert!(signal::statistics().deliveries > 0);
            signal::uninstall(number).expect("installed above");
            changes += 1;
        }
        changes
    }

    /// Lets two threads change one word without any order.
    pub fn race() {
        struct Word(std::cell::UnsafeCell<u64>);
        // SAFETY: it is not, which the sanitizer must detect.
        unsafe impl Sync for Word {}
        static WORD: Word = Word(std::cell::UnsafeCell::new(0));
        let add = || {
            // SAFETY: a word; that two threads add to it must be detected.
            (0..1000).for_each(|_| unsafe { *WORD.0.get() += 1 });
        };
        thread::scope(|scope| {
            scope.spawn(add);
            scope.spawn(add);
        });
    }

    /// Checks that the sanitizer detects that race.
    pub fn control() {
        let program = std::env::current_exe().expect("a program knows its own path");
        let output = Command::new(program)
            .arg(RACE)
            .output()
            .expect("a program can start itself");
        let report = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && report.contains("data race"),
            "not detected: {report}"
        );
        println!("sanitized: the race of the control is detected");
    }
}
