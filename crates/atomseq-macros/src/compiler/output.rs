//! The Rust around the forms: an uninhabited type named like the sequence, with one associated
//! function a form.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Error, Ident, Result};

use super::emit::{self, Assembly, ConstantOperand, LONGEST, Leaving, Line, Place};
use super::ir::*;
use super::{gated, model};

/// General registers rustc can hand to one `asm!`.
const X86_64_REGISTERS: usize = 13;
const AARCH64_REGISTERS: usize = 26;

/// All forms of one sequence.
pub fn sequence(sequence: &Sequence) -> Result<TokenStream> {
    let x86_64 = emit::x86_64::on_cpu(sequence);
    let aarch64 = emit::aarch64::on_cpu(sequence);
    fits(sequence, &x86_64, "x86-64", X86_64_REGISTERS)?;
    fits(sequence, &aarch64, "AArch64", AARCH64_REGISTERS)?;
    let (attributes, visibility, name) =
        (&sequence.attributes, &sequence.visibility, &sequence.name);
    let returned = return_type(sequence);
    let model = model::program(sequence);
    let names: Vec<&Ident> = sequence
        .parameters
        .iter()
        .map(|parameter| &parameter.name)
        .collect();
    let types = |slot: TokenStream| {
        let slot = &slot;
        sequence
            .parameters
            .iter()
            .map(|parameter| {
                if parameter.is_slot {
                    slot.clone()
                } else {
                    quote!(usize)
                }
            })
            .collect::<Vec<_>>()
    };
    let base_types = types(quote!(::atomseq::percpu::Slots<'_>));
    let held_types = types(quote!(&::atomseq::percpu::Held<'_>));
    let gated = sequence.slots().next().is_some().then(|| {
        let body = gated::body(sequence);
        quote! {
            /// The form for a caller that holds the slot's gate: the same steps in plain Rust.
            ///
            /// # Safety
            ///
            /// Every address the steps reach must be valid for what they do there, as long as the
            /// gate is held.
            #[allow(dead_code, clippy::undocumented_unsafe_blocks, unused_parens, clippy::unnecessary_cast, clippy::unused_unit)]
            pub unsafe fn gated(#(#names: #held_types),*) -> #returned { #body }
        }
    });
    let constants_used = constants(sequence);
    let first = |assembly| {
        attempt(
            sequence,
            assembly,
            quote!(return unsafe { Self::again(#(#names),*) }),
        )
    };
    let again = |assembly| {
        let attempt = attempt(sequence, assembly, quote!(continue));
        quote! {
            let mut restarts = ::atomseq::sequence::Restarts::none();
            while restarts.again() { #attempt }
            ::core::result::Result::Err(::atomseq::sequence::Closed)
        }
    };
    let (first_x86_64, first_aarch64) = (first(&x86_64), first(&aarch64));
    let (again_x86_64, again_aarch64) = (again(&x86_64), again(&aarch64));
    let unused = quote!(let _ = (#(&#names,)*););
    Ok(quote! {
        #(#attributes)*
        #[allow(non_camel_case_types)]
        #visibility enum #name {}

        impl #name {
            /// The form for this CPU: one attempt after another until it commits, leaves early,
            /// finds the gate closed or was interrupted more often than the restart limit.
            /// `Err(Closed)` asks for the slow path; nothing has happened then.
            ///
            /// # Safety
            ///
            /// Every address the steps reach must be valid for what they do there whenever the
            /// gate is open, even in an attempt that will be restarted. Nobody else reads a
            /// prepared word before the commit.
            #[allow(dead_code, clippy::undocumented_unsafe_blocks, unused_parens, clippy::unnecessary_cast, clippy::unused_unit)]
            #[inline(always)]
            pub unsafe fn on_cpu(
                #(#names: #base_types),*
            ) -> ::core::result::Result<#returned, ::atomseq::sequence::Closed> {
                ::atomseq::__on_cpu! {
                    x86_64 { #first_x86_64 }
                    aarch64 { #first_aarch64 }
                    otherwise {
                        #unused
                        ::core::result::Result::Err(::atomseq::sequence::Closed)
                    }
                }
            }

            /// What `on_cpu` becomes once it was interrupted: out of line, so that the fast path
            /// pays for restarts with no register.
            #[allow(dead_code, clippy::undocumented_unsafe_blocks, unused_parens, clippy::unnecessary_cast, clippy::unused_unit)]
            #[cold]
            #[inline(never)]
            unsafe fn again(
                #(#names: #base_types),*
            ) -> ::core::result::Result<#returned, ::atomseq::sequence::Closed> {
                ::atomseq::__on_cpu! {
                    x86_64 { #again_x86_64 }
                    aarch64 { #again_aarch64 }
                    otherwise {
                        #unused
                        ::core::result::Result::Err(::atomseq::sequence::Closed)
                    }
                }
            }

            #gated

            /// The form for a checker: the steps as data.
            #[allow(dead_code, unused_parens, clippy::unnecessary_cast, clippy::unused_unit)]
            pub const MODEL: ::atomseq::sequence::model::Program = #model;
        }

        const _: () = { #(#constants_used)* };
    })
}

/// Makes a wrong constant an error on every architecture, not only where it is an operand.
fn constants(sequence: &Sequence) -> Vec<TokenStream> {
    let assembly = emit::x86_64::on_cpu(sequence);
    assembly
        .constants
        .iter()
        .map(|constant| {
            let checked = checked(constant);
            quote!(#[allow(unused_parens, clippy::unnecessary_cast, clippy::unused_unit)] let _ = #checked;)
        })
        .collect()
}

fn checked(constant: &ConstantOperand) -> TokenStream {
    match constant {
        ConstantOperand::Immediate(constant) => {
            let tokens = &constant.tokens;
            quote!(::atomseq::sequence::check::immediate(#tokens))
        }
        ConstantOperand::Offset(constant, bytes) => {
            let tokens = &constant.tokens;
            quote!(::atomseq::sequence::check::offset(#tokens, #bytes))
        }
    }
}

/// Refuses what no processor could run between two interruptions, or no register file hold.
fn fits(sequence: &Sequence, assembly: &Assembly, architecture: &str, most: usize) -> Result<()> {
    if assembly.instructions > LONGEST {
        return Err(Error::new(
            sequence.name.span(),
            format!(
                "too long: {} instructions on {architecture}, and at most {LONGEST} run between \
                 interruptions; move work before or after the sequence",
                assembly.instructions
            ),
        ));
    }
    let status_registers = usize::from(Leaving::of(sequence) == Leaving::Status);
    let fixed_registers = usize::from(assembly.fixed.is_some());
    let registers =
        sequence.parameters.len() + assembly.temporaries + 1 + status_registers + fixed_registers;
    if registers > most {
        return Err(Error::new(
            sequence.name.span(),
            format!(
                "too many words at once: {registers} registers needed, and at most {most} are there on {architecture}"
            ),
        ));
    }
    Ok(())
}

/// One architecture's `asm!` and what follows from where it leaves: it returns from the function
/// around it, or does what `aborted` says.
fn attempt(sequence: &Sequence, assembly: &Assembly, aborted: TokenStream) -> TokenStream {
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
            let (operand, checked) = (format_ident!("c{index}"), checked(constant));
            quote!(#operand = const #checked,)
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
            true => {
                let variable = temporary(index);
                quote!(#operand = out(reg) #variable,)
            }
            false => quote!(#operand = out(reg) _,),
        }
    });
    let leave = |exit: Option<usize>| {
        let words = &assembly.results[exit.unwrap_or(sequence.exits.len())];
        let words = words
            .iter()
            .map(|place| self::place(sequence, place))
            .collect();
        let result = result(sequence, exit, words);
        quote!(return ::core::result::Result::Ok(#result))
    };
    let exits: Vec<TokenStream> = (0..sequence.exits.len())
        .map(|exit| leave(Some(exit)))
        .collect();
    let committed = leave(None);
    let closed = quote!(return ::core::result::Result::Err(::atomseq::sequence::Closed));
    let common = quote! {
        #(#template,)*
        rseq = in(reg) ::atomseq::internals::rseq_offset(),
        #(#inputs)* #(#constants)* #(#fixed)* #(#temporaries)*
    };
    match leaving {
        Leaving::Labels => {
            let labels = exits.iter().enumerate().map(|(index, exit)| {
                let operand = format_ident!("exit{index}");
                quote!(#operand = label { #exit },)
            });
            quote! {
                unsafe {
                    ::core::arch::asm!(
                        #common
                        #(#labels)*
                        aborted = label { #aborted },
                        closed = label { #closed },
                        options(nostack),
                    )
                }
                #committed
            }
        }
        Leaving::Status => {
            let variables = returned.iter().map(|index| temporary(*index));
            let numbers = 1u32..;
            let aborted_number = emit::aborted_status(sequence) as u32;
            quote! {
                let #status: u32;
                #(let #variables: usize;)*
                unsafe {
                    ::core::arch::asm!(
                        #common
                        status = out(reg) #status,
                        options(nostack),
                    )
                }
                if #status == 0 { #committed }
                #(if #status == #numbers { #exits })*
                if #status != #aborted_number { #closed }
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

/// The value of a result: of an exit, or of the commit.
pub fn result(sequence: &Sequence, exit: Option<usize>, words: Vec<TokenStream>) -> TokenStream {
    let shape = match exit {
        Some(exit) => sequence.exits[exit].shape,
        None => sequence.shape,
    };
    let value = match words.as_slice() {
        [] => quote!(()),
        [word] => quote!(#word),
        words => quote!((#(#words),*)),
    };
    match shape {
        Shape::Plain => value,
        Shape::Some => quote!(::core::option::Option::Some(#value)),
        Shape::None => quote!(::core::option::Option::None),
        Shape::True => quote!(true),
        Shape::False => quote!(false),
    }
}

fn return_type(sequence: &Sequence) -> TokenStream {
    let words = |count| {
        if count == 1 {
            quote!(usize)
        } else {
            quote!((usize, usize))
        }
    };
    match sequence.returns {
        Returns::Nothing => quote!(()),
        Returns::Bool => quote!(bool),
        Returns::Words(count) => words(count),
        Returns::OptionWords(count) => {
            let words = words(count);
            quote!(::core::option::Option<#words>)
        }
    }
}
