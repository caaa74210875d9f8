//! Interrupts the slow path at each of its instructions, by handlers that operate on the same
//! structure.

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
fn main() {
    use std::time::Duration;

    use verify_every_instruction::registry;
    use verify_every_instruction::slow_path::SlowPath;
    use verify_support::code::sections_run;
    use verify_support::processes::this_program;
    use verify_support::watchdog::HUNG;

    const DISABLE: &str = "ATOMSEQ_DISABLE_RSEQ";
    let disabled = std::env::var_os(DISABLE).is_some();
    let control = std::env::args()
        .nth(1)
        .filter(|name| name.starts_with("deadlock"));
    if !disabled && !sections_run("slow path") {
        return;
    }
    let mut checker = SlowPath::new(Duration::from_secs(if control.is_some() { 1 } else { 20 }));
    if let Some(name) = control {
        deadlock::check(&name, &mut checker);
        return;
    }
    registry::check(&mut checker);
    registry::check_remote(&mut checker);
    if !disabled {
        registry::check_claims(&mut checker);
    }
    let (instructions, behind) = checker.instructions();
    println!(
        "slow path, {}: {instructions} instructions interrupted, {behind} of them after a stretch with signals blocked, in {} runs; \
         {} not met; {} violations",
        if disabled {
            "sections off"
        } else {
            "restart limit 0"
        },
        checker.runs,
        checker.unmet,
        checker.violations.len()
    );
    for violation in checker.violations.iter().take(20) {
        println!("violation: {violation}");
    }
    let mut failed = !checker.violations.is_empty() || behind == 0 || checker.unmet > 0;
    // No watchdog runs while this process waits for its children.
    drop(checker);
    if !disabled {
        let status = this_program()
            .env(DISABLE, "1")
            .status()
            .expect("a program can start itself");
        failed |= !status.success();
        for control in deadlock::CONTROLS {
            let output = this_program()
                .arg(control)
                .output()
                .expect("a program can start itself");
            let caught = output.status.code() == Some(HUNG);
            println!(
                "control {control}: {}",
                if caught { "caught" } else { "NOT CAUGHT" }
            );
            failed |= !caught;
        }
    }
    if failed {
        std::process::exit(1);
    }
}

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
fn main() {
    println!("slow path: does not apply, for sections are not built here");
}

/// Slow paths that a signal handler can interrupt with the lock held: the harness must find that
/// they hang.
#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod deadlock {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use atomseq::internals::SignalsBlocked;
    use verify_every_instruction::scenario::{Check, Operation, Scenario, Words};
    use verify_every_instruction::slow_path::SlowPath;

    /// Every control.
    pub const CONTROLS: [&str; 2] = ["deadlock-never-blocked", "deadlock-opened-too-late"];

    /// A word behind a lock.
    #[derive(Default)]
    struct Locked {
        taken: AtomicBool,
        word: AtomicU64,
    }

    impl Locked {
        fn add(&self) -> Words {
            while self.taken.swap(true, Ordering::Acquire) {
                std::hint::spin_loop();
            }
            self.word.fetch_add(1, Ordering::Relaxed);
            vec![]
        }

        fn open(&self) {
            self.taken.store(false, Ordering::Release);
        }
    }

    /// Leaves signals unblocked while the lock is held.
    fn add_unblocked(locked: &Locked) -> Words {
        let words = locked.add();
        locked.open();
        words
    }

    /// Unblocks signals before the lock is released.
    fn add_opened_too_late(locked: &Locked) -> Words {
        let quiet = SignalsBlocked::enter();
        let words = locked.add();
        drop(quiet);
        locked.open();
        words
    }

    /// Runs a control, which should not return.
    pub fn check(name: &str, checker: &mut SlowPath) {
        let operation: Operation<Locked> = match name {
            "deadlock-never-blocked" => add_unblocked,
            _ => add_opened_too_late,
        };
        let word: Operation<Locked> = |locked| vec![locked.word.load(Ordering::Relaxed)];
        checker.check(&Scenario {
            name: name.to_string(),
            fresh: Locked::default,
            operation,
            interferences: match name {
                "deadlock-never-blocked" => &[("the same", add_unblocked)],
                _ => &[("the same", add_opened_too_late)],
            },
            signal_safe: true,
            whole: true,
            content: word,
            total: word,
        });
    }
}
