//! What is bound to a name and never used is left out.

use super::Expression::{self, Binary, CompareExchange, Constant, Cpu, Literal, Load, Name};
use super::{Program, Statement};

impl Expression {
    pub(super) fn names(&self, used: &mut Vec<usize>) {
        match self {
            Name(name) => used.push(*name),
            Load(address, _, _) => address.names(used),
            CompareExchange(at, expected, new) => {
                [at, expected, new]
                    .into_iter()
                    .for_each(|part| part.names(used));
            }
            Binary(_, a, b) => {
                a.names(used);
                b.names(used);
            }
            Literal(_) | Constant(_) | Cpu => {}
        }
    }
}

impl Program {
    pub(super) fn drop_unused(&mut self) {
        let mut used = Vec::new();
        self.end
            .words()
            .iter()
            .for_each(|word| word.names(&mut used));
        let mut kept = Vec::new();
        while let Some(statement) = self.statements.pop() {
            let parts = match &statement {
                Statement::Let(name, _) if !used.contains(name) => continue,
                Statement::Let(_, value) => vec![value],
                Statement::Exit(_, a, b, outcome) | Statement::Leave(_, a, b, outcome) => {
                    outcome
                        .words()
                        .iter()
                        .for_each(|word| word.names(&mut used));
                    vec![a, b]
                }
                Statement::Prepare(to, value, _)
                | Statement::Store(to, value, _)
                | Statement::Commit(to, value, _, _) => {
                    vec![to, value]
                }
                Statement::Copy(to, from, words) => vec![to, from, words],
            };
            parts.into_iter().for_each(|part| part.names(&mut used));
            kept.push(statement);
        }
        kept.reverse();
        self.statements = kept;
    }
}
