//! What the `asm!` of every form has: the template, its operands, and the value of each way out.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::Ident;

use super::signature::result;
use crate::emit::{Assembly, ConstantOperand, Line, Place};
use crate::ir::*;

/// The parts of one `asm!`.
pub struct Operands {
    /// The template's lines, each with a comma.
    pub template: TokenStream,
    /// Inputs, constants, clobbers and temporaries.
    pub operands: TokenStream,
    /// The variables that hold the words of results afterwards.
    pub variables: Vec<Ident>,
    /// The value of each early return.
    pub exits: Vec<TokenStream>,
    /// The value at the end.
    pub end: TokenStream,
}

/// The variable of the status register. With this span it differs from any parameter of its name.
pub fn status() -> Ident {
    Ident::new("__atomseq_status", Span::mixed_site())
}

impl Operands {
    /// Makes the operands of a template. `slot` is what is passed for a slot of this name.
    pub fn new(
        sequence: &Sequence,
        assembly: &Assembly,
        slot: impl Fn(&Ident) -> TokenStream,
    ) -> Operands {
        let template = assembly.lines.iter().map(|line| match line {
            Line::Text(text) => quote!(#text,),
            Line::Acquire(operands) => {
                let operands = format!(" {operands}");
                quote!(::atomseq::generated::standard::concat!(::atomseq::__load_acquire!(), #operands),)
            }
            Line::Interlocked { lse, exclusive } => {
                quote!(::atomseq::__interlocked!(#lse, #exclusive),)
            }
        });
        let read = |index: &usize| assembly.reads_parameter(*index);
        let inputs = (0..sequence.parameters.len()).filter(read).map(|index| {
            let parameter = &sequence.parameters[index];
            let (operand, name) = (format_ident!("a{index}"), &parameter.name);
            match parameter.is_slot {
                true => {
                    let slot = slot(name);
                    quote!(#operand = in(reg) #slot,)
                }
                false => quote!(#operand = in(reg) #name,),
            }
        });
        let constants = assembly
            .constants
            .iter()
            .enumerate()
            .map(|(index, constant)| {
                let (operand, tokens) = (format_ident!("c{index}"), &constant.constant().tokens);
                match constant {
                    ConstantOperand::Immediate(_) => {
                        quote!(#operand = const ::atomseq::generated::check::immediate_operand(#tokens),)
                    }
                    ConstantOperand::Register(_) => quote!(#operand = in(reg) #tokens,),
                    ConstantOperand::Offset(..) => {
                        quote!(#operand = const ::atomseq::generated::check::operand(#tokens),)
                    }
                }
            });
        let fixed = assembly
            .fixed
            .iter()
            .map(|register| quote!(out(#register) _,));
        let returned = |index: &usize| {
            let holds = |place: &Place| matches!(place, Place::Temporary(at) if at == index);
            assembly.results.iter().flatten().any(holds)
        };
        let temporaries = (0..assembly.temporaries).map(|index| {
            let operand = format_ident!("t{index}");
            match returned(&index) {
                _ if assembly.slot_as_status == Some(index) => {
                    let status = status();
                    quote!(#operand = out(reg) #status,)
                }
                true => {
                    let variable = temporary(index);
                    quote!(#operand = out(reg) #variable,)
                }
                false => quote!(#operand = out(reg) _,),
            }
        });
        let way_out = |(exit, words): (&Exit, &Vec<Place>)| {
            let words = words.iter().map(|word| place(sequence, word)).collect();
            result(exit, words)
        };
        let end = assembly.results.last().expect("there is an end");
        Operands {
            template: quote!(#(#template)*),
            operands: quote!(#(#inputs)* #(#constants)* #(#fixed)* #(#temporaries)*),
            variables: (0..assembly.temporaries)
                .filter(returned)
                .map(temporary)
                .collect(),
            exits: sequence
                .exits
                .iter()
                .zip(&assembly.results)
                .map(way_out)
                .collect(),
            end: way_out((&sequence.end, end)),
        }
    }
}

/// The variable of a temporary.
fn temporary(index: usize) -> Ident {
    format_ident!("__atomseq_t{index}", span = Span::mixed_site())
}

/// The value of a word of a result.
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
