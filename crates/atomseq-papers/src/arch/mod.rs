//! The pseudo-instruction of `emulation::Trap`, and what `rollforward` knows of instructions: one
//! file for each architecture, with the same names in each.
//!
//! | name | what it is |
//! |---|---|
//! | `test_and_set` | executes the instruction |
//! | `decode` | decodes the bytes at an address, if they are the instruction |
//! | `Registers` | the registers of the thread that the kernel interrupted |
//! | `REGISTER` | the number of the well-known register in the kernel's order |
//! | `JUMP` | the bytes of a jump through it |
//! | `read` | reads code that another thread may rewrite |
//! | `step` | decodes an instruction of a sequence |
//! | `landmark`, `LANDMARK_BYTES` | decodes the landmark of a designated sequence; its length |
//! | `write_trap`, `remove_trap` | rewrite the first instruction of a landmark |
//! | `trap_address`, `TRAP_CODE` | where the trap stands that stopped a thread; the signal's code |
//! | `FAULTING` | an address that no process can access |
//! | `back` | where a sequence that is rolled forward returns to the handler |

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

/// A decoded instruction of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The length in bytes.
    pub bytes: usize,
    /// The distance from the instruction to the target, if it is a conditional branch.
    pub branch: Option<isize>,
    /// Whether it reads or writes the well-known register.
    pub uses_register: bool,
}

unsafe extern "C" {
    #[link_name = "atomseq_papers_back"]
    static BACK: u8;
}

/// Returns the address at which a sequence that is rolled forward returns to the handler: it does
/// there what the end of a clone does.
pub fn back() -> usize {
    &raw const BACK as usize
}
