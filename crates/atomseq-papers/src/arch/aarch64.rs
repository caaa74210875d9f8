//! AArch64: a permanently undefined instruction, followed by one that encodes the operands and is
//! never executed.
//!
//! ```text
//! udf #0x5341               raises an exception; its number is a signature
//! ldr result, [address]     1011100101 000000000000 address result
//! ```
//!
//! Register 31 is the stack pointer as an address, and the zero register as a result.

use core::arch::{asm, global_asm};
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

use atomseq::internals::inspect;

use super::{Instruction, Step};

/// `udf` is a word whose upper half is 0.
const UDF: u32 = 0x0000_5341;

/// `ldr wN, [xM]`, without the registers.
const LDR: u32 = 0xb940_0000;

/// Sets the word to 1 and returns its old value.
///
/// # Safety
///
/// The handler must be installed. If the program may write the word, only atomic instructions may
/// access it.
#[inline(always)]
pub unsafe fn test_and_set(word: *mut u32) -> u32 {
    let old: u32;
    // SAFETY: the handler sets the word if the program may write it, and raises a fault otherwise.
    // It changes no other register, no flag, and nothing on the stack.
    unsafe {
        asm!(
            "udf #{signature}",      // traps; the handler continues after the ldr
            "ldr {old:w}, [{word}]", // the operands
            old = lateout(reg) old,
            word = in(reg) word,
            signature = const UDF,
            options(nostack, preserves_flags),
        );
    }
    old
}

/// Decodes the instruction by reading its bytes through `byte`, at distances from the program
/// counter. Reads the second word only if the first matches.
pub fn decode(byte: impl Fn(usize) -> u8) -> Option<Instruction> {
    let word = |at| u32::from_le_bytes([byte(at), byte(at + 1), byte(at + 2), byte(at + 3)]);
    if word(0) != UDF {
        return None;
    }
    let operands = word(4);
    (operands & !0x3ff == LDR).then_some(Instruction {
        address: (operands >> 5 & 31) as u8,
        result: (operands & 31) as u8,
        length: 8,
    })
}

/// The registers of an interrupted thread.
pub struct Registers(*mut libc::ucontext_t);

impl Registers {
    /// # Safety
    ///
    /// `context` must be the context that the kernel gave the handler that uses this.
    pub unsafe fn new(context: *mut c_void) -> Registers {
        Registers(context.cast())
    }

    /// Returns the value of a register that holds an address.
    pub fn get(&self, register: u8) -> u64 {
        // SAFETY: the context is valid, by the contract of `new`, and the register is below 32.
        unsafe {
            match register {
                31 => (*self.0).uc_mcontext.sp,
                _ => (&raw const (*self.0).uc_mcontext.regs[usize::from(register)]).read(),
            }
        }
    }

    /// Sets a register that receives a result. As for every 32-bit result, the upper half becomes
    /// 0.
    pub fn set(&self, register: u8, value: u32) {
        if register < 31 {
            // SAFETY: the context is valid, by the contract of `new`, and owned by the handler; the
            // register is inside it.
            unsafe {
                (&raw mut (*self.0).uc_mcontext.regs[usize::from(register)])
                    .write(u64::from(value));
            }
        }
    }

    /// Returns the address of the next instruction.
    pub fn program_counter(&self) -> usize {
        // SAFETY: the context is valid, by the contract of `new`.
        unsafe { (*self.0).uc_mcontext.pc as usize }
    }

    /// Moves the program counter past an instruction.
    pub fn skip(&self, length: usize) {
        // SAFETY: the context is valid, by the contract of `new`, and owned by the handler.
        unsafe { (*self.0).uc_mcontext.pc += length as u64 };
    }
}

/// x17, in the kernel's order.
pub const REGISTER: usize = 17;

/// br x17
pub const JUMP: &[u8] = &[0x20, 0x02, 0x1f, 0xd6];

/// Reads four instructions; those from `limit` on are 0. Another thread may rewrite a landmark
/// meanwhile: each instruction is read as a whole, and is the old or the new one.
///
/// # Safety
///
/// `from` is the address of an instruction, and the bytes below `limit` can be read.
pub unsafe fn read(from: usize, limit: usize) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (index, instruction) in bytes.chunks_exact_mut(4).enumerate() {
        let at = from + 4 * index;
        if at < limit {
            // SAFETY: the caller's promise.
            let word = unsafe { (at as *const u32).read_volatile() };
            instruction.copy_from_slice(&word.to_le_bytes());
        }
    }
    bytes
}

/// Decodes an instruction of a sequence: one that the compiler writes, or the move that sets the
/// status of an early return, which `HybJump` has inside.
pub fn step(code: &[u8]) -> Option<Step> {
    let word = u32::from_le_bytes(*code.first_chunk()?);
    // movz w, #
    if word & 0xffe0_0000 == 0x5280_0000 {
        return Some(Step {
            bytes: 4,
            branch: None,
            uses_register: uses_register(word),
        });
    }
    let (bytes, branch) = inspect::decode(code)?;
    Some(Step {
        bytes,
        branch,
        uses_register: uses_register(word),
    })
}

/// Returns whether an instruction that `inspect` knows names x17. Its class says which fields are
/// registers.
fn uses_register(word: u32) -> bool {
    let names = |shift: u32| word >> shift & 31 == REGISTER as u32;
    match word >> 25 & 15 {
        // data processing with registers: the result and both operands
        0b0101 | 0b1101 => names(0) || names(5) || names(16),
        // a move of an immediate has no operand
        0b1000 | 0b1001 if word >> 23 & 7 == 0b101 => names(0),
        // a conditional branch by the flags names none, the others one
        0b1010 | 0b1011 => word >> 24 != 0x54 && names(0),
        // data processing with an immediate; loads and stores
        _ => names(0) || names(5),
    }
}

