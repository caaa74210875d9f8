//! Interrupts sequences at each of their instructions and compares the outcome with uninterrupted
//! runs.
//!
//! `verify_support::code` finds the sequences of the running program by the descriptors that the
//! kernel itself uses, and plants a breakpoint on one instruction. The signal that it raises makes
//! the kernel abort the section, exactly as a preemption there would. [`scenario`] defines
//! operations, their interferences, and the correct outcomes; [`checker`] runs them at every
//! instruction; [`registry`] holds a scenario for each operation of the library. [`signals`] does
//! the same for the forms that are atomic against signal handlers.
//!
//! For x86-64 Linux with sections only; elsewhere the crate is empty and its tests say so.

#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

use verify_support::processes::passes_in_own_process;

pub mod checker;
pub mod gate;
pub mod reach;
pub mod registry;
pub mod scenario;
pub mod signals;
pub mod slow_path;

/// Prints the first violations. Ends the process with 1 if there is one, or if one of the controls
/// does not pass in a process of its own.
pub fn conclude(violations: &[String], controls: &[&str]) {
    for violation in violations.iter().take(40) {
        println!("violation: {violation}");
    }
    let have_passed = controls
        .iter()
        .filter(|control| passes_in_own_process(control));
    if have_passed.count() < controls.len() || !violations.is_empty() {
        std::process::exit(1);
    }
}

/// Prints what was set aside and what no scenario reached, and concludes.
pub fn conclude_all(aside: &[String], missed: Vec<String>, violations: &[String]) {
    if !aside.is_empty() {
        println!(
            "set aside, for nothing in the program leads to these copies: {}",
            aside.join(", ")
        );
    }
    for missed in &missed {
        println!("never interrupted: {missed}");
    }
    conclude(violations, &[]);
    if !missed.is_empty() {
        std::process::exit(1);
    }
}

/// A sequence over three words, for the tests of deliveries.
#[macro_export]
macro_rules! change_three_words {
    () => {
        atomseq::sequence! {
            /// Changes three words, each independently.
            unsafe fn change(words: Word) {
                let first = load(words);
                store(words, first + 1);
                let second = load(words + 8);
                store(words + 8, second + 1);
                let third = load(words + 16);
                store(words + 16, third + 1);
            }
        }
    };
}

/// Another one.
#[macro_export]
macro_rules! sum_three_words {
    () => {
        atomseq::sequence! {
            /// Adds three words up in the first of them.
            unsafe fn sum(words: Word) -> Word {
                let first = load(words);
                let second = load(words + 8);
                let third = load(words + 16);
                let both = first + second;
                commit(words, both + third);
                both
            }
        }
    };
}
