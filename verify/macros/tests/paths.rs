//! The names that the library's macros may use: where they are expanded, every name except `$crate`
//! (in the output of a procedural macro, `::atomseq`) may mean something else. So may the names of
//! primitive types and of the prelude; a method may belong to the caller's trait; a variable may be
//! compared with a constant of its name; and an inferred type depends on the place of use. This
//! test reads the sources of all macros.

use std::fs::{read_dir, read_to_string};
use std::path::Path;

use proc_macro2::{Delimiter, Group, Ident, Spacing, TokenStream, TokenTree};

/// The permitted beginning of a path that leads out of the expansion.
#[derive(Clone, Copy)]
enum Origin {
    /// `$crate`.
    Dollar,
    /// `::atomseq`.
    Root,
}

fn is(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

/// Returns whether this is the first half of `::`.
fn begins_colons(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':' && punct.spacing() == Spacing::Joint)
}

fn named(token: Option<&TokenTree>, name: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == name)
}

/// Returns whether this is a word after which a path may begin.
fn is_keyword(name: &Ident) -> bool {
    [
        "as", "const", "dyn", "else", "for", "if", "in", "let", "match", "mut", "return", "unsafe",
        "while",
    ]
    .iter()
    .any(|keyword| name == keyword)
}

/// The names that the language and its preludes provide, up to the edition of 2024: a caller's item
/// of the same name shadows them.
const BROUGHT_ALONG: &str = "
    bool char str f32 f64 u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize
    Option Some None Result Ok Err Box String Vec ToString ToOwned
    Send Sync Sized Copy Clone Drop Unpin Fn FnMut FnOnce AsyncFn AsyncFnMut AsyncFnOnce Future IntoFuture
    AsRef AsMut From Into TryFrom TryInto FromIterator Extend Iterator IntoIterator DoubleEndedIterator ExactSizeIterator
    Default PartialEq Eq PartialOrd Ord Debug Hash
    drop size_of size_of_val align_of align_of_val derive test";

fn is_brought_along(name: &Ident) -> bool {
    BROUGHT_ALONG.split_whitespace().any(|other| name == other)
}

/// Records the variable that a pattern declares here, or the macro's variable in its place, unless
/// it has a name that no caller's constant has, and after `let` a type.
fn declared(tokens: &[TokenTree], at: usize, found: &mut Vec<String>) {
    let token = |index: usize| tokens.get(index);
    let mut at = at;
    if named(token(at), "mut") {
        at += 1;
    }
    let is_own = is(token(at), '#') || is(token(at), '$');
    let Some(TokenTree::Ident(name)) = token(at + usize::from(is_own)) else {
        return;
    };
    let next = at + usize::from(is_own) + 1;
    if name == "_" || matches!(token(next), Some(TokenTree::Group(_))) {
        return;
    }
    if !is_own && !name.to_string().starts_with("__atomseq_") {
        found.push(format!("let {name}"));
    }
    if !is(token(next), ':') {
        found.push(format!("let {name}: _"));
    }
}

