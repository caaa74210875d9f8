//! Writes the library's k-CAS anew, as it is and with one protection less each: see `tests/kcas/main.rs` and
//! `tests/kcas_loom/main.rs`.

use std::fmt::Write;
use std::path::Path;

#[path = "tests/kcas/mutations.rs"]
mod mutations;
#[path = "tests/kcas_loom/mutations.rs"]
mod weaker;

/// A name, what is there once in the sources, and what is there instead.
type Mutation = (&'static str, &'static str, &'static str);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    kcas("kcas", "tests/kcas", mutations::MUTATIONS);
    kcas("kcas_loom", "tests/kcas_loom", weaker::MUTATIONS);
}

fn kcas(name: &str, model: &str, mutations: &[Mutation]) {
    let library = Path::new("../../crates/atomseq/src/dcas");
    println!("cargo::rerun-if-changed={model}/mutations.rs");
    let files = [
        library.join("kcas.rs"),
        library.join("descriptors.rs"),
        library.join("homes.rs"),
        Path::new("tests/kcas/blocks.rs").to_owned(),
    ];
    let sources = files.map(|path| {
        println!("cargo::rerun-if-changed={}", path.display());
        let text = std::fs::read_to_string(&path).expect("a file to read");
        // A module in braces has no place for them.
        let lines = text.lines().filter(|line| !line.starts_with("//!"));
        let name = path.file_stem().expect("a name").to_string_lossy();
        // Three words and a version are enough for models; the rest would only have to be stepped through.
        let lines = lines.collect::<Vec<_>>().join("\n");
        let fewer = lines.replace("const MOST: usize = 8;", "const MOST: usize = 3;");
        (name.into_owned(), fewer)
    });
    let mut all = variant("as_it_is", &sources, "", "");
    for (name, what, with) in mutations {
        let found: usize = sources
            .iter()
            .map(|(_, text)| text.matches(what).count())
            .sum();
        assert_eq!(found, 1, "{name}: `{what}` is not there once in k-CAS");
        all += &variant(name, &sources, what, with);
    }
    let place = std::env::var("OUT_DIR").expect("cargo says where");
    std::fs::write(Path::new(&place).join(name).with_extension("rs"), all)
        .expect("a file to write to");
}

/// The files as modules of a module of that name, with one text instead of another.
fn variant(name: &str, sources: &[(String, String)], what: &str, with: &str) -> String {
    let mut module = String::new();
    for (part, text) in sources {
        let text = match what {
            "" => text.clone(),
            what => text.replace(what, with),
        };
        write!(module, "mod {part} {{\n{text}\n}}\n").expect("strings take everything");
    }
    format!("#[allow(dead_code, unused, clippy::all)]\nmod {name} {{\n{module}library!();\n}}\n")
}
