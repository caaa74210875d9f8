//! Lets signals that cannot be blocked arrive at each instruction of a fault's delivery, including
//! its return: no handler finds an incomplete sequence without being informed. Without the
//! protection of deliveries, the same harness finds some that do.

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod deliveries {
    use atomseq::internals::signal_controls;
    use verify_every_instruction::conclude;
    use verify_every_instruction::signals::Findings;
    use verify_every_instruction::signals::faults::{self, By, Case};

    verify_every_instruction::change_three_words!();

    #[inline(never)]
    fn change_rolling(words: usize) {
        // SAFETY: three words that nothing else changes.
        unsafe { change::rolling(words) };
    }

    #[inline(never)]
    fn write(words: usize) {
        let words = words as *mut usize;
        // SAFETY: three words that nothing else changes. The second one faults; the sequence has
        // not begun for a handler that runs before.
        unsafe {
            words.add(1).write_volatile(0);
            words.cast::<[usize; 3]>().write_volatile([1; 3]);
        }
    }

    const CASE: Case = Case {
        name: "a fault",
        by: By::Library,
        is_in_clone: false,
        is_given_up: false,
        is_masked: false,
        call: change_rolling,
    };

    const CASES: [Case; 8] = [
        Case {
            name: "a fault that others handle",
            by: By::Others,
            ..CASE
        },
        Case {
            name: "a clone's fault that others handle",
            by: By::Others,
            is_in_clone: true,
            ..CASE
        },
        CASE,
        Case {
            name: "a clone's fault",
            is_in_clone: true,
            ..CASE
        },
        Case {
            name: "a clone's fault that is not mended",
            is_in_clone: true,
            is_given_up: true,
            ..CASE
        },
        Case {
            name: "a clone's fault that is not mended, in a mask",
            is_in_clone: true,
            is_given_up: true,
            is_masked: true,
            ..CASE
        },
        Case {
            name: "a fault whose handler lets others in",
            by: By::NoDefer,
            ..CASE
        },
        Case {
            name: "a fault outside of sequences whose handler lets others in",
            by: By::NoDefer,
            call: write,
            ..CASE
        },
    ];

    const CONTROL: &str = "without-noticing-deliveries";

    pub fn main() {
        let is_control = std::env::args().any(|argument| argument == CONTROL);
        if is_control {
            // SAFETY: this process exists to show what happens then; nothing that is shared is a
            // pointer.
            unsafe { signal_controls::set(signal_controls::NESTED) };
        }
        faults::install_handlers();
        let mut all = Findings::of_this_program();
        for case in CASES.iter().take(if is_control { 1 } else { CASES.len() }) {
            let (runs, violations) = (all.runs, all.violations.len());
            faults::check(&mut all, *case);
            let (runs, violations) = (all.runs - runs, all.violations.len() - violations);
            println!("{}: {runs} runs; {violations} violations", case.name);
        }
        let name = if is_control {
            CONTROL
        } else {
            "deliveries of faults"
        };
        let (places, runs, violations) = (all.places, all.runs, all.violations.len());
        println!(
            "{name}: {places} instructions met signals, in {runs} runs; {violations} violations"
        );
        if is_control {
            let is_found = |violation: &String| violation.contains("does not learn it");
            assert!(all.violations.iter().any(is_found));
            return;
        }
        conclude(&all.violations, &[CONTROL]);
    }
}

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
fn main() {
    deliveries::main();
}

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
fn main() {
    println!("deliveries of faults: do not apply, for sequences are not built so here");
}