/// Records the names in an expansion to which the caller can give a meaning: paths and macros that
/// do not begin as permitted, and the names listed in the module's documentation.
fn refused(expansion: TokenStream, origin: Origin, found: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = expansion.into_iter().collect();
    let at = |index: usize| tokens.get(index);
    for (index, token) in tokens.iter().enumerate() {
        let before = |count: usize| index.checked_sub(count).and_then(at);
        match token {
            TokenTree::Group(group) => refused(group.stream(), origin, found),
            TokenTree::Ident(name)
                if is(before(1), '.')
                    && !is(before(2), '.')
                    && (begins_colons(at(index + 1))
                        || matches!(at(index + 1), Some(TokenTree::Group(_)))) =>
            {
                found.push(format!(".{name}()"));
            }
            TokenTree::Ident(name) if name == "_" && !is(before(1), '\'') => {
                let is_argument =
                    is(before(1), '<') || is(at(index + 1), '>') && !is(before(1), '=');
                if named(before(1), "as") || is_argument {
                    found.push("_".to_string());
                }
            }
            TokenTree::Ident(name) if name == "let" => declared(&tokens, index + 1, found),
            // A closure's parameter.
            TokenTree::Ident(name)
                if is(before(1), '|')
                    && (is(at(index + 1), '|') || is(at(index + 1), ':'))
                    && !begins_colons(at(index + 1))
                    && !name.to_string().starts_with("__atomseq_") =>
            {
                found.push(format!("|{name}|"));
            }
            // A path that continues, or a capture of the macro's own.
            TokenTree::Ident(_) if is(before(1), ':') && begins_colons(before(2)) => {
                let named_before =
                    matches!(before(3), Some(TokenTree::Ident(name)) if !is_keyword(name));
                // What the schemes of M94 are made of is in `atomseq_papers`, whose macro makes
                // them.
                let library = ["atomseq", "atomseq_papers"];
                let by_root = matches!(origin, Origin::Root)
                    && library.iter().any(|name| named(Some(token), name));
                // `<Type>::name` and `#path::name` continue a path as well.
                let continues = named_before || is(before(3), '>');
                if !continues && !by_root {
                    found.push(format!("::{token}"));
                }
            }
            TokenTree::Ident(_) if is(before(1), '$') || is(before(1), '#') => {}
            TokenTree::Ident(name) => {
                let a_macro = is(at(index + 1), '!') && !is(at(index + 2), '=');
                // Lints' names are the compiler's.
                let own = name == "Self" || name == "clippy" || is_keyword(name);
                if (a_macro || begins_colons(at(index + 1)) || is_brought_along(name)) && !own {
                    found.push(name.to_string());
                }
            }
            _ => {}
        }
    }
}

/// Collects the expansions of the exported `macro_rules!` in a file, one for each transcriber, with
/// the macro's name.
fn exported(file: TokenStream, all: &mut Vec<(String, Group)>) {
    let tokens: Vec<TokenTree> = file.into_iter().collect();
    let mut is_exported = false;
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                is_exported |= named(group.stream().into_iter().next().as_ref(), "macro_export");
            }
            TokenTree::Ident(ident) if ident == "macro_rules" && is(tokens.get(index + 1), '!') => {
                let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(rules))) =
                    (tokens.get(index + 2), tokens.get(index + 3))
                else {
                    continue;
                };
                if std::mem::take(&mut is_exported) {
                    let rules: Vec<TokenTree> = rules.stream().into_iter().collect();
                    for rule in rules.windows(3) {
                        if let (true, true, TokenTree::Group(to)) =
                            (is(rule.first(), '='), is(rule.get(1), '>'), &rule[2])
                        {
                            all.push((name.to_string(), to.clone()));
                        }
                    }
                }
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                exported(group.stream(), all);
            }
            TokenTree::Ident(ident)
                if ["mod", "fn", "impl", "struct"]
                    .iter()
                    .any(|item| ident == item) =>
            {
                is_exported = false;
            }
            _ => {}
        }
    }
}

/// Collects the tokens of every `quote!`, `quote_spanned!` and `parse_quote!` in a file.
fn quoted(file: TokenStream, all: &mut Vec<(String, Group)>) {
    let tokens: Vec<TokenTree> = file.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else {
            continue;
        };
        let name = index.checked_sub(2).and_then(|name| tokens.get(name));
        let quotes = ["quote", "quote_spanned", "parse_quote"];
        let is_quote = is(index.checked_sub(1).and_then(|mark| tokens.get(mark)), '!')
            && quotes.iter().any(|quote| named(name, quote));
        match is_quote {
            true => {
                let text: Vec<TokenTree> = group.stream().into_iter().collect();
                // After the span.
                let spanned = named(name, "quote_spanned");
                let arrow = text
                    .windows(2)
                    .position(|two| is(two.first(), '=') && is(two.get(1), '>'));
                let from = arrow.filter(|_| spanned).map_or(0, |arrow| arrow + 2);
                let text = text.into_iter().skip(from).collect();
                all.push((
                    group.span().start().line.to_string(),
                    Group::new(Delimiter::Brace, text),
                ));
            }
            false => quoted(group.stream(), all),
        }
    }
}

