//! Reads the functions in the input of a `sequence!`. The syntax is Rust's, so `syn` reads it. This
//! module understands signatures and attributes; bodies are for `lower`.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    AttrStyle, Attribute, Block, Error, FnArg, GenericArgument, Ident, ItemFn, Meta, Pat,
    PathArguments,
};
use syn::{Result, ReturnType, Token, Type, Visibility, parse_quote};

use crate::ir::{Attributes, Parameter, Returns};

/// One function as written, its signature understood.
pub struct Item {
    /// The attributes before it.
    pub attributes: Attributes,
    /// Its visibility.
    pub visibility: Visibility,
    /// Whether it is a plain `fn`.
    pub is_safe: bool,
    /// Where `fn` stands.
    pub keyword: Span,
    /// Its name.
    pub name: Ident,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// Its result's type.
    pub returns: Returns,
    /// Its body, as syntax.
    pub body: Block,
}

struct Items(Vec<ItemFn>);

impl Parse for Items {
    fn parse(input: ParseStream) -> Result<Items> {
        let mut items = Vec::new();
        while !input.is_empty() {
            items.push(input.parse()?);
        }
        Ok(Items(items))
    }
}

/// Returns the functions in the macro's input.
pub fn items(input: TokenStream) -> Result<Vec<Item>> {
    let Items(functions) = syn::parse2(input.clone())?;
    if functions.is_empty() {
        return Err(Error::new(
            input.span(),
            "`sequence!` is empty: write at least one function",
        ));
    }
    functions.into_iter().map(item).collect()
}

/// Understands one function.
fn item(function: ItemFn) -> Result<Item> {
    no_attributes(function.sig.to_token_stream())?;
    no_attributes(function.block.to_token_stream())?;
    let signature = function.sig;
    for (present, what) in [
        (signature.constness.map(|token| token.span()), "const"),
        (signature.asyncness.map(|token| token.span()), "async"),
        (signature.abi.as_ref().map(Spanned::span), "extern"),
        (signature.variadic.as_ref().map(Spanned::span), "variadic"),
        (
            signature.generics.lt_token.map(|token| token.span()),
            "generic",
        ),
        (
            signature.generics.where_clause.as_ref().map(Spanned::span),
            "generic",
        ),
    ] {
        if let Some(span) = present {
            return Err(Error::new(span, format!("a sequence cannot be {what}")));
        }
    }
    let parameters = signature
        .inputs
        .iter()
        .map(parameter)
        .collect::<Result<Vec<_>>>()?;
    for (index, parameter) in parameters.iter().enumerate() {
        if parameters[..index]
            .iter()
            .any(|other| other.name.unraw() == parameter.name.unraw())
        {
            return Err(Error::new(
                parameter.name.span(),
                format!(
                    "two parameters are named `{}`: names are compared as text, without `r#`, whether \
                     they are written inside or outside of a `macro_rules!`",
                    parameter.name.unraw()
                ),
            ));
        }
    }
    Ok(Item {
        attributes: attributes(function.attrs)?,
        visibility: function.vis,
        is_safe: signature.unsafety.is_none(),
        keyword: signature.fn_token.span,
        name: signature.ident,
        parameters,
        returns: returns(&signature.output)?,
        body: *function.block,
    })
}

/// Divides attributes by where they belong.
fn attributes(all: Vec<Attribute>) -> Result<Attributes> {
    let mut attributes = Attributes::default();
    for attribute in all {
        let name = match (attribute.style, attribute.path().get_ident()) {
            (AttrStyle::Outer, Some(name)) => name.to_string(),
            _ => String::new(),
        };
        match name.as_str() {
            "doc" | "deprecated" => attributes.on_type.push(attribute),
            "cfg" | "allow" | "warn" | "deny" => {
                attributes.on_type.push(attribute.clone());
                attributes.on_rest.push(attribute);
            }
            "expect" => expected(attribute, &mut attributes)?,
            "must_use" if attributes.must_use.is_none() => attributes.must_use = Some(attribute),
            "inline" if attributes.inline.is_none() => attributes.inline = Some(attribute),
            "must_use" | "inline" => {
                return Err(Error::new(
                    attribute.span(),
                    "a second attribute of this name: remove one",
                ));
            }
            _ => {
                return Err(Error::new(
                    attribute.span(),
                    "an attribute that has no meaning on a sequence: it takes `doc`, `deprecated`, \
                     `must_use`, `inline`, `cfg` and lint levels except `forbid`",
                ));
            }
        }
    }
    Ok(attributes)
}

