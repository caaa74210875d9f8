//! Every step of every sequence matters: with any one of them changed, the checker finds a fault.

use atomseq::sequence::model::{Comparison, Operand, Operator, Program, Step};
use verify_model::broken::Broken;
use verify_model::checker::check;
use verify_model::structure::Structure;
use verify_model::structures::{
    Counter, Counters, Fifo, Flags, Guide, Histogram, Homes, List, Queue, Readers, Ring, Stack,
    local, sequences,
};

/// Returns a small structure, in which faults show soon, for a sequence of a file.
fn subject(file: &str, name: &str) -> Box<dyn Structure> {
    match file {
        "counter" => Box::new(Counter),
        "counters" => Box::new(Counters),
        "fifo" => Box::new(Fifo),
        "histogram" => Box::new(Histogram),
        "list" => Box::new(List),
        "queue" => Box::new(Queue {
            cpus: 1,
            chains: 1,
            history: 8,
        }),
        "ring" => Box::new(Ring {
            cpus: 1,
            capacity: 2,
            words: 1,
            history: 5,
        }),
        "stack" => Box::new(Stack {
            cpus: 1,
            capacity: 3,
            history: 3,
        }),
        "sequences" => Box::new(Guide),
        "mutex/home" => Box::new(Homes),
        "mutex/mechanism" => Box::new(Flags),
        "mutex/rwlock" => Box::new(Readers),
        "local/counter" => Box::new(local::Counter),
        "local/map" => Box::new(local::Map { history: 3 }),
        "local/queue" => Box::new(local::Queue {
            capacity: 4,
            history: 5,
        }),
        "local/ring" => Box::new(local::Ring {
            passage: match name {
                "fill" | "advance" => local::Passage::Filling { words: 1 },
                "fill_four" => local::Passage::Filling { words: 4 },
                _ => local::Passage::WordByWord,
            },
            history: 5,
        }),
        "local/stack" => Box::new(local::Stack {
            capacity: 2,
            history: 5,
        }),
        other => panic!("no structure for the sequences in {other}"),
    }
}

/// Returns every mutant of a sequence with one step changed, and a description of the change.
fn mutants(program: &Program) -> Vec<(String, &'static Program)> {
    let mut mutants = Vec::new();
    for (index, step) in program.steps.iter().enumerate() {
        for (what, changed) in changes(step) {
            let mut steps = program.steps.to_vec();
            match changed {
                Some(step) => steps[index] = step,
                None => drop(steps.remove(index)),
            }
            let mutant = Program {
                steps: Vec::leak(steps),
                ..*program
            };
            mutants.push((
                format!("step {index}, {what}"),
                &*Box::leak(Box::new(mutant)),
            ));
        }
    }
    mutants
}