/// Records the places in a file where a quotation takes its span unchanged from the macro's input:
/// its names would then have the meaning that they have there, in that edition. Each span must go
/// through `generated`, directly or by a variable that is called `at`.
fn spans(file: TokenStream, found: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = file.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        let before = |count: usize| {
            index
                .checked_sub(count)
                .and_then(|before| tokens.get(before))
        };
        match token {
            TokenTree::Group(group) => {
                let first = group.stream().into_iter().next();
                let is_spanned = is(before(1), '!') && named(before(2), "quote_spanned");
                if is_spanned
                    && !["at", "generated"]
                        .iter()
                        .any(|name| named(first.as_ref(), name))
                {
                    found.push(group.to_string());
                }
                spans(group.stream(), found);
            }
            TokenTree::Ident(name) if name == "at" && named(before(1), "let") => {
                let rest = tokens[index + 1..].iter();
                let value: Vec<&TokenTree> =
                    rest.take_while(|token| !is(Some(token), ';')).collect();
                let is_span = value.iter().any(|token| named(Some(token), "span"));
                if is_span && !named(value.get(1).copied(), "generated") {
                    found.push(format!("let at = {}", value[1]));
                }
            }
            _ => {}
        }
    }
}

/// Returns every expansion in a file of this crate: the macro or the line, and the refused names in
/// it.
fn of_file(text: &str, origin: Origin) -> Vec<(String, Vec<String>)> {
    let file: TokenStream = text.parse().expect("it is Rust");
    let mut all = Vec::new();
    match origin {
        Origin::Dollar => exported(file, &mut all),
        Origin::Root => quoted(file, &mut all),
    }
    let expansions = all.into_iter().map(|(place, expansion)| {
        let mut found = Vec::new();
        refused(expansion.stream(), origin, &mut found);
        (place, found)
    });
    expansions.collect()
}

/// Calls a function with the path and the text of every source file below a directory.
fn each_file(directory: &Path, with: &mut dyn FnMut(&Path, &str)) {
    for entry in read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            each_file(&path, with);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            with(&path, &read_to_string(&path).expect("a file"));
        }
    }
}

fn check(sources: &str, origin: Origin, at_least: usize) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(sources);
    let (mut wrong, mut expansions) = (Vec::new(), 0);
    each_file(&directory, &mut |path, text| {
        for (place, found) in of_file(text, origin) {
            expansions += 1;
            wrong.extend(
                found
                    .iter()
                    .map(|name| format!("{}: {place}: {name}", path.display())),
            );
        }
    });
    println!("{expansions} expansions in {sources}");
    assert!(
        wrong.is_empty(),
        "the caller says what these mean: {wrong:#?}"
    );
    assert!(
        expansions >= at_least,
        "only {expansions} expansions were found"
    );
}

#[test]
fn exported_macros_name_everything_by_their_own_crate() {
    check("../../crates/atomseq/src", Origin::Dollar, 12);
}

#[test]
fn procedural_macros_name_everything_by_the_library() {
    check("../../crates/atomseq-compiler/src", Origin::Root, 100);
    check("../../crates/atomseq-macros/src", Origin::Root, 2);
}

#[test]
fn quotations_take_no_edition_from_what_they_are_given() {
    let mut found = Vec::new();
    let mut files = 0;
    for sources in [
        "../../crates/atomseq-compiler/src",
        "../../crates/atomseq-macros/src",
    ] {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(sources);
        each_file(&directory, &mut |_, text| {
            files += 1;
            spans(text.parse().expect("it is Rust"), &mut found);
        });
    }
    assert_eq!(found, [""; 0]);
    assert!(files > 10, "only {files} files were found");

    let by_text = |text: &str| {
        let mut found = Vec::new();
        spans(text.parse().expect("it is Rust"), &mut found);
        found.len()
    };
    assert_eq!(
        by_text("fn f() { quote_spanned!(field.ty.span()=> ::atomseq::it) }"),
        1
    );
    assert_eq!(
        by_text("fn f() { let at = it.span(); quote_spanned!(at=> ::atomseq::it) }"),
        1
    );
    assert_eq!(
        by_text("fn f() { let at = generated(it.span()); quote_spanned!(at=> it) }"),
        0
    );
    assert_eq!(
        by_text("fn f() { quote::quote_spanned!(generated(it)=> ::atomseq::it) }"),
        0
    );
}

