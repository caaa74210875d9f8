//! Signature.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::Visibility;

use crate::ir::*;

/// The parameters of a form, with the type it gives to slots.
pub fn parameters(sequence: &Sequence, slot: TokenStream) -> TokenStream {
    let parameters = sequence.parameters.iter().map(|parameter| {
        let name = &parameter.name;
        match parameter.is_slot {
            true => quote!(#name: #slot),
            false => quote!(#name: ::atomseq::internals::standard::usize),
        }
    });
    quote!(#(#parameters),*)
}

/// The visibility of a form. Its first word says where rustc takes the form for written: in another
/// crate's macro, so that it says of the type alone that nobody uses it.
pub fn visibility_of_forms(sequence: &Sequence) -> Visibility {
    let mut visibility = sequence.visibility.clone();
    match &mut visibility {
        Visibility::Public(word) => word.span = Span::call_site(),
        Visibility::Restricted(restricted) => restricted.pub_token.span = Span::call_site(),
        Visibility::Inherited => {}
    }
    visibility
}

/// Whether a form that is assembly is inlined: always, unless the caller says otherwise.
pub fn inlined(sequence: &Sequence) -> TokenStream {
    match &sequence.attributes.inline {
        Some(inline) => quote!(#inline),
        None => quote!(#[inline(always)]),
    }
}

/// The value of a result: of an exit, or of the commit.
pub fn result(exit: &Exit, words: Vec<TokenStream>) -> TokenStream {
    let value = match words.as_slice() {
        [] => quote!(()),
        [word] => quote!(#word),
        words => quote!((#(#words),*)),
    };
    match exit.shape {
        Shape::Plain => value,
        Shape::Some => quote!(::atomseq::internals::standard::Option::Some(#value)),
        Shape::None => quote!(::atomseq::internals::standard::Option::None),
        Shape::True => quote!(true),
        Shape::False => quote!(false),
    }
}

pub fn return_type(sequence: &Sequence) -> TokenStream {
    let word = quote!(::atomseq::internals::standard::usize);
    let words = |count| match count {
        1 => word.clone(),
        _ => quote!((#word, #word)),
    };
    match sequence.returns {
        Returns::Nothing => quote!(()),
        Returns::Bool => quote!(::atomseq::internals::standard::bool),
        Returns::Words(count) => words(count),
        Returns::OptionWords(count) => {
            let words = words(count);
            quote!(::atomseq::internals::standard::Option<#words>)
        }
    }
}
