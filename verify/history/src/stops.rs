//! Stops at single instructions: a breakpoint that whoever comes by first takes away, and meets.
//!
//! ```text
//! any thread   … mov ─ int3                handler: byte back, act, return ─ the instruction, or the section's abort
//! kernel              └ signal; in a section: instruction pointer = abort address
//! ```
//!
//! Which instructions an operation comes by is found by running it one instruction at a time, and
//! by the descriptors of its sections (`verify/every-instruction` does both). Instructions in the
//! standard library's functions are left out, since handlers use those too; and what runs with
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
    //! Where there are no stops.

    /// Places to stop at: none.
    #[derive(Clone, Debug, Default)]
    pub struct Places(());

    impl Places {
        /// Adds none.
        pub fn add(&mut self, _entry: usize, _operation: impl FnMut()) {}

        /// Nothing to do.
        pub fn ready(&self) {}

        /// None.
        pub fn len(&self) -> usize {
            0
        }

        /// There are none.
        pub fn is_empty(&self) -> bool {
            true
        }

        /// Nothing is planted.
        pub fn plant(&self, _index: usize, _met: fn()) -> Option<Stop> {
            None
        }

        /// No such place.
        pub fn describe(&self, _index: usize) -> String {
            String::new()
        }
    }

    /// A stop that cannot be.
    #[derive(Debug)]
    pub enum Stop {}

    impl Stop {
        /// Never.
        pub fn lift(self) -> bool {
            match self {}
        }
    }

    /// None are taken.
    pub fn steps() -> u64 {
        0
    }
}
#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
pub use absent::{Places, Stop, steps};
