//! x86-64, Intel syntax.
//!
//! Operands: `a0…` parameters, `t0…` temporaries, `c0…` constants, `status`. Two-address
//! instructions take over the register of an operand that dies; a load used once by the next step
//! becomes its memory operand; `load p; add; commit p` becomes one `add` to memory.
//!
//! In the `on_cpu` form also: `area` a slot's area, with its stride at `stride` and its base at
//! `base`, `rseq` the offset of struct rseq from the thread pointer (fs); the slot's own register
//! takes the place of `status`, for no address is as small as a status.

mod fold;
mod frame;
mod operands;
mod steps;

use crate::emit::builder::Builder;
use crate::emit::indexing::Indexed;
use crate::emit::registers::Registers;
use crate::emit::{Assembly, Leaving, Place};
use crate::forms::Form;
use crate::ir::*;

/// Emits a form.
pub fn emit(sequence: &Sequence, form: Form) -> Assembly {
    let indexed = Indexed::all(sequence);
    let registers = Registers::new(sequence, &indexed, form);
    let mut emitter = Emitter {
        sequence,
        form,
        leaving: Leaving::of(sequence),
        out: Builder::default(),
        registers,
        indexed,
        fixed: Vec::new(),
        pending: 0,
        status: "{status:e}".to_string(),
        results: Vec::new(),
    };
    let telling = match form {
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
    if let Some(Place::Temporary(slot)) = telling {
        assembly.telling = Some(slot);
    }
    assembly
}

struct Emitter<'a> {
    sequence: &'a Sequence,
    indexed: Indexed<'a>,
    form: Form,
    leaving: Leaving,
    out: Builder,
    registers: Registers,
    fixed: Vec<&'static str>,
    /// What the status register says already, of ways out through the commit.
    pending: usize,
    /// What out-of-line code says how the steps were left in.
    status: String,
    results: Vec<Vec<Place>>,
}

impl Emitter<'_> {
    /// Where a result is.
    fn result(&self, exit: &Exit) -> Vec<Place> {
        exit.result
            .iter()
            .map(|operand| self.registers.place(operand))
            .collect()
    }
}