/// Returns the ways to get a step wrong; `None` removes it.
fn changes(step: &Step) -> Vec<(&'static str, Option<Step>)> {
    let further = |address: atomseq::sequence::model::Address| atomseq::sequence::model::Address {
        offset: address.offset.wrapping_add(8),
        ..address
    };
    match *step {
        Step::Load { to, from, bytes } => vec![(
            "the next word is loaded",
            Some(Step::Load {
                to,
                from: further(from),
                bytes,
            }),
        )],
        Step::Cpu { .. } => vec![("left out", None)],
        Step::Binary { to, operator, a, b } => {
            let with = |operator| Some(Step::Binary { to, operator, a, b });
            let one_more = match b {
                Operand::Constant(constant) => Operand::Constant(constant + 1),
                register => register,
            };
            let mut changes = vec![
                (
                    "the operands exchanged",
                    Some(Step::Binary {
                        to,
                        operator,
                        a: b,
                        b: a,
                    }),
                ),
                (
                    "a constant one larger",
                    Some(Step::Binary {
                        to,
                        operator,
                        a,
                        b: one_more,
                    }),
                ),
                ("another operator", with(other(operator))),
            ];
            let commutes = !matches!(
                operator,
                Operator::Subtract | Operator::ShiftLeft | Operator::ShiftRight
            );
            if commutes {
                changes.remove(0);
            }
            if matches!(b, Operand::Register(_)) {
                changes.retain(|(what, _)| *what != "a constant one larger");
            }
            changes
        }
        Step::CompareExchange {
            to,
            at,
            expected,
            new,
        } => vec![
            (
                "stored whatever is there",
                Some(Step::Store {
                    to: at,
                    value: new,
                    bytes: 8,
                }),
            ),
            (
                "the next word is exchanged",
                Some(Step::CompareExchange {
                    to,
                    at: further(at),
                    expected,
                    new,
                }),
            ),
        ],
        Step::Exit {
            comparison,
            a,
            b,
            exit,
        } => vec![
            ("left out", None),
            (
                "the contrary",
                Some(Step::Exit {
                    comparison: contrary(comparison),
                    a,
                    b,
                    exit,
                }),
            ),
        ],
        Step::Prepare { to, value, bytes } => vec![
            ("left out", None),
            (
                "the next word is prepared",
                Some(Step::Prepare {
                    to: further(to),
                    value,
                    bytes,
                }),
            ),
            (
                "another value",
                Some(Step::Prepare {
                    to,
                    value: Operand::Constant(0x77),
                    bytes,
                }),
            ),
        ],
        Step::Store { to, value, bytes } => vec![
            ("left out", None),
            (
                "the next word is stored to",
                Some(Step::Store {
                    to: further(to),
                    value,
                    bytes,
                }),
            ),
            (
                "another value",
                Some(Step::Store {
                    to,
                    value: Operand::Constant(0x77),
                    bytes,
                }),
            ),
        ],
        Step::Commit { to, value, bytes } => vec![
            (
                "the next word is committed",
                Some(Step::Commit {
                    to: further(to),
                    value,
                    bytes,
                }),
            ),
            (
                "another value",
                Some(Step::Commit {
                    to,
                    value: Operand::Constant(0x77),
                    bytes,
                }),
            ),
        ],
        Step::Copy { to, from, words } => vec![
            ("left out", None),
            (
                "to and from exchanged",
                Some(Step::Copy {
                    to: from,
                    from: to,
                    words,
                }),
            ),
        ],
    }
}

fn other(operator: Operator) -> Operator {
    match operator {
        Operator::Add => Operator::Subtract,
        Operator::Subtract => Operator::Add,
        Operator::Multiply => Operator::Add,
        Operator::And => Operator::Or,
        Operator::Or => Operator::And,
        Operator::Xor => Operator::Or,
        Operator::ShiftLeft => Operator::ShiftRight,
        Operator::ShiftRight => Operator::ShiftLeft,
        Operator::Minimum => Operator::Add,
        Operator::Maximum => Operator::Minimum,
    }
}

fn contrary(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Equal => Comparison::NotEqual,
        Comparison::NotEqual => Comparison::Equal,
        Comparison::Less => Comparison::GreaterOrEqual,
        Comparison::LessOrEqual => Comparison::Greater,
        Comparison::Greater => Comparison::LessOrEqual,
        Comparison::GreaterOrEqual => Comparison::Less,
    }
}

#[test]
fn every_step_matters() {
    let mut found = 0;
    let mut unnoticed = Vec::new();
    for (file, programs) in sequences() {
        for program in programs {
            for (change, mutant) in mutants(program) {
                let broken = Broken::of(
                    "a changed step",
                    subject(file, program.name),
                    mutant,
                    |_| true,
                );
                match check(&broken) {
                    Ok(explored) => {
                        let name = program.name;
                        unnoticed.push(format!("{file}::{name}, {change}: {explored}"));
                    }
                    Err(_) => found += 1,
                }
            }
        }
    }
    println!("model: {found} changed steps, all detected");
    assert!(
        unnoticed.is_empty(),
        "not detected:\n{}",
        unnoticed.join("\n")
    );
    assert!(found > 200);
}
