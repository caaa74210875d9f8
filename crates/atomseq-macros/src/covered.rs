//! `#[derive(Covered)]`: every field of a struct holds covered words, or none.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, GenericParam, Member, Result, parse_quote};

use atomseq_compiler::ir::generated;

/// Returns the implementation for a struct.
///
/// # Errors
///
/// An enum or a union.
pub(crate) fn derive(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(
            input.ident.span(),
            "only a struct can derive `Covered`: in an enum, a word could become something else",
        ));
    };
    let members: Vec<Member> = data.fields.members().collect();
    let names: Vec<_> = (0..members.len())
        .map(|number| format_ident!("__atomseq_field_{number}", span = Span::mixed_site()))
        .collect();
    let visits = data.fields.iter().zip(&names).map(|(field, name)| {
        // rustc reports a field that is not `Covered` at its type. But `::atomseq` must not mean
        // what it means there.
        let at = generated(field.ty.span());
        let each = quote_spanned!(at=> ::atomseq::dcas::Covered::each_word);
        quote!(#each(#name, __atomseq_visit);)
    });
    let owners = data.fields.iter().zip(&names).map(|(field, name)| {
        let at = generated(field.ty.span());
        let owns = quote_spanned!(at=> ::atomseq::dcas::Covered::owns_elsewhere);
        quote!(|| #owns(#name, __atomseq_word))
    });
    // The pattern names every field, so it does not compile if another macro adds one. A name alone
    // could be a constant of the caller's, which would be matched instead of bound; with `@` it
    // binds or does not compile.
    let all = match &data.fields {
        Fields::Unit => quote!(Self {}),
        _ => quote!(Self { #(#members: #names @ _),* }),
    };
    let mut generics = input.generics.clone();
    for parameter in &mut generics.params {
        if let GenericParam::Type(parameter) = parameter {
            parameter
                .bounds
                .push(parse_quote!(::atomseq::dcas::Covered));
        }
    }
    let (parameters, arguments, conditions) = generics.split_for_impl();
    let name = &input.ident;
    Ok(quote! {
        // SAFETY: the struct consists of the fields that are visited below, and each is `Covered`.
        #[automatically_derived]
        unsafe impl #parameters ::atomseq::dcas::Covered for #name #arguments #conditions {
            fn each_word(&mut self, __atomseq_visit: &mut dyn ::atomseq::generated::standard::FnMut(&mut ::atomseq::dcas::Cell)) {
                let #all: &mut Self = self;
                #(#visits)*
                let _ = __atomseq_visit;
            }

            fn owns_elsewhere(&self, __atomseq_word: ::atomseq::generated::standard::usize) -> ::atomseq::generated::standard::bool {
                let #all: &Self = self;
                let _ = __atomseq_word;
                false #(#owners)*
            }
        }
    })
}
