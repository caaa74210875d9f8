//! x86-64: an undefined instruction for which the assembler encodes operands.
//!
//! ```text
//! ud1 result, dword ptr [address + 0x53415441]      raises #UD and touches no memory
//!
//!   4x    0f b9    mod reg r/m    (24)    41 54 41 53
//!   |     |        |              |       the displacement: a signature, no part of the address
//!   |     |        |              where r/m is 100 (rsp, r12): the base alone, no index
//!   |     |        10, result, address
//!   |     ud1
//!   REX, there if one of the registers is r8 to r15: R extends result, B address
//! ```
//!
//! Registers are numbered as in the encoding: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.

use core::arch::asm;
use core::ffi::c_void;

use super::Instruction;

/// "ATAS" in memory.
const SIGNATURE: u32 = 0x5341_5441;

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
            "ud1 {old:e}, dword ptr [{word} + {signature}]", // traps; the handler continues after it
            old = lateout(reg) old,
            word = in(reg) word,
            signature = const SIGNATURE,
            options(nostack, preserves_flags),
        );
    }
    old
}

/// Decodes the instruction by reading its bytes through `byte`, at distances from the program
/// counter. Reads each byte only if those before it match.
pub fn decode(byte: impl Fn(usize) -> u8) -> Option<Instruction> {
    let mut at = 0;
    let mut next = || {
        at += 1;
        byte(at - 1)
    };
    let first = next();
    let (rex, opcode) = match first {
        0x40..=0x47 => (first, next()),
        other => (0x40, other),
    };
    if opcode != 0x0f || next() != 0xb9 {
        return None;
    }
    let modrm = next();
    if modrm >> 6 != 0b10 {
        return None;
    }
    let mut base = modrm & 7;
    if base == 0b100 {
        let sib = next();
        // Requires that there is no index: its field is 100, and X, which would make it r12, is
        // clear.
        if sib >> 3 & 7 != 0b100 || rex & 2 != 0 {
            return None;
        }
        base = sib & 7;
    }
    if SIGNATURE.to_le_bytes().iter().any(|&part| next() != part) {
        return None;
    }
    Some(Instruction {
        address: base | (rex & 1) << 3,
        result: modrm >> 3 & 7 | (rex & 4) << 1,
        length: at,
    })
}

/// The place where the kernel saves each register.
const SAVED: [i32; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// The registers of an interrupted thread.
pub struct Registers(*mut libc::ucontext_t);

impl Registers {
    /// # Safety
    ///
    /// `context` must be the context that the kernel gave the handler that uses this.
    pub unsafe fn new(context: *mut c_void) -> Registers {
        Registers(context.cast())
    }

    fn place(&self, register: i32) -> *mut u64 {
        // SAFETY: the context is valid, by the contract of `new`, so the register is inside it;
        // this only computes an address.
        unsafe { (&raw mut (*self.0).uc_mcontext.gregs[register as usize]).cast() }
    }

    /// Returns the value of a register.
    pub fn get(&self, register: u8) -> u64 {
        // SAFETY: the place is an aligned word in a valid context.
        unsafe { self.place(SAVED[usize::from(register)]).read() }
    }

    /// Sets a register. As for every 32-bit result, the upper half becomes 0.
    pub fn set(&self, register: u8, value: u32) {
        // SAFETY: the place is an aligned word in a valid context, which the handler owns.
        unsafe {
            self.place(SAVED[usize::from(register)])
                .write(u64::from(value))
        }
    }

    /// Returns the address of the next instruction.
    pub fn program_counter(&self) -> usize {
        // SAFETY: the place is an aligned word in a valid context.
        unsafe { self.place(libc::REG_RIP).read() as usize }
    }

    /// Moves the program counter past an instruction.
    pub fn skip(&self, length: usize) {
        // SAFETY: the place is an aligned word in a valid context, which the handler owns.
        unsafe {
            self.place(libc::REG_RIP)
                .write((self.program_counter() + length) as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Option<Instruction> {
        decode(|at| bytes[at])
    }

    #[test]
    fn operands_are_read_as_they_are_encoded() {
        for (bytes, address, result) in [
            // ud1 eax, [rdi + …]; ud1 r9d, [r15 + …]; ud1 edx, [rsp + …]; ud1 r12d, [r12 + …]; ud1
            // ebx, [r13 + …]
            (&[0x0f, 0xb9, 0x87, 0x41, 0x54, 0x41, 0x53][..], 7, 0),
            (&[0x45, 0x0f, 0xb9, 0x8f, 0x41, 0x54, 0x41, 0x53], 15, 9),
            (&[0x0f, 0xb9, 0x94, 0x24, 0x41, 0x54, 0x41, 0x53], 4, 2),
            (
                &[0x45, 0x0f, 0xb9, 0xa4, 0x24, 0x41, 0x54, 0x41, 0x53],
                12,
                12,
            ),
            (&[0x41, 0x0f, 0xb9, 0x9d, 0x41, 0x54, 0x41, 0x53], 13, 3),
        ] {
            let instruction = Instruction {
                address,
                result,
                length: bytes.len(),
            };
            assert_eq!(decoded(bytes), Some(instruction), "{bytes:x?}");
        }
    }

    #[test]
    fn what_is_none_is_left_alone_and_not_read_further() {
        for bytes in [
            // ud2; a REX prefix before something else; another ud1; another displacement; an index;
            // only a prefix
            &[0x0f, 0x0b][..],
            &[0x41, 0x90],
            &[0x0f, 0xb9, 0x40],
            &[0x0f, 0xb9, 0x87, 0x41, 0x54, 0x41, 0x54],
            &[0x0f, 0xb9, 0x94, 0x0c],
            &[0x42, 0x0f, 0xb9, 0x94, 0x24],
            &[0xf3],
        ] {
            assert_eq!(decoded(bytes), None, "{bytes:x?}");
        }
    }
}
