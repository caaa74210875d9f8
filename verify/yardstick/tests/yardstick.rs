//! Tests the hand-written structures, and measures the emitted ones by them.
//!
//! Slices of the two alternate (A B A B), pinned to one CPU; printed is the median of the ratios of
//! neighbours. The goal is 1.05; the test fails only far beyond it, for machines differ and have
//! other things to do.

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod compare;

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
fn main() {
    if !atomseq::status().is_active() {
        println!(
            "yardstick: does not apply, for sections do not run here ({})",
            atomseq::status()
        );
        return;
    }
    compare::counters_count();
    compare::stacks_keep_order();
    println!("yardstick: the hand-written counter and stack are correct");
    if cfg!(debug_assertions) {
        println!("yardstick: nothing is compared without optimization");
        return;
    }
    // Another load on the machine slows the two by different amounts: what is too slow is measured
    // again.
    for measure in [compare::counters, compare::stacks] {
        if (0..5).all(|_| measure() > compare::LIMIT) {
            println!("yardstick: a ratio is above {}", compare::LIMIT);
            std::process::exit(1);
        }
    }
}

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
fn main() {
    println!("yardstick: does not apply, for sections are not built here");
}
