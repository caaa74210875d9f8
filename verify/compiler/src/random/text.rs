//! A sequence as text, and the forms that it has.

use std::fmt::Write;

use super::Expression::{self, Binary, CompareExchange, Constant, Cpu, Literal, Load, Name, Not};
use super::{Kind, Outcome, Parameter, Program, Returns, Statement, CONSTANTS, NAMES};

impl Program {
    /// Whether it has a form for its CPU.
    pub fn is_for_its_cpu(&self) -> bool {
        matches!(self.kind, Kind::OnCpu | Kind::Claiming | Kind::Copying)
    }

    /// Whether it has a slot, and so a form under the gate.
    pub fn has_slot(&self) -> bool {
        self.parameters.contains(&Parameter::Slot)
    }

    /// Whether it has forms against signal handlers: it contains no `cas`, `cpu()` or copy.
    pub fn is_against_handlers(&self) -> bool {
        let text = self.text();
        self.kind != Kind::Claiming && !text.contains("cpu()") && !text.contains("prepare_copy(")
    }

    /// Whether one of these is restarted: it has a commit.
    pub fn is_restarted(&self) -> bool {
        self.is_against_handlers() && !matches!(self.kind, Kind::Storing | Kind::Reading)
    }

    /// Returns a word as text. Literals alternate between decimal and hexadecimal.
    fn word(&self, expression: &Expression) -> String {
        match expression {
            Name(name) => self.name(*name),
            Literal(value) if value % 2 == 0 => format!("{value}"),
            Literal(value) => format!("{value:#x}"),
            Constant(index) => CONSTANTS[*index].0.to_string(),
            Cpu => "cpu()".to_string(),
            Load(address, width, acquire) => {
                let operation = match (width, acquire) {
                    (4, _) => "load32",
                    (_, true) => "load_acquire",
                    (_, false) => "load",
                };
                format!("{operation}({})", self.word(address))
            }
            CompareExchange(at, expected, new) => {
                let (at, expected) = (self.word(at), self.word(expected));
                format!("cas({at}, {expected}, {})", self.word(new))
            }
            Binary(called @ ("min" | "max"), a, b) => {
                format!("{called}({}, {})", self.word(a), self.word(b))
            }
            Not(word) => match &**word {
                Binary(inner, ..) if !["min", "max"].contains(inner) => {
                    format!("!({})", self.word(word))
                }
                _ => format!("!{}", self.word(word)),
            },
            Binary(operator, a, b) => {
                // No more parentheses than needed: rustc's lints look at generated code too.
                let side = |side: &Expression| match side {
                    Binary(inner, ..) if !["min", "max"].contains(inner) => {
                        format!("({})", self.word(side))
                    }
                    _ => self.word(side),
                };
                format!("{} {operator} {}", side(a), side(b))
            }
        }
    }

    /// Returns a name as text.
    fn name(&self, name: usize) -> String {
        match self.parameters.get(name) {
            None => format!("n{name}"),
            Some(Parameter::Slot) => "slot".to_string(),
            // A parameter: another one of the names in each sequence.
            Some(_) => {
                NAMES[(name + self.name.len() + self.statements.len()) % NAMES.len()].to_string()
            }
        }
    }

    /// Returns a result as text.
    fn outcome(&self, outcome: &Outcome) -> String {
        let words = || {
            let words: Vec<String> = outcome.words().iter().map(|word| self.word(word)).collect();
            match words.len() {
                0 | 1 => words.join(""),
                _ => format!("({})", words.join(", ")),
            }
        };
        match outcome {
            Outcome::Words(_) => words(),
            Outcome::Some(_) => format!("Some({})", words()),
            Outcome::None => "None".to_string(),
            Outcome::Flag(value) => value.to_string(),
        }
    }

    /// Returns the sequence as a user would write it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let parameters: Vec<String> = (0..self.parameters.len())
            .map(|index| {
                let kind = if self.parameters[index] == Parameter::Slot {
                    "Slot"
                } else {
                    "Word"
                };
                format!("{}: {kind}", self.name(index))
            })
            .collect();
        let returns = match self.returns {
            Returns::Nothing => "",
            Returns::Bool => " -> bool",
            Returns::Words(1) => " -> Word",
            Returns::Words(_) => " -> (Word, Word)",
            Returns::OptionWords(1) => " -> Option<Word>",
            Returns::OptionWords(_) => " -> Option<(Word, Word)>",
        };
        let (name, parameters) = (&self.name, parameters.join(", "));
        let mut line = |line: String| writeln!(text, "{line}").expect("a string takes all");
        line(format!("pub unsafe fn {name}({parameters}){returns} {{"));
        if let Some(abort) = &self.abort {
            line(format!("    'abort: {{ return {} }}", self.outcome(abort)));
        }
        let commit = |to: &Expression, value: &Expression, width: u64, release: bool| {
            let kind = match (width, release) {
                (4, _) => "32",
                (_, true) => "_release",
                (_, false) => "",
            };
            format!("commit{kind}({}, {});", self.word(to), self.word(value))
        };
        for statement in &self.statements {
            line(match statement {
                Statement::Let(name, value) => format!("    let n{name} = {};", self.word(value)),
                Statement::Exit(comparison, a, b, outcome) => {
                    let (a, b) = (self.word(a), self.word(b));
                    let outcome = self.outcome(outcome);
                    format!("    if ({a}) {comparison} ({b}) {{ return {outcome} }}")
                }
                Statement::Prepare(to, value, width) => {
                    let half = if *width == 4 { "32" } else { "" };
                    format!(
                        "    prepare{half}({}, {});",
                        self.word(to),
                        self.word(value)
                    )
                }
                Statement::Store(to, value, width) => {
                    let half = if *width == 4 { "32" } else { "" };
                    format!("    store{half}({}, {});", self.word(to), self.word(value))
                }
                Statement::Copy(to, from, words) => {
                    let (to, from) = (self.word(to), self.word(from));
                    format!("    prepare_copy({to}, {from}, {});", self.word(words))
                }
                Statement::Leave(comparison, a, b, outcome) => {
                    let (a, b) = (self.word(a), self.word(b));
                    let outcome = self.outcome(outcome);
                    let Some(Statement::Commit(to, value, width, release)) = self.statements.last()
                    else {
                        panic!("{} ends with its commit", self.name);
                    };
                    let commit = commit(to, value, *width, *release);
                    format!("    if ({a}) {comparison} ({b}) {{ {commit} return {outcome} }}")
                }
                Statement::Commit(to, value, width, release) => {
                    format!("    {}", commit(to, value, *width, *release))
                }
            });
        }
        line(format!("    {}\n}}", self.outcome(&self.end)));
        text
    }
}
