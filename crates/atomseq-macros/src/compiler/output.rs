//! The Rust around the forms: an uninhabited type named like the sequence, with one associated
//! function a form.

use std::collections::HashSet;

use proc_macro2::{Delimiter, Group, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Error, Ident, Meta, Result, Token, Visibility};

use super::attempt::attempt;
use super::emit::{Assembly, ConstantOperand, Form, LONGEST, Leaving, aarch64, x86_64};
use super::forms::Forms;
use super::gated::Memory;
use super::ir::*;
use super::parse::Attributes;
use super::rules::message;
use super::{gated, model, signal};

/// General registers rustc can hand to one `asm!`.
const REGISTERS_X86_64: usize = 13;
const REGISTERS_AARCH64: usize = 26;

/// All forms of one sequence.
pub fn sequence(sequence: &Sequence) -> Result<TokenStream> {
    let forms = Forms::of(sequence);
    let mut assemblies = Vec::new();
    for form in forms.assembled() {
        let (x86_64, aarch64) = (x86_64::emit(sequence, form), aarch64::emit(sequence, form));
        fits(sequence, form, &x86_64, "x86-64", REGISTERS_X86_64)?;
        fits(sequence, form, &aarch64, "AArch64", REGISTERS_AARCH64)?;
        assemblies.extend([x86_64, aarch64]);
    }
    let (visibility, name) = (&sequence.visibility, &sequence.name);
    let Attributes {
        on_type,
        on_rest,
        on_constants,
        ..
    } = &sequence.attributes;
    // With the spans that a function's would have, or rustc takes the type for what only a macro
    // can use.
    let keyword = Token![enum](sequence.keyword);
    let mut nothing = Group::new(Delimiter::Brace, TokenStream::new());
    nothing.set_span(sequence.keyword);
    let of_forms = visibility_of_forms(sequence);
    let model = model::program(sequence);
    let assertions = assertions(sequence, &assemblies);
    // The first two, if there is this form.
    let on_cpu = forms
        .on_cpu
        .then(|| on_cpu(sequence, &assemblies[0], &assemblies[1]));
    let gated = forms.gated.then(|| gated(sequence));
    let signal = signal::functions(sequence);
    let constants = sequence.constants.iter().map(|named| {
        let Named {
            place,
            path,
            constant,
        } = named;
        let at = generated(constant.span);
        // Named once, for a path may mean another constant each time.
        quote_spanned! {at=>
            const #place: ::atomseq::generated::standard::usize = match #path {
                __atomseq_given => {
                    ::atomseq::generated::check::word(__atomseq_given, __atomseq_given as ::atomseq::generated::standard::i128)
                }
            };
        }
    });
    let allowed = allowed(sequence);
    // What is expected of constants is not found where there are none.
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

/// Lints about what is by design so in generated code: the caller of a form vouches for its
/// addresses, and parentheses keep constants apart. What is deprecated may use what is.
///
/// `dead_code` is not among them: see [`Attributes`]. It is not said of the forms, whose names come
/// from another crate's macro.
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

