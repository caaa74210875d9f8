//! The places where threads meet in the handling of signals: the tables of who handles what, the
//! counts, whoever sends to whoever works. A storm while another thread changes all of that; built
//! with `-Zsanitizer=thread` and `--cfg atomseq_sanitized` by `.ci/run`, an unordered access ends
//! it.
//!
//! The sanitizer does not see into sequences, which are assembly, and which only one thread ever
//! works on. A handler must not interrupt the sanitizer's own code (it hangs), and its replacement
//! of `sigaction`, which sees to that, hides from atomseq whose handler is installed. So handlers
//! are installed behind its back, and signals are let in where that does no harm. Nothing is
//! suppressed.

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
    println!("sanitized: does not apply, for signals are not handled so here");
}

#[cfg(atomseq_sections)]
mod meeting {
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use atomseq::signal;
    use verify_stress::storm::arena::{Arena, Settlement};
    use verify_stress::storm::senders::{self, SENT, TIMER, Timer, Victim, queued};
    use verify_stress::storm::sequences::Protected;
    use verify_stress::storm::trial;

    /// Asks for the race that must be found.
    pub const RACE: &str = "race";

    /// What the C library calls `sigaction`, too, and the sanitizer does not replace.
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

    /// At least so many handlers come and go meanwhile.
    const CHANGES: u64 = 20;

    pub fn storm() {
        trial::install::<Protected>();
        // Inherited by every thread from here on.
        block();
        let victims: [Victim; WORKERS] = Default::default();
        let (calm, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let (settlement, sent, changes) = thread::scope(|scope| {
            let changing = scope.spawn(|| change_until(&over));
            let sending = scope.spawn(|| senders::send_until(&calm, &victims, &trial::POST));
            let mut settlement = Settlement::default();
            // Threads come and go.
            for _ in 0..8 {
                let working: Vec<_> = victims
                    .iter()
                    .map(|victim| scope.spawn(|| work(victim)))
                    .collect();
                let settlements = working
                    .into_iter()
                    .map(|worker| worker.join().expect("a worker"));
                settlement = settlements.fold(settlement, Settlement::and);
            }
            calm.store(true, Ordering::Relaxed);
            over.store(true, Ordering::Relaxed);
            let sent = sending.join().expect("the sibling");
            (settlement, sent, changing.join().expect("nothing panics"))
        });
        let (post, lost) = trial::POST.settle();
        println!(
            "sanitized: {} ThreadSanitizer: {} operations by threads, {} by handlers, {} wrong; {sent} signals sent, {post} with \
             values, {lost} lost; {} handled; {changes} handlers installed and removed",
            if cfg!(atomseq_sanitized) {
                "with"
            } else {
                "without"
            },
            settlement.by_thread,
            settlement.by_handlers,
            settlement.wrong,
            trial::delivered(),
        );
        assert_eq!(settlement.wrong + lost, 0);
        assert!(settlement.by_handlers > 100 && post > 10);
    }

    /// A thread that works, and lets signals in now and then.
    fn work(victim: &Victim) -> Settlement {
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
        arena.settle()
    }

    /// The signals that the workers are sent arrive only in [`open`].
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

    /// One pending signal arrives now, if there is one, inside one system call: between one that
    /// lets signals in and another that blocks them again, handlers would interrupt the sanitizer's
    /// own code, which writes down every function that runs.
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

    /// Installs and removes a handler, and looks at everything that others change.
    fn change_until(over: &AtomicBool) -> u64 {
        let number = libc::SIGRTMIN() + 5;
        let mut changes = 0;
        while changes < CHANGES || !over.load(Ordering::Relaxed) {
            // SAFETY: a handler that does nothing.
            unsafe { signal::install(number, |_| {}) }.expect("a signal that nobody else manages");
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

    /// Two threads, one word, no order.
    pub fn race() {
        struct Word(std::cell::UnsafeCell<u64>);
        // SAFETY: it is not: that is what is to be found out.
        unsafe impl Sync for Word {}
        static WORD: Word = Word(std::cell::UnsafeCell::new(0));
        let add = || {
            // SAFETY: a word; that two threads add to it is what is to be found out.
            (0..1000).for_each(|_| unsafe { *WORD.0.get() += 1 });
        };
        thread::scope(|scope| {
            scope.spawn(add);
            scope.spawn(add);
        });
    }

    /// The sanitizer finds that race.
    pub fn control() {
        let program = std::env::current_exe().expect("a program knows its own path");
        let output = Command::new(program)
            .arg(RACE)
            .output()
            .expect("a program can start itself");
        let report = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && report.contains("data race"),
            "not found: {report}"
        );
        println!("sanitized: the control's race is found");
    }
}