/// Divides the lints of an `expect` by where rustc finds them, each with the reason if there is
/// one.
fn expected(attribute: Attribute, attributes: &mut Attributes) -> Result<()> {
    let all = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?;
    let (reason, lints): (Vec<Meta>, Vec<Meta>) = all
        .into_iter()
        .partition(|meta| meta.path().is_ident("reason"));
    for lint in lints {
        let level = |level: &str| {
            let mut attribute = attribute.clone();
            let level = Ident::new(level, attribute.path().span());
            attribute.meta = parse_quote!(#level(#lint #(, #reason)*));
            attribute
        };
        if lint.path().is_ident("deprecated") {
            attributes.on_constants.push(level("expect"));
            continue;
        }
        attributes.on_type.push(level("expect"));
        // See `Attributes`: the type alone is asked whether it is used.
        let of_use = ["dead_code", "unused", "warnings"];
        if !of_use.iter().any(|name| lint.path().is_ident(name)) {
            attributes.on_rest.push(level("allow"));
        }
    }
    Ok(())
}

/// Refuses attributes inside a function, which would have no effect. Nothing else there has a `#`.
fn no_attributes(tokens: TokenStream) -> Result<()> {
    for token in tokens {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                return Err(Error::new(
                    mark.span(),
                    "no attributes inside a sequence: put the condition on the whole sequence",
                ));
            }
            TokenTree::Group(group) => no_attributes(group.stream())?,
            _ => {}
        }
    }
    Ok(())
}

/// Refuses a name for a word that the language reads as a constant.
pub fn no_constant_name(name: &Ident) -> Result<()> {
    match is_constant_name(name) {
        false => Ok(()),
        true => Err(Error::new(
            name.span(),
            format!("`{name}` in capitals is the constant of that name: name a word in lower case"),
        )),
    }
}

/// Whether a name is a constant's: it has capitals and no small letter.
pub fn is_constant_name(name: &Ident) -> bool {
    let name = name.unraw().to_string();
    name.chars().any(|character| character.is_ascii_uppercase())
        && !name.chars().any(|character| character.is_ascii_lowercase())
}

/// Understands one parameter.
fn parameter(argument: &FnArg) -> Result<Parameter> {
    const EXPECTED: &str =
        "a parameter is `name: Slot` or `name: Word`, which is a `usize` to the caller";
    let FnArg::Typed(typed) = argument else {
        return Err(Error::new(argument.span(), EXPECTED));
    };
    let Pat::Ident(pattern) = &*typed.pat else {
        return Err(Error::new(typed.pat.span(), EXPECTED));
    };
    if pattern.by_ref.is_some() || pattern.mutability.is_some() || pattern.subpat.is_some() {
        return Err(Error::new(
            pattern.span(),
            "a word is assigned once: bind a plain name, without `mut`, `ref` or `@`",
        ));
    }
    no_constant_name(&pattern.ident)?;
    let is_slot = match named(&typed.ty).as_deref() {
        Some("Slot") => true,
        Some("Word") => false,
        _ => return Err(Error::new(typed.ty.span(), EXPECTED)),
    };
    Ok(Parameter {
        name: pattern.ident.clone(),
        is_slot,
    })
}

/// Understands the type of a result.
fn returns(output: &ReturnType) -> Result<Returns> {
    let ReturnType::Type(_, returned) = output else {
        return Ok(Returns::Nothing);
    };
    let returned = strip(returned);
    let error = || {
        Error::new(
            returned.span(),
            "a sequence returns nothing, `Word`, `bool`, `(Word, Word)`, or an `Option` of \
             `Word` or `(Word, Word)`",
        )
    };
    if let Some(words) = words(returned) {
        return Ok(Returns::Words(words));
    }
    if named(returned).as_deref() == Some("bool") {
        return Ok(Returns::Bool);
    }
    let Type::Path(path) = returned else {
        return Err(error());
    };
    let segment = path.path.segments.last().ok_or_else(error)?;
    if let (true, PathArguments::AngleBracketed(arguments)) =
        (segment.ident == "Option", &segment.arguments)
    {
        if let Some(GenericArgument::Type(inner)) = arguments.args.first() {
            if let Some(words) = words(inner) {
                return Ok(Returns::OptionWords(words));
            }
        }
    }
    Err(error())
}

/// Returns how many words a type is: one or two.
fn words(returned: &Type) -> Option<usize> {
    match strip(returned) {
        Type::Tuple(tuple)
            if tuple.elems.len() == 2
                && tuple
                    .elems
                    .iter()
                    .all(|element| named(element).as_deref() == Some("Word")) =>
        {
            Some(2)
        }
        other if named(other).as_deref() == Some("Word") => Some(1),
        _ => None,
    }
}

/// Returns the name of a type that is one plain name.
pub fn named(of: &Type) -> Option<String> {
    match strip(of) {
        Type::Path(path) if path.qself.is_none() => path.path.get_ident().map(ToString::to_string),
        _ => None,
    }
}

/// Strips parentheses, and the invisible group around what a variable of a `macro_rules!` brings.
fn strip(of: &Type) -> &Type {
    match of {
        Type::Paren(inner) => strip(&inner.elem),
        Type::Group(inner) => strip(&inner.elem),
        other => other,
    }
}
