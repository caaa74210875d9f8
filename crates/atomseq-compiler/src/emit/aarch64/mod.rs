//! AArch64.
//!
//! # Registers
//!
//! | operand | in `on_cpu` | in the signal forms |
//! |---|---|---|
//! | `a0…` | parameters; a slot's is the base of the area | all parameters, a slot's too |
//! | `t0` | the address of `struct rseq`, throughout | a temporary |
//! | `t1…` | temporaries; the first is the slot's address | temporaries |
//! | `stride` | from slot to slot | |
//! | `rseq` | the offset of `struct rseq` from the thread pointer, tpidr_el0 | |
//! | `status` | how the template was left | the same |
//! | x16 | | kept free: an end of a clone needs it |
//!
//! No template uses the stack pointer or calls, except the end of a clone.
//!
//! # The shape of `on_cpu`
//!
//! ```text
//!         mov   status, wzr                           only if a result is in a temporary
//!         mrs   t0, tpidr_el0
//!         add   t0, t0, rseq                          t0 = &struct rseq
//!         adrp  t1, descriptor
//!         add   t1, t1, :lo12:descriptor
//!         str   t1, [t0, #8]                          rseq_cs: arms the section
//! start:  ldrsw t1, [t0, #4]                          cpu_id; -1 or -2 on an unregistered thread
//!         madd  t1, t1, stride, a0                    the slot's address
//!         ldar  t2, [t1]                              the gate
//!         cbnz  t2, closed
//!         …                                           the steps
//!         str   t3, [t1, #8]                          the commit
//! end:
//!         in the same section, as a subsection:
//!         brk   #0x45e0                               the signature
//! abort:  mov   status, #2;  b end                    or, with labels: b aborted
//! closed: mov   status, #3;  b end
//! exit0:  mov   status, #1;  b end
//! ```
//!
//! What is out of line stays in the function's own section: a conditional branch reaches one
//! megabyte, and another section may be farther away.
//!
//! # Memory order
//!
//! Plain loads and stores are weakly ordered. `load_acquire` is `ldapr` or `ldar`, `commit_release`
//! is `stlr`. The gate is loaded with acquire: it pairs with the release by which a remote thread
//! opens it, so that the steps see what that thread wrote while the gate was closed. A `cas`
//! acquires, and a `dmb ishst` orders it before the stores that follow: another CPU that sees such
//! a store sees the claim (`Emitter::order_claim`).

mod frame;
mod operands;
mod steps;

use crate::emit::builder::Builder;
use crate::emit::indexing::Indexed;
use crate::emit::registers::Registers;
use crate::emit::{Assembly, Leaving, NamedWords, Place};
use crate::forms::Form;
use crate::ir::*;

/// Emits one form of a sequence for AArch64.
pub fn emit(sequence: &Sequence, form: Form) -> Assembly {
    emit_with(sequence, form, NamedWords::Immediates)
}

/// Emits one form, with its named words as immediates or in registers.
pub fn emit_with(sequence: &Sequence, form: Form, named_words: NamedWords) -> Assembly {
    let mut emitter = Emitter {
        sequence,
        leaving: Leaving::of(sequence),
        out: Builder::new(named_words),
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
    // An end of a clone overwrites x16. All signal forms leave it alone, so that they are the same
    // instructions.
    let fixed = match form {
        Form::Signal(_) => vec!["x16"],
        Form::OnCpu => vec![],
    };
    emitter
        .out
        .finish(emitter.registers.count(), fixed, emitter.results)
}

/// The state of one emission.
struct Emitter<'a> {
    sequence: &'a Sequence,
    leaving: Leaving,
    out: Builder,
    registers: Registers,
    results: Vec<Vec<Place>>,
    form: Form,
    /// What `status` holds already, of the ways out through the commit.
    pending: usize,
    /// Whether a compare-and-swap is not yet ordered before the stores that follow it.
    claimed: bool,
    /// The temporary that holds the address of `struct rseq` throughout, in the `on_cpu` form.
    rseq: String,
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
