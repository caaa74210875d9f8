//! Sums that become addresses. Where a machine adds two registers on its way to memory, as x86-64
//! does, the step that adds them can go:
//!
//! ```text
//! at = base + index
//! x  = load [at + 8]        becomes        x = load [base + index + 8]
//! ```
//!
//! A sum goes only if addresses alone use it. `base` and `index` then live to the last access: so
//! the allocation of registers asks [`Indexed::uses`], not the steps.

use std::collections::HashMap;

use crate::ir::*;

/// The steps that are left, and the sums that went into addresses.
pub struct Indexed<'a> {
    /// The steps to emit, in order.
    pub steps: Vec<&'a Step>,
    /// Each sum that is no step any more, by its two registers.
    sums: HashMap<Register, (Register, Register)>,
}

impl<'a> Indexed<'a> {
    /// Keeps every step.
    pub fn none(sequence: &'a Sequence) -> Indexed<'a> {
        Indexed {
            steps: sequence.steps.iter().collect(),
            sums: HashMap::new(),
        }
    }

    /// Drops every sum of two registers that is used as an address and as nothing else.
    pub fn all(sequence: &'a Sequence) -> Indexed<'a> {
        let mut sums: HashMap<Register, (Register, Register)> = HashMap::new();
        for step in &sequence.steps {
            if let StepKind::Binary {
                to,
                operator: BinaryOperator::Add,
                a: Operand::Register(a),
                b: Operand::Register(b),
            } = step.kind
            {
                sums.insert(to, (a, b));
            }
        }
        // A use other than the one as this step's address keeps the sum; so does a second use by
        // the same step, such as a store of an address at itself.
        for step in &sequence.steps {
            let address = step.kind.address().map(|address| address.base);
            let mut others = step.kind.uses();
            if let Some(place) = others
                .iter()
                .position(|register| Some(*register) == address)
            {
                others.remove(place);
            }
            for register in &others {
                sums.remove(register);
            }
        }
        // So does a result.
        for exit in sequence.exits.iter().chain([&sequence.end]) {
            for register in exit.result.iter().filter_map(Operand::register) {
                sums.remove(&register);
            }
        }
        let steps = sequence
            .steps
            .iter()
            .filter(|step| {
                step.kind
                    .defines()
                    .is_none_or(|register| !sums.contains_key(&register))
            })
            .collect();
        Indexed { steps, sums }
    }

    /// Returns the base and the index that an address adds in place of this register.
    pub fn sum(&self, base: Register) -> Option<(Register, Register)> {
        self.sums.get(&base).copied()
    }

    /// Returns the registers that a step reads once its sums are gone.
    pub fn uses(&self, step: &Step) -> Vec<Register> {
        step.kind
            .uses()
            .into_iter()
            .flat_map(|register| match self.sum(register) {
                Some((base, index)) => vec![base, index],
                None => vec![register],
            })
            .collect()
    }
}
