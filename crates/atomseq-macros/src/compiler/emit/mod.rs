//! Assembly from the intermediate representation. One file an architecture; what they share, the
//! allocation of registers and the pieces of a template, is here.
//!
//! A template is the steps with something around them, which the form decides. In the `on_cpu`
//! form, the same on every architecture:
//!
//! ```text
//!         status = 0                      only if the sequence returns a loaded word
//!         rseq->rseq_cs = &descriptor     arm
//! start:  slot = base + cpu_id * stride   cpu_id read inside, sign-extended
//!         if slot->gate != 0 goto closed  guard slots -1 and -2 are closed for good
//!         … the steps …                   conditional branches lead out of the section
//!         commit                          the last instruction
//! end:
//!         (out of line, after a signature)
//! abort:  goto aborted                    the kernel comes here when it interrupted the section
//! ```
//!
//! A sequence with a `cas` is attempted once. Its early returns after the `cas` pass through the
//! commit, which ends the section, so they say beforehand how it was left:
//!
//! ```text
//!         status = 1
//!         if a != b goto commit
//!         …
//!         status = 0
//! commit: the last instruction
//! end:
//! ```
//!
//! In the forms against this thread's signal handlers, which are all the same instructions:
//!
//! ```text
//!         status = 0                      only if the sequence returns a loaded word
//! start:  … the steps …                   conditional branches lead out, each to an exit
//! end:
//!         (out of line)
//! exit0:  status = 1; goto end            or straight to where the result is used
//!         (in other sections)
//!         the row and the clone, see `protect`
//! ```

pub mod aarch64;
pub mod indexing;
mod protect;
pub mod registers;
pub mod x86_64;

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use proc_macro2::Span;

use super::ir::{Constant, Exit, Operand, Register, Sequence, Step};

/// A form that is assembly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Against all that runs on this CPU.
    OnCpu,
    /// Against this thread's signal handlers: the same instructions, whatever the protection.
    Signal(Protection),
}

/// What a signal handler does about a sequence that it interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// Nothing: there is no row in the table.
    None,
    /// It starts again.
    Restart,
    /// It ends first, in a clone.
    Rollforward,
}

/// The most machine instructions between start and end.
pub const LONGEST: usize = 32;

/// A sequence as assembly for one architecture: what goes into one `asm!`.
pub struct Assembly {
    /// The template, line by line.
    pub lines: Vec<Line>,
    /// `c0`, `c1`, …
    pub constants: Vec<ConstantOperand>,
    /// `t0`, `t1`, …: how many temporaries the template uses.
    pub temporaries: usize,
    /// Registers the template names itself.
    pub fixed: Vec<&'static str>,
    /// Machine instructions between start and end.
    pub instructions: usize,
    /// The step that went beyond the longest sequence.
    pub beyond_longest: Option<Span>,
    /// The temporary with the slot's address, if it also tells how the section was left: it holds
    /// that address after the commit, and a small number otherwise.
    pub telling: Option<usize>,
    /// Where each exit, and last the commit, leaves its result.
    pub results: Vec<Vec<Place>>,
}

/// One line of a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    Text(String),
    /// A load-acquire; the mnemonic depends on the target's features.
    Acquire(String),
    /// An AArch64 compare-and-swap, with and without the instruction for it.
    Interlocked {
        lse: String,
        exclusive: String,
    },
}

impl Line {
    /// What it says, mnemonics that depend on the target's features left out.
    fn text(&self) -> &str {
        match self {
            Line::Text(text) | Line::Acquire(text) => text,
            // Both name the same operands.
            Line::Interlocked { exclusive, .. } => exclusive,
        }
    }
}

/// A constant that rustc evaluates, with the range the instruction can hold.
pub enum ConstantOperand {
    Immediate(Constant),
    Offset(Constant, u32),
}

impl Assembly {
    /// Does the template name this parameter? `asm!` takes no operand that is not there.
    pub fn reads_parameter(&self, index: usize) -> bool {
        self.names(&format!("a{index}"))
    }

    /// Does the template name this operand?
    pub fn names(&self, operand: &str) -> bool {
        let (plain, sized) = (format!("{{{operand}}}"), format!("{{{operand}:"));
        self.lines.iter().any(|line| {
            let text = line.text();
            text.contains(&plain) || text.contains(&sized)
        })
    }
}

impl ConstantOperand {
    pub fn constant(&self) -> &Constant {
        match self {
            ConstantOperand::Immediate(constant) | ConstantOperand::Offset(constant, _) => constant,
        }
    }
}

/// Where a word is once the section is left.
#[derive(Clone)]
pub enum Place {
    Temporary(usize),
    Parameter(usize),
    Constant(Constant),
}

/// How control leaves the template.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// Straight to blocks of Rust code: no instruction, but `asm!` then has no outputs.
    Labels,
    /// Through a status register: 0 after the commit, then the exits from 1, then aborted, closed.
    /// It may be the one with the slot's address, which then stands for 0.
    Status,
}

impl Leaving {
    /// Where a branch to an exit leads. The exits of the signal forms are all out of line, so that
    /// their branches are as long in the clone.
    pub fn target(self, form: Form, exit: usize) -> String {
        match (self, form) {
            (Leaving::Labels, Form::OnCpu) => format!("{{exit{exit}}}"),
            _ => format!("{}f", label::EXIT + exit),
        }
    }

    /// A status register is needed when a result is a word found in a temporary, or when ways out
    /// that differ end with the same instruction.
    pub fn of(sequence: &Sequence) -> Leaving {
        if sequence.leaves_by_commit() {
            return Leaving::Status;
        }
        let parameters = sequence.parameters.len();
        let computed = |operand: &Operand| {
            operand
                .register()
                .is_some_and(|Register(index)| index >= parameters)
        };
        let mut results = sequence
            .exits
            .iter()
            .map(|exit| &exit.result)
            .chain([&sequence.end.result]);
        match results.any(|result| result.iter().any(computed)) {
            true => Leaving::Status,
            false => Leaving::Labels,
        }
    }
}

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

/// The status an aborted attempt leaves; a closed gate leaves one more.
pub fn aborted_status(sequence: &Sequence) -> usize {
    sequence.exits.len() + 1
}

/// What the status register says of an exit that passes through the commit. Exits with the same
/// result are the same way out.
pub fn by_commit(sequence: &Sequence, exit: usize) -> Option<usize> {
    let own = &sequence.exits[exit];
    own.commit.as_ref()?;
    let same = |other: &Exit| other.commit.is_some() && other.key() == own.key();
    let first = sequence.exits.iter().position(same)?;
    Some(first + 1)
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
    lines: Vec<Line>,
    constants: Vec<ConstantOperand>,
    indices: HashMap<String, usize>,
    inside: bool,
    instructions: usize,
    beyond_longest: Option<Span>,
    /// Which lines lie between start and end.
    body: Range<usize>,
    /// Those of them that branch: the line, the instruction without its target, the exit.
    branches: Vec<(usize, String, usize)>,
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
