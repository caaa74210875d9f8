//! The intermediate representation: straight-line steps over words in single-assignment registers,
//! with exits that lead forward and out. Every form is made from this one description.
//!
//! ```text
//! let first = load(slot + 8);            r1 = load [r0 + 8]         r0 is the slot, a parameter
//! if first == 0 { return None }          exit 0 if r1 == 0          exit 0: None
//! let next = load(first);                r2 = load [r1]
//! commit(slot + 8, next);                commit [r0 + 8] = r2
//! Some(first)                            end: Some(r1)
//! ```
//!
//! What the rest of the compiler relies on, and `lower` and `rules` establish:
//!
//! 1. A register is assigned once, by a step before every step that reads it.
//! 2. No step leads backwards: a sequence ends after at most as many steps as it has.
//! 3. The words of an exit are registers that are assigned before the exit, parameters or
//!    constants.
//! 4. An address is a register plus a constant offset. Two addresses with equal keys are equal.
//! 5. There is at most one commit among the steps, and it is the last of them. Only an early return
//!    after a `cas` has a copy of it ([`Exit::commit`]), which is the same store.

use std::collections::HashMap;

use proc_macro2::{Span, TokenStream};
use quote::format_ident;
use syn::ext::IdentExt;
use syn::{Attribute, Ident, Visibility};

mod constant;
mod step;

pub use constant::{Constant, generated};
pub use step::*;

/// One sequence, as steps.
pub struct Sequence {
    /// What stands before the function.
    pub attributes: Attributes,
    /// Its visibility.
    pub visibility: Visibility,
    /// Whether it is a plain `fn`, whose forms for its CPU are safe to call.
    pub is_safe: bool,
    /// Where `fn` stands.
    pub keyword: Span,
    /// Its name.
    pub name: Ident,
    /// Its parameters, which are the first registers.
    pub parameters: Vec<Parameter>,
    /// Its result's type.
    pub returns: Returns,
    /// What it does, in order.
    pub steps: Vec<Step>,
    /// Its early returns, in order; a [`StepKind::Exit`] names one by index.
    pub exits: Vec<Exit>,
    /// The result after the commit.
    pub end: Exit,
    /// The result of an interrupted attempt, in a sequence with a `cas`, which is not restarted.
    pub abort: Option<Exit>,
    /// How many registers there are, parameters included.
    pub registers: usize,
    /// The registers that are another register plus a constant. Accesses through them are accesses
    /// at an offset from that other register, so rules can compare them.
    pub sums: HashMap<Register, Address>,
    /// The named constants, each once.
    pub constants: Vec<Named>,
    /// The rules that only rustc can check, because they depend on the values of named constants or
    /// on the width of a word.
    pub assertions: Vec<Assertion>,
}

/// The attributes before a sequence, by where they belong in the generated code:
///
/// ```text
///                               the type    all else    where constants are named    each form
/// doc, deprecated               as given
/// cfg, allow, warn, deny        as given    as given
/// expect(deprecated)                                    as given
/// expect(another lint)          as given    allow
/// must_use, inline                                                                   as given
/// ```
///
/// The type has the sequence's name, so rustc's lints about a function's name or documentation find
/// the type. `deprecated` is reported where named constants are named, which is one place.
///
/// Lints about use (`dead_code`) are expected on the type alone: to rustc, a form for which
/// `dead_code` is allowed is used, and with it the type, so the expectation would not be met.
#[derive(Default)]
pub struct Attributes {
    /// For the type.
    pub on_type: Vec<Attribute>,
    /// For every other item.
    pub on_rest: Vec<Attribute>,
    /// For the item that names the constants.
    pub on_constants: Vec<Attribute>,
    /// For each form.
    pub must_use: Option<Attribute>,
    /// For each form, instead of `#[inline(always)]`.
    pub inline: Option<Attribute>,
}

impl Attributes {
    /// Whether the sequence is deprecated, and so may use what is.
    pub fn is_deprecated(&self) -> bool {
        let deprecates = |attribute: &Attribute| attribute.path().is_ident("deprecated");
        self.on_type.iter().any(deprecates)
    }
}

/// Returns the name of the type that holds a sequence's named constants. It is not the sequence's
/// own type: assertions about the constants would use that, and rustc could not report a sequence
/// that is never used.
pub fn constants_name(of_sequence: &Ident) -> Ident {
    let span = generated(of_sequence.span());
    format_ident!(
        "__atomseq_constants_of_{}",
        of_sequence.unraw(),
        span = span
    )
}

/// A named constant. rustc evaluates its path in one place, and everything else names that place.
/// So an assertion checks the value that every form uses, even if the path contains a macro that
/// expands to something else each time.
pub struct Named {
    /// The associated constant that holds the value.
    pub place: Ident,
    /// The path as written.
    pub path: TokenStream,
    /// The constant, as steps use it.
    pub constant: Constant,
}

/// A condition on named constants that must hold for the sequence to keep a rule.
pub struct Assertion {
    /// A constant expression of type `bool`.
    pub holds: TokenStream,
    /// What rustc reports if it does not hold.
    pub message: &'static str,
    /// Where rustc reports it.
    pub span: Span,
}

impl Sequence {
    /// Returns the parameters that are slots, with their registers.
    pub fn slots(&self) -> impl Iterator<Item = (Register, &Parameter)> {
        self.parameters
            .iter()
            .enumerate()
            .filter(|(_, parameter)| parameter.is_slot)
            .map(|(index, parameter)| (Register(index), parameter))
    }

    /// Returns the index of the `cas`, if there is one.
    pub fn compare_exchange(&self) -> Option<usize> {
        let is = |step: &Step| matches!(step.kind, StepKind::CompareExchange { .. });
        self.steps.iter().position(is)
    }

    /// Whether an early return passes through the commit.
    pub fn leaves_by_commit(&self) -> bool {
        self.exits.iter().any(|exit| exit.commit.is_some())
    }

    /// Returns a register as an address: the register that it is a sum of, and the constant.
    pub fn address_of(&self, register: Register, span: Span) -> Address {
        self.sums.get(&register).cloned().unwrap_or(Address {
            base: register,
            offset: Constant::literal(0, span),
        })
    }
}

/// A parameter.
pub struct Parameter {
    /// Its name as written.
    pub name: Ident,
    /// Whether it is a `Slot`; otherwise it is a `Word`.
    pub is_slot: bool,
}

/// A way out: an early return, the end, or the abort block.
pub struct Exit {
    /// The words of the result.
    pub result: Vec<Operand>,
    /// What the words stand in.
    pub shape: Shape,
    /// The commit that an early return passes through, which releases what the `cas` has claimed.
    pub commit: Option<Step>,
    /// Where the result was written.
    pub span: Span,
}

impl Exit {
    /// Returns a text that is equal only for equal results.
    pub fn key(&self) -> String {
        let words: Vec<String> = self.result.iter().map(Operand::key).collect();
        format!("{:?} {words:?}", self.shape)
    }
}

/// What the caller sees of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// The words themselves.
    Plain,
    /// `Some` of the words.
    Some,
    /// `None`.
    None,
    /// `true`.
    True,
    /// `false`.
    False,
}

/// The type of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returns {
    /// `()`.
    Nothing,
    /// `bool`.
    Bool,
    /// 1 or 2 words.
    Words(usize),
    /// An option of 1 or 2 words.
    OptionWords(usize),
}
