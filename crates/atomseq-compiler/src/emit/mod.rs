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
mod builder;
mod indexing;
pub(crate) mod limits;
mod protect;
mod registers;
pub mod x86_64;

use proc_macro2::Span;

pub use builder::label;
pub use limits::LONGEST;

use crate::forms::Form;
use crate::ir::{Constant, Exit, Operand, Register, Sequence};

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
