//! The sequence compiler of [atomseq](https://docs.rs/atomseq): turns an atomic sequence, written
//! once in a small subset of Rust, into one form for each mechanism that can protect it.
//!
//! The macro `atomseq::sequence!` is a thin skin over [`compile`]. This crate is for tools that
//! look at sequences or at what is emitted for them: tests, and generators for other languages. The
//! language and its rules are described at `atomseq::sequence!`.
//!
//! # From text to forms
//!
//! Data flows one way:
//!
//! ```text
//! tokens ─ parse ─> functions ─ lower ─> ir::Sequence ─ rules ─> a checked ir::Sequence
//!          signatures           steps                   refuses what breaks a rule
//!
//! ir::Sequence ─ forms ─> Forms ─ emit ─> Assembly ─ output ─> tokens
//!                which forms       for each form and           the Rust item around all forms
//!                it may have       architecture
//! ```
//!
//! A module uses only modules to its left in
//! `message, ir <- parse <- lower <- rules <- forms <- emit <- output`; nothing points back.
//!
//! | module | what it does |
//! |---|---|
//! | `parse` | reads functions and their attributes with `syn`; understands signatures |
//! | `lower` | makes steps of statements and expressions; refuses, at its line, what the language lacks |
//! | [`ir`] | the steps: straight-line code over words in single-assignment registers |
//! | `rules` | checks what restarting, rolling forward and claiming require of the steps |
//! | [`forms`] | decides which forms the steps allow |
//! | [`emit`] | writes assembly, a directory an architecture |
//! | `output` | writes the Rust item: functions, model, and assertions about named constants |
//! | `message` | the sentences that the compiler and an assertion share |
//!
//! # Errors
//!
//! An error points at the token that breaks a rule and says what to write instead. Conditions on
//! named constants are unknown here: they become assertions ([`ir::Sequence::assertions`]), which
//! rustc evaluates while it compiles the caller's crate.
//!
//! # Example
//!
//! ```
//! use atomseq_compiler::emit::x86_64;
//! use atomseq_compiler::forms::{Form, Forms};
//!
//! let text = "unsafe fn add(slot: Slot, amount: Word) {
//!     commit(slot + 8, load(slot + 8) + amount);
//! }";
//! let sequence = atomseq_compiler::sequences(text.parse().unwrap())
//!     .and_then(|mut all| all.remove(0))
//!     .expect("it keeps every rule");
//!
//! let forms = Forms::of(&sequence);
//! assert!(forms.on_cpu && forms.gated && forms.restarting && forms.rolling);
//!
//! // Read-modify-write is one instruction, the last of six: find the slot (3), test its gate (2).
//! let assembly = x86_64::emit(&sequence, Form::OnCpu);
//! assert_eq!(assembly.instructions, 6);
//!
//! // A second visible store is refused: a restart between the two would repeat the first.
//! let twice = "unsafe fn twice(slot: Slot) { commit(slot + 8, 1); commit(slot + 16, 2); }";
//! let refused = atomseq_compiler::compile(twice.parse().unwrap()).unwrap_err();
//! assert!(refused.to_string().starts_with("a second commit"));
//! ```

pub mod emit;
pub mod forms;
pub mod ir;
mod lower;
mod message;
mod output;
mod parse;
mod rules;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;

/// Compiles every sequence in the input of one `sequence!` to a Rust item each.
///
/// # Errors
///
/// All errors of all sequences, combined; of each sequence the first.
pub fn compile(input: TokenStream) -> syn::Result<TokenStream> {
    compile_by(input, output::sequence)
}

/// Compiles every sequence to the same item with one more function, `by`, that runs the sequence by
/// any of [M94's schemes](emit::schemes). The functions name `::atomseq_papers` as well.
///
/// # Errors
///
/// As [`compile`].
#[cfg(feature = "schemes")]
pub fn compile_with_schemes(input: TokenStream) -> syn::Result<TokenStream> {
    compile_by(input, output::with_schemes)
}

fn compile_by(
    input: TokenStream,
    item: impl Fn(&ir::Sequence) -> syn::Result<TokenStream>,
) -> syn::Result<TokenStream> {
    let mut output = TokenStream::new();
    let mut errors: Option<syn::Error> = None;
    for sequence in sequences(input)? {
        match sequence.and_then(|sequence| item(&sequence)) {
            Ok(tokens) => output.extend(tokens),
            Err(error) => match &mut errors {
                Some(all) => all.combine(error),
                None => errors = Some(error),
            },
        }
    }
    match errors {
        Some(errors) => Err(errors),
        None => Ok(output),
    }
}

/// Returns the checked steps of every sequence in the input of one `sequence!`.
///
/// Limits of the machine, the number of instructions and of registers, are checked later, by
/// [`compile`].
///
/// # Errors
///
/// The outer error: the input is no list of functions with the signature of a sequence. The inner
/// ones: the first rule that a sequence breaks.
pub fn sequences(input: TokenStream) -> syn::Result<Vec<syn::Result<ir::Sequence>>> {
    let items = parse::items(input)?;
    Ok(items
        .into_iter()
        .map(|item| {
            let mut sequence = lower::lower(item)?;
            rules::check(&mut sequence)?;
            Ok(sequence)
        })
        .collect())
}
