//! Inspects interrupted code before it is rolled forward (M94 2.3.1 and 4.2).
//!
//! Both inspections decode forward from the interrupted instruction, one instruction after the
//! other, and stop at the first that the compiler does not write. Every byte that they read belongs
//! to code that the thread may reach, or lies in a page that can be read.

use atomseq::internals::is_readable;

use crate::arch;

/// The maximum number of bytes from the interrupted instruction to the end: 32 instructions of the
/// sequence and what its early returns add.
const MAX_BYTES: usize = 1024;

/// The bytes of the level between the jump and the end.
const LEVEL_BYTES: usize = 4;

/// No page is smaller.
const PAGE: usize = 4096;

/// Code from an address on.
struct Code {
    start: usize,
    /// What is known to be readable ends here, at the end of a page.
    limit: usize,
}

impl Code {
    /// Begins at an interrupted instruction, whose page is readable.
    fn at(pc: usize) -> Code {
        Code {
            start: pc,
            limit: (pc & !(PAGE - 1)).saturating_add(PAGE),
        }
    }

    /// Returns up to 16 bytes from an offset on; what cannot be read is 0.
    fn bytes(&mut self, offset: usize) -> [u8; 16] {
        let from = self.start + offset;
        while self.limit < from + 16 && is_readable(self.limit) {
            self.limit += PAGE;
        }
        // SAFETY: code that is readable below `limit`.
        unsafe { arch::read(from, self.limit) }
    }
}

/// A set of offsets.
#[derive(Default)]
struct Offsets([u64; MAX_BYTES / 64 + 1]);

impl Offsets {
    fn add(&mut self, offset: usize) {
        self.0[offset / 64] |= 1 << (offset % 64);
    }

    fn contains_all(&self, other: &Offsets) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        pairs.into_iter().all(|(own, others)| others & !own == 0)
    }
}

/// Returns whether the code from `pc` to `end` may be rolled forward as the rest of a sequence of
/// [`HybJump`](super::HybJump) (M94 4.2): before `end` and its level there is a jump through the
/// well-known register; from `pc` to there, every instruction is one that the compiler writes and
/// does not use that register, and every branch leads forward to one of these instructions.
///
/// `end` may be any number: it is what the register held when `pc` was interrupted.
/// Async-signal-safe.
///
/// # Safety
///
/// `pc` is the address of an instruction of this process, which can be read.
pub unsafe fn is_safe(pc: usize, end: usize) -> bool {
    let jump = arch::JUMP.len();
    let distance = end.wrapping_sub(pc);
    if !(jump + LEVEL_BYTES..=MAX_BYTES).contains(&distance) {
        return false;
    }
    let last = distance - jump - LEVEL_BYTES;
    let mut code = Code::at(pc);
    let (mut starts, mut targets) = (Offsets::default(), Offsets::default());
    let mut at = 0;
    while at <= last {
        starts.add(at);
        let bytes = code.bytes(at);
        if bytes.starts_with(arch::JUMP) {
            if at == last {
                return starts.contains_all(&targets);
            }
            at += jump;
            continue;
        }
        let Some(step) = arch::step(&bytes).filter(|step| !step.uses_register) else {
            return false;
        };
        if let Some(branch) = step.branch {
            let target = at.wrapping_add_signed(branch);
            if target <= at || target > last {
                return false;
            }
            targets.add(target);
        }
        at += step.bytes;
    }
    false
}

/// The maximum number of branches in a designated sequence: every instruction may be one.
const MAX_BRANCHES: usize = 32;

/// Returns the landmark of the designated sequence that contains `pc`, if there is one. At the
/// first instruction of a sequence nothing is done yet, so that is outside.
///
/// A landmark says where its sequence starts, so code before the sequence is not taken for it.
/// Every branch must leave the sequence: it leads to an early return, which passes through the
/// landmark.
///
/// # Safety
///
/// `pc` is the address of an instruction of this process, which can be read.
pub unsafe fn landmark_behind(pc: usize) -> Option<usize> {
    let mut code = Code::at(pc);
    let (mut targets, mut branches) = ([0; MAX_BRANCHES], 0);
    let mut at = 0;
    while at < MAX_BYTES {
        let bytes = code.bytes(at);
        if let Some(length) = arch::landmark(&bytes) {
            let inside = at.wrapping_sub(length) as isize..at as isize;
            let leaves = |target: &isize| !inside.contains(target);
            let is_inside = at > 0 && at < length && targets[..branches].iter().all(leaves);
            return is_inside.then_some(pc + at);
        }
        let step = arch::step(&bytes)?;
        if let Some(branch) = step.branch {
            *targets.get_mut(branches)? = at as isize + branch;
            branches += 1;
        }
        at += step.bytes;
    }
    None
}

