//! The steps in plain Rust. The `gated` form runs them for a caller that holds the gate of the
//! slot: the slow path, and every operation on another CPU's slot. Where there is no assembly, the
//! forms against signal handlers run them with all signals blocked.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::signature::{parameters, result, return_type, safety, unsafety, visibility_of_forms};
use crate::ir::*;

/// Which threads reach the memory of the steps.
#[derive(Clone, Copy, PartialEq)]
pub enum Memory {
    /// All: others may read it, and change single words of it, so accesses are atomic.
    Shared,
    /// This thread alone.
    Own,
}

/// Returns `gated`.
pub fn function(sequence: &Sequence) -> TokenStream {
    let visibility = visibility_of_forms(sequence);
    let returned = return_type(sequence);
    let parameters = parameters(sequence, quote!(&::atomseq::percpu::GateGuard<'_>));
    let (must_use, inline) = (&sequence.attributes.must_use, &sequence.attributes.inline);
    let body = body(
        sequence,
        Memory::Shared,
        |slot| quote!(::atomseq::percpu::GateGuard::address(#slot)),
    );
    let unsafety = unsafety(sequence);
    let safety = safety(
        sequence,
        quote! {
            /// Every address the steps reach must be valid for what they do there, as long as the
            /// gate is held.
        },
    );
    quote! {
        /// Runs the steps in plain Rust, for a caller that holds the gate of the slot.
        #safety
        #must_use
        #inline
        #visibility #unsafety fn gated(#parameters) -> #returned { #body }
    }
}

/// Returns the statements: one variable for each register, parameters first, and one statement for
/// each step. `slot` is the address of a slot of this name.
pub fn body(
    sequence: &Sequence,
    memory: Memory,
    slot: impl Fn(&Ident) -> TokenStream,
) -> TokenStream {
    let bindings = sequence
        .parameters
        .iter()
        .enumerate()
        .map(|(index, parameter)| {
            let register = name(Register(index));
            let is_slot = parameter.is_slot;
            let parameter = &parameter.name;
            match is_slot {
                true => {
                    let address = slot(parameter);
                    quote!(let #register: ::atomseq::generated::standard::usize = #address;)
                }
                false => {
                    quote!(let #register: ::atomseq::generated::standard::usize = #parameter;)
                }
            }
        });
    let cpu = sequence
        .slots()
        .next()
        .map(|(_, parameter)| &parameter.name);
    let steps = sequence
        .steps
        .iter()
        .map(|step| statement(sequence, memory, &step.kind, cpu));
    let words = sequence.end.result.iter().map(operand);
    let result = result(&sequence.end, words.collect());
    quote!(#(#bindings)* #(#steps)* #result)
}

/// The variable of a register.
fn name(register: Register) -> Ident {
    format_ident!(
        "__atomseq_r{}",
        register.0,
        span = proc_macro2::Span::mixed_site()
    )
}

fn operand(operand: &Operand) -> TokenStream {
    match operand {
        Operand::Register(register) => {
            let register = name(*register);
            quote!(#register)
        }
        Operand::Constant(constant) => {
            let tokens = &constant.tokens;
            quote!(#tokens)
        }
    }
}

fn address(address: &Address) -> TokenStream {
    let base = name(address.base);
    let offset = &address.offset.tokens;
    quote!(::atomseq::generated::standard::usize::wrapping_add(#base, #offset))
}

fn statement(
    sequence: &Sequence,
    memory: Memory,
    step: &StepKind,
    cpu: Option<&Ident>,
) -> TokenStream {
    match step {
        StepKind::Load {
            to,
            from,
            width,
            acquire,
        } => {
            let (to, from) = (name(*to), address(from));
            let load = match (memory, width, acquire) {
                (Memory::Own, Width::Word, _) => quote!(load_own),
                (Memory::Own, Width::Half, _) => quote!(load32_own),
                (Memory::Shared, Width::Word, false) => quote!(load),
                (Memory::Shared, Width::Word, true) => quote!(load_acquire),
                (Memory::Shared, Width::Half, _) => quote!(load32),
            };
            quote!(let #to: ::atomseq::generated::standard::usize = unsafe { ::atomseq::generated::gated::#load(#from) };)
        }
        StepKind::Cpu { to } => {
            let to = name(*to);
            quote!(let #to: ::atomseq::generated::standard::usize = ::atomseq::percpu::GateGuard::cpu(#cpu);)
        }
        StepKind::CompareExchange {
            to,
            at,
            expected,
            new,
        } => {
            let (to, at) = (name(*to), address(at));
            let (expected, new) = (operand(expected), operand(new));
            quote!(let #to: ::atomseq::generated::standard::usize = unsafe { ::atomseq::generated::gated::compare_exchange(#at, #expected, #new) };)
        }
        StepKind::Binary { to, operator, a, b } => {
            let (to, a, b) = (name(*to), operand(a), operand(b));
            let value = match operator {
                BinaryOperator::Add => {
                    quote!(::atomseq::generated::standard::usize::wrapping_add(#a, #b))
                }
                BinaryOperator::Subtract => {
                    quote!(::atomseq::generated::standard::usize::wrapping_sub(#a, #b))
                }
                BinaryOperator::Multiply => {
                    quote!(::atomseq::generated::standard::usize::wrapping_mul(#a, #b))
                }
                BinaryOperator::And => quote!(#a & #b),
                BinaryOperator::Or => quote!(#a | #b),
                BinaryOperator::Xor => quote!(#a ^ #b),
                BinaryOperator::ShiftLeft => {
                    quote!(::atomseq::generated::standard::usize::wrapping_shl(#a, #b as ::atomseq::generated::standard::u32))
                }
                BinaryOperator::ShiftRight => {
                    quote!(::atomseq::generated::standard::usize::wrapping_shr(#a, #b as ::atomseq::generated::standard::u32))
                }
                BinaryOperator::Minimum => quote!(::atomseq::generated::standard::Ord::min(#a, #b)),
                BinaryOperator::Maximum => quote!(::atomseq::generated::standard::Ord::max(#a, #b)),
            };
            quote!(let #to: ::atomseq::generated::standard::usize = #value;)
        }
        StepKind::Exit {
            comparison,
            a,
            b,
            exit,
        } => {
            let (a, b) = (operand(a), operand(b));
            let comparison = match comparison {
                Comparison::Equal => quote!(==),
                Comparison::NotEqual => quote!(!=),
                Comparison::Less => quote!(<),
                Comparison::LessOrEqual => quote!(<=),
                Comparison::Greater => quote!(>),
                Comparison::GreaterOrEqual => quote!(>=),
            };
            let exit = &sequence.exits[*exit];
            let words = exit.result.iter().map(operand);
            let result = result(exit, words.collect());
            let commit = exit
                .commit
                .as_ref()
                .map(|commit| statement(sequence, memory, &commit.kind, cpu));
            quote!(if #a #comparison #b { #commit return #result; })
        }
        StepKind::Store {
            to,
            value,
            width,
            release,
            ..
        } => {
            let (to, value) = (address(to), operand(value));
            let store = match (width, release) {
                (Width::Word, false) => quote!(store),
                (Width::Word, true) => quote!(store_release),
                (Width::Half, _) => quote!(store32),
            };
            quote!(unsafe { ::atomseq::generated::gated::#store(#to, #value) };)
        }
        StepKind::Copy { to, from, words } => {
            let (to, from, words) = (name(*to), name(*from), operand(words));
            quote!(unsafe { ::atomseq::generated::gated::copy(#to, #from, #words) };)
        }
    }
}
