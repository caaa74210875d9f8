//! From the text of a sequence to its forms.

mod attempt;
pub mod emit;
pub mod gated;
pub mod ir;
pub mod lower;
pub mod model;
pub mod output;
pub mod parse;
mod rules;
mod words;

use proc_macro2::TokenStream;

/// Compiles every sequence in one `sequence!`, reporting all errors of all of them.
pub fn compile(input: TokenStream) -> syn::Result<TokenStream> {
    let mut output = TokenStream::new();
    let mut errors: Option<syn::Error> = None;
    for sequence in sequences(input)? {
        match sequence.and_then(|sequence| output::sequence(&sequence)) {
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

/// The intermediate representation of every sequence in one `sequence!`, or what is wrong with it.
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
