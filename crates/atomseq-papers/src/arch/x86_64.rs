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

use core::arch::{asm, global_asm};
use core::ffi::c_void;
use core::sync::atomic::{AtomicU8, Ordering};

use atomseq::internals::inspect;

use super::{Instruction, Step};

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

/// r11, in the kernel's order.
pub const REGISTER: usize = libc::REG_R11 as usize;

/// jmp r11
pub const JUMP: &[u8] = &[0x41, 0xff, 0xe3];

/// Reads 16 bytes of code; those from `limit` on are 0. Another thread may rewrite a landmark
/// meanwhile, of which one byte changes.
///
/// # Safety
///
/// The bytes below `limit` can be read.
pub unsafe fn read(from: usize, limit: usize) -> [u8; 16] {
    if from + 16 <= limit {
        // SAFETY: the caller's promise.
        return unsafe { (from as *const [u8; 16]).read_volatile() };
    }
    let mut bytes = [0; 16];
    for (index, byte) in bytes.iter_mut().enumerate() {
        if from + index < limit {
            // SAFETY: the caller's promise.
            *byte = unsafe { ((from + index) as *const u8).read_volatile() };
        }
    }
    bytes
}

/// The number of r11 in an encoding: the bit of a prefix, and the low three bits.
const R11: u8 = 3;

/// Decodes an instruction of a sequence: one that the compiler writes, with a short branch or a
/// long one.
pub fn step(code: &[u8]) -> Option<Step> {
    // jb, jae, je, jne, jbe, ja with a distance of one byte
    if let [0x72..=0x77, distance, ..] = *code {
        return Some(Step {
            bytes: 2,
            branch: Some(2 + isize::from(distance as i8)),
            uses_register: false,
        });
    }
    let (bytes, branch) = inspect::decode(code)?;
    Some(Step {
        bytes,
        branch,
        uses_register: branch.is_none() && uses_register(code),
    })
}

/// Returns whether an instruction that `inspect` knows names r11. Without a REX prefix it cannot.
fn uses_register(code: &[u8]) -> bool {
    let rex = code[0];
    if rex & 0xf0 != 0x40 {
        return false;
    }
    let (extends_register, extends_index, extends_base) =
        (rex & 4 != 0, rex & 2 != 0, rex & 1 != 0);
    let (opcode, at) = match code[1] {
        0x0f => (code[2], 3),
        opcode => (opcode, 2),
    };
    match (at, opcode) {
        // mov register, immediate
        (2, 0xb8..=0xbf) => return extends_base && opcode & 7 == R11,
        // an operation on rax and an immediate
        (2, 0x05 | 0x0d | 0x25 | 0x2d | 0x35 | 0x3d) => return false,
        _ => {}
    }
    // In a group the field of the register is an operation.
    let is_group = at == 2 && matches!(opcode, 0x81 | 0x83 | 0xc1 | 0xc7 | 0xd1 | 0xd3);
    let (mode, register, base) = (code[at] >> 6, code[at] >> 3 & 7, code[at] & 7);
    if !is_group && extends_register && register == R11 {
        return true;
    }
    if mode == 3 || base != 4 {
        return extends_base && base == R11;
    }
    let (index, base) = (code[at + 1] >> 3 & 7, code[at + 1] & 7);
    extends_index && index == R11 || extends_base && base == R11
}

/// The bytes of the landmark: nop dword ptr [rax + a displacement of four bytes].
pub const LANDMARK_BYTES: usize = 7;

/// The first byte of the landmark, and the trap that is written over it: int3.
const NOP: u8 = 0x0f;
const TRAP: u8 = 0xcc;

/// Decodes a landmark, with a trap over it or not; returns the length of its sequence.
pub fn landmark(code: &[u8]) -> Option<usize> {
    match *code {
        [NOP | TRAP, 0x1f, 0x80, low, high, 0x51, 0x53, ..] => {
            Some(usize::from(u16::from_le_bytes([low, high])))
        }
        _ => None,
    }
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

/// Writes one byte of code. Other CPUs execute the old instruction or the new one, because one byte
/// differs and one of the two is int3; this thread's next jump makes it see the new one.
///
/// # Safety
///
/// As for `write_trap`.
unsafe fn write(landmark: usize, byte: u8) {
    // SAFETY: the caller's promise; code is otherwise read by the processor and by `step` only.
    let place = unsafe { AtomicU8::from_ptr(landmark as *mut u8) };
    // SeqCst: ordered with the system calls around it on every CPU that executes the code.
    place.store(byte, Ordering::SeqCst);
}

/// The code of the signal that int3 raises: SI_KERNEL.
pub const TRAP_CODE: i32 = 0x80;

/// Returns where the int3 stands that left a thread at this program counter.
pub fn trap_address(pc: usize) -> usize {
    pc - 1
}

/// An address that is not canonical, whatever the size of an address space.
pub const FAULTING: usize = 1 << 62;

global_asm!(
    ".pushsection .text.atomseq_papers_back,\"ax\",@progbits",
    ".globl atomseq_papers_back",
    ".hidden atomseq_papers_back",
    ".type atomseq_papers_back, @function",
    "atomseq_papers_back:",
    "call qword ptr [rsp]", // to the handler, as the end of a clone does
    ".size atomseq_papers_back, . - atomseq_papers_back",
    ".popsection",
);

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

    /// Returns the step that some bytes are, which may be followed by others.
    fn stepped(bytes: &[u8]) -> Option<Step> {
        let mut code = [0; 16];
        code[..bytes.len()].copy_from_slice(bytes);
        step(&code)
    }

    #[test]
    fn a_use_of_the_register_is_found_in_every_operand() {
        for (bytes, uses_register) in [
            // mov r11, [rdi]; mov rax, [r11]; mov [rdi + r11], rax; mov rax, [r11 + rcx]
            (&[0x4c, 0x8b, 0x1f][..], true),
            (&[0x49, 0x8b, 0x03], true),
            (&[0x4a, 0x89, 0x04, 0x1f], true),
            (&[0x49, 0x8b, 0x04, 0x0b], true),
            // lea r11, [rdi + 8]; mov r11d, 1; add r11, 1; test r11, r11; imul rax, r11
            (&[0x4c, 0x8d, 0x5f, 0x08], true),
            (&[0x41, 0xbb, 1, 0, 0, 0], true),
            (&[0x49, 0x83, 0xc3, 1], true),
            (&[0x4d, 0x85, 0xdb], true),
            (&[0x49, 0x0f, 0xaf, 0xc3], true),
            // mov rbx, [rdi]; mov r8, [rdi]; mov rax, [rdi + rbx]; mov ebx, 1; mov r12, [rdi + r8]
            (&[0x48, 0x8b, 0x1f], false),
            (&[0x4c, 0x8b, 0x07], false),
            (&[0x48, 0x8b, 0x04, 0x1f], false),
            (&[0xbb, 1, 0, 0, 0], false),
            (&[0x4e, 0x8b, 0x24, 0x07], false),
            // sub rax, imm32; sbb is no instruction of the compiler's, nor is jmp r11
            (&[0x48, 0x2d, 1, 0, 0, 0], false),
        ] {
            let found = stepped(bytes).map(|step| (step.bytes, step.uses_register));
            assert_eq!(found, Some((bytes.len(), uses_register)), "{bytes:x?}");
        }
        assert_eq!(stepped(JUMP), None);
        assert_eq!(
            stepped(&[0x74, 0xf0]).and_then(|step| step.branch),
            Some(-14)
        );
    }
}
