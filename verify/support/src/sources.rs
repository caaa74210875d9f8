//! The library's sources, for tests that compare them with what is documented.

use std::path::{Path, PathBuf};

/// The text of one of the library's sources.
pub fn library_source(name: &str) -> String {
    let text = std::fs::read_to_string(library().join(name));
    text.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The library's sources, by their names, without files of unit tests.
pub fn library_sources() -> Vec<(String, String)> {
    let mut sources = Vec::new();
    let mut directories = vec![library()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let is_source = path.extension().is_some_and(|extension| extension == "rs");
            if path.is_dir() && !path.ends_with("tests") {
                directories.push(path);
            } else if is_source && !path.ends_with("tests.rs") {
                let name = path.strip_prefix(library()).expect("a part of it");
                let name = name.to_string_lossy().into_owned();
                let text = library_source(&name);
                sources.push((name, text));
            }
        }
    }
    sources
}

fn library() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/atomseq/src")
}

/// A source up to its unit tests.
pub fn without_tests(text: &str) -> &str {
    let tests = text.find("#[cfg(test)]\nmod tests {");
    &text[..tests.unwrap_or(text.len())]
}
