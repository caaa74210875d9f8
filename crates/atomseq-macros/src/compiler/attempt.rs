//! One attempt at the `on_cpu` form: the `asm!` and what follows from where control leaves it.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::Ident;

use super::emit::{self, Assembly, Leaving, Line, Place};
use super::ir::*;
use super::output::result;

/// One architecture's `asm!` and what follows from where it leaves: it returns from the function
/// around it, or does what `aborted` says.
pub fn attempt(sequence: &Sequence, assembly: &Assembly, aborted: TokenStream) -> TokenStream {
    // A name of our own, which no parameter's can meet.
    let status = Ident::new("status", Span::mixed_site());
    let leaving = Leaving::of(sequence);
    let template = assembly.lines.iter().map(|line| match line {
        Line::Text(text) => quote!(#text),
        Line::Acquire(operands) => {
            let operands = format!(" {operands}");
            quote!(::core::concat!(::atomseq::__load_acquire!(), #operands))
        }
    });
    let inputs = sequence
        .parameters
        .iter()
        .enumerate()
        .map(|(index, parameter)| {
            let (operand, name) = (format_ident!("a{index}"), &parameter.name);
            if !assembly.reads_parameter(index) {
                return quote!();
            }
            match parameter.is_slot {
                true => quote!(#operand = in(reg) #name.base(),),
                false => quote!(#operand = in(reg) #name,),
            }
        });
    let constants = assembly
        .constants
        .iter()
        .enumerate()
        .map(|(index, constant)| {
            let (operand, tokens) = (format_ident!("c{index}"), &constant.constant().tokens);
            quote!(#operand = const ::atomseq::sequence::check::operand(#tokens),)
        });
    let fixed = assembly
        .fixed
        .iter()
        .map(|register| quote!(out(#register) _,));
    let returned: Vec<usize> = (0..assembly.temporaries)
        .filter(|index| {
            let holds = |place: &Place| matches!(place, Place::Temporary(at) if at == index);
            assembly.results.iter().flatten().any(holds)
        })
        .collect();
    let temporaries = (0..assembly.temporaries).map(|index| {
        let operand = format_ident!("t{index}");
        match returned.contains(&index) {
            _ if assembly.telling == Some(index) => quote!(#operand = out(reg) #status,),
            true => {
                let variable = temporary(index);
                quote!(#operand = out(reg) #variable,)
            }
            false => quote!(#operand = out(reg) _,),
        }
    });
    let leave = |exit: Option<usize>| {
        let (words, exit) = match exit {
            Some(index) => (&assembly.results[index], &sequence.exits[index]),
            None => (&assembly.results[sequence.exits.len()], &sequence.end),
        };
        let words = words
            .iter()
            .map(|place| self::place(sequence, place))
            .collect();
        let result = result(exit, words);
        quote!(return ::core::result::Result::Ok(#result))
    };
    let exits: Vec<TokenStream> = (0..sequence.exits.len())
        .map(|exit| leave(Some(exit)))
        .collect();
    let committed = leave(None);
    // Only a slot has a gate.
    let closed = sequence
        .slots()
        .next()
        .map(|_| quote!(return ::core::result::Result::Err(::atomseq::sequence::Closed)));
    // An area knows where struct rseq is: in a loop, rustc keeps it in a register.
    let place = match sequence.slots().next() {
        Some((_, slot)) => {
            let slot = &slot.name;
            let stride = match assembly.names("area") {
                true => quote! {
                    area = in(reg) #slot.area(),
                    stride = const ::atomseq::percpu::Slots::STRIDE,
                    base = const ::atomseq::percpu::Slots::BASE,
                },
                false => quote!(stride = in(reg) #slot.stride(),),
            };
            quote!(rseq = in(reg) #slot.rseq_offset(), #stride)
        }
        None => quote!(rseq = in(reg) ::atomseq::internals::started_rseq_offset(),),
    };
    let common = quote! {
        #(#template,)*
        #place
        #(#inputs)* #(#constants)* #(#fixed)* #(#temporaries)*
    };
    match leaving {
        Leaving::Labels => {
            let labels = exits.iter().enumerate().map(|(index, exit)| {
                let operand = format_ident!("exit{index}");
                quote!(#operand = label { #exit },)
            });
            let closed = closed.map(|closed| quote!(closed = label { #closed },));
            quote! {
                unsafe {
                    ::core::arch::asm!(
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
            let variables = returned.iter().map(|index| temporary(*index));
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
            quote! {
                let #status: usize;
                #(let #variables: usize;)*
                unsafe {
                    ::core::arch::asm!(
                        #common
                        #operand
                        options(nostack),
                    )
                }
                if #is_committed { #committed }
                #(if #status == #numbers { #exits })*
                #closed
                #aborted
            }
        }
    }
}

fn temporary(index: usize) -> Ident {
    format_ident!("t{index}", span = Span::mixed_site())
}

fn place(sequence: &Sequence, place: &Place) -> TokenStream {
    match place {
        Place::Temporary(index) => {
            let variable = temporary(*index);
            quote!(#variable)
        }
        Place::Parameter(index) => {
            let name = &sequence.parameters[*index].name;
            quote!(#name)
        }
        Place::Constant(constant) => {
            let tokens = &constant.tokens;
            quote!(#tokens)
        }
    }
}
