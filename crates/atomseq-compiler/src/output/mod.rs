//! The Rust item of a sequence: an uninhabited type of its name, with one associated function for
//! each form, and the model.
//!
//! ```text
//! pub enum pop {}                                  visibility, documentation: the sequence's
//! enum __atomseq_constants_of_pop {}               the named constants, each evaluated in one place
//! impl __atomseq_constants_of_pop { const CONSTANT_0: usize = …; }
//! impl pop {
//!     pub unsafe fn on_cpu(slot: Slots<'_>) -> Result<Option<usize>, Closed>       on_cpu, operands
//!     unsafe fn again(slot: Slots<'_>) -> Result<Option<usize>, Closed>            its restarts
//!     pub unsafe fn gated(slot: &GateGuard<'_>) -> Option<usize>                   gated
//!     pub unsafe fn restarting(slot: usize) -> Option<usize>                       signal, operands
//!     pub unsafe fn rolling(slot: usize) -> Option<usize>
//!     pub unsafe fn unprotected(slot: usize) -> Option<usize>                      hidden
//!     pub const MODEL: Program = …;                                                model
//! }
//! const _: () = { assert!(…); … };                 what rustc checks of named constants
//! ```
//!
//! Of a sequence that is a plain `fn`, `on_cpu` and `gated` are safe functions.
//!
//! Everything that is named begins with `::atomseq`, and every variable with `__atomseq_`: the
//! caller's crate may define any other name.

mod gated;
mod model;
mod on_cpu;
mod operands;
#[cfg(feature = "schemes")]
mod schemes;
mod signal;
mod signature;

use std::collections::HashSet;

use proc_macro2::{Delimiter, Group, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Result, Token};

#[cfg(feature = "schemes")]
pub use self::schemes::with_schemes;
use self::signature::visibility_of_forms;
use crate::emit::{Assembly, ConstantOperand, NamedWords, aarch64, limits, x86_64};
use crate::forms::Forms;
use crate::ir::*;
use crate::message;

/// Returns the item of one sequence.
///
/// # Errors
///
/// A template that does not fit a processor.
pub fn sequence(sequence: &Sequence) -> Result<TokenStream> {
    let forms = Forms::of(sequence);
    let templates = Templates::of(sequence, forms)?;
    let (visibility, name) = (&sequence.visibility, &sequence.name);
    let Attributes {
        on_type,
        on_rest,
        on_constants,
        ..
    } = &sequence.attributes;
    // With the spans of the function: otherwise rustc takes the type for a macro's own, and does
    // not report that it is never used.
    let keyword = Token![enum](sequence.keyword);
    let mut nothing = Group::new(Delimiter::Brace, TokenStream::new());
    nothing.set_span(sequence.keyword);
    let of_forms = visibility_of_forms(sequence);
    let model = model::program(sequence);
    let assertions = assertions(sequence, &templates);
    let on_cpu = match forms.on_cpu {
        true => on_cpu::function(sequence, &templates),
        false => on_cpu::absent(sequence),
    };
    let gated = forms.gated.then(|| gated::function(sequence));
    let signal = signal::functions(sequence, &templates);
    let constants = sequence.constants.iter().map(|named| {
        let Named {
            place,
            path,
            constant,
        } = named;
        let at = generated(constant.span);
        // The path is named once: it may mean another constant each time.
        quote_spanned! {at=>
            const #place: ::atomseq::generated::standard::usize = match #path {
                __atomseq_given => {
                    ::atomseq::generated::check::word(__atomseq_given, __atomseq_given as ::atomseq::generated::standard::i128)
                }
            };
        }
    });
    let allowed = allowed(sequence);
    // Without constants, what is expected of them is expected of the forms.
    let on_forms = on_constants
        .iter()
        .filter(|_| sequence.constants.is_empty());
    let of_constants = (!sequence.constants.is_empty()).then(|| {
        let name = constants_name(name);
        quote! {
            #(#on_rest)*
            #[allow(non_camel_case_types)]
            enum #name {}

            #(#on_rest)*
            #(#on_constants)*
            #allowed
            impl #name {
                #(#constants)*
            }
        }
    });
    Ok(quote! {
        #(#on_type)*
        #[allow(non_camel_case_types, missing_copy_implementations, missing_debug_implementations)]
        #visibility #keyword #name #nothing

        #of_constants

        #(#on_rest)*
        #(#on_forms)*
        #allowed
        impl #name {
            #on_cpu
            #gated
            #signal

            /// The form for a checker: the steps as data.
            #of_forms const MODEL: ::atomseq::sequence::model::Program = #model;
        }

        #(#on_rest)*
        #allowed
        const _: () = { #assertions };
    })
}

/// The templates of all forms, in the order of [`Forms::assembled`], for each form x86-64 and then
/// AArch64. So if there is the `on_cpu` form, its templates are the first two.
struct Templates {
    small: Vec<Assembly>,
    /// Whether every named word fits an instruction: a constant expression of type `bool`.
    fit: TokenStream,
    /// For the others; `None` also if there are no named words.
    large: Option<Vec<Assembly>>,
}