/// The control: names that must be refused are, and names of the expansion itself are not.
#[test]
fn a_name_that_the_caller_may_define_is_refused() {
    let by_rules = |expansion: &str| {
        let text = format!(
            "#[doc(hidden)] #[macro_export] macro_rules! it {{ () => {{}}; ($a:ty) => {{{{ {expansion} }}}}; }}"
        );
        let found = of_file(&text, Origin::Dollar);
        assert_eq!(found.len(), 2, "two rules");
        found[1].1.clone()
    };
    assert_eq!(by_rules("::core::arch::asm!(\"\")"), ["::core"]);
    assert_eq!(
        by_rules("let __atomseq_it: <$a>::B = ::std::mem::take(it);"),
        ["::std"]
    );
    assert_eq!(
        by_rules("fn f() { if it != 2 { assert!(true) } }"),
        ["assert"]
    );
    assert_eq!(
        by_rules("core::mem::swap(a, std::mem::take(b))"),
        ["core", "std"]
    );
    assert_eq!(
        by_rules("$crate::a!($a::B, $crate::c::D::<$a>::new(), Self::F)"),
        [""; 0]
    );
    assert!(
        of_file(
            "macro_rules! own { () => { ::core::it!() } }",
            Origin::Dollar
        )
        .is_empty()
    );

    let by_quote = |text: &str| {
        let found = of_file(&format!("fn f() {{ quote::quote!({text}) }}"), Origin::Root);
        assert_eq!(found.len(), 1, "one quotation");
        found[0].1.clone()
    };
    assert_eq!(
        by_quote("impl #name { ::core::assert!(#holds); }"),
        ["::core"]
    );
    assert_eq!(by_quote("Option::Some(concat!(#a))"), ["Option", "concat"]);
    assert_eq!(
        by_quote("::atomseq::a!(#b::C, Self::D, ::atomseq::e::F)"),
        [""; 0]
    );
    assert_eq!(
        by_rules("$crate::f(1 as usize, Some(2))"),
        ["usize", "Some"]
    );
    assert_eq!(by_rules("#[derive(Clone)] struct $a;"), ["derive", "Clone"]);
    assert_eq!(
        by_rules("impl $crate::A for $b { fn f(it: &dyn Fn(u64)) where Self: Sized {} }"),
        ["Fn", "u64", "Sized"]
    );
    assert_eq!(
        by_quote("let #a: ::atomseq::standard::usize = ::atomseq::model::Shape::Some;"),
        [""; 0]
    );
    assert_eq!(by_quote("#a.wrapping_add(#b).0"), [".wrapping_add()"]);
    assert_eq!(by_quote("#a.cast::<::atomseq::T>()"), [".cast()"]);
    assert_eq!(by_rules("&it.$a, it.0, 1..f()"), [""; 0]);
    assert_eq!(by_rules("let address;"), ["let address", "let address: _"]);
    assert_eq!(
        by_rules("let mut __atomseq_it = 3;"),
        ["let __atomseq_it: _"]
    );
    assert_eq!(by_quote("let mut #it = 3; let _ = #it;"), ["let it: _"]);
    assert_eq!(by_rules("let $a { b: _, } = __atomseq_it;"), [""; 0]);
    assert_eq!(
        by_quote("it(|other| other, |one: u8| one, #a | #b, |__atomseq_it| __atomseq_it)"),
        ["|other|", "|one|", "u8"]
    );
    assert_eq!(
        by_quote("#a as _, ::atomseq::a::<_>(), match #a { _ => 1 }"),
        ["_", "_"]
    );
    let spanned = "fn f() { quote_spanned!(generated::at(it)=> ::std::it) }";
    assert_eq!(of_file(spanned, Origin::Root)[0].1, ["::std"]);
}