/// The parameters of a form, with the type it gives to slots.
pub fn parameters(sequence: &Sequence, slot: TokenStream) -> TokenStream {
    let parameters = sequence.parameters.iter().map(|parameter| {
        let name = &parameter.name;
        match parameter.is_slot {
            true => quote!(#name: #slot),
            false => quote!(#name: ::atomseq::generated::standard::usize),
        }
    });
    quote!(#(#parameters),*)
}

fn on_cpu(sequence: &Sequence, x86_64: &Assembly, aarch64: &Assembly) -> TokenStream {
    let visibility = visibility_of_forms(sequence);
    let returned = return_type(sequence);
    let parameters = parameters(sequence, quote!(::atomseq::percpu::Slots<'_>));
    let names: Vec<&Ident> = sequence
        .parameters
        .iter()
        .map(|parameter| &parameter.name)
        .collect();
    // Only what can begin again does.
    let once = sequence.abort.as_ref().map(|abort| {
        let words = abort.result.iter().map(|word| match word {
            Operand::Register(Register(index)) => {
                let name = names[*index];
                quote!(#name)
            }
            Operand::Constant(constant) => constant.tokens.clone(),
        });
        let told = result(abort, words.collect());
        quote!(return ::atomseq::generated::standard::Result::Ok(#told))
    });
    let first = |assembly| {
        let aborted = once
            .clone()
            .unwrap_or_else(|| quote!(return unsafe { Self::again(#(#names),*) }));
        attempt(sequence, assembly, aborted)
    };
    // A name of our own, which no parameter's can meet.
    let restarts = Ident::new("__atomseq_restarts", Span::mixed_site());
    let again = |assembly| {
        let attempt = attempt(sequence, assembly, quote!(continue));
        quote! {
            let mut #restarts: ::atomseq::generated::Restarts = ::atomseq::generated::Restarts::none();
            while ::atomseq::generated::Restarts::again(&mut #restarts) { #attempt }
            ::atomseq::generated::standard::Result::Err(::atomseq::sequence::Closed)
        }
    };
    let (first_x86_64, first_aarch64) = (first(x86_64), first(aarch64));
    // A parameter may be there for other forms, or for the caller's sake.
    let unused = quote!(#(let _ = #names;)*);
    let otherwise = quote! {
        ::atomseq::generated::standard::Result::Err(::atomseq::sequence::Closed)
    };
    let without_slot = sequence.slots().next().is_none().then(|| {
        quote! {
            ///
            /// Without a slot there is no gate: `cpu()` reads as `usize::MAX` or one less on a
            /// thread that is not registered, which must lead to an early return.
        }
    });
    let documentation = match once {
        None => quote! {
            /// The form for this CPU: one attempt after another until it commits, leaves early,
            /// finds the gate closed or was interrupted more often than the restart limit.
            /// `Err(Closed)` asks for the slow path; nothing has happened then.
        },
        Some(_) => quote! {
            /// The form for this CPU: one attempt, which commits, leaves early, finds the gate
            /// closed or is interrupted, and then returns what its abort block says. `Err(Closed)`
            /// asks for the slow path; nothing has happened then. After an interruption anything up
            /// to the commit may have happened, the commit not: recovery is the caller's.
        },
    };
    let again = once.is_none().then(|| {
        let (again_x86_64, again_aarch64) = (again(x86_64), again(aarch64));
        quote! {
            /// What `on_cpu` becomes once it was interrupted: out of line, so that the fast path
            /// pays for restarts with no register.
            #[cold]
            #[inline(never)]
            unsafe fn again(
                #parameters
            ) -> ::atomseq::generated::standard::Result<#returned, ::atomseq::sequence::Closed> {
                #unused
                ::atomseq::__assembly! {
                    x86_64 { #again_x86_64 }
                    aarch64 { #again_aarch64 }
                    otherwise { #otherwise }
                }
            }
        }
    });
    // Of a `Result` rustc says by itself that it is not used.
    let must_use = sequence.attributes.must_use.as_ref();
    let must_use = must_use.filter(|attribute| !matches!(attribute.meta, Meta::Path(_)));
    let inline = inlined(sequence);
    quote! {
        #documentation
        ///
        /// # Safety
        ///
        /// Every address the steps reach must be valid for what they do there whenever the
        /// gate is open, even in an attempt that will be restarted. Nobody else reads a
        /// prepared word before the commit.
        #without_slot
        ///
        /// # Errors
        ///
        /// `Closed`, as said above.
        #must_use
        #inline
        #visibility unsafe fn on_cpu(
            #parameters
        ) -> ::atomseq::generated::standard::Result<#returned, ::atomseq::sequence::Closed> {
            #unused
            ::atomseq::__assembly! {
                x86_64 { #first_x86_64 }
                aarch64 { #first_aarch64 }
                otherwise { #otherwise }
            }
        }

        #again
    }
}

fn gated(sequence: &Sequence) -> TokenStream {
    let visibility = visibility_of_forms(sequence);
    let returned = return_type(sequence);
    let parameters = parameters(sequence, quote!(&::atomseq::percpu::GateGuard<'_>));
    let (must_use, inline) = (&sequence.attributes.must_use, &sequence.attributes.inline);
    let body = gated::body(
        sequence,
        Memory::Shared,
        |slot| quote!(::atomseq::percpu::GateGuard::address(#slot)),
    );
    quote! {
        /// The form for a caller that holds the slot's gate: the same steps in plain Rust.
        ///
        /// # Safety
        ///
        /// Every address the steps reach must be valid for what they do there, as long as the
        /// gate is held.
        #must_use
        #inline
        #visibility unsafe fn gated(#parameters) -> #returned { #body }
    }
}

/// The visibility of a form. Its first word says where rustc takes the form for written: in another
/// crate's macro, so that it says of the type alone that nobody uses it.
pub fn visibility_of_forms(sequence: &Sequence) -> Visibility {
    let mut visibility = sequence.visibility.clone();
    match &mut visibility {
        Visibility::Public(word) => word.span = Span::call_site(),
        Visibility::Restricted(restricted) => restricted.pub_token.span = Span::call_site(),
        Visibility::Inherited => {}
    }
    visibility
}

/// Whether a form that is assembly is inlined: always, unless the caller says otherwise.
pub fn inlined(sequence: &Sequence) -> TokenStream {
    match &sequence.attributes.inline {
        Some(inline) => quote!(#inline),
        None => quote!(#[inline(always)]),
    }
}

/// What rustc has to check of named constants. A constant out of range is an error on every
/// architecture, not only where it is an operand.
fn assertions(sequence: &Sequence, assemblies: &[Assembly]) -> TokenStream {
    let assert = |holds: TokenStream, message: &str, span: Span| {
        let at = generated(span);
        quote_spanned!(at=> ::atomseq::generated::standard::assert!(#holds, #message);)
    };
    let (mut all, mut seen) = (Vec::new(), HashSet::new());
    for operand in assemblies.iter().flat_map(|assembly| &assembly.constants) {
        let constant = operand.constant();
        let Constant { tokens, span, .. } = constant;
        let at = generated(*span);
        let check = quote_spanned!(at=> ::atomseq::generated::check);
        match operand {
            ConstantOperand::Immediate(_) if seen.insert((None, constant.key())) => {
                let holds = quote_spanned!(at=> #check::immediate(#tokens));
                all.push(assert(holds, message::IMMEDIATE, *span));
            }
            ConstantOperand::Offset(_, bytes) if seen.insert((Some(*bytes), constant.key())) => {
                let multiple = quote_spanned!(at=> #check::multiple(#tokens, #bytes));
                all.push(assert(multiple, message::MULTIPLE, *span));
                let reachable = quote_spanned!(at=> #check::reachable(#tokens, #bytes));
                all.push(assert(reachable, message::REACHABLE, *span));
            }
            ConstantOperand::Immediate(_) | ConstantOperand::Offset(..) => {}
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

/// Refuses what no processor could run between two interruptions, or no register file hold.
fn fits(
    sequence: &Sequence,
    form: Form,
    assembly: &Assembly,
    architecture: &str,
    available: usize,
) -> Result<()> {
    if let Some(beyond) = assembly.beyond_longest {
        return Err(Error::new(
            beyond,
            format!(
                "too long: {} instructions on {architecture}, and at most {LONGEST} run between \
                 interruptions; move work before or after the sequence",
                assembly.instructions
            ),
        ));
    }
    let status_registers = usize::from(Leaving::of(sequence) == Leaving::Status);
    let fixed_registers = assembly.fixed.len();
    // One leads to struct rseq; a slot has an area, or a stride.
    let place_registers = match form {
        Form::OnCpu => 1 + usize::from(sequence.slots().next().is_some()),
        Form::Signal(_) => 0,
    };
    let parameters = (0..sequence.parameters.len())
        .filter(|index| assembly.reads_parameter(*index))
        .count();
    let registers =
        parameters + assembly.temporaries + place_registers + status_registers + fixed_registers;
    if registers > available {
        return Err(Error::new(
            sequence.name.span(),
            format!(
                "too many words at once: {registers} registers needed on {architecture}, and at most \
                 {available} are there"
            ),
        ));
    }
    Ok(())
}

/// The value of a result: of an exit, or of the commit.
pub fn result(exit: &Exit, words: Vec<TokenStream>) -> TokenStream {
    let value = match words.as_slice() {
        [] => quote!(()),
        [word] => quote!(#word),
        words => quote!((#(#words),*)),
    };
    match exit.shape {
        Shape::Plain => value,
        Shape::Some => quote!(::atomseq::generated::standard::Option::Some(#value)),
        Shape::None => quote!(::atomseq::generated::standard::Option::None),
        Shape::True => quote!(true),
        Shape::False => quote!(false),
    }
}

pub fn return_type(sequence: &Sequence) -> TokenStream {
    let word = quote!(::atomseq::generated::standard::usize);
    let words = |count| match count {
        1 => word.clone(),
        _ => quote!((#word, #word)),
    };
    match sequence.returns {
        Returns::Nothing => quote!(()),
        Returns::Bool => quote!(::atomseq::generated::standard::bool),
        Returns::Words(count) => words(count),
        Returns::OptionWords(count) => {
            let words = words(count);
            quote!(::atomseq::generated::standard::Option<#words>)
        }
    }
}
