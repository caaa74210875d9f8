//! The function that runs a sequence by a scheme of M94: `by`, whose type parameter is the scheme.
//! The template of the scheme that it names is the only one in the program.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Result;

use super::gated::{self, Memory};
use super::operands::{Operands, status};
use super::signal::{quiet, unused};
use super::signature::{inlined, parameters, return_type, visibility_of_forms};
use super::{Templates, allowed};
use crate::emit::schemes::{self, Scheme};
use crate::emit::{Assembly, NamedWords, limits};
use crate::forms::{Form, Forms, Protection};
use crate::ir::*;

/// Returns the item of one sequence, and `by` if the sequence may be rolled forward.
///
/// # Errors
///
/// A template that does not fit a processor.
pub fn with_schemes(sequence: &Sequence) -> Result<TokenStream> {
    let item = super::sequence(sequence)?;
    let forms = Forms::of(sequence);
    if !forms.rolling {
        return Ok(item);
    }
    let templates = Templates::of(sequence, forms)?;
    for scheme in Scheme::ALL {
        check(sequence, scheme)?;
    }
    let by = function(sequence, &templates);
    let (name, allowed) = (&sequence.name, allowed(sequence));
    let Attributes { on_rest, .. } = &sequence.attributes;
    Ok(quote! {
        #item

        #(#on_rest)*
        #allowed
        impl #name { #by }
    })
}

/// Refuses what leaves no register for a scheme: the status and the thread's words.
fn check(sequence: &Sequence, scheme: Scheme) -> Result<()> {
    let form = Form::Signal(Protection::None);
    let words = NamedWords::Immediates;
    let x86_64 = schemes::x86_64(sequence, scheme, words);
    let aarch64 = schemes::aarch64(sequence, scheme, words);
    let needs = 2;
    let available = limits::REGISTERS_X86_64 - needs;
    limits::check(sequence, form, &x86_64, "x86-64", available)?;
    let available = limits::REGISTERS_AARCH64 - needs;
    limits::check(sequence, form, &aarch64, "AArch64", available)
}

/// Returns `by`.
fn function(sequence: &Sequence, templates: &Templates) -> TokenStream {
    let (must_use, inline) = (&sequence.attributes.must_use, inlined(sequence));
    let visibility = visibility_of_forms(sequence);
    let returned = return_type(sequence);
    let parameters = parameters(sequence, quote!(::atomseq::generated::standard::usize));
    let unused = unused(sequence);
    let arms = |emit: fn(&Sequence, Scheme, NamedWords) -> Assembly| {
        let arms = Scheme::ALL.map(|scheme| {
            let code = templates
                .either(|named_words| assembled(sequence, &emit(sequence, scheme, named_words)));
            let kind = match scheme {
                Scheme::DynJump => quote!(DynJump),
                Scheme::DynFault => quote!(DynFault),
                Scheme::HybJump => quote!(HybJump),
                Scheme::Designated => quote!(Designated),
            };
            quote!(::atomseq_papers::rollforward::Kind::#kind => { #code })
        });
        quote!(match const { <__AtomseqScheme as ::atomseq_papers::rollforward::Scheme>::KIND } { #(#arms)* })
    };
    let (x86_64, aarch64) = (arms(schemes::x86_64), arms(schemes::aarch64));
    let steps = gated::body(sequence, Memory::Own, |slot| quote!(#slot));
    let quiet = quiet();
    quote! {
        /// Runs the sequence by a scheme of M94: atomic against the handlers that
        /// `atomseq_papers::rollforward` installed, on this thread.
        ///
        /// # Safety
        ///
        /// Every address the steps reach must be valid for what they do there, and other threads
        /// must not interfere.
        #must_use
        #inline
        #visibility unsafe fn by<__AtomseqScheme: ::atomseq_papers::rollforward::Scheme>(#parameters) -> #returned {
            #unused
            ::atomseq::__assembly! {
                x86_64 { #x86_64 }
                aarch64 { #aarch64 }
                otherwise { #quiet #steps }
            }
        }
    }
}

/// Returns one architecture's `asm!` for one scheme, and the result by how it was left.
fn assembled(sequence: &Sequence, assembly: &Assembly) -> TokenStream {
    let status = status();
    let Operands {
        template,
        operands,
        variables,
        exits,
        end,
    } = Operands::new(sequence, assembly, |slot| quote!(#slot));
    let numbers = 1usize..;
    let word = assembly
        .names("word")
        .then(|| quote!(word = in(reg) ::atomseq_papers::rollforward::words(),));
    let level = assembly.names("level").then(
        || quote!(level = const <__AtomseqScheme as ::atomseq_papers::rollforward::Scheme>::LEVEL,),
    );
    let (declared, set) = match assembly.names("status") {
        true => (
            quote!(let #status: ::atomseq::generated::standard::usize;),
            quote!(status = out(reg) #status,),
        ),
        false => (quote!(), quote!()),
    };
    quote! {
        #declared
        #(let #variables: ::atomseq::generated::standard::usize;)*
        unsafe {
            ::atomseq::generated::standard::asm!(#template #operands #word #level #set options(nostack))
        }
        #(if #status == #numbers { return #exits; })*
        return #end;
    }
}
