//! Lets handlers that do not use the library jump out of another signal's delivery, at each of its
//! instructions: nothing of the delivery is left behind. Without the protection, the same harness
//! finds remains.

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod jumps {
    use atomseq::internals::signal_controls;
    use verify_every_instruction::conclude;
    use verify_every_instruction::signals::jumps::{self, Jumps, Part, Work};

    verify_every_instruction::change_three_words!();
    verify_every_instruction::sum_three_words!();

    static mut WORDS: [usize; 3] = [0; 3];

    fn words() -> [usize; 3] {
        // SAFETY: only this thread uses them; the sequences changed them behind the compiler's
        // back.
        unsafe { (&raw const WORDS).read_volatile() }
    }

    fn prepare() {
        // SAFETY: only this thread uses them.
        unsafe { (&raw mut WORDS).write_volatile([10, 20, 30]) };
    }

    #[inline(never)]
    extern "C" fn change_rolling() {
        // SAFETY: three words that only this thread and its sequences use.
        unsafe { change::rolling(&raw mut WORDS as usize) };
    }

    #[inline(never)]
    extern "C" fn sum_restarting() {
        // SAFETY: three words that only this thread and its sequences use.
        unsafe { sum::restarting(&raw mut WORDS as usize) };
    }

    const WORK: [Work; 4] = [
        Work {
            name: "a rolling sequence",
            call: change_rolling,
            in_mask: false,
            prepare,
            is_whole: || words() == [11, 21, 31],
        },
        Work {
            name: "a restarting sequence",
            call: sum_restarting,
            in_mask: false,
            prepare,
            is_whole: || words()[1..] == [20, 30] && matches!(words()[0], 10 | 60),
        },
        Work {
            name: "a rolling sequence in a mask",
            call: change_rolling,
            in_mask: true,
            prepare,
            is_whole: || words() == [11, 21, 31],
        },
        Work {
            name: "a restarting sequence in a mask",
            call: sum_restarting,
            in_mask: true,
            prepare,
            is_whole: || words()[1..] == [20, 30] && matches!(words()[0], 10 | 60),
        },
    ];

    /// The arguments of the processes that run one check each.
    const ALTERNATE_STACK: &str = "on-the-alternate-stack";
    const CONTROL: &str = "without-blocking-others";

    fn check(is_on_alternate_stack: bool) -> Jumps {
        jumps::install(is_on_alternate_stack);
        let mut jumps = Jumps::new(false);
        for work in WORK {
            jumps.check(work, Part::ToHandler);
            if !work.in_mask {
                jumps.check(work, Part::FromHandler);
            }
        }
        jumps.check_tables();
        jumps
    }

    fn report(name: &str, jumps: &Jumps) {
        println!(
            "jumps out of deliveries, {name}: {} instructions, in {} runs; {} violations",
            jumps.found.places,
            jumps.found.runs,
            jumps.found.violations.len()
        );
    }

    pub fn main() {
        let is_asked = |name| std::env::args().any(|argument| argument == name);
        if is_asked(CONTROL) {
            // SAFETY: this process exists to show what happens then.
            unsafe { signal_controls::set(signal_controls::FOREIGN) };
            jumps::install(false);
            let mut jumps = Jumps::new(true);
            jumps.check(WORK[0], Part::ToHandler);
            jumps.check_tables();
            let (violations, runs) = (jumps.found.violations.len(), jumps.found.runs);
            println!("control {CONTROL}: {violations} violations in {runs} runs");
            // One kind of violation for each thing that is left behind.
            for kind in ["overwritten", "not handled", "pages"] {
                let is_found = |violation: &String| violation.contains(kind);
                assert!(jumps.found.violations.iter().any(is_found), "{kind}");
            }
            return;
        }
        let name = match is_asked(ALTERNATE_STACK) {
            true => ALTERNATE_STACK,
            false => "on the thread's stack",
        };
        let jumps = check(name == ALTERNATE_STACK);
        report(name, &jumps);
        let others: &[&str] = match name {
            ALTERNATE_STACK => &[],
            _ => &[ALTERNATE_STACK, CONTROL],
        };
        conclude(&jumps.found.violations, others);
    }
}

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
fn main() {
    jumps::main();
}

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
fn main() {
    println!("jumps out of deliveries: do not apply, for sequences are not built so here");
}
