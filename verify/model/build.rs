//! Writes variants of the library's sources for the models: k-CAS, OS-assisted changes, rings, the
//! shelves of the depot, kept mappings, the turns of threads that grow a structure, the states of a
//! runtime's threads, and how one lends its stack. Each is written unchanged and with one
//! protection removed at a time (`mutations/`), with a control for each protection: see
//! `src/controls.rs` and the tests of these names.

use std::fmt::Write;
use std::path::Path;

#[path = "mutations/dcas.rs"]
mod dcas;
#[path = "mutations/memory.rs"]
mod memory;
#[path = "mutations/structures.rs"]
mod structures;
#[path = "mutations/threads.rs"]
mod threads;

/// A name, a text that occurs once in the sources, and its replacement.
type Mutation = (&'static str, &'static str, &'static str);

/// A file's name and its text.
type Source = (String, String);

fn main() {
    for file in ["build.rs", "mutations"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let library = Path::new("../../crates/atomseq/src/dcas");
    let files = [
        library.join("kcas.rs"),
        library.join("descriptors.rs"),
        library.join("owner.rs"),
        library.join("part.rs"),
        Path::new("tests/kcas/blocks.rs").to_owned(),
    ];
    let sources = files.map(|path| {
        let (name, text) = source(&path);
        // Three words and a version are enough for models; further words would only add steps.
        (
            name,
            text.replace("const MAX: usize = 8;", "const MAX: usize = 3;"),
        )
    });
    write("kcas", &sources, dcas::KCAS);
    write("kcas_loom", &sources, dcas::KCAS_LOOM);
    let files = [
        "assisted.rs",
        "shadow.rs",
        "lock.rs",
        "revokers.rs",
        "part.rs",
    ];
    let mut sources = files.map(|file| source(&library.join(file)));
    // One look is as good as many, and takes fewer steps.
    let patience = "const PATIENCE: usize = ";
    let lock = &mut sources[2].1;
    let start = lock.find(patience).expect("the constant") + patience.len();
    let end = start + lock[start..].find(';').expect("an end");
    lock.replace_range(start..end, "1");
    write("assisted", &sources, dcas::ASSISTED);
    let spsc = changed(
        source(&library.join("../nonblocking/spsc.rs")),
        structures::RING_IN_MODELS,
    );
    write("ring", &[spsc], structures::RING);
    let cells = changed(
        source(&library.join("../nonblocking/queue/ring.rs")),
        structures::QUEUE_IN_MODELS,
    );
    write("queue", &[cells], structures::QUEUE);
    let segments = changed(
        source(&library.join("../nonblocking/linked_queue/segments.rs")),
        structures::LINKED_QUEUE_IN_MODELS,
    );
    write("linked_queue", &[segments], structures::LINKED_QUEUE);
    let shelf = source(&library.join("../percpu/depot/shelf.rs"));
    write("depot", &[shelf], structures::DEPOT);
    let kept = changed(
        source(&library.join("../mappings.rs")),
        memory::MAPPINGS_IN_MODELS,
    );
    write("mappings", &[kept], memory::MAPPINGS);
    let turns = changed(
        source(&library.join("../growth.rs")),
        memory::GROWTH_IN_MODELS,
    );
    write("growth", &[turns], memory::GROWTH);
    let states = source(Path::new(
        "../../crates/atomseq-threads/src/runtime/state.rs",
    ));
    write("states", std::slice::from_ref(&states), threads::STATES);
    let lending = source(Path::new(
        "../../crates/atomseq-threads/src/runtime/lending.rs",
    ));
    write("lending", &[states, lending], threads::LENDING);
}

/// Returns the source with some texts, each of which occurs once, replaced.
fn changed((name, mut text): Source, changes: &[(&str, &str)]) -> Source {
    for (what, with) in changes {
        assert_eq!(text.matches(what).count(), 1, "`{what}` is not there once");
        text = text.replace(what, with);
    }
    (name, text)
}

/// Reads a file and its modules, without tests. Chains of calls are joined into one line, so that a
/// mutation does not depend on where rustfmt breaks them.
fn source(path: &Path) -> Source {
    println!("cargo::rerun-if-changed={}", path.display());
    let text = std::fs::read_to_string(path).expect("a file to read");
    // Tests come last.
    let text = text
        .split("#[cfg(test)]")
        .next()
        .expect("text before the tests");
    let mut whole = String::new();
    // A module in braces cannot begin with a file's inner doc comments.
    for line in text.lines().filter(|line| !line.starts_with("//!")) {
        let module = line
            .strip_prefix("mod ")
            .and_then(|rest| rest.strip_suffix(';'));
        let line = match module {
            Some(module) => {
                let file = path.with_extension("").join(module).with_extension("rs");
                format!("mod {module} {{\n{}\n}}", source(&file).1)
            }
            None => line.to_owned(),
        };
        writeln!(whole, "{line}").expect("strings take everything");
    }
    let name = path.file_stem().expect("a name").to_string_lossy();
    (name.into_owned(), joined(&whole))
}

fn joined(text: &str) -> String {
    let mut joined = String::new();
    for line in text.lines() {
        let rest = line.trim_start();
        let is_call = rest.starts_with('.') && !rest.starts_with("..");
        match joined.lines().next_back() {
            Some(before) if is_call && !before.contains("//") => joined += rest,
            _ => {
                joined.push('\n');
                joined += line;
            }
        }
    }
    joined + "\n"
}

/// Writes all variants of these files, and the controls of the mutated ones, into one file of that
/// name.
fn write(name: &str, sources: &[Source], mutations: &[Mutation]) {
    let mut all = variant("as_it_is", sources, "", "");
    for (mutation, what, with) in mutations {
        let found: usize = sources
            .iter()
            .map(|(_, text)| text.matches(what).count())
            .sum();
        assert_eq!(found, 1, "{mutation}: `{what}` is not there once in {name}");
        all += &variant(mutation, sources, what, with);
    }
    let names: Vec<&str> = mutations.iter().map(|(name, ..)| *name).collect();
    writeln!(all, "controls! {{ {} }}", names.join(" ")).expect("strings take everything");
    let place = std::env::var("OUT_DIR").expect("cargo says where");
    let file = Path::new(&place).join(name).with_extension("rs");
    std::fs::write(file, all).expect("a file to write to");
}

/// Returns the files as modules of a module of that name, with one text replaced.
fn variant(name: &str, sources: &[Source], what: &str, with: &str) -> String {
    let mut module = String::new();
    for (part, text) in sources {
        let text = match what {
            "" => text.clone(),
            what => text.replace(what, with),
        };
        // Adapts paths to the files' place here, and lets other threads run where a thread waits.
        let text = text
            .replace("crate::dcas", &format!("crate::{name}"))
            .replace("std::thread::yield_now", "crate::sync::yield_now");
        write!(module, "mod {part} {{\n{text}\n}}\n").expect("strings take everything");
    }
    format!("#[allow(dead_code, unused, clippy::all)]\nmod {name} {{\n{module}library!();\n}}\n")
}