impl Templates {
    fn of(sequence: &Sequence, forms: Forms) -> Result<Templates> {
        let small = templates(sequence, forms, NamedWords::Immediates)?;
        let immediates = immediates(&small);
        let large = match immediates.is_empty() {
            true => None,
            // They may need more registers than there are: then large constants are refused.
            false => templates(sequence, forms, NamedWords::Registers).ok(),
        };
        Ok(Templates {
            small,
            fit: quote!(#(#immediates)&&*),
            large,
        })
    }

    /// Returns the code of one of the templates, by what makes it. Of two, the condition is known
    /// while rustc compiles, so the other one is not in the program.
    fn either(&self, code: impl Fn(NamedWords) -> TokenStream) -> TokenStream {
        let small = code(NamedWords::Immediates);
        if self.large.is_none() {
            return small;
        }
        let (fit, large) = (&self.fit, code(NamedWords::Registers));
        quote!(if const { #fit } { #small } else { #large })
    }

    /// Returns the templates of one kind; of large constants, if there are any.
    fn all(&self, named_words: NamedWords) -> &[Assembly] {
        match (named_words, &self.large) {
            (NamedWords::Registers, Some(large)) => large,
            _ => &self.small,
        }
    }
}

/// Emits all templates of a sequence; refuses what does not fit a processor.
fn templates(sequence: &Sequence, forms: Forms, named_words: NamedWords) -> Result<Vec<Assembly>> {
    let mut templates = Vec::new();
    for form in forms.assembled() {
        let x86_64 = x86_64::emit_with(sequence, form, named_words);
        let aarch64 = aarch64::emit_with(sequence, form, named_words);
        limits::check(sequence, form, &x86_64, "x86-64", limits::REGISTERS_X86_64)?;
        limits::check(
            sequence,
            form,
            &aarch64,
            "AArch64",
            limits::REGISTERS_AARCH64,
        )?;
        templates.extend([x86_64, aarch64]);
    }
    Ok(templates)
}

/// Returns the conditions under which the named words of templates are immediates.
fn immediates(templates: &[Assembly]) -> Vec<TokenStream> {
    let mut seen = HashSet::new();
    let operands = templates.iter().flat_map(|assembly| &assembly.constants);
    operands
        .filter_map(|operand| match operand {
            ConstantOperand::Immediate(constant) if seen.insert(constant.key()) => {
                let (tokens, at) = (&constant.tokens, generated(constant.span));
                Some(quote_spanned!(at=> ::atomseq::generated::check::immediate(#tokens)))
            }
            _ => None,
        })
        .collect()
}

/// Returns the lints that generated code is exempt from by design: the caller of a form vouches for
/// its addresses, and parentheses keep constants apart. A deprecated sequence may use what is
/// deprecated.
///
/// `dead_code` is not among them: see [`Attributes`]. rustc does not report it of the forms, whose
/// names have the spans of another crate's macro.
fn allowed(sequence: &Sequence) -> TokenStream {
    let deprecated = sequence
        .attributes
        .is_deprecated()
        .then(|| quote!(deprecated,));
    quote! {
        #[allow(
            #deprecated
            unused_parens,
            clippy::inline_always,
            clippy::missing_inline_in_public_items,
            clippy::too_many_arguments,
            clippy::undocumented_unsafe_blocks,
            clippy::unnecessary_cast,
            clippy::unused_unit
        )]
    }
}

/// Returns what rustc is to check of named constants: the range of operands, and the rules.
/// Operands of all architectures are checked on each, so that code that compiles on one compiles on
/// all.
fn assertions(sequence: &Sequence, templates: &Templates) -> TokenStream {
    let assert = |holds: TokenStream, message: &str, span: Span| {
        let at = generated(span);
        quote_spanned!(at=> ::atomseq::generated::standard::assert!(#holds, #message);)
    };
    let (mut all, mut seen) = (Vec::new(), HashSet::new());
    let operands = templates.small.iter();
    for operand in operands.flat_map(|assembly| &assembly.constants) {
        let constant = operand.constant();
        let Constant { tokens, span, .. } = constant;
        let at = generated(*span);
        let check = quote_spanned!(at=> ::atomseq::generated::check);
        match operand {
            ConstantOperand::Immediate(_)
                if templates.large.is_none() && seen.insert((None, constant.key())) =>
            {
                let holds = quote_spanned!(at=> #check::immediate(#tokens));
                all.push(assert(holds, message::IMMEDIATE, *span));
            }
            ConstantOperand::Offset(_, bytes) if seen.insert((Some(*bytes), constant.key())) => {
                let multiple = quote_spanned!(at=> #check::multiple(#tokens, #bytes));
                all.push(assert(multiple, message::MULTIPLE, *span));
                let reachable = quote_spanned!(at=> #check::reachable(#tokens, #bytes));
                all.push(assert(reachable, message::REACHABLE, *span));
            }
            _ => {}
        }
    }
    for assertion in &sequence.assertions {
        all.push(assert(
            assertion.holds.clone(),
            assertion.message,
            assertion.span,
        ));
    }
    quote!(#(#all)*)
}