/// The bytes of the landmark: nop, then a movz to the zero register.
pub const LANDMARK_BYTES: usize = 8;

/// nop, and the trap that is written over it: brk #0x5353. The architecture allows to rewrite the
/// one with the other while other CPUs execute it.
const NOP: u32 = 0xd503_201f;
const TRAP: u32 = 0xd42a_6a60;

/// Decodes a landmark, with a trap over it or not; returns the length of its sequence.
pub fn landmark(code: &[u8]) -> Option<usize> {
    let word = |at: usize| Some(u32::from_le_bytes(*code.get(at..)?.first_chunk()?));
    let (first, second) = (word(0)?, word(4)?);
    let is_landmark = matches!(first, NOP | TRAP) && second & 0xffe0_001f == 0xd280_001f;
    is_landmark.then_some((second >> 5 & 0xffff) as usize)
}

/// Writes the trap over a landmark.
///
/// # Safety
///
/// The landmark's page is writable.
pub unsafe fn write_trap(landmark: usize) {
    // SAFETY: the caller's promise.
    unsafe { write(landmark, TRAP) };
}

/// Restores the landmark.
///
/// # Safety
///
/// The landmark's page is writable.
pub unsafe fn remove_trap(landmark: usize) {
    // SAFETY: the caller's promise.
    unsafe { write(landmark, NOP) };
}

/// Writes one instruction, and makes every CPU fetch it.
///
/// # Safety
///
/// As for `write_trap`.
unsafe fn write(landmark: usize, instruction: u32) {
    // SAFETY: the caller's promise; code is otherwise read by the processor and by `step` only.
    let place = unsafe { AtomicU32::from_ptr(landmark as *mut u32) };
    // Relaxed: the barriers below order it.
    place.store(instruction, Ordering::Relaxed);
    // SAFETY: these clean and invalidate caches for an address that is mapped.
    unsafe {
        asm!(
            "dc cvau, {place}", // the data cache, to where instructions are fetched from
            "dsb ish",          // it is done
            "ic ivau, {place}", // the instruction caches
            "dsb ish",          // it is done
            "isb",              // this CPU fetches again
            place = in(reg) landmark,
            options(nostack, preserves_flags),
        );
    }
}

/// The code of the signal that brk raises: TRAP_BRKPT.
pub const TRAP_CODE: i32 = 1;

/// Returns where the brk stands that left a thread at this program counter.
pub fn trap_address(pc: usize) -> usize {
    pc
}

/// An address of the kernel's half, whose upper byte is ignored.
pub const FAULTING: usize = 1 << 55;

global_asm!(
    ".pushsection .text.atomseq_papers_back,\"ax\",@progbits",
    ".balign 4",
    ".globl atomseq_papers_back",
    ".hidden atomseq_papers_back",
    ".type atomseq_papers_back, @function",
    "atomseq_papers_back:",
    "adr x16, . + 16",   // the place behind, as the end of a clone hands it over
    "str x16, [sp, #8]", // hand it over
    "ldr x16, [sp]",     // the handler
    "ret x16",           // to it
    ".size atomseq_papers_back, . - atomseq_papers_back",
    ".popsection",
);

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(words: &[u32]) -> Option<Instruction> {
        decode(|at| words[at / 4].to_le_bytes()[at % 4])
    }

    #[test]
    fn operands_are_read_as_they_are_encoded() {
        // ldr w9, [x21]; ldr wzr, [sp]
        for (operands, address, result) in [(0xb940_02a9, 21, 9), (0xb940_03ff, 31, 31)] {
            let instruction = Instruction {
                address,
                result,
                length: 8,
            };
            assert_eq!(decoded(&[UDF, operands]), Some(instruction));
        }
    }

    #[test]
    fn what_is_none_is_left_alone_and_not_read_further() {
        // udf #0; nop; ldr w9, [x21, #4]; ldr x9, [x21]
        assert_eq!(decoded(&[0]), None);
        assert_eq!(decoded(&[0xd503_201f]), None);
        assert_eq!(decoded(&[UDF, 0xb940_06a9]), None);
        assert_eq!(decoded(&[UDF, 0xf940_02a9]), None);
    }

    #[test]
    fn a_use_of_the_register_is_found_in_every_operand() {
        for (word, uses_register) in [
            // ldr x17, [x0]; str x1, [x17, #8]; add x0, x1, x17; cbz x17, 8; movz x17, #1
            (0xf940_0011_u32, true),
            (0xf900_0621, true),
            (0x8b11_0020, true),
            (0xb400_0051, true),
            (0xd280_0031, true),
            // mov w17, #1
            (0x5280_0031, true),
            // ldr x0, [x1, #136]; movz x0, #544; cbz x0, 8; b.eq 8; add x0, x1, #68
            (0xf940_4420, false),
            (0xd280_4400, false),
            (0xb400_0040, false),
            (0x5400_0040, false),
            (0x9101_1020, false),
            // mov w9, #1
            (0x5280_0029, false),
        ] {
            let found = step(&word.to_le_bytes()).map(|step| step.uses_register);
            assert_eq!(found, Some(uses_register), "{word:x}");
        }
    }
}
