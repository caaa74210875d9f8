//! What the signatures and results of all forms have in common.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::Visibility;

use crate::ir::*;

/// Returns the parameters of a form, which gives slots this type.
pub fn parameters(sequence: &Sequence, slot: TokenStream) -> TokenStream {
    let parameters = sequence.parameters.iter().map(|parameter| {
        let name = &parameter.name;
        match parameter.is_slot {
            true => quote!(#name: #slot),
            false => quote!(#name: ::atomseq::generated::standard::usize),
        }
    });
    quote!(#(#parameters),*)
}

/// Returns `unsafe`, unless the sequence is a plain `fn`.
pub fn unsafety(sequence: &Sequence) -> Option<TokenStream> {
    (!sequence.is_safe).then(|| quote!(unsafe))
}

/// Returns what callers must know of a form for its CPU: why it is safe, or else this.
pub fn safety(sequence: &Sequence, otherwise: TokenStream) -> TokenStream {
    match sequence.is_safe {
        true => quote! {
            ///
            /// Safe: it reaches words of the slot alone, each by one atomic access. Any word may
            /// stand there afterwards, so code that takes a word of a slot for an address keeps the
            /// area to itself.
        },
        false => quote! {
            ///
            /// # Safety
            ///
            #otherwise
        },
    }
}

/// Returns the visibility of a form. rustc takes a function for written where the span of its first
/// word is. That is in another crate's macro, so rustc reports lints about use of the type alone.
pub fn visibility_of_forms(sequence: &Sequence) -> Visibility {
    let mut visibility = sequence.visibility.clone();
    match &mut visibility {
        Visibility::Public(word) => word.span = Span::call_site(),
        Visibility::Restricted(restricted) => restricted.pub_token.span = Span::call_site(),
        Visibility::Inherited => {}
    }
    visibility
}

/// Returns the `inline` attribute of a form in assembly: `always`, unless the caller wrote another.
pub fn inlined(sequence: &Sequence) -> TokenStream {
    match &sequence.attributes.inline {
        Some(inline) => quote!(#inline),
        None => quote!(#[inline(always)]),
    }
}

/// Returns the value of a result from its words.
pub fn result(exit: &Exit, words: Vec<TokenStream>) -> TokenStream {
    let value = match words.as_slice() {
        [] => quote!(()),
        [word] => quote!(#word),
        words => quote!((#(#words),*)),
    };
    match exit.shape {
        Shape::Plain => value,
        Shape::Some => quote!(::atomseq::generated::standard::Option::Some(#value)),
        Shape::None => quote!(::atomseq::generated::standard::Option::None),
        Shape::True => quote!(true),
        Shape::False => quote!(false),
    }
}

/// Returns the type of a result.
pub fn return_type(sequence: &Sequence) -> TokenStream {
    let word = quote!(::atomseq::generated::standard::usize);
    let words = |count| match count {
        1 => word.clone(),
        _ => quote!((#word, #word)),
    };
    match sequence.returns {
        Returns::Nothing => quote!(()),
        Returns::Bool => quote!(::atomseq::generated::standard::bool),
        Returns::Words(count) => words(count),
        Returns::OptionWords(count) => {
            let words = words(count);
            quote!(::atomseq::generated::standard::Option<#words>)
        }
    }
}
