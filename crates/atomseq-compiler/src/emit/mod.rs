//! Assembly from the steps: one directory an architecture, and what they share.
//!
//! A template is the text of one `asm!`: the steps of the sequence inside a frame that the form
//! decides. Each architecture has the same three parts. `frame.rs` writes what stands around the
//! steps, `steps.rs` the steps, `operands.rs` memory operands and constants. `builder.rs` collects
//! lines, `registers.rs` assigns temporaries, and `limits.rs` refuses what does not fit a
//! processor.
//!
//! # The `on_cpu` form
//!
//! The kernel restarts or ends this form when it interrupts the thread between `start` and `end`.
//! The shape is the same on every architecture:
//!
//! ```text
//!         status = 0                      only if a result is a word in a temporary
//!         rseq->rseq_cs = &descriptor     arms the section: the kernel now watches start..end
//! start:  slot = base + cpu_id * stride   cpu_id is read inside, and sign-extended
//!         if slot->gate != 0 goto closed  slots -1 and -2, of unregistered threads, are always closed
//!         … the steps …                   conditional branches lead out of the section
//!         commit                          the last instruction: one store, so all or nothing
//! end:
//!         (out of line, after a signature that the kernel checks)
//! abort:  goto aborted                    where the kernel continues an interrupted thread
//! ```
//!
//! The slot is computed inside the section because the CPU's number is valid only there: a thread
//! that migrates after `start` is sent to `abort` before it runs another instruction.
//!
//! A sequence with a `cas` is attempted once. Its early returns after the `cas` pass through the
//! commit, which ends the section, so the status register is set before they branch to it:
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
//! # The forms against this thread's signal handlers
//!
//! All three (restarted, rolled forward, unprotected) are the same instructions. They differ in
//! what the table of sequences says about them, see `protect`:
//!
//! ```text
//!         status = 0                      only if a result is a word in a temporary
//! start:  … the steps …                   conditional branches lead out, each to an exit
//! end:
//!         (out of line)
//! exit0:  status = 1; goto end            or straight to where Rust uses the result
//!         (in other sections of the object file)
//!         the row, and the clone
//! ```
//!
//! # Operands
//!
//! Templates name operands; rustc replaces them by machine registers and numbers.
//!
//! | operand | what it is |
//! |---|---|
//! | `a0`, `a1`, … | parameters, read only: a restart needs them again |
//! | `t0`, `t1`, … | temporaries, each written before it is read |
//! | `c0`, `c1`, … | constants that rustc evaluates: numbers in the text, or registers, see [`NamedWords`] |
//! | `status` | how the template was left, see [`Leaving`] |
//! | `exit0`, …, `aborted`, `closed` | labels of Rust blocks, see [`Leaving::Labels`] |
//! | `rseq` | the offset of `struct rseq` from the thread pointer |
//! | `word`, `level` | in `schemes`, see there |
//! | `area`, `stride`, `base` | where slots are, in the `on_cpu` form; see each architecture |

pub mod aarch64;
mod builder;
mod indexing;
pub(crate) mod limits;
mod protect;
mod registers;
#[cfg(feature = "schemes")]
pub mod schemes;
pub mod x86_64;

use std::ops::Range;

use proc_macro2::Span;

pub use builder::label;
pub use limits::LONGEST;

use crate::forms::Form;
use crate::ir::{Constant, Exit, Operand, Register, Sequence};

/// A sequence as assembly for one architecture: the template of one `asm!` and its operands.
pub struct Assembly {
    /// The template, line by line.
    pub lines: Vec<Line>,
    /// Which of the lines are between `start` and `end`.
    pub body: Range<usize>,
    /// `c0`, `c1`, …, in this order.
    pub constants: Vec<ConstantOperand>,
    /// `t0`, `t1`, …: how many temporaries the template uses.
    pub temporaries: usize,
    /// Machine registers that the template names itself, and so clobbers.
    pub fixed: Vec<&'static str>,
    /// Machine instructions between `start` and `end`; a copy counts as one.
    pub instructions: usize,
    /// The first step beyond [`LONGEST`] instructions, if there is one.
    pub beyond_longest: Option<Span>,
    /// The temporary with the slot's address, if it serves as the status register too. It holds
    /// that address after the commit, and the number of another way out otherwise: no address is as
    /// small.
    pub slot_as_status: Option<usize>,
    /// Where each exit finds the words of its result; the last element is the commit's.
    pub results: Vec<Vec<Place>>,
}

