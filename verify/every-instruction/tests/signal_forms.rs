//! Lets signals arrive at each instruction of every sequence in this program that is atomic against
//! handlers, and of every clone.

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
fn main() {
    use verify_every_instruction::signals::checker::Checker;
    use verify_every_instruction::signals::{deliver, registry, rows};
    use verify_support::code::table::Program;

    deliver::install_managed();
    let mut checker = Checker::new(rows::of(&Program::this()), true);
    registry::check(&mut checker);
    let aside = checker.set_unreachable_aside();
    let (pairs, clones) = (checker.pairs(), checker.clones());
    println!(
        "signal forms: {} sequences; {} of {} (sequence, instruction) pairs and {} of {} in clones met signals, in {} runs, \
         {} of them between sequences; \
         {} handlers came before the operation, {} after it; {} restarts, {} rollforwards, {} handlers interrupted in their own \
         sequences; {} violations",
        checker.rows().len(),
        pairs.0,
        pairs.1,
        clones.0,
        clones.1,
        checker.runs,
        checker.between,
        checker.outcomes[0],
        checker.outcomes[1],
        checker.counts.restarts,
        checker.counts.rollforwards,
        checker.nested,
        checker.violations.len()
    );
    if checker.twins() > 0 {
        println!(
            "{} of them are copies for types whose operations do not execute them; their twins were interrupted everywhere",
            checker.twins()
        );
    }
    verify_every_instruction::conclude_all(&aside, checker.missed(), &checker.violations);
}

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
fn main() {
    println!("signal forms: does not apply, for sequences are not built so here");
}
