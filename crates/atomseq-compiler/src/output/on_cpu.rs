//! The `on_cpu` form: attempts in assembly, and what follows from where control leaves them.
//!
//! ```text
//! on_cpu(…)                                        inlined: one attempt
//!     asm!(…)
//!     committed, or left early  ->  return Ok(…)
//!     gate closed               ->  return Err(Closed)
//!     aborted                   ->  return again(…)
//!
//! again(…)                                         out of line: attempts up to the restart limit
//!     while Restarts::again(…) { asm!(…); …; aborted -> continue }
//!     Err(Closed)
//! ```
//!
//! Where the steps allow no such form, its name leads to the reason ([`absent`]).
//!
//! With a `cas` there is no `again`: an aborted attempt returns what the abort block says.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Ident, Meta};

use super::Templates;
use super::operands::{Operands, status};
use super::signature::{
    inlined, parameters, result, return_type, safety, unsafety, visibility_of_forms,
};
use crate::emit::{self, Assembly, Leaving};
use crate::ir::*;

/// Returns `on_cpu`, and `again` if the sequence is restarted.
pub fn function(sequence: &Sequence, templates: &Templates) -> TokenStream {
    let (x86_64, aarch64) = (0, 1);
    let attempt = |architecture: usize, aborted: &TokenStream| {
        templates.either(|named_words| {
            attempt(sequence, &templates.all(named_words)[architecture], aborted)
        })
    };
    let visibility = visibility_of_forms(sequence);
    let returned = return_type(sequence);
    let parameters = parameters(sequence, quote!(::atomseq::percpu::Slots<'_>));
    let names: Vec<&Ident> = sequence
        .parameters
        .iter()
        .map(|parameter| &parameter.name)
        .collect();
    // With a `cas`, the result of an aborted attempt.
    let once = sequence.abort.as_ref().map(|abort| {
        let words = abort.result.iter().map(|word| match word {
            Operand::Register(Register(index)) => {
                let name = names[*index];
                quote!(#name)
            }
            Operand::Constant(constant) => constant.tokens.clone(),
        });
        let aborted = result(abort, words.collect());
        quote!(return ::atomseq::generated::standard::Result::Ok(#aborted))
    });
    let first = |architecture| {
        let aborted = once
            .clone()
            .unwrap_or_else(|| quote!(return unsafe { Self::again(#(#names),*) }));
        attempt(architecture, &aborted)
    };
    // With this span it differs from any parameter of its name.
    let restarts = Ident::new("__atomseq_restarts", Span::mixed_site());
    let again = |architecture| {
        let attempt = attempt(architecture, &quote!(continue));
        quote! {
            let mut #restarts: ::atomseq::generated::Restarts = ::atomseq::generated::Restarts::none();
            while ::atomseq::generated::Restarts::again(&mut #restarts) { #attempt }
            ::atomseq::generated::standard::Result::Err(::atomseq::sequence::Closed)
        }
    };
    let (first_x86_64, first_aarch64) = (first(x86_64), first(aarch64));
    // A parameter may be used by other forms only, or by none.
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
            /// Runs the form for this CPU: attempts until one commits, returns early, finds the
            /// gate closed, or the restart limit is reached.
        },
        Some(_) => quote! {
            /// Runs the form for this CPU: one attempt, which commits, returns early, finds the
            /// gate closed, or is interrupted. An interrupted attempt returns the result of the
            /// abort block; any steps but the commit may have taken effect, and the caller
            /// recovers.
        },
    };
    let again = once.is_none().then(|| {
        let (again_x86_64, again_aarch64) = (again(x86_64), again(aarch64));
        quote! {
            /// Continues an interrupted `on_cpu`. It is out of line, so that restarts cost the fast
            /// path no register.
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
    // rustc reports an unused `Result` by itself; only the caller's reason adds something.
    let must_use = sequence.attributes.must_use.as_ref();
    let must_use = must_use.filter(|attribute| !matches!(attribute.meta, Meta::Path(_)));
    let inline = inlined(sequence);
    let unsafety = unsafety(sequence);
    let safety = safety(
        sequence,
        quote! {
            /// Every address the steps reach must be valid for what they do there whenever the gate
            /// is open, even in an attempt that will be restarted. No other thread or handler reads
            /// a prepared word before the commit.
        },
    );
    quote! {
        #documentation
        #safety
        #without_slot
        ///
        /// # Errors
        ///
        /// `Closed`: nothing visible has happened, and the caller takes the slow path.
        #must_use
        #inline
        #visibility #unsafety fn on_cpu(
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

/// Returns what a call of `on_cpu` finds where there is no such form: a bound that does not hold,
/// and whose message is the reason. No call compiles, and without one a function that is inlined
/// everywhere is nowhere. The bound has a lifetime, because rustc rejects a false bound without
/// variables even where nothing is called.
pub fn absent(sequence: &Sequence) -> TokenStream {
    let reason = match sequence.steps.iter().any(Step::is_commit) {
        true => quote!(TiedToCpu),
        false => quote!(EndsWithCommit),
    };
    let visibility = visibility_of_forms(sequence);
    let returned = return_type(sequence);
    let parameters = parameters(sequence, quote!(::atomseq::percpu::Slots<'_>));
    let names = sequence.parameters.iter().map(|parameter| &parameter.name);
    quote! {
        #[doc(hidden)]
        #[inline(always)]
        #visibility unsafe fn on_cpu(
            #parameters
        ) -> ::atomseq::generated::standard::Result<#returned, ::atomseq::sequence::Closed>
        where
            for<'__atomseq> &'__atomseq Self: ::atomseq::generated::#reason,
        {
            #(let _ = #names;)*
            ::atomseq::generated::standard::Result::Err(::atomseq::sequence::Closed)
        }
    }
}

/// Returns one architecture's `asm!`, and what follows from where it leaves: a return from the
/// function around it, or `aborted`.
fn attempt(sequence: &Sequence, assembly: &Assembly, aborted: &TokenStream) -> TokenStream {
    let status = status();
    let Operands {
        template,
        operands,
        variables,
        exits,
        end,
    } = Operands::new(
        sequence,
        assembly,
        |slot| quote!(::atomseq::percpu::Slots::base(#slot)),
    );
    let leave =
        |result: &TokenStream| quote!(return ::atomseq::generated::standard::Result::Ok(#result));
    let exits: Vec<TokenStream> = exits.iter().map(leave).collect();
    let committed = leave(&end);
    // Only a slot has a gate.
    let closed = sequence.slots().next().map(|_| {
        quote!(return ::atomseq::generated::standard::Result::Err(::atomseq::sequence::Closed))
    });
    // The area holds the offset of `struct rseq`: in a loop, rustc keeps it in a register.
    let place = match sequence.slots().next() {
        Some((_, slot)) => {
            let slot = &slot.name;
            let stride = match assembly.names("area") {
                true => quote! {
                    area = in(reg) ::atomseq::percpu::Slots::area(#slot),
                    stride = const ::atomseq::percpu::Slots::STRIDE,
                    base = const ::atomseq::percpu::Slots::BASE,
                },
                false => quote!(stride = in(reg) ::atomseq::percpu::Slots::stride(#slot),),
            };
            quote!(rseq = in(reg) ::atomseq::percpu::Slots::rseq_offset(#slot), #stride)
        }
        None => quote!(rseq = in(reg) ::atomseq::generated::started_rseq_offset(),),
    };
    let common = quote!(#template #place #operands);
    match Leaving::of(sequence) {
        Leaving::Labels => {
            let labels = exits.iter().enumerate().map(|(index, exit)| {
                let operand = format_ident!("exit{index}");
                quote!(#operand = label { #exit },)
            });
            let closed = closed.map(|closed| quote!(closed = label { #closed },));
            quote! {
                unsafe {
                    ::atomseq::generated::standard::asm!(
                        #common
                        #(#labels)*
                        aborted = label { #aborted },
                        #closed
                        options(nostack),
                    )
                }
                #committed
            }
        }
        Leaving::Status => {
            let numbers = 1usize..;
            let aborted_number = emit::aborted_status(sequence);
            let closed_number = aborted_number + 1;
            let (operand, is_committed) = match assembly.slot_as_status {
                Some(_) => (None, quote!(#status > #closed_number)),
                None => (
                    Some(quote!(status = out(reg) #status,)),
                    quote!(#status == 0),
                ),
            };
            let closed = closed.map(|closed| quote!(if #status != #aborted_number { #closed }));
            // A claim that fails may be slow. Without this hint rustc makes a table of jumps, which
            // the way of success would pass as well.
            let unlikely = (sequence.abort.is_some() && operand.is_some())
                .then(|| quote!(::atomseq::generated::unlikely();));
            quote! {
                let #status: ::atomseq::generated::standard::usize;
                #(let #variables: ::atomseq::generated::standard::usize;)*
                unsafe {
                    ::atomseq::generated::standard::asm!(
                        #common
                        #operand
                        options(nostack),
                    )
                }
                if #is_committed { #committed }
                #unlikely
                #(if #status == #numbers { #exits })*
                #closed
                #aborted
            }
        }
    }
}
