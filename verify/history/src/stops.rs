//! Stops at single instructions: a breakpoint that the first thread to reach it removes, in its
//! handler.
//!
//! ```text
//! any thread   … mov ─ int3                handler: byte back, act, return ─ the instruction, or the section's abort
//! kernel              └ signal; in a section: instruction pointer = abort address
//! ```
//!
//! The instructions that an operation executes are found by single-stepping it, and from the
//! descriptors of its sections (`verify/every-instruction` does both). Instructions in functions of
//! the standard library are left out because handlers use those, too; so is code that runs with
//! signals blocked, where a breakpoint would end the process.
//!
//! x86-64 with sections only; elsewhere there are no such places.

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod breakpoint;
#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
pub(crate) use breakpoint::program;
#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
pub use breakpoint::{Places, Stop};
#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
pub use verify_support::code::trace::steps;
#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
pub mod ways;

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
mod absent {
    //! Where stops are not supported.

    /// Places to stop at: none.
    #[derive(Clone, Debug, Default)]
    pub struct Places(());

    impl Places {
        /// Adds none.
        pub fn add(&mut self, _entry: usize, _operation: impl FnMut()) {}

        /// Nothing to do.
        pub fn ready(&self) {}

        /// Returns 0.
        pub fn len(&self) -> usize {
            0
        }

        /// Returns `true`.
        pub fn is_empty(&self) -> bool {
            true
        }

        /// Plants nothing.
        pub fn plant(&self, _index: usize, _met: fn()) -> Option<Stop> {
            None
        }

        /// There is no such place.
        pub fn describe(&self, _index: usize) -> String {
            String::new()
        }
    }

    /// A stop that cannot exist.
    #[derive(Debug)]
    pub enum Stop {}

    impl Stop {
        /// Never called.
        pub fn lift(self) -> bool {
            match self {}
        }
    }

    /// Returns 0: no steps are taken.
    pub fn steps() -> u64 {
        0
    }
}
#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
pub use absent::{Places, Stop, steps};
