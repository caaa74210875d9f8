//! The pseudo-instruction of `emulation::Trap`: one file for each architecture, with the same names
//! in each.
//!
//! | name | what it is |
//! |---|---|
//! | `test_and_set` | executes the instruction |
//! | `decode` | decodes the bytes at an address, if they are the instruction |
//! | `Registers` | the registers of the thread that the kernel interrupted |

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
    /// The register that holds the address of the variable.
    pub address: u8,
    /// The register that receives the variable's old value.
    pub result: u8,
    /// The length in bytes.
    pub length: usize,
}