/// One line of a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// An instruction, a label or a directive.
    Text(String),
    /// The operands of an AArch64 load-acquire. rustc's target features decide between `ldar` and
    /// `ldapr`, so the library adds the mnemonic.
    Acquire(String),
    /// An AArch64 compare-and-swap. The library picks one of the two by the target's features.
    Interlocked {
        /// With the instruction `casa`.
        lse: String,
        /// With a loop of exclusive accesses.
        exclusive: String,
    },
}

impl Line {
    /// Returns the text that names the operands.
    fn text(&self) -> &str {
        match self {
            Line::Text(text) | Line::Acquire(text) => text,
            // Both name the same operands.
            Line::Interlocked { exclusive, .. } => exclusive,
        }
    }
}

/// Where a template has the named constants that it uses as words. Their values are known to rustc
/// alone, so there is a template for each, and rustc keeps the one that fits: an `if` over a
/// constant decides between the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NamedWords {
    /// In instructions. Each is at most 65,535, which every architecture holds in one instruction.
    #[default]
    Immediates,
    /// In registers that rustc loads beforehand, outside of the sequence: of any value. As with a
    /// parameter, a restart finds them unchanged.
    Registers,
}

/// A constant that rustc evaluates, by what the instruction does with it. That decides its range.
pub enum ConstantOperand {
    /// A word: at most 65,535.
    Immediate(Constant),
    /// A word of any value, in a register.
    Register(Constant),
    /// An offset of a memory operand of so many bytes.
    Offset(Constant, u32),
}

impl Assembly {
    /// Whether the template reads this parameter. `asm!` refuses an operand that is never named.
    pub fn reads_parameter(&self, index: usize) -> bool {
        self.names(&format!("a{index}"))
    }

    /// Whether the template names this operand.
    pub fn names(&self, operand: &str) -> bool {
        let (plain, sized) = (format!("{{{operand}}}"), format!("{{{operand}:"));
        self.lines.iter().any(|line| {
            let text = line.text();
            text.contains(&plain) || text.contains(&sized)
        })
    }
}

impl ConstantOperand {
    /// Returns the constant itself.
    pub fn constant(&self) -> &Constant {
        match self {
            ConstantOperand::Immediate(constant)
            | ConstantOperand::Register(constant)
            | ConstantOperand::Offset(constant, _) => constant,
        }
    }
}

/// Where a word of a result is after the template.
#[derive(Clone)]
pub enum Place {
    /// In the temporary of this number.
    Temporary(usize),
    /// In the parameter of this number, which no template changes.
    Parameter(usize),
    /// Nowhere: it is known.
    Constant(Constant),
}

/// How control leaves the template.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// Each branch leads straight to a block of Rust code. This costs no instruction, but then
    /// `asm!` can have no outputs: it is for results that no temporary holds.
    Labels,
    /// Every way out ends at `end` with its number in a status register: 0 after the commit, the
    /// exits from 1, then aborted, then closed. Rust code compares it. On x86-64 the register of
    /// the slot's address may serve ([`Assembly::slot_as_status`]): the address stands for 0.
    Status,
}

impl Leaving {
    /// Returns the operand of a branch to an exit. In the signal forms every exit is a label out of
    /// line, so that a branch to it is encoded as in the clone.
    pub(crate) fn target(self, form: Form, exit: usize) -> String {
        match (self, form) {
            (Leaving::Labels, Form::OnCpu) => format!("{{exit{exit}}}"),
            _ => format!("{}f", label::EXIT + exit),
        }
    }

    /// Decides for a sequence. A status register is needed when a result is a word in a temporary,
    /// and when several ways out end with the same instruction, the commit.
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

/// Returns the status of an aborted attempt; that of a closed gate is one more.
pub(crate) fn aborted_status(sequence: &Sequence) -> usize {
    sequence.exits.len() + 1
}

/// Returns the status of an exit that passes through the commit; `None` for the others. Exits with
/// equal results share a status, so that the register is set less often.
pub(crate) fn by_commit(sequence: &Sequence, exit: usize) -> Option<usize> {
    let own = &sequence.exits[exit];
    own.commit.as_ref()?;
    let same = |other: &Exit| other.commit.is_some() && other.key() == own.key();
    let first = sequence.exits.iter().position(same)?;
    Some(first + 1)
}
