//! A counter.
//!
//! ```text
//! part:   0 gate | 8 value             128 bytes
//! ```

use std::arch::asm;

use crate::Parts;

/// Counts on each CPU.
pub struct Counter {
    parts: Parts,
}

impl Counter {
    /// Makes a counter of zero on every CPU.
    pub fn new() -> Counter {
        Counter {
            parts: Parts::new(128),
        }
    }

    /// Adds on this CPU; returns `false` if its gate is closed, as for an unregistered thread.
    #[inline(always)]
    pub fn add(&self, amount: u64) -> bool {
        // SAFETY: changes the word at 8 of this CPU's part, which only this sequence changes.
        unsafe {
            asm!(
                "49:",
                "lea {part}, [rip + 50f]",               // the descriptor
                "mov qword ptr fs:[{rseq} + 8], {part}", // arm
                "51:",                                   // start
                "movsxd {part}, dword ptr fs:[{rseq} + 4]", // this CPU
                "shl {part}, 7",                         // its part
                "cmp dword ptr [{base} + {part}], 0",    // its gate
                "jne {closed}",                          //
                "add qword ptr [{base} + {part} + 8], {amount}", // the commit
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
                base = in(reg) self.parts.base().as_ptr(),
                amount = in(reg) amount,
                part = out(reg) _,
                closed = label { return false },
                options(nostack),
            )
        }
        true
    }

    /// Returns the sum.
    pub fn sum(&self) -> u64 {
        (0..self.parts.cpus())
            .map(|cpu| self.parts.peek(cpu, 8))
            .sum()
    }
}

impl Default for Counter {
    fn default() -> Counter {
        Counter::new()
    }
}
