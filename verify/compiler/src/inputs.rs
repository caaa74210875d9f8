//! What random sequences are run on: arguments, and the words in memory. Both are drawn so that
//! comparisons hold now and then and `cas` succeeds: many words are the constants that the sequence
//! names itself.

use crate::oracle::Memory;
use crate::random::{Expression, Outcome, Parameter, Program, Statement, BULK_ADDRESS};

/// The bytes of a slot before its first word, its gate.
pub const GATE_BYTES: u64 = 8;
/// The bytes of a slot's words.
pub const SLOT_BYTES: u64 = 120;

/// The bytes of bulk memory that sequences reach.
pub const BULK_BYTES: u64 = 512;

/// Returns the constants that a sequence names: it compares words with them, and exchanges them.
fn named(program: &Program) -> Vec<u64> {
    fn collect(expression: &Expression, values: &mut Vec<u64>) {
        values.extend(expression.constant());
        match expression {
            Expression::Load(word, ..) | Expression::Not(word) => collect(word, values),
            Expression::CompareExchange(at, expected, new) => {
                for part in [at, expected, new] {
                    collect(part, values);
                }
            }
            Expression::Binary(_, a, b) => {
                [a, b].into_iter().for_each(|part| collect(part, values))
            }
            Expression::Name(_)
            | Expression::Literal(_)
            | Expression::Constant(_)
            | Expression::Cpu => {}
        }
    }
    let mut values = vec![0];
    for statement in &program.statements {
        let outcome = match statement {
            Statement::Exit(_, _, _, outcome) | Statement::Leave(_, _, _, outcome) => outcome,
            _ => &Outcome::None,
        };
        let words = match statement {
            Statement::Let(_, value) => vec![value],
            Statement::Exit(_, a, b, _) | Statement::Leave(_, a, b, _) => vec![a, b],
            Statement::Prepare(to, value, _)
            | Statement::Store(to, value, _)
            | Statement::Commit(to, value, ..) => vec![to, value],
            Statement::Copy(to, from, words) => vec![to, from, words],
        };
        for word in words.into_iter().chain(outcome.words()) {
            collect(word, &mut values);
        }
    }
    values
}

/// Draws a word that is likely to decide something: one of these constants, a small or a large one,
/// a power of two, the offset of a word.
fn word(random: &mut fastrand::Rng, named: &[u64]) -> u64 {
    match random.usize(0..9) {
        6..=8 => named[random.usize(0..named.len())],
        0 => random.u64(0..5),
        1 => u64::MAX - random.u64(0..5),
        2 => random.u64(..) & 0xffff_ffff,
        3 => 1 << random.u32(0..64),
        4 => random.u64(0..100) * 8,
        _ => random.u64(..),
    }
}

/// Draws the words of a slot and its bulk memory, at their addresses.
pub fn memory(random: &mut fastrand::Rng, program: &Program, slot: u64, bulk: u64) -> Memory {
    let named = named(program);
    let mut memory = Memory {
        stretches: vec![
            (slot + GATE_BYTES, vec![0; SLOT_BYTES as usize]),
            (bulk, vec![0; BULK_BYTES as usize]),
        ],
    };
    let addresses = (0..SLOT_BYTES / 8).map(|index| slot + GATE_BYTES + 8 * index);
    for address in addresses.chain((0..BULK_BYTES / 8).map(|index| bulk + 8 * index)) {
        memory.store(address, word(random, &named), 8);
    }
    memory.store(slot + BULK_ADDRESS, bulk, 8);
    memory
}

/// Draws arguments; a slot's is its address.
pub fn arguments(random: &mut fastrand::Rng, program: &Program, slot: u64, bulk: u64) -> Vec<u64> {
    let named = named(program);
    program
        .parameters
        .iter()
        .map(|parameter| match parameter {
            Parameter::Slot | Parameter::Base => slot,
            Parameter::Bulk => bulk,
            Parameter::Word => word(random, &named),
        })
        .collect()
}
