//! A stack of words.
//!
//! ```text
//! part:   0 gate | 8 bytes ever pushed | 16 bytes ever popped | 24 … values           as many as it was made for
//! ```
//!
//! Two words, each of which only one operation changes: with a single one, a pop would wait for the
//! store of the preceding push.

use std::arch::asm;
use std::mem::offset_of;

use crate::Parts;

/// Words on each CPU, last in, first out. The assembly relies on the offsets of these fields.
#[repr(C)]
pub struct Stack {
    /// The base at 0, the size of a part at 8.
    parts: Parts,
    /// The bytes of the values.
    capacity: usize,
}

/// The gate is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl Stack {
    /// Makes an empty stack, with room for this many words on every CPU.
    pub fn new(capacity: usize) -> Stack {
        Stack {
            parts: Parts::new((24 + capacity * 8).next_multiple_of(128)),
            capacity: capacity * 8,
        }
    }

    /// Pushes a word; returns `Ok(false)` if there is no room.
    #[inline(always)]
    pub fn push(&self, value: u64) -> Result<bool, Closed> {
        // SAFETY: stays within this CPU's part, which only these sequences change.
        unsafe {
            asm!(
                "49:",
                "lea {part}, [rip + 50f]",               // the descriptor
                "mov qword ptr fs:[{rseq} + 8], {part}", // arm
                "51:",                                   // start
                "movsxd {part}, dword ptr fs:[{rseq} + 4]", // this CPU
                "imul {part}, qword ptr [{stack} + 8]", // its part
                "add {part}, qword ptr [{stack}]", //
                "cmp dword ptr [{part}], 0",             // its gate
                "jne {closed}",                          //
                "mov {pushed}, qword ptr [{part} + 8]",  // bytes ever pushed
                "mov {height}, {pushed}",                //
                "sub {height}, qword ptr [{part} + 16]", // less those popped
                "cmp {height}, qword ptr [{stack} + {capacity}]",              // no room?
                "je {full}",                             //
                "mov qword ptr [{part} + {height} + 24], {value}", // after the last: not visible yet
                "add {pushed}, 8",                       // plus one word
                "mov qword ptr [{part} + 8], {pushed}",  // the commit
                "52:",                                   // end
                ".pushsection .text.unlikely.verify_yardstick, \"ax\", @progbits",
                ".byte 0x0f, 0xb9, 0x3d",                // ud1 edi, [rip + signature]
                ".long 0x53053053",                      //
                "53: jmp 49b",                           // abort: again
                ".popsection",
                ".pushsection verify_yardstick, \"aw\", @progbits",
                ".balign 32",
                "50:",
                ".long 0, 0",
                ".quad 51b, 52b - 51b, 53b",
                ".popsection",
                rseq = in(reg) self.parts.rseq(),
                stack = in(reg) self,
                value = in(reg) value,
                capacity = const offset_of!(Stack, capacity),
                part = out(reg) _,
                height = out(reg) _,
                pushed = out(reg) _,
                closed = label { return Err(Closed) },
                full = label { return Ok(false) },
                options(nostack),
            )
        }
        Ok(true)
    }

    /// Pops a word.
    #[inline(always)]
    pub fn pop(&self) -> Result<Option<u64>, Closed> {
        let (part, value): (u64, u64);
        // SAFETY: stays within this CPU's part, which only these sequences change.
        unsafe {
            asm!(
                "49:",
                "lea {part}, [rip + 50f]",               // the descriptor
                "mov qword ptr fs:[{rseq} + 8], {part}", // arm
                "51:",                                   // start
                "movsxd {part}, dword ptr fs:[{rseq} + 4]", // this CPU
                "imul {part}, qword ptr [{stack} + 8]", // its part
                "add {part}, qword ptr [{stack}]", //
                "cmp dword ptr [{part}], 0",             // its gate
                "jne 54f",                               //
                "mov {popped}, qword ptr [{part} + 16]", // bytes ever popped
                "mov {height}, qword ptr [{part} + 8]",  // those pushed
                "sub {height}, {popped}",                // less those popped
                "je 55f",                                // there is none
                "mov {value}, qword ptr [{part} + {height} + 16]", // the last
                "add {popped}, 8",                       // plus one word
                "mov qword ptr [{part} + 16], {popped}", // the commit
                "52:",                                   // end
                ".pushsection .text.unlikely.verify_yardstick, \"ax\", @progbits",
                ".byte 0x0f, 0xb9, 0x3d",                // ud1 edi, [rip + signature]
                ".long 0x53053053",                      //
                "53: jmp 49b",                           // abort: again
                "54: mov {value}, 1",                    // closed
                "jmp 56f",                               //
                "55: xor {value:e}, {value:e}",          // empty
                "56: xor {part:e}, {part:e}",            // neither has a part
                "jmp 52b",                               //
                ".popsection",
                ".pushsection verify_yardstick, \"aw\", @progbits",
                ".balign 32",
                "50:",
                ".long 0, 0",
                ".quad 51b, 52b - 51b, 53b",
                ".popsection",
                rseq = in(reg) self.parts.rseq(),
                stack = in(reg) self,
                part = out(reg) part,
                height = out(reg) _,
                popped = out(reg) _,
                value = out(reg) value,
                options(nostack),
            )
        }
        match (part, value) {
            (0, 0) => Ok(None),
            (0, _) => Err(Closed),
            (_, value) => Ok(Some(value)),
        }
    }

    /// Returns the number of words on all CPUs.
    pub fn len(&self) -> u64 {
        let height = |cpu| {
            let [pushed, popped] = [8, 16].map(|word| self.parts.peek(cpu, word));
            pushed.wrapping_sub(popped) / 8
        };
        (0..self.parts.cpus()).map(height).sum()
    }

    /// Returns whether the stack is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
