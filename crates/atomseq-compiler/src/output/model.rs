//! The model: the steps as data, which `atomseq::sequence::model` runs one at a time.

use proc_macro2::TokenStream;
use quote::quote;

use crate::ir::*;

/// Returns an expression of type `atomseq::sequence::model::Program`.
pub fn program(sequence: &Sequence) -> TokenStream {
    let name = sequence.name.to_string();
    let parameters = sequence.parameters.iter().map(|parameter| {
        let name = parameter.name.to_string();
        match parameter.is_slot {
            true => quote!(::atomseq::sequence::model::Parameter::Slot(#name)),
            false => quote!(::atomseq::sequence::model::Parameter::Word(#name)),
        }
    });
    let steps = sequence.steps.iter().map(|step| self::step(&step.kind));
    let exits = sequence.exits.iter().map(outcome);
    let result = outcome(&sequence.end);
    let registers = sequence.registers;
    let abort = match &sequence.abort {
        Some(abort) => {
            let abort = outcome(abort);
            quote!(::atomseq::generated::standard::Option::Some(#abort))
        }
        None => quote!(::atomseq::generated::standard::Option::None),
    };
    let by_commit = (0..sequence.exits.len()).filter(|exit| sequence.exits[*exit].commit.is_some());
    quote! {
        ::atomseq::sequence::model::Program {
            name: #name,
            parameters: &[#(#parameters),*],
            steps: &[#(#steps),*],
            exits: &[#(#exits),*],
            result: #result,
            by_commit: &[#(#by_commit),*],
            abort: #abort,
            registers: #registers,
        }
    }
}

fn outcome(exit: &Exit) -> TokenStream {
    let words = exit.result.iter().map(operand);
    let shape = quote::format_ident!("{}", format!("{:?}", exit.shape));
    quote!(::atomseq::sequence::model::Outcome { shape: ::atomseq::sequence::model::Shape::#shape, words: &[#(#words),*] })
}

fn operand(operand: &Operand) -> TokenStream {
    match operand {
        Operand::Register(Register(index)) => {
            quote!(::atomseq::sequence::model::Operand::Register(#index))
        }
        Operand::Constant(constant) => {
            let tokens = &constant.tokens;
            quote!(::atomseq::sequence::model::Operand::Constant(#tokens))
        }
    }
}

fn address(address: &Address) -> TokenStream {
    let Register(base) = address.base;
    let offset = &address.offset.tokens;
    quote!(::atomseq::sequence::model::Address { base: #base, offset: #offset })
}

fn step(step: &StepKind) -> TokenStream {
    match step {
        StepKind::Load {
            to: Register(to),
            from,
            width,
            ..
        } => {
            let (from, bytes) = (address(from), bytes(*width));
            quote!(::atomseq::sequence::model::Step::Load { to: #to, from: #from, bytes: #bytes })
        }
        StepKind::Cpu { to: Register(to) } => {
            quote!(::atomseq::sequence::model::Step::Cpu { to: #to })
        }
        StepKind::CompareExchange {
            to: Register(to),
            at,
            expected,
            new,
        } => {
            let (at, expected, new) = (address(at), operand(expected), operand(new));
            quote!(::atomseq::sequence::model::Step::CompareExchange { to: #to, at: #at, expected: #expected, new: #new })
        }
        StepKind::Binary {
            to: Register(to),
            operator,
            a,
            b,
        } => {
            let (a, b) = (operand(a), operand(b));
            let operator = quote::format_ident!("{operator:?}");
            quote!(::atomseq::sequence::model::Step::Binary { to: #to, operator: ::atomseq::sequence::model::Operator::#operator, a: #a, b: #b })
        }
        StepKind::Exit {
            comparison,
            a,
            b,
            exit,
        } => {
            let (a, b) = (operand(a), operand(b));
            let comparison = quote::format_ident!("{comparison:?}");
            quote!(::atomseq::sequence::model::Step::Exit { comparison: ::atomseq::sequence::model::Comparison::#comparison, a: #a, b: #b, exit: #exit })
        }
        StepKind::Store {
            kind,
            to,
            value,
            width,
            ..
        } => {
            let (to, value, bytes) = (address(to), operand(value), bytes(*width));
            match kind {
                StoreKind::Prepare => {
                    quote!(::atomseq::sequence::model::Step::Prepare { to: #to, value: #value, bytes: #bytes })
                }
                StoreKind::Visible => {
                    quote!(::atomseq::sequence::model::Step::Store { to: #to, value: #value, bytes: #bytes })
                }
                StoreKind::Commit => {
                    quote!(::atomseq::sequence::model::Step::Commit { to: #to, value: #value, bytes: #bytes })
                }
            }
        }
        StepKind::Copy { to, from, words } => {
            let to = operand(&Operand::Register(*to));
            let (from, words) = (operand(&Operand::Register(*from)), operand(words));
            quote!(::atomseq::sequence::model::Step::Copy { to: #to, from: #from, words: #words })
        }
    }
}

fn bytes(width: Width) -> usize {
    width.bytes() as usize
}
