//! The intermediate representation: straight-line steps over words in single-assignment
//! registers, with exits that only lead forward and out.
//!
//! Every form is made from this one description. A sequence with an interlocked compare-and-swap
//! cannot start again once that has happened: it is attempted once, and says in its abort block
//! what its caller is told after an interruption.

use std::collections::HashMap;

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{format_ident, quote_spanned};
use syn::ext::IdentExt;
use syn::{Ident, Visibility};

use super::parse::Attributes;

/// One sequence, lowered.
pub struct Sequence {
    pub attributes: Attributes,
    pub visibility: Visibility,
    /// Where `fn` stands.
    pub keyword: Span,
    pub name: Ident,
    pub parameters: Vec<Parameter>,
    pub returns: Returns,
    pub steps: Vec<Step>,
    /// Where early returns leave, in order; a `StepKind::Exit` names one by index.
    pub exits: Vec<Exit>,
    /// The result after the commit.
    pub end: Exit,
    /// What is returned after an interruption, if that does not start the sequence again.
    pub abort: Option<Exit>,
    /// How many registers there are; the parameters are the first of them.
    pub registers: usize,
    /// Registers known to be another register plus a constant.
    pub sums: HashMap<Register, Address>,
    /// The named constants, each once.
    pub constants: Vec<Named>,
    /// What only rustc can check, for it takes the values of named constants, or the width of a
    /// word.
    pub assertions: Vec<Assertion>,
}

/// The name of the type that holds a sequence's named constants. It is not the sequence's own type,
/// for rustc is to say that a sequence is never used, and what asserts something about its
/// constants would use it.
pub fn constants_name(of_sequence: &Ident) -> Ident {
    let span = generated(of_sequence.span());
    format_ident!(
        "__atomseq_constants_of_{}",
        of_sequence.unraw(),
        span = span
    )
}

/// A named constant. rustc evaluates its path in one place, and everything else names that place:
/// so what an assertion has checked is what every form uses, even if the path has a macro in it
/// that expands to something else each time.
pub struct Named {
    /// The associated constant that holds the value.
    pub place: Ident,
    /// The path.
    pub path: TokenStream,
    pub constant: Constant,
}

/// A condition on named constants that must hold for the sequence to keep a rule.
pub struct Assertion {
    /// A constant expression of type `bool`.
    pub holds: TokenStream,
    pub message: &'static str,
    pub span: Span,
}

impl Sequence {
    /// The parameters that are slots, with their register.
    pub fn slots(&self) -> impl Iterator<Item = (Register, &Parameter)> {
        self.parameters
            .iter()
            .enumerate()
            .filter(|(_, parameter)| parameter.is_slot)
            .map(|(index, parameter)| (Register(index), parameter))
    }

    /// Where the interlocked step is, if there is one.
    pub fn compare_exchange(&self) -> Option<usize> {
        let is = |step: &Step| matches!(step.kind, StepKind::CompareExchange { .. });
        self.steps.iter().position(is)
    }

    /// Is there an early return that passes through the commit?
    pub fn leaves_by_commit(&self) -> bool {
        self.exits.iter().any(|exit| exit.commit.is_some())
    }

    /// What a register is as an address: the register it is a sum of, and what was added.
    pub fn address_of(&self, register: Register, span: Span) -> Address {
        self.sums.get(&register).cloned().unwrap_or(Address {
            base: register,
            offset: Constant::literal(0, span),
        })
    }
}

pub struct Parameter {
    pub name: Ident,
    pub is_slot: bool,
}

/// A word that is assigned once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Register(pub usize);

/// A register or a constant.
#[derive(Clone)]
pub enum Operand {
    Register(Register),
    Constant(Constant),
}

impl Operand {
    pub fn register(&self) -> Option<Register> {
        match self {
            Operand::Register(register) => Some(*register),
            Operand::Constant(_) => None,
        }
    }

    /// Equal keys mean equal words.
    pub fn key(&self) -> String {
        match self {
            Operand::Register(register) => format!("{register:?}"),
            Operand::Constant(constant) => constant.key().to_owned(),
        }
    }
}

