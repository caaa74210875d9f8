//! Interrupts every sequence in this program at each of its instructions.

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
fn main() {
    use verify_every_instruction::checker::Checker;
    use verify_every_instruction::registry;
    use verify_support::code::sections_run;
    use verify_support::code::table::{self, Program};

    if !sections_run("every instruction") {
        return;
    }
    // The self-test of start-up is not a sequence: it runs with signals blocked, and every start
    // interrupts it.
    let (sequences, others): (Vec<_>, Vec<_>) = Program::this()
        .windows(table::SECTION)
        .into_iter()
        .partition(|window| {
            !(window.name.starts_with("__atomseq_") && window.name.ends_with("_watch"))
        });
    assert_eq!(others.len(), 1, "one self-test: {others:?}");
    let mut checker = Checker::new(sequences);
    registry::check(&mut checker);
    registry::check_claims(&mut checker);
    let aside = checker.set_unreachable_aside();
    let (hit, all) = checker.pairs();
    println!(
        "every instruction: {} windows; {hit} of {all} (window, instruction) pairs interrupted, in {} runs; \
         {} gates met closed; {} violations",
        checker.windows().len(),
        checker.runs,
        checker.gates(),
        checker.violations.len()
    );
    verify_every_instruction::conclude_all(&aside, checker.missed(), &checker.violations);
}

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
fn main() {
    println!("every instruction: does not apply, for sections are not built here");
}