/// Returns whether there is a landmark at an address, with a trap over it or not.
///
/// # Safety
///
/// `address` is the address of an instruction of this process.
pub unsafe fn is_landmark(address: usize) -> bool {
    arch::landmark(&Code::at(address).bytes(0)).is_some()
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// mov rax, [rdi]; test rax, rax; je 6; mov [rdi], 0 (7 bytes); jmp r11; level 5
    const POP: [u8; 25] = [
        0x48, 0x8b, 0x07, 0x48, 0x85, 0xc0, 0x74, 0x07, 0x48, 0xc7, 0x07, 0, 0, 0, 0, 0x41, 0xff,
        0xe3, 5, 0, 0, 0, 0xcc, 0xcc, 0xcc,
    ];
    const END: usize = 22;

    /// Inspects code that is data: nothing of it is executed.
    fn inspected(code: &[u8], from: usize, end: usize) -> bool {
        let start = code.as_ptr().expose_provenance();
        // SAFETY: bytes that can be read, in place of an instruction.
        unsafe { is_safe(start + from, start.wrapping_add(end)) }
    }

    fn changed(at: usize, bytes: &[u8]) -> bool {
        let mut code = POP;
        code[at..at + bytes.len()].copy_from_slice(bytes);
        inspected(&code, 0, END)
    }

    #[test]
    fn a_sequence_is_safe_from_each_of_its_instructions() {
        for from in [0, 3, 6, 8, 15] {
            assert!(inspected(&POP, from, END), "from {from}");
        }
    }

    #[test]
    fn an_end_that_is_none_is_refused() {
        assert!(!inspected(&POP, 0, 0) && !inspected(&POP, END, END));
        assert!(!inspected(&POP, 8, 3) && !inspected(&POP, 0, usize::MAX / 2));
        for end in (0..25).filter(|end| *end != END) {
            assert!(!inspected(&POP, 0, end), "an end at {end}");
        }
        // Without the jump; through another register.
        assert!(!changed(15, &[0x90, 0x90, 0x90]) && !changed(17, &[0xe2]));
    }

    #[test]
    fn what_a_rollforward_must_not_execute_is_refused() {
        // The same code with changes that keep it a sequence.
        assert!(changed(3, &[0x48, 0x85, 0xc1]) && changed(10, &[0x06]));
        // mov rax, [r11]; test r11, rax: uses of the register
        assert!(!changed(0, &[0x49, 0x8b, 0x03]) && !changed(3, &[0x49, 0x85, 0xc3]));
        // je backwards; to itself; into an instruction; behind the jump
        assert!(!changed(7, &[0xf8]) && !changed(7, &[0xfe]));
        assert!(!changed(7, &[0x02]) && !changed(7, &[0x0a]));
        // call rax; syscall; ret; push rax
        assert!(!changed(6, &[0xff, 0xd0]) && !changed(6, &[0x0f, 0x05]));
        assert!(!changed(6, &[0xc3]) && !changed(6, &[0x50]));
    }

    #[test]
    fn code_that_is_too_long_is_refused() {
        // test rax, rax, many times
        for (times, expected) in [(300, true), (350, false)] {
            let mut code = [0x48, 0x85, 0xc0].repeat(times);
            code.extend([0x41, 0xff, 0xe3, 0, 0, 0, 0]);
            code.extend([0; 16]);
            assert_eq!(inspected(&code, 0, 3 * times + 7), expected, "{times}");
        }
    }

    /// mov rax, [rdi]; mov [rdi], 0 (7 bytes); the landmark of 10 bytes
    const DESIGNATED: [u8; 20] = [
        0x48, 0x8b, 0x07, 0x48, 0xc7, 0x07, 0, 0, 0, 0, 0x0f, 0x1f, 0x80, 10, 0, 0x51, 0x53, 0, 0,
        0,
    ];

    fn found(code: &[u8], from: usize) -> Option<usize> {
        let start = code.as_ptr().expose_provenance();
        // SAFETY: bytes that can be read, in place of an instruction.
        unsafe { landmark_behind(start + from) }.map(|landmark| landmark - start)
    }

    #[test]
    fn a_landmark_is_found_from_inside_only() {
        let changed = |at: usize, byte: u8| {
            let mut code = DESIGNATED;
            code[at] = byte;
            found(&code, 3)
        };
        assert_eq!(found(&DESIGNATED, 3), Some(10));
        // At the first instruction nothing is done, at the landmark everything.
        assert_eq!(
            (found(&DESIGNATED, 0), found(&DESIGNATED, 10)),
            (None, None)
        );
        // With a trap over it.
        assert_eq!(changed(10, 0xcc), Some(10));
        // Another nop; a sequence that starts here, or later.
        assert_eq!(
            (changed(16, 0x54), changed(13, 7), changed(13, 5)),
            (None, None, None)
        );
    }
}
