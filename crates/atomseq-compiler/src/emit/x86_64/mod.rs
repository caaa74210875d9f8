//! x86-64, in Intel syntax.
//!
//! # Registers
//!
//! | operand | in `on_cpu` | in the signal forms |
//! |---|---|---|
//! | `a0…` | parameters that are words | all parameters, a slot's too |
//! | `t0…` | temporaries; one of them holds the slot's address | temporaries |
//! | `area` | the area's header, where `stride` and `base` are numbers of bytes into it | |
//! | `rseq` | the offset of `struct rseq` from the thread pointer, fs | |
//! | `status` | how the template was left, unless the slot's register serves for it | how it was left |
//! | rax | in a sequence with a `cas`: what was there | |
//! | rcx | where a shift counts by a word: the count | the same |
//!
//! No template uses the stack pointer, pushes, or calls, except the end of a clone.
//!
//! # The shape of `on_cpu`
//!
//! ```text
//!         xor    status, status                       only if `status` is used
//!         lea    t0, [rip + descriptor]
//!         mov    fs:[rseq + 8], t0                    rseq_cs: arms the section
//! start:  movsxd t0, dword ptr fs:[rseq + 4]          cpu_id; -1 or -2 on an unregistered thread
//!         imul   t0, [area + stride]
//!         add    t0, [area + base]                    the slot's address
//!         cmp    dword ptr [t0], 0                    the gate
//!         jne    closed
//!         …                                           the steps
//!         mov    [t0 + 8], t1                         the commit
//! end:
//!         in .text.unlikely.atomseq:
//!         ud1    edi, [rip + 0x53053053]              the signature, inside an instruction
//! abort:  mov    t0, 2;  jmp end                      or, with labels: jmp aborted
//! closed: mov    t0, 3;  jmp end
//! exit0:  mov    t0, 1;  jmp end
//! ```
//!
//! # How steps become fewer instructions
//!
//! * A two-address instruction takes over the register of an operand that dies
//!   (`Registers::replace`).
//! * A load that the next step alone reads becomes that step's memory operand (`fold`).
//! * `load p; op; store p` becomes one `op` to memory (`fold`).
//! * A sum that only addresses use becomes `[base + index + offset]` (`Indexed`).
//! * The flags of the instruction that computed a word decide whether it is zero.
//! * Acquire and release cost no instruction: x86-64 keeps loads in order, and every store behind
//!   the loads and stores before it.

mod fold;
mod frame;
mod operands;
mod steps;

use crate::emit::builder::Builder;
use crate::emit::indexing::Indexed;
use crate::emit::registers::Registers;
use crate::emit::{Assembly, Leaving, NamedWords, Place};
use crate::forms::Form;
use crate::ir::*;

/// Emits one form of a sequence for x86-64.
pub fn emit(sequence: &Sequence, form: Form) -> Assembly {
    emit_with(sequence, form, NamedWords::Immediates)
}

/// Emits one form, with its named words as immediates or in registers.
pub fn emit_with(sequence: &Sequence, form: Form, named_words: NamedWords) -> Assembly {
    let indexed = Indexed::all(sequence);
    let registers = Registers::new(sequence, &indexed, form);
    let mut emitter = Emitter {
        sequence,
        form,
        leaving: Leaving::of(sequence),
        out: Builder::new(named_words),
        registers,
        indexed,
        fixed: Vec::new(),
        pending: 0,
        status: "{status:e}".to_string(),
        results: Vec::new(),
    };
    let as_status = match form {
        Form::OnCpu => emitter.on_cpu(),
        Form::Signal(protection) => {
            emitter.signal(protection);
            None
        }
    };
    let mut assembly =
        emitter
            .out
            .finish(emitter.registers.count(), emitter.fixed, emitter.results);
    if let Some(Place::Temporary(slot)) = as_status {
        assembly.slot_as_status = Some(slot);
    }
    assembly
}

/// The state of one emission.
struct Emitter<'a> {
    sequence: &'a Sequence,
    indexed: Indexed<'a>,
    form: Form,
    leaving: Leaving,
    out: Builder,
    registers: Registers,
    /// Machine registers that the template names.
    fixed: Vec<&'static str>,
    /// What `status` holds already, of the ways out through the commit.
    pending: usize,
    /// The operand, 32 bits wide, in which out-of-line code says how the steps were left.
    status: String,
    results: Vec<Vec<Place>>,
}

impl Emitter<'_> {
    /// Returns where the words of a result are at this step.
    fn result(&self, exit: &Exit) -> Vec<Place> {
        exit.result
            .iter()
            .map(|operand| self.registers.place(operand))
            .collect()
    }
}
