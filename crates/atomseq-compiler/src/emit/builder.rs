//! The template under construction: lines, the constants they name, and how many of them are
//! machine instructions between `start` and `end`.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use proc_macro2::Span;

use super::limits::LONGEST;
use super::{Assembly, ConstantOperand, Line, NamedWords, Place};
use crate::ir::{Constant, Step};

/// Numeric labels of a template. `50b` is the last label 50 before the place of use, `50f` the next
/// after it: so a template may stand many times in one object file. Labels 0 and 1 are avoided,
/// because assemblers read `0b` and `1b` as binary numbers.
pub mod label {
    /// A compare-and-swap made of exclusive accesses: where a failed store retries.
    pub const EXCHANGE: usize = 47;
    /// Where that compare-and-swap ends.
    pub const EXCHANGED: usize = 48;
    /// The commit, where early returns pass through it.
    pub const COMMIT: usize = 49;
    /// The `struct rseq_cs` of the section.
    pub const DESCRIPTOR: usize = 50;
    /// The first instruction of the section.
    pub const START: usize = 51;
    /// The place after its last instruction.
    pub const END: usize = 52;
    /// Where the kernel continues an interrupted thread.
    pub const ABORT: usize = 53;
    /// The way out of a closed gate.
    pub const CLOSED: usize = 54;
    /// The body of a copy.
    pub const COPY: usize = 55;
    /// Where a copy counts down.
    pub const COPY_TEST: usize = 56;
    /// The first instruction of the clone.
    pub const CLONE: usize = 57;
    /// The place after all that belongs to the clone.
    pub const CLONE_LIMIT: usize = 58;
    /// The place after a sequence with an M94 scheme around it.
    pub const SCHEME_END: usize = 59;
    /// Exit 0; exit `n` is `n` more. At most 32 instructions branch, so labels stay below 100.
    pub const EXIT: usize = 60;
    /// Exit 0 of the clone; exit `n` is `n` more.
    pub const CLONE_EXIT: usize = 160;
}

/// Returns the operands that a text names.
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
    named_words: NamedWords,
    constants: Vec<ConstantOperand>,
    /// Which operand holds a constant already, by use and key.
    indices: HashMap<String, usize>,
    /// Between `start` and `end`.
    inside: bool,
    instructions: usize,
    beyond_longest: Option<Span>,
    /// The lines between `start` and `end`, which a clone repeats.
    pub(super) body: Range<usize>,
    /// Those of them that branch: the line, the instruction without its target, the exit. In a
    /// clone the target is another.
    pub(super) branches: Vec<(usize, String, usize)>,
}

impl Builder {
    /// Begins a template.
    pub fn new(named_words: NamedWords) -> Builder {
        Builder {
            named_words,
            ..Builder::default()
        }
    }

    /// Adds a machine instruction.
    pub fn instruction(&mut self, text: impl Into<String>) {
        self.lines.push(Line::Text(text.into()));
        self.instructions += usize::from(self.inside);
    }

    /// Adds a conditional branch to an exit, which is at `target`.
    pub fn branch(&mut self, instruction: String, target: &str, exit: usize) {
        let line = format!("{instruction} {target}");
        self.branches.push((self.lines.len(), instruction, exit));
        self.instruction(line);
    }

    /// Returns the last line so far.
    pub fn last(&self) -> Option<&Line> {
        self.lines.last()
    }

    /// Adds a load-acquire with these operands.
    pub fn load_acquire(&mut self, operands: impl Into<String>) {
        self.lines.push(Line::Acquire(operands.into()));
        self.instructions += usize::from(self.inside);
    }

    /// Adds a compare-and-swap, which depends on the target's features: a move and `casa`, or a
    /// loop, which counts as two as well. Both texts name the same operands, because `asm!` refuses
    /// an operand that its template does not name.
    pub fn interlocked(&mut self, lse: String, exclusive: String) {
        assert_eq!(
            operands(&lse),
            operands(&exclusive),
            "{lse}\nor\n{exclusive}"
        );
        self.lines.push(Line::Interlocked { lse, exclusive });
        self.instructions += 2 * usize::from(self.inside);
    }

    /// Adds a directive or a label, which is no instruction.
    pub fn directive(&mut self, text: impl Into<String>) {
        self.lines.push(Line::Text(text.into()));
    }

    /// Adds a group of instructions that counts as one: the copy, which is a loop.
    pub fn as_one(&mut self, build: impl FnOnce(&mut Builder)) {
        let before = self.instructions;
        build(self);
        self.instructions = before + usize::from(self.inside);
    }

    /// Notes the step that exceeds the limit, if it is this one: the error points at it.
    pub fn end_of_step(&mut self, step: &Step) {
        if self.instructions > LONGEST {
            self.beyond_longest.get_or_insert(step.span);
        }
    }

    /// Begins the section.
    pub fn start(&mut self) {
        self.directive(format!("{}:", label::START));
        self.inside = true;
        self.body.start = self.lines.len();
    }

    /// Ends the section.
    pub fn end(&mut self) {
        self.body.end = self.lines.len();
        self.directive(format!("{}:", label::END));
        self.inside = false;
    }

    /// Adds the kernel's descriptor of the section, a `struct rseq_cs`, and a pointer to it that
    /// debuggers and tests look for.
    pub fn descriptor(&mut self) {
        use label::{ABORT, DESCRIPTOR, END, START};
        for line in [
            ".pushsection __rseq_cs, \"awR\", @progbits".to_string(),
            ".balign 32".to_string(),
            format!("{DESCRIPTOR}:"),
            // version, flags
            ".long 0, 0".to_string(),
            // start_ip, post_commit_offset, abort_ip
            format!(".quad {START}b, {END}b - {START}b, {ABORT}b"),
            ".popsection".to_string(),
            ".pushsection __rseq_cs_ptr_array, \"awR\", @progbits".to_string(),
            format!(".quad {DESCRIPTOR}b"),
            ".popsection".to_string(),
        ] {
            self.directive(line);
        }
    }

    /// Returns the text of a constant as a source: a number, or an operand for rustc to fill in,
    /// which may be a register.
    pub fn immediate(&mut self, constant: &Constant) -> String {
        match (constant.value, self.named_words) {
            (Some(value), _) => (value as i64).to_string(),
            (None, NamedWords::Immediates) => {
                self.operand(constant, "i", ConstantOperand::Immediate(constant.clone()))
            }
            (None, NamedWords::Registers) => {
                self.operand(constant, "r", ConstantOperand::Register(constant.clone()))
            }
        }
    }

    /// Whether a constant is in a register already.
    pub fn is_in_register(&self, constant: &Constant) -> bool {
        constant.value.is_none() && self.named_words == NamedWords::Registers
    }

    /// Returns the text of an offset of an access of so many bytes; `None` for zero.
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

    /// Returns the name of the operand for a constant. Equal constants of the same use share one.
    fn operand(&mut self, constant: &Constant, kind: &str, operand: ConstantOperand) -> String {
        let key = format!("{kind} {}", constant.key());
        let constants = &mut self.constants;
        let index = *self.indices.entry(key).or_insert_with(|| {
            constants.push(operand);
            constants.len() - 1
        });
        format!("{{c{index}}}")
    }

    /// Ends the template.
    pub fn finish(
        self,
        temporaries: usize,
        fixed: Vec<&'static str>,
        results: Vec<Vec<Place>>,
    ) -> Assembly {
        Assembly {
            lines: self.lines,
            body: self.body,
            constants: self.constants,
            temporaries,
            fixed,
            instructions: self.instructions,
            beyond_longest: self.beyond_longest,
            slot_as_status: None,
            results,
        }
    }
}
