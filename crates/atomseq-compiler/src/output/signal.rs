//! The forms against this thread's signal handlers: `restarting`, `rolling`, and the hidden
//! `unprotected`, the same instructions that nothing protects. Where there is no assembly, the
//! steps run in plain Rust with all signals blocked.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::Templates;
use super::gated::{self, Memory};
use super::operands::{Operands, status};
use super::signature::{inlined, parameters, return_type, visibility_of_forms};
use crate::emit::{Assembly, Leaving, aarch64, x86_64};
use crate::forms::{Form, Forms, Protection};
use crate::ir::*;

/// Returns those of these functions that a sequence has.
pub fn functions(sequence: &Sequence, templates: &Templates) -> TokenStream {
    let forms = Forms::of(sequence);
    let restarting = forms.restarting.then(|| {
        let documentation = quote! {
            /// Runs the form that a signal handler restarts: atomic against the handlers that
            /// `atomseq::signal` installed, on this thread. No instruction is added.
            ///
            /// # Safety
            ///
            /// Every address the steps reach must be valid for what they do there, even in an
            /// attempt that will be restarted, and other threads must not interfere. No handler
            /// reads a prepared word before the commit.
        };
        function(sequence, Protection::Restart, templates, documentation)
    });
    let rolling = forms.rolling.then(|| {
        let documentation = quote! {
            /// Runs the form that a signal handler rolls forward before it handles the signal:
            /// atomic against the handlers that `atomseq::signal` installed, on this thread. No
            /// instruction is added.
            ///
            /// # Safety
            ///
            /// Every address the steps reach must be valid for what they do there, and other
            /// threads must not interfere.
        };
        function(sequence, Protection::Rollforward, templates, documentation)
    });
    let unprotected = forms.rolling.then(|| {
        let documentation = quote! {
            /// Runs the same instructions, atomic against nothing: to compare with, and as a
            /// negative control of tests.
            ///
            /// # Safety
            ///
            /// As for the other forms; also, nothing that touches the same words may interrupt it.
            #[doc(hidden)]
        };
        function(sequence, Protection::None, templates, documentation)
    });
    quote!(#restarting #rolling #unprotected)
}

/// Returns the function of one protection.
fn function(
    sequence: &Sequence,
    protection: Protection,
    templates: &Templates,
    documentation: TokenStream,
) -> TokenStream {
    let name = format_ident!(
        "{}",
        match protection {
            Protection::Restart => "restarting",
            Protection::Rollforward => "rolling",
            Protection::None => "unprotected",
        }
    );
    let (must_use, inline) = (&sequence.attributes.must_use, inlined(sequence));
    let visibility = visibility_of_forms(sequence);
    let returned = return_type(sequence);
    let parameters = parameters(sequence, quote!(::atomseq::generated::standard::usize));
    let unused = unused(sequence);
    let form = Form::Signal(protection);
    let x86_64 = templates
        .either(|named_words| assembled(sequence, &x86_64::emit_with(sequence, form, named_words)));
    let aarch64 = templates.either(|named_words| {
        assembled(sequence, &aarch64::emit_with(sequence, form, named_words))
    });
    let quiet = (protection != Protection::None).then(quiet);
    let steps = gated::body(sequence, Memory::Own, |slot| quote!(#slot));
    quote! {
        #documentation
        #must_use
        #inline
        #visibility unsafe fn #name(#parameters) -> #returned {
            #unused
            ::atomseq::__assembly! {
                x86_64 { #x86_64 }
                aarch64 { #aarch64 }
                otherwise { #quiet #steps }
            }
        }
    }
}

/// Returns statements that use each parameter, which a template need not do.
pub fn unused(sequence: &Sequence) -> TokenStream {
    let names = sequence.parameters.iter().map(|parameter| &parameter.name);
    quote!(#(let _ = #names;)*)
}

/// Returns the statement that blocks signals up to the end of its block, for the steps in Rust.
pub fn quiet() -> TokenStream {
    // With this span it differs from any parameter of its name.
    let quiet = syn::Ident::new("__atomseq_quiet", proc_macro2::Span::mixed_site());
    quote!(let #quiet: ::atomseq::generated::SignalsBlocked = ::atomseq::generated::SignalsBlocked::enter();)
}

/// Returns one architecture's `asm!`, and the result by where it leaves.
fn assembled(sequence: &Sequence, assembly: &Assembly) -> TokenStream {
    let status = status();
    let Operands {
        template,
        operands,
        variables,
        exits,
        end,
    } = Operands::new(sequence, assembly, |slot| quote!(#slot));
    match Leaving::of(sequence) {
        Leaving::Labels => {
            let labels = exits.iter().enumerate().map(|(index, exit)| {
                let operand = format_ident!("exit{index}");
                quote!(#operand = label { return #exit },)
            });
            quote! {
                unsafe { ::atomseq::generated::standard::asm!(#template #operands #(#labels)* options(nostack)) }
                return #end;
            }
        }
        Leaving::Status => {
            let numbers = 1usize..;
            quote! {
                let #status: ::atomseq::generated::standard::usize;
                #(let #variables: ::atomseq::generated::standard::usize;)*
                unsafe {
                    ::atomseq::generated::standard::asm!(#template #operands status = out(reg) #status, options(nostack))
                }
                #(if #status == #numbers { return #exits; })*
                return #end;
            }
        }
    }
}
