//! Writes the library's k-CAS, its OS-assisted changes, its rings, the shelves of its depot, the
//! mappings that it keeps and the turns of threads that grow something, as they are and with one
//! protection less each (`mutations/`), with a control for each protection: see `src/controls.rs`,
//! and the tests of these names.

use std::fmt::Write;
use std::path::Path;

#[path = "mutations/dcas.rs"]
mod dcas;
#[path = "mutations/memory.rs"]
mod memory;
#[path = "mutations/structures.rs"]
mod structures;

/// A name, what is there once in the sources, and what is there instead.
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
        library.join("homes.rs"),
        library.join("part.rs"),
        Path::new("tests/kcas/blocks.rs").to_owned(),
    ];
    let sources = files.map(|path| {
        let (name, text) = source(&path);
        // Three words and a version are enough for models; the rest would only have to be stepped
        // through.
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
    let start = lock.find(patience).expect("there is patience") + patience.len();
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
}

/// The same with other texts, in place of some that are there once.
fn changed((name, mut text): Source, changes: &[(&str, &str)]) -> Source {
    for (what, with) in changes {
        assert_eq!(text.matches(what).count(), 1, "`{what}` is not there once");
        text = text.replace(what, with);
    }
    (name, text)
}

/// A file with those of its modules, but for tests.
fn source(path: &Path) -> Source {
    println!("cargo::rerun-if-changed={}", path.display());
    let text = std::fs::read_to_string(path).expect("a file to read");
    // Tests come last.
    let text = text.split("#[cfg(test)]").next().expect("a beginning");
    let mut whole = String::new();
    // A module in braces has no place for what a file begins with.
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
    (name.into_owned(), whole)
}

/// All variants of these files, and controls for those with something missing, into one file of
/// that name.
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

/// The files as modules of a module of that name, with one text instead of another.
fn variant(name: &str, sources: &[Source], what: &str, with: &str) -> String {
    let mut module = String::new();
    for (part, text) in sources {
        let text = match what {
            "" => text.clone(),
            what => text.replace(what, with),
        };
        // Where the files lie in the library, they do not here; and those who wait let others run.
        let text = text
            .replace("crate::dcas", &format!("crate::{name}"))
            .replace("std::thread::yield_now", "crate::sync::yield_now");
        write!(module, "mod {part} {{\n{text}\n}}\n").expect("strings take everything");
    }
    format!("#[allow(dead_code, unused, clippy::all)]\nmod {name} {{\n{module}library!();\n}}\n")
}
