//! Constants: literals, which are folded here, and named constants, which rustc evaluates.
//!
//! The compiler sees tokens, not values. Of a literal it knows the value, where words have 64 bits
//! and where they have 32. Of a named constant it knows a path: it can compare two by what they
//! read, and hands expressions over them to rustc. So there are three questions with different
//! answers:
//!
//! * [`Constant::value`]: the number, if every part is a literal.
//! * [`Constant::key`]: equal keys mean equal values, certainly. Rules rely on it.
//! * [`Constant::reads_like`]: the same text, which probably means the same value. A rule that
//!   would like to rely on it asserts so, and rustc checks it.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::ext::IdentExt;

use super::BinaryOperator;

/// A constant: a literal, whose value the compiler knows, or an expression over named constants,
/// which rustc evaluates.
#[derive(Clone)]
pub struct Constant {
    /// The value of a literal where words have 64 bits, as in every template.
    pub value: Option<u64>,
    /// The value of a literal where words have 32 bits.
    narrow: Option<u32>,
    /// An expression of type `usize`.
    pub tokens: TokenStream,
    /// Where it was written.
    pub span: Span,
    /// Equal keys mean equal values.
    key: String,
    /// What is written there, without `r#`.
    text: String,
    /// Whether a constant named `BULK` is part of it: it leads to the memory behind a slot's words.
    pub names_bulk: bool,
}

/// Returns a span at the same place that belongs to the macro's output. rustc's lints then treat
/// the tokens as generated, not as the user's text. And `::atomseq` names a crate in it: with the
/// span of a crate of the 2015 edition it would name an item of that crate.
pub fn generated(span: Span) -> Span {
    span.resolved_at(Span::mixed_site())
}

/// Returns a path as text, its names without `r#`: to rustc `r#NAME` is `NAME`.
fn written(path: &TokenStream) -> String {
    let tokens = path.clone().into_iter().map(|token| match token {
        TokenTree::Ident(name) => name.unraw().to_string(),
        other => other.to_string(),
    });
    tokens.collect::<Vec<_>>().join(" ")
}

impl Constant {
    /// Returns the constant of a literal.
    pub fn literal(value: u64, span: Span) -> Constant {
        Constant::folded(value, value as u32, span)
    }

    /// Returns the word whose bits are all ones, at either width.
    pub fn ones(span: Span) -> Constant {
        Constant::literal(u64::MAX, span)
    }

    /// Returns a constant that has the first value where words have 64 bits, the second where they
    /// have 32. Folding may make them differ: `1 << 40` is `1 << 8` where words have 32 bits.
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
            names_bulk: false,
        }
    }

    /// Whether it has the same value where words have 32 bits, as a signed number.
    pub fn is_the_same_in_32_bits(&self) -> bool {
        let signed = |value: u64, narrow: u32| value as i64 == i64::from(narrow as i32);
        self.value
            .zip(self.narrow)
            .is_none_or(|(value, narrow)| signed(value, narrow))
    }

    /// Whether it is zero at both widths.
    pub fn is_zero(&self) -> bool {
        self.value == Some(0) && self.narrow == Some(0)
    }

    /// Returns the key of a path. Equal keys mean that paths name the same constant. `occurrence`
    /// is another number for each use in the sequence.
    ///
    /// Two paths of plain names that read the same name the same constant: items have no hygiene,
    /// so in the macro's output a name means one thing. Every other path gets a key of its own.
    /// `$crate` depends on the macro that wrote it, a path that begins with `::` on the edition,
    /// and what stands between `<` and `>` may hold an expression that depends on its place, such
    /// as `line!()`.
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

    /// Returns the constant of this key and path, whose value is in `place`.
    pub fn named(key: String, path: &TokenStream, place: TokenStream, span: Span) -> Constant {
        let last = path.clone().into_iter().last();
        let names_bulk = matches!(last, Some(TokenTree::Ident(name)) if name.unraw() == "BULK");
        Constant {
            value: None,
            narrow: None,
            tokens: place,
            span,
            key,
            text: written(path),
            names_bulk,
        }
    }

    /// Whether both read the same. If their keys differ, only rustc knows whether they are equal.
    pub fn reads_like(&self, other: &Constant) -> bool {
        self.text == other.text
    }

    /// Applies an operator: to literals here, at both widths; otherwise in an expression for rustc.
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
                Maximum => (a.max(b), a32.max(b32)),
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
            Maximum => quote_spanned!(at=> if #x < #y { #y } else { #x }),
        };
        Constant {
            value: None,
            narrow: None,
            tokens: quote_spanned!(generated(span)=> (#tokens)),
            span,
            key: format!("({operator:?} {} {})", a.key, b.key),
            text: format!("({operator:?} {} {})", a.text, b.text),
            names_bulk: a.names_bulk || b.names_bulk,
        }
    }

    /// Returns a text that is equal only for equal values.
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
            (Maximum, 3, u64::MAX, u64::MAX),
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
            (Maximum, &ones, 1 << 31, u32::MAX, true),
            (Maximum, &literal(3), 1 << 32, 3, false),
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
    fn an_offset_to_bulk_memory_is_known_by_its_name() {
        let bulk = |path| named(path, 0).names_bulk;
        assert!(bulk("BULK") && bulk("atomseq::percpu::Area::BULK") && bulk("<A as B>::r#BULK"));
        assert!(!bulk("BULKY") && !bulk("BULK::FIRST") && !literal(128).names_bulk);
        let sum = apply(BinaryOperator::Add, &named("Area::BULK", 0), &literal(8));
        assert!(sum.names_bulk);
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
}
