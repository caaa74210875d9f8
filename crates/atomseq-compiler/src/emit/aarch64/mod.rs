//! AArch64.
//!
//! Operands: `a0…` parameters, `t0…` temporaries, `c0…` constants, `status`. Words enter and leave
//! memory by loads and stores alone; conditional branches reach a megabyte, so what is out of line
//! stays in the function's own section, as a subsection.
//!
//! In the `on_cpu` form also: `stride` from slot to slot, `rseq` the offset of struct rseq from the
//! thread pointer (tpidr_el0); a slot's parameter is the area's base.

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
    let mut emitter = Emitter {
        sequence,
        leaving: Leaving::of(sequence),
        out: Builder::default(),
        registers: Registers::new(sequence, &Indexed::none(sequence), form),
        results: Vec::new(),
        form,
        pending: 0,
        claimed: false,
        rseq: String::new(),
    };
    match form {
        Form::OnCpu => emitter.on_cpu(),
        Form::Signal(protection) => emitter.signal(protection),
    }
    // A clone's end needs a register; all signal forms leave it alone, so that they are the same
    // instructions.
    let fixed = match form {
        Form::Signal(_) => vec!["x16"],
        Form::OnCpu => vec![],
    };
    emitter
        .out
        .finish(emitter.registers.count(), fixed, emitter.results)
}

struct Emitter<'a> {
    sequence: &'a Sequence,
    leaving: Leaving,
    out: Builder,
    registers: Registers,
    results: Vec<Vec<Place>>,
    form: Form,
    /// What the status register says already, of ways out through the commit.
    pending: usize,
    /// A compare-and-swap is not ordered yet before the stores that follow it.
    claimed: bool,
    /// The temporary that holds the address of struct rseq throughout.
    rseq: String,
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
