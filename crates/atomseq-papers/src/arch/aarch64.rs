//! AArch64: a permanently undefined instruction, followed by one that encodes the operands and is
//! never executed.
//!
//! ```text
//! udf #0x5341               raises an exception; its number is a signature
//! ldr result, [address]     1011100101 000000000000 address result
//! ```
//!
//! Register 31 is the stack pointer as an address, and the zero register as a result.

use core::arch::asm;
use core::ffi::c_void;

use super::Instruction;

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
}
