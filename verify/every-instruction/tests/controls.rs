//! Sequences with one fault each, which the same harness must catch; and one without, which it must
//! pass.
//!
//! Written by hand, for `sequence!` refuses them. Their descriptors lie in a section of their own.

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod faulty;

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
fn main() {
    use verify_every_instruction::checker::Checker;
    use verify_every_instruction::platform;
    use verify_every_instruction::scenario::{Check, Scenario};
    use verify_every_instruction::table::Program;

    if !platform::sections_run("controls") {
        return;
    }
    let mut wrong = false;
    for control in faulty::CONTROLS {
        let windows = Program::this()
            .windows(faulty::SECTION)
            .into_iter()
            .filter(|window| window.name.ends_with(control.symbol))
            .collect();
        let mut checker = Checker::new(windows);
        assert_eq!(checker.windows().len(), 1, "{}", control.symbol);
        // What no scenario has reached is told.
        let missed = checker.missed();
        let all = checker.windows()[0].boundaries.len();
        assert!(missed.len() > all && missed.iter().all(|text| text.contains(control.symbol)));
        checker.check(&Scenario {
            name: control.symbol.to_string(),
            fresh: faulty::fresh,
            operation: control.operation,
            interferences: &[("an addition", faulty::add_correctly)],
            whole: true,
            signal_safe: true,
            content: faulty::content,
            total: faulty::total,
        });
        let (hit, all) = checker.pairs();
        let count = checker.violations.len();
        let found = match control.violation {
            None => count == 0,
            Some(text) => checker.violations.iter().any(|found| found.contains(text)),
        };
        println!(
            "control {}: {hit} of {all} instructions interrupted, {count} violations in {} runs{}",
            control.symbol,
            checker.runs,
            if found { "" } else { ": WRONG" }
        );
        if !found || hit != all {
            wrong = true;
            for violation in &checker.violations {
                println!("  {violation}");
            }
        }
    }
    if wrong {
        std::process::exit(1);
    }
}

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
fn main() {
    println!("controls: does not apply, for sections are not built here");
}
