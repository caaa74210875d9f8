//! Sums that become addresses: where a machine adds two registers on its way to memory, the step
//! that adds them can go.

use std::collections::HashMap;

use crate::ir::*;

/// The steps that are left, and the sums that addresses take the place of.
pub struct Indexed<'a> {
    pub steps: Vec<&'a Step>,
    sums: HashMap<Register, (Register, Register)>,
}

impl<'a> Indexed<'a> {
    /// Every step stays.
    pub fn none(sequence: &'a Sequence) -> Indexed<'a> {
        Indexed {
            steps: sequence.steps.iter().collect(),
            sums: HashMap::new(),
        }
    }

    /// Sums of two registers that are used as addresses and nothing else go.
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

    /// The base and the index that an address adds in this register's place.
    pub fn sum(&self, base: Register) -> Option<(Register, Register)> {
        self.sums.get(&base).copied()
    }

    /// The registers a step reads once its sums are gone.
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
