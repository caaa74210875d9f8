//! Every `sequence!` in the library's source, found by its syntax.

use std::path::{Path, PathBuf};

use syn::visit::Visit;

use atomseq_compiler::ir::Sequence;

struct Found {
    file: PathBuf,
    sequences: Vec<(String, Sequence)>,
}

impl<'ast> Visit<'ast> for Found {
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if call
            .path
            .segments
            .last()
            .is_some_and(|last| last.ident == "sequence")
        {
            let name = |part: Option<&std::ffi::OsStr>| {
                let part = part.and_then(|part| part.to_str());
                part.expect("a file name").to_string()
            };
            // Files of `local/` and `percpu/` have the same names.
            let directory = name(self.file.parent().and_then(Path::file_name));
            let module = match directory.as_str() {
                directory @ ("local" | "nonblocking") => {
                    format!("{directory}_{}", name(self.file.file_stem()))
                }
                _ => name(self.file.file_stem()),
            };
            for sequence in atomseq_compiler::sequences(call.tokens.clone())
                .expect("it compiles in the library")
            {
                let sequence = sequence.expect("it compiles in the library");
                self.sequences
                    .push((format!("{module}_{}", sequence.name), sequence));
            }
        }
    }
}

/// Returns all sequences, named by file and name; those in `local/` and `nonblocking/` by directory
/// as well.
pub fn sequences() -> Vec<(String, Sequence)> {
    let mut sequences = Vec::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/atomseq/src");
    collect(&source, &mut sequences);
    sequences.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert!(
        !sequences.is_empty(),
        "no `sequence!` found in {}",
        source.display()
    );
    sequences
}

fn collect(directory: &Path, sequences: &mut Vec<(String, Sequence)>) {
    for entry in std::fs::read_dir(directory).expect("the library's source") {
        let file = entry.expect("the library's source").path();
        if file.is_dir() {
            collect(&file, sequences);
        } else if file.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&file).expect("the library's source");
            // Most have none, and each test reads all of them.
            if !text.contains("sequence!") {
                continue;
            }
            let syntax = syn::parse_file(&text).expect("the library's source is Rust");
            let mut found = Found {
                file,
                sequences: Vec::new(),
            };
            found.visit_file(&syntax);
            sequences.append(&mut found.sequences);
        }
    }
}

/// Returns the sequence that a text holds, which must keep every rule.
pub fn sequence(text: &str) -> Sequence {
    let sequences = atomseq_compiler::sequences(text.parse().expect("it is made of tokens"));
    let sequence = sequences.and_then(|mut all| all.remove(0));
    sequence.unwrap_or_else(|error| panic!("{error}\n{text}"))
}
