//! Builder.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use proc_macro2::Span;

use super::limits::LONGEST;
use super::{Assembly, ConstantOperand, Line, Place};
use crate::ir::{Constant, Step};

/// Numeric labels of a template. Above 1, because assemblers read `0b` and `1b` as binary.
pub mod label {
    /// A compare-and-swap made of exclusive accesses: where it begins again, and where it ends.
    pub const EXCHANGE: usize = 47;
    pub const EXCHANGED: usize = 48;
    /// The commit, where early returns pass through it.
    pub const COMMIT: usize = 49;
    pub const DESCRIPTOR: usize = 50;
    pub const START: usize = 51;
    pub const END: usize = 52;
    pub const ABORT: usize = 53;
    pub const CLOSED: usize = 54;
    pub const COPY: usize = 55;
    pub const COPY_TEST: usize = 56;
    pub const CLONE: usize = 57;
    pub const CLONE_LIMIT: usize = 58;
    /// The first exit; the others follow.
    pub const EXIT: usize = 60;
    /// The same in the clone.
    pub const CLONE_EXIT: usize = 160;
}

/// The operands that a text names.
fn operands(text: &str) -> BTreeSet<&str> {
    let named = text.split('{').skip(1);
    named
        .filter_map(|rest| rest.split(['}', ':']).next())
        .collect()
}

/// The template under construction.
#[derive(Default)]
pub struct Builder {
    pub(super) lines: Vec<Line>,
    constants: Vec<ConstantOperand>,
    indices: HashMap<String, usize>,
    inside: bool,
    instructions: usize,
    beyond_longest: Option<Span>,
    /// Which lines lie between start and end.
    pub(super) body: Range<usize>,
    /// Those of them that branch: the line, the instruction without its target, the exit.
    pub(super) branches: Vec<(usize, String, usize)>,
}

impl Builder {
    /// A machine instruction.
    pub fn instruction(&mut self, text: impl Into<String>) {
        self.lines.push(Line::Text(text.into()));
        self.instructions += usize::from(self.inside);
    }

    /// A conditional branch to an exit, which is at `target`.
    pub fn branch(&mut self, instruction: String, target: &str, exit: usize) {
        let line = format!("{instruction} {target}");
        self.branches.push((self.lines.len(), instruction, exit));
        self.instruction(line);
    }

    /// The last line so far.
    pub fn last(&self) -> Option<&Line> {
        self.lines.last()
    }

    /// A load-acquire with these operands.
    pub fn load_acquire(&mut self, operands: impl Into<String>) {
        self.lines.push(Line::Acquire(operands.into()));
        self.instructions += usize::from(self.inside);
    }

    /// A compare-and-swap, which depends on the target's features: a move and an instruction, or a
    /// loop, which counts as one. Both name the same operands, for `asm!` takes none that its
    /// template does not name.
    pub fn interlocked(&mut self, lse: String, exclusive: String) {
        assert_eq!(
            operands(&lse),
            operands(&exclusive),
            "{lse}\nor\n{exclusive}"
        );
        self.lines.push(Line::Interlocked { lse, exclusive });
        self.instructions += 2 * usize::from(self.inside);
    }

    /// A directive or a label.
    pub fn directive(&mut self, text: impl Into<String>) {
        self.lines.push(Line::Text(text.into()));
    }

    /// A group of instructions that counts as one: the bounded copy.
    pub fn as_one(&mut self, build: impl FnOnce(&mut Builder)) {
        let before = self.instructions;
        build(self);
        self.instructions = before + usize::from(self.inside);
    }

    /// What was emitted so far came from the steps up to this one.
    pub fn end_of_step(&mut self, step: &Step) {
        if self.instructions > LONGEST {
            self.beyond_longest.get_or_insert(step.span);
        }
    }

    pub fn start(&mut self) {
        self.directive(format!("{}:", label::START));
        self.inside = true;
        self.body.start = self.lines.len();
    }

    pub fn end(&mut self) {
        self.body.end = self.lines.len();
        self.directive(format!("{}:", label::END));
        self.inside = false;
    }

    /// The kernel's descriptor of the section, and a pointer to it for debuggers and tests.
    pub fn descriptor(&mut self) {
        use label::{ABORT, DESCRIPTOR, END, START};
        for line in [
            ".pushsection __rseq_cs, \"awR\", @progbits".to_string(),
            ".balign 32".to_string(),
            format!("{DESCRIPTOR}:"),
            ".long 0, 0".to_string(),
            format!(".quad {START}b, {END}b - {START}b, {ABORT}b"),
            ".popsection".to_string(),
            ".pushsection __rseq_cs_ptr_array, \"awR\", @progbits".to_string(),
            format!(".quad {DESCRIPTOR}b"),
            ".popsection".to_string(),
        ] {
            self.directive(line);
        }
    }

    /// The text of a constant that fits any instruction with an immediate.
    pub fn immediate(&mut self, constant: &Constant) -> String {
        match constant.value {
            Some(value) => (value as i64).to_string(),
            None => self.operand(constant, "i", ConstantOperand::Immediate(constant.clone())),
        }
    }

    /// The text of an address offset; `None` for zero.
    pub fn offset(&mut self, constant: &Constant, bytes: u32) -> Option<String> {
        match constant.value {
            Some(0) => None,
            Some(value) => Some((value as i64).to_string()),
            None => {
                let kind = format!("o{bytes}");
                Some(self.operand(
                    constant,
                    &kind,
                    ConstantOperand::Offset(constant.clone(), bytes),
                ))
            }
        }
    }

    fn operand(&mut self, constant: &Constant, kind: &str, operand: ConstantOperand) -> String {
        let key = format!("{kind} {}", constant.key());
        let constants = &mut self.constants;
        let index = *self.indices.entry(key).or_insert_with(|| {
            constants.push(operand);
            constants.len() - 1
        });
        format!("{{c{index}}}")
    }

    pub fn finish(
        self,
        temporaries: usize,
        fixed: Vec<&'static str>,
        results: Vec<Vec<Place>>,
    ) -> Assembly {
        Assembly {
            lines: self.lines,
            constants: self.constants,
            temporaries,
            fixed,
            instructions: self.instructions,
            beyond_longest: self.beyond_longest,
            telling: None,
            results,
        }
    }
}
