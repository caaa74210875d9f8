//! Writes the library's k-CAS anew, as it is and with one protection less each: see `tests/kcas/main.rs`.

use std::fmt::Write;
use std::path::Path;

#[path = "tests/kcas/mutations.rs"]
mod mutations;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=tests/kcas/mutations.rs");
    let library = Path::new("../../crates/atomseq/src/dcas");
    let model = Path::new("tests/kcas");
    let files = [
        library.join("kcas.rs"),
        library.join("descriptors.rs"),
        model.join("blocks.rs"),
    ];
    let sources = files.map(|path| {
        println!("cargo::rerun-if-changed={}", path.display());
        let text = std::fs::read_to_string(&path).expect("a file to read");
        // A module in braces has no place for them.
        let lines = text.lines().filter(|line| !line.starts_with("//!"));
        let name = path.file_stem().expect("a name").to_string_lossy();
        (name.into_owned(), lines.collect::<Vec<_>>().join("\n"))
    });
    let mut all = variant("as_it_is", &sources, "", "");
    for (name, what, with) in mutations::MUTATIONS {
        let found: usize = sources
            .iter()
            .map(|(_, text)| text.matches(what).count())
            .sum();
        assert_eq!(found, 1, "{name}: `{what}` is not there once in k-CAS");
        all += &variant(name, &sources, what, with);
    }
    let place = std::env::var("OUT_DIR").expect("cargo says where");
    std::fs::write(Path::new(&place).join("kcas.rs"), all).expect("a file to write to");
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
