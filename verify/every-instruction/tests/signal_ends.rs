//! Lets signals that deferral has not blocked arrive at each instruction of the code that begins
//! and ends masks; their handlers use masks. Without the code that sets the unfinished operation
//! aside, the harness finds handlers interrupted. Forks are made at each instruction as well.

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod ends {
    use atomseq::internals::signal_controls;
    use verify_every_instruction::conclude;
    use verify_every_instruction::signals::ends::{self, Ends, OPERATIONS};

    const CONTROL: &str = "without-setting-aside";

    /// What the control finds. It ends as soon as it has found both.
    const KINDS: [&str; 2] = [
        "in the middle of a handler",
        "not blocked where they must be",
    ];

    fn is_found(violations: &[String], kind: &str) -> bool {
        violations.iter().any(|violation| violation.contains(kind))
    }

    /// Debug builds have many instructions. (Not a multiple of the number of signals, which take
    /// turns.)
    const EVERY: usize = if cfg!(debug_assertions) { 389 } else { 1 };

    pub fn main() {
        let is_control = std::env::args().any(|argument| argument == CONTROL);
        if is_control {
            // SAFETY: this process exists to show what happens then.
            unsafe { signal_controls::set(signal_controls::SETTING_ASIDE) };
        }
        ends::install_handlers();
        let mut all = Ends::default();
        for operation in OPERATIONS {
            let mut ends = Ends::default();
            ends.check(&operation, EVERY);
            if !is_control {
                ends.check_forks(&operation, EVERY);
            }
            let (runs, violations) = (ends.runs, ends.violations.len());
            println!("{}: {runs} runs; {violations} violations", operation.name);
            all.runs += runs;
            all.violations.append(&mut ends.violations);
            if is_control && KINDS.iter().all(|kind| is_found(&all.violations, kind)) {
                break;
            }
        }
        let name = if is_control { CONTROL } else { "ends of masks" };
        let (runs, violations) = (all.runs, all.violations.len());
        println!("{name}: {runs} instructions met signals; {violations} violations");
        if is_control {
            for kind in KINDS {
                assert!(is_found(&all.violations, kind), "{kind}");
            }
            return;
        }
        conclude(&all.violations, &[CONTROL]);
    }
}

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
fn main() {
    ends::main();
}

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
fn main() {
    println!("ends of masks: do not apply, for sequences are not built so here");
}
