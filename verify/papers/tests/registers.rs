//! Every pair of registers that the instruction can name, in machine code generated here: the
//! instruction has its documented effect, and neither another register nor the flags change.
#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

use atomseq_papers::emulation::Trap;
use verify_papers::pages;
use verify_support::processes::in_fresh_process;
use verify_support::this_test;

/// The encoding of the stack pointer.
const RSP: u8 = 4;

/// Returns the initial value of a register.
fn pattern(register: u8) -> u64 {
    0x1111_1111_0000_0000 * u64::from(register) / 16 + 0xabcd_0000_0000 + u64::from(register)
}

/// Machine code and the words that it uses, on a page of its own.
struct Code {
    page: usize,
    bytes: Vec<u8>,
}

/// The offsets of words on the page: the caller's stack pointer, then the final values of the
/// registers.
const KEPT: usize = 3072;
const AFTERWARDS: usize = KEPT + 8;

impl Code {
    fn new() -> Code {
        Code {
            page: pages(1, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC),
            bytes: Vec::new(),
        }
    }

    fn emit(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// `mov register, value`
    fn set(&mut self, register: u8, value: u64) {
        self.emit(&[0x48 | register >> 3, 0xb8 | register & 7]);
        self.emit(&value.to_le_bytes());
    }

    /// `mov [word], register` or `mov register, [word]`, the word on this page.
    fn move_word(&mut self, opcode: u8, register: u8, word: usize) {
        let behind = self.bytes.len() + 7;
        self.emit(&[0x48 | register >> 3 << 2, opcode, (register & 7) << 3 | 5]);
        self.emit(&((word - behind) as i32).to_le_bytes());
    }

    fn store(&mut self, register: u8, word: usize) {
        self.move_word(0x89, register, word);
    }

    fn load(&mut self, register: u8, word: usize) {
        self.move_word(0x8b, register, word);
    }

    /// Writes the code to its page and calls it; returns the value of rax.
    fn call(&self) -> u64 {
        assert!(self.bytes.len() < KEPT);
        // SAFETY: the page is this test's, and contains a function that follows the C convention:
        // it saves the registers that a callee must save.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.bytes.as_ptr(),
                self.page as *mut u8,
                self.bytes.len(),
            );
            let function: extern "C" fn() -> u64 = std::mem::transmute(self.page);
            function()
        }
    }

    fn word(&self, at: usize) -> u64 {
        // SAFETY: on the page, and aligned.
        unsafe { ((self.page + at) as *const u64).read_volatile() }
    }
}

/// `ud1 result, [address + signature]`
fn instruction(address: u8, result: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let extension = result >> 3 << 2 | address >> 3;
    if extension != 0 {
        bytes.push(0x40 | extension);
    }
    bytes.extend([0x0f, 0xb9, 0x80 | (result & 7) << 3 | address & 7]);
    if address & 7 == RSP {
        bytes.push(0x20 | address & 7);
    }
    bytes.extend(b"ATAS");
    bytes
}

/// rbx, rbp, r12 to r15.
const SAVED_BY_CALLEES: [&[u8]; 6] = [
    &[0x53],
    &[0x55],
    &[0x41, 0x54],
    &[0x41, 0x55],
    &[0x41, 0x56],
    &[0x41, 0x57],
];

fn pop_of(push: &[u8]) -> Vec<u8> {
    let mut pop = push.to_vec();
    *pop.last_mut().unwrap() += 8;
    pop
}

/// Executes the instruction with these registers and compares all of them; `word` is the word's
/// initial value.
fn check(address: u8, result: u8, word: u32, stack: usize) {
    // At the top of a stack: the kernel puts its frame below the stack pointer, which may be the
    // address.
    let place = stack + 64 * 1024;
    // SAFETY: fresh memory, aligned.
    unsafe { (place as *mut u32).write_volatile(word) };
    let before = |register: u8| match register {
        _ if register == address => place as u64,
        RSP => (place - 256) as u64,
        _ => pattern(register),
    };
    let mut code = Code::new();
    SAVED_BY_CALLEES.iter().for_each(|push| code.emit(push));
    code.store(RSP, KEPT);
    (0..16).for_each(|register| code.set(register, before(register)));
    code.emit(&[0xf9]); // stc
    code.emit(&instruction(address, result));
    for register in 0..16 {
        code.store(register, AFTERWARDS + 8 * usize::from(register));
    }
    code.load(RSP, KEPT);
    code.emit(&[0x48, 0x19, 0xc0]); // sbb rax, rax: -1 if the flag is still set
    for push in SAVED_BY_CALLEES.iter().rev() {
        code.emit(&pop_of(push));
    }
    code.emit(&[0xc3]); // ret
    assert_eq!(code.call(), u64::MAX, "flags after {address} {result}");
    for register in 0..16 {
        let expected = if register == result {
            u64::from(word)
        } else {
            before(register)
        };
        let afterwards = code.word(AFTERWARDS + 8 * usize::from(register));
        assert_eq!(
            afterwards, expected,
            "register {register} after ud1 {result}, [{address}]"
        );
    }
    // SAFETY: the word written above.
    assert_eq!(unsafe { (place as *const u32).read_volatile() }, 1);
    // SAFETY: no thread uses the page any more.
    unsafe { libc::munmap(code.page as *mut _, 4096) };
}

#[test]
fn every_pair_of_registers_is_obeyed() {
    in_fresh_process(this_test!(), || {
        Trap::start().unwrap();
        let stack = pages(32, libc::PROT_READ | libc::PROT_WRITE);
        for address in 0..16 {
            for result in 0..16 {
                check(address, result, 0, stack);
                check(address, result, 0x8765_4321, stack);
            }
        }
    });
}