/// A constant: a literal, whose value the compiler knows, or an expression over named constants,
/// which rustc evaluates.
#[derive(Clone)]
pub struct Constant {
    /// Where words have 64 bits, as in every assembly.
    pub value: Option<u64>,
    /// The same where words have 32 bits.
    narrow: Option<u32>,
    /// An expression of type `usize`.
    pub tokens: TokenStream,
    pub span: Span,
    /// Equal keys mean equal values.
    key: String,
    /// What is read there.
    text: String,
}

/// `base + offset`.
#[derive(Clone)]
pub struct Address {
    pub base: Register,
    pub offset: Constant,
}

impl Address {
    /// Equal keys mean equal addresses; different keys may still mean the same address.
    pub fn key(&self) -> (Register, String) {
        (self.base, self.offset.key().to_owned())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    Word,
    Half,
}

impl Width {
    pub fn bytes(self) -> u32 {
        match self {
            Width::Word => 8,
            Width::Half => 4,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    Minimum,
}

impl BinaryOperator {
    pub fn commutes(self) -> bool {
        !matches!(
            self,
            BinaryOperator::Subtract | BinaryOperator::ShiftLeft | BinaryOperator::ShiftRight
        )
    }
}

/// Unsigned comparisons.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// The comparison that holds of `(b, a)` when this one holds of `(a, b)`.
    pub fn swapped(self) -> Comparison {
        match self {
            Comparison::Equal => Comparison::Equal,
            Comparison::NotEqual => Comparison::NotEqual,
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreKind {
    /// Nobody may see it before the commit.
    Prepare,
    /// The one visible store, the last step.
    Commit,
    /// Seen at once, by loads of the same sequence too; it cannot be repeated.
    Visible,
}

pub struct Step {
    pub kind: StepKind,
    pub span: Span,
}

impl Step {
    pub fn is_commit(&self) -> bool {
        self.stores(StoreKind::Commit)
    }

    /// Is it seen by nobody before the commit?
    pub fn is_prepare(&self) -> bool {
        self.stores(StoreKind::Prepare) || matches!(self.kind, StepKind::Copy { .. })
    }

    pub fn is_visible(&self) -> bool {
        self.stores(StoreKind::Visible)
    }

    fn stores(&self, what: StoreKind) -> bool {
        matches!(self.kind, StepKind::Store { kind, .. } if kind == what)
    }
}

pub enum StepKind {
    Load {
        to: Register,
        from: Address,
        width: Width,
        acquire: bool,
    },
    Cpu {
        to: Register,
    },
    /// Stores `new` if the word is `expected`, with an interlocked instruction. Acquires, and is
    /// visible before the visible stores that follow.
    CompareExchange {
        /// The word that was there.
        to: Register,
        at: Address,
        expected: Operand,
        new: Operand,
    },
    Binary {
        to: Register,
        operator: BinaryOperator,
        a: Operand,
        b: Operand,
    },
    /// Leaves by `exit` if the comparison holds.
    Exit {
        comparison: Comparison,
        a: Operand,
        b: Operand,
        exit: usize,
    },
    Store {
        kind: StoreKind,
        to: Address,
        value: Operand,
        width: Width,
        release: bool,
    },
    /// Copies `words` words; only ever prepares.
    Copy {
        to: Register,
        from: Register,
        words: Operand,
    },
}

impl StepKind {
    /// The register this step assigns.
    pub fn defines(&self) -> Option<Register> {
        match self {
            StepKind::Load { to, .. }
            | StepKind::Cpu { to }
            | StepKind::CompareExchange { to, .. }
            | StepKind::Binary { to, .. } => Some(*to),
            StepKind::Exit { .. } | StepKind::Store { .. } | StepKind::Copy { .. } => None,
        }
    }

    /// The address this step loads from or stores to.
    pub fn address(&self) -> Option<&Address> {
        match self {
            StepKind::Load { from, .. } => Some(from),
            StepKind::Store { to, .. } => Some(to),
            StepKind::CompareExchange { at, .. } => Some(at),
            _ => None,
        }
    }

    /// The registers this step reads, those of its exit's result aside.
    pub fn uses(&self) -> Vec<Register> {
        let operands = |operands: &[&Operand]| {
            operands
                .iter()
                .filter_map(|operand| operand.register())
                .collect::<Vec<_>>()
        };
        match self {
            StepKind::Load { from, .. } => vec![from.base],
            StepKind::Cpu { .. } => vec![],
            StepKind::CompareExchange {
                at, expected, new, ..
            } => {
                let mut registers = vec![at.base];
                registers.extend(operands(&[expected, new]));
                registers
            }
            StepKind::Binary { a, b, .. } | StepKind::Exit { a, b, .. } => operands(&[a, b]),
            StepKind::Store { to, value, .. } => {
                let mut registers = vec![to.base];
                registers.extend(value.register());
                registers
            }
            StepKind::Copy { to, from, words } => {
                let mut registers = vec![*to, *from];
                registers.extend(words.register());
                registers
            }
        }
    }
}

/// Where control leaves, and with what.
pub struct Exit {
    pub result: Vec<Operand>,
    pub shape: Shape,
    /// The commit it passes through, if any.
    pub commit: Option<Step>,
    /// The result as written.
    pub span: Span,
}

impl Exit {
    /// Equal keys mean equal results, of words that do not depend on when they are looked at.
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
    Some,
    None,
    True,
    False,
}

/// What a sequence returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returns {
    Nothing,
    Bool,
    /// 1 or 2 words.
    Words(usize),
    /// An option of 1 or 2 words.
    OptionWords(usize),
}

/// Where something was written, as part of what the macro made of it: lints are then rustc's about
/// a macro's output, not about the user's text. And `::atomseq` is this crate's: a token of the
/// first edition would look for it in the crate where it stands.
pub fn generated(span: Span) -> Span {
    span.resolved_at(Span::mixed_site())
}

/// A path as text; its names without `r#`, for rustc takes a name with it and without for the same.
fn written(path: &TokenStream) -> String {
    let tokens = path.clone().into_iter().map(|token| match token {
        TokenTree::Ident(name) => name.unraw().to_string(),
        other => other.to_string(),
    });
    tokens.collect::<Vec<_>>().join(" ")
}

impl Constant {
    pub fn literal(value: u64, span: Span) -> Constant {
        Constant::folded(value, value as u32, span)
    }

    /// A constant that has this value where words have 64 bits, and that value where they have 32.
    fn folded(value: u64, narrow: u32, span: Span) -> Constant {
        let at = generated(span);
        let mut literal = proc_macro2::Literal::u64_unsuffixed(value);
        literal.set_span(at);
        let (tokens, text) = match narrow == value as u32 {
            true => (
                quote_spanned!(at=> (#literal as ::atomseq::generated::standard::usize)),
                value.to_string(),
            ),
            false => (
                quote_spanned!(at=> ::atomseq::generated::check::by_width(#literal, #narrow)),
                format!("{value} or {narrow}"),
            ),
        };
        Constant {
            value: Some(value),
            narrow: Some(narrow),
            tokens,
            span,
            key: text.clone(),
            text,
        }
    }

    /// Where words have 32 bits, does it have the same value, as a signed number?
    pub fn is_the_same_in_32_bits(&self) -> bool {
        let signed = |value: u64, narrow: u32| value as i64 == i64::from(narrow as i32);
        self.value
            .zip(self.narrow)
            .is_none_or(|(value, narrow)| signed(value, narrow))
    }

    /// Is it zero, whether words have 64 bits or 32?
    pub fn is_zero(&self) -> bool {
        self.value == Some(0) && self.narrow == Some(0)
    }

    /// Equal keys mean that paths name the same constant. `occurrence` differs from that of every
    /// other in the sequence.
    ///
    /// Paths of plain names that read the same name the same constant, for items have no hygiene:
    /// the macro's output is one place, where a name means one thing. All others are never taken
    /// for one another: `$crate` is the crate that each macro is from, a path may begin as its
    /// edition says, and what stands between `<` and `>` may hold an expression that depends on
    /// where it stands, such as `line!()`.
    pub fn key_of(path: &TokenStream, occurrence: usize) -> String {
        let plain = |token: TokenTree| match token {
            TokenTree::Ident(name) => name != "$crate",
            TokenTree::Punct(mark) => mark.as_char() == ':',
            _ => false,
        };
        let mut tokens = path.clone().into_iter();
        let begins = matches!(tokens.clone().next(), Some(TokenTree::Ident(_)));
        let text = written(path);
        match begins && tokens.all(plain) {
            true => text,
            false => format!("{text} #{occurrence}"),
        }
    }

    /// The constant of this key and path, whose value is in `place`.
    pub fn named(key: String, path: &TokenStream, place: TokenStream, span: Span) -> Constant {
        Constant {
            value: None,
            narrow: None,
            tokens: place,
            span,
            key,
            text: written(path),
        }
    }

    /// Do both read the same? If they have different keys, rustc is to say whether they are equal.
    pub fn reads_like(&self, other: &Constant) -> bool {
        self.text == other.text
    }

    /// Applies an operator; literals are folded here, names by rustc.
    pub fn apply(operator: BinaryOperator, a: &Constant, b: &Constant, span: Span) -> Constant {
        use BinaryOperator::*;
        if let (Some((a, a32)), Some((b, b32))) = (a.value.zip(a.narrow), b.value.zip(b.narrow)) {
            let (value, narrow) = match operator {
                Add => (a.wrapping_add(b), a32.wrapping_add(b32)),
                Subtract => (a.wrapping_sub(b), a32.wrapping_sub(b32)),
                Multiply => (a.wrapping_mul(b), a32.wrapping_mul(b32)),
                And => (a & b, a32 & b32),
                Or => (a | b, a32 | b32),
                Xor => (a ^ b, a32 ^ b32),
                ShiftLeft => (a.wrapping_shl(b as u32), a32.wrapping_shl(b32)),
                ShiftRight => (a.wrapping_shr(b as u32), a32.wrapping_shr(b32)),
                Minimum => (a.min(b), a32.min(b32)),
            };
            return Constant::folded(value, narrow, span);
        }
        if b.is_zero() && matches!(operator, Add | Subtract) {
            return a.clone();
        }
        if a.is_zero() && operator == Add {
            return b.clone();
        }
        let (x, y) = (&a.tokens, &b.tokens);
        let at = generated(span);
        let tokens = match operator {
            Add => quote_spanned!(at=> ::atomseq::generated::standard::usize::wrapping_add(#x, #y)),
            Subtract => {
                quote_spanned!(at=> ::atomseq::generated::standard::usize::wrapping_sub(#x, #y))
            }
            Multiply => {
                quote_spanned!(at=> ::atomseq::generated::standard::usize::wrapping_mul(#x, #y))
            }
            And => quote_spanned!(at=> (#x & #y)),
            Or => quote_spanned!(at=> (#x | #y)),
            Xor => quote_spanned!(at=> (#x ^ #y)),
            ShiftLeft => {
                quote_spanned!(at=> ::atomseq::generated::standard::usize::wrapping_shl(#x, #y as ::atomseq::generated::standard::u32))
            }
            ShiftRight => {
                quote_spanned!(at=> ::atomseq::generated::standard::usize::wrapping_shr(#x, #y as ::atomseq::generated::standard::u32))
            }
            Minimum => quote_spanned!(at=> if #x < #y { #x } else { #y }),
        };
        Constant {
            value: None,
            narrow: None,
            tokens: quote_spanned!(generated(span)=> (#tokens)),
            span,
            key: format!("({operator:?} {} {})", a.key, b.key),
            text: format!("({operator:?} {} {})", a.text, b.text),
        }
    }

    pub fn key(&self) -> &str {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(value: u64) -> Constant {
        Constant::literal(value, Span::call_site())
    }

    fn named(path: &str, occurrence: usize) -> Constant {
        let path: TokenStream = path.parse().expect("tokens");
        let key = Constant::key_of(&path, occurrence);
        Constant::named(key, &path, quote::quote!(HERE), Span::call_site())
    }

    fn apply(operator: BinaryOperator, a: &Constant, b: &Constant) -> Constant {
        Constant::apply(operator, a, b, Span::call_site())
    }

    #[test]
    fn literals_are_folded_as_processors_compute() {
        use BinaryOperator::*;
        for (operator, a, b, folded) in [
            (Add, u64::MAX, 2, 1),
            (Subtract, 0, 8, u64::MAX - 7),
            (Multiply, 1 << 63, 3, 1 << 63),
            (And, 12, 10, 8),
            (Or, 12, 10, 14),
            (Xor, 12, 10, 6),
            (ShiftLeft, 1, 64, 1),
            (ShiftLeft, 1, 63, 1 << 63),
            (ShiftRight, 1 << 63, 1 << 32, 1 << 63),
            (Minimum, 3, u64::MAX, 3),
        ] {
            let result = apply(operator, &literal(a), &literal(b));
            assert_eq!(result.value, Some(folded), "{operator:?} of {a} and {b}");
        }
    }

    #[test]
    fn literals_are_folded_at_both_widths() {
        use BinaryOperator::*;
        let ones = apply(Subtract, &literal(0), &literal(1));
        for (operator, a, b, narrow, same) in [
            (Add, &ones, 2, 1, true),
            (Xor, &ones, 0, u32::MAX, true),
            (ShiftRight, &ones, 8, u32::MAX >> 8, false),
            (ShiftLeft, &literal(1), 40, 1 << 8, false),
            (Minimum, &ones, 1 << 31, 1 << 31, false),
            (Minimum, &literal(3), 5, 3, true),
            (Multiply, &literal(1 << 20), 1 << 20, 0, false),
        ] {
            let result = apply(operator, a, &literal(b));
            assert_eq!(result.narrow, Some(narrow), "{operator:?} {b}");
            assert_eq!(result.is_the_same_in_32_bits(), same, "{operator:?} {b}");
        }
        let (shifted, written) = (apply(ShiftRight, &ones, &literal(32)), literal(0xffff_ffff));
        assert_eq!(shifted.value, written.value);
        assert_eq!(
            shifted.key(),
            written.key(),
            "both have the same bits below"
        );
        let shifted = apply(ShiftRight, &ones, &literal(8));
        assert_ne!(shifted.key(), literal(u64::MAX >> 8).key());
    }

    #[test]
    fn names_are_left_to_rustc_and_zero_changes_nothing() {
        use BinaryOperator::*;
        let named = || named("NAMED", 0);
        assert_eq!(apply(Add, &named(), &literal(8)).value, None);
        assert_eq!(apply(Add, &named(), &literal(0)).key(), named().key());
        assert_eq!(apply(Add, &literal(0), &named()).key(), named().key());
        assert_eq!(apply(Subtract, &named(), &literal(0)).key(), named().key());
        assert_ne!(apply(Subtract, &literal(0), &named()).key(), named().key());
    }

    #[test]
    fn zero_at_one_width_is_not_zero() {
        use BinaryOperator::*;
        let named = || named("NAMED", 0);
        let two_or_zero = apply(ShiftRight, &literal(2), &literal(32));
        for operator in [Add, Subtract] {
            let result = apply(operator, &named(), &two_or_zero);
            assert_ne!(result.key(), named().key(), "{operator:?}");
        }
        assert_ne!(apply(Add, &two_or_zero, &named()).key(), named().key());
    }

    #[test]
    fn only_paths_that_mean_the_same_everywhere_have_equal_keys() {
        assert_eq!(named("SIZE", 0).key(), named("SIZE", 1).key());
        assert_eq!(named("a::SIZE", 0).key(), named("a::SIZE", 1).key());
        assert_eq!(named("a::r#SIZE", 0).key(), named("r#a::SIZE", 1).key());
        for path in [
            "::a::SIZE",
            "<a as B>::SIZE",
            "a::<B>::SIZE",
            "a::<{ line!() }>::SIZE",
            "$crate::SIZE",
        ] {
            assert_ne!(named(path, 0).key(), named(path, 1).key());
            assert!(named(path, 0).reads_like(&named(path, 1)));
        }
        let (a, b) = (named("::a::SIZE", 0), named("::a::SIZE", 1));
        let sum = |constant| apply(BinaryOperator::Add, constant, &literal(8));
        assert_ne!(sum(&a).key(), sum(&b).key());
        assert_eq!(sum(&a).key(), sum(&a).key());
    }

    #[test]
    fn a_swapped_comparison_says_the_same() {
        use Comparison::*;
        for comparison in [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual] {
            assert_eq!(comparison.swapped().swapped(), comparison);
        }
        assert_eq!(Less.swapped(), Greater);
        assert_eq!(GreaterOrEqual.swapped(), LessOrEqual);
    }
}
