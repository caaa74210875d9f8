//! One attempt at the `on_cpu` form: the `asm!` and what follows from where control leaves it.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::emit::{self, Assembly, Leaving};
use super::ir::*;
use super::operands::{Operands, status};

/// One architecture's `asm!` and what follows from where it leaves: it returns from the function
/// around it, or does what `aborted` says.
pub fn attempt(sequence: &Sequence, assembly: &Assembly, aborted: TokenStream) -> TokenStream {
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
    // An area knows where struct rseq is: in a loop, rustc keeps it in a register.
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
            let (operand, is_committed) = match assembly.telling {
                Some(_) => (None, quote!(#status > #closed_number)),
                None => (
                    Some(quote!(status = out(reg) #status,)),
                    quote!(#status == 0),
                ),
            };
            let closed = closed.map(|closed| quote!(if #status != #aborted_number { #closed }));
            // What claims and does not succeed is done with slowly: without a word rustc makes a
            // table of jumps, which the way of success goes through as well.
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
