//! The pseudo-instruction of `emulation::Trap`, one file an architecture, with the same names in
//! each.
//!
//! | name | what it is |
//! |---|---|
//! | `test_and_set` | executes it |
//! | `decode` | what the bytes at an address say, if they are one |
//! | `Registers` | those of the thread that the kernel interrupted |

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub use aarch64::*;

/// A decoded pseudo-instruction. Registers are numbered as in its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Holds the address of the variable.
    pub address: u8,
    /// Gets the variable's old value.
    pub result: u8,
    /// In bytes.
    pub length: usize,
}
