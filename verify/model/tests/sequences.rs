//! Every sequence of the library survives every abort, and none is left out: the test reads the
//! library's source, so that a new sequence does not have to be listed by hand.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use syn::visit::Visit;
use verify_model::broken;
use verify_model::checker::check;
use verify_model::structures;

#[test]
fn every_sequence_survives_every_abort() {
    let mut checked = BTreeSet::new();
    for structure in structures::all() {
        let explored = check(&*structure)
            .unwrap_or_else(|violation| panic!("{}:\n{violation}", structure.name()));
        println!("model: {}: {explored}", structure.name());
        // A sequence that passes without having been explored proves nothing.
        assert!(
            explored.states > 50 && (explored.aborts > 1000 || explored.rollforwards > 500),
            "{explored}"
        );
        assert!(explored.exhausted || explored.history == structure.longest_history());
        let file = structure.file();
        for (name, ways) in &explored.ways_out {
            for way in ways {
                checked.insert((format!("{file}::{name}"), *way));
            }
        }
    }
    let mut missed = Vec::new();
    let sequences =
        sequences_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/atomseq/src"));
    let elsewhere =
        |sequence: &&String| sequence.starts_with("dcas/") || sequence.starts_with("nonblocking/");
    for sequence in sequences.iter().filter(|sequence| !elsewhere(sequence)) {
        let (file, name) = sequence.split_once("::").expect("made with ::");
        let exits = (0..structures::program(file, name).exits.len()).map(Some);
        let ways = exits.chain([None]).map(|way| (sequence.clone(), way));
        missed.extend(ways.filter(|way| !checked.contains(way)));
    }
    assert!(
        missed.is_empty(),
        "(sequence, exit) that no structure here takes: {missed:?}"
    );
    assert!(!sequences.is_empty(), "found no `sequence!` in the library");
    println!(
        "model: the source has {} sequences, all checked, by every way out: {sequences:?}",
        sequences.len()
    );
}

/// Returns `file::name` of every function in every `sequence!` below a directory.
fn sequences_in(directory: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in rust_files(directory) {
        let text = std::fs::read_to_string(&path).expect("readable source");
        let file = syn::parse_file(&text).expect("source that parses");
        let mut sequences = Sequences(Vec::new());
        sequences.visit_file(&file);
        let own = file_of(&path);
        found.extend(sequences.0.iter().map(|name| format!("{own}::{name}")));
    }
    found
}

/// Returns a file's name without its extension, prefixed by its directory (`local/`, `mutex/` and
/// others), because files there may have the same names. A `mod.rs` goes by its directory's name.
fn file_of(path: &Path) -> String {
    let path = match path.file_stem() {
        Some(stem) if stem == "mod" => path.parent().expect("a directory"),
        _ => path,
    };
    let name =
        |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let stem = name(path.file_stem()).expect("a file name");
    match name(path.parent().and_then(Path::file_name)).as_deref() {
        Some("local") => format!("local/{stem}"),
        // Several threads take part, and no sequence restarts: `tests/dcas.rs` checks these.
        Some("dcas" | "assisted") => format!("dcas/{stem}"),
        // The same: `tests/shadow.rs` checks these.
        Some("nonblocking") => format!("nonblocking/{stem}"),
        Some("mutex") => format!("mutex/{stem}"),
        _ => stem,
    }
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("readable directory").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

struct Sequences(Vec<String>);

impl<'ast> Visit<'ast> for Sequences {
    /// Modules of unit tests are not part of the library.
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let is_test = |attribute: &syn::Attribute| {
            matches!(&attribute.meta, syn::Meta::List(list)
                if list.path.is_ident("cfg") && list.tokens.to_string() == "test")
        };
        if !module.attrs.iter().any(is_test) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        let name = invocation
            .path
            .segments
            .last()
            .map(|last| last.ident.to_string());
        if name.as_deref() != Some("sequence") {
            return;
        }
        let functions: Functions =
            syn::parse2(invocation.tokens.clone()).expect("functions in a sequence!");
        self.0.extend(
            functions
                .0
                .iter()
                .map(|function| function.sig.ident.to_string()),
        );
    }
}

struct Functions(Vec<syn::ItemFn>);

impl syn::parse::Parse for Functions {
    fn parse(input: syn::parse::ParseStream<'_>) -> syn::Result<Functions> {
        let mut functions = Vec::new();
        while !input.is_empty() {
            functions.push(input.parse()?);
        }
        Ok(Functions(functions))
    }
}

/// Every wrong sequence is detected, for the right reason.
#[test]
fn every_wrong_sequence_is_found_out() {
    let all = broken::all();
    let (mut states, mut attempts) = (0, 0);
    for broken in &all {
        let why = broken.why;
        let violation = match check(broken) {
            Ok(explored) => panic!("not detected: {why}\n{explored}"),
            Err(violation) => violation,
        };
        println!("model: detected: {why}:\n{violation}");
        assert!(
            (broken.expected)(&violation.fault),
            "{why}: another fault\n{violation}"
        );
        states += violation.explored.states;
        attempts += violation.explored.attempts;
    }
    println!(
        "model: {} wrong sequences detected, after {attempts} attempts in {states} states",
        all.len()
    );
    assert!(all.len() >= 20 && states > all.len() && attempts > all.len());
}
