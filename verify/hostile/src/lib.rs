//! Macros that change their input. All of them could be written for a good reason, and none emits
//! `unsafe`: so no program may become unsound by using one.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

fn parsed(text: &str) -> TokenStream {
    text.parse().expect("it is Rust")
}

/// Adds a field of a type that is neither plain, nor a descriptor, nor covered.
#[proc_macro_attribute]
pub fn adds_a_field(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    let with_another = |token| match token {
        TokenTree::Group(fields) if fields.delimiter() == Delimiter::Brace => {
            let another = parsed("pub name: &'static &'static str,");
            let all = another.into_iter().chain(fields.stream()).collect();
            TokenTree::Group(Group::new(Delimiter::Brace, all))
        }
        other => other,
    };
    item.into_iter().map(with_another).collect()
}

/// Replaces a word wherever it stands by others: `#[replaces(word, others)]`.
#[proc_macro_attribute]
pub fn replaces(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut arguments = arguments.into_iter();
    let word = arguments.next().map(|word| word.to_string());
    let word = word.expect("the word to replace");
    let others: TokenStream = arguments.skip(1).collect();
    replaced(item, &word, &others)
}

fn replaced(tokens: TokenStream, word: &str, others: &TokenStream) -> TokenStream {
    let replace = |token| match token {
        TokenTree::Ident(found) if found.to_string() == word => others.clone(),
        TokenTree::Group(group) => {
            let inside = replaced(group.stream(), word, others);
            TokenTree::Group(Group::new(group.delimiter(), inside)).into()
        }
        other => other.into(),
    };
    tokens.into_iter().flat_map(replace).collect()
}

/// Expands to another type each time: a reference, and then an atomic.
#[proc_macro]
pub fn takes_turns(_nothing: TokenStream) -> TokenStream {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    match TURN.fetch_add(1, Ordering::Relaxed) % 2 {
        0 => parsed("&'static &'static str"),
        _ => parsed("::std::sync::atomic::AtomicU64"),
    }
}

/// A word at the expansion of this number, counted from 0 among those with the same number, and 64
/// words at every other.
#[proc_macro]
pub fn smaller_at(number: TokenStream) -> TokenStream {
    static EXPANSIONS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());
    let number: usize = number.to_string().parse().expect("a number");
    let mut expansions = EXPANSIONS.lock().expect("one expansion at a time");
    let expansion = expansions.entry(number).or_default();
    *expansion += 1;
    match *expansion == number + 1 {
        true => parsed("::std::sync::atomic::AtomicU64"),
        false => parsed("[::std::sync::atomic::AtomicU64; 64]"),
    }
}

/// `once!(name: number)`: the number, at the first expansion of this name; refused at every other.
#[proc_macro]
pub fn once(name_and_number: TokenStream) -> TokenStream {
    static EXPANDED: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    let mut tokens = name_and_number.into_iter();
    let name = tokens.next().expect("a name").to_string();
    let mut expanded = EXPANDED.lock().expect("one expansion at a time");
    match expanded.get_or_insert_default().insert(name) {
        true => tokens.skip(1).collect(),
        false => parsed("compile_error!(\"expanded a second time\")"),
    }
}

/// Expands to another number each time: 8, then 16, and so on.
#[proc_macro]
pub fn counts_up(_nothing: TokenStream) -> TokenStream {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = 8 + 8 * NUMBER.fetch_add(1, Ordering::Relaxed);
    parsed(&number.to_string())
}
