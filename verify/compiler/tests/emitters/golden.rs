//! The code of a few of the library's sequences, kept in `golden/`, so that a change of the
//! compiler shows its effect. After a deliberate change:
//! `BLESS=1 cargo test -p verify-compiler --test emitters`.

use std::path::Path;

use super::library;
use atomseq_compiler::emit::{aarch64, x86_64, Assembly, Line};
use atomseq_compiler::forms::{Form, Protection};

const ROLLING: Form = Form::Signal(Protection::Rollforward);
const RESTARTING: Form = Form::Signal(Protection::Restart);

/// The sequence, the form, and the suffix of the file.
const KEPT: [(&str, Form, &str); 7] = [
    ("counter_add", Form::OnCpu, ""),
    ("list_pop", Form::OnCpu, ""),
    ("stack_pop", Form::OnCpu, ""),
    ("stack_push", Form::OnCpu, ""),
    ("counter_add", RESTARTING, ".restarting"),
    ("list_pop", RESTARTING, ".restarting"),
    ("list_pop", ROLLING, ".rolling"),
];

#[test]
fn the_code_is_what_it_was() {
    let sequences = library::sequences();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emitters/golden");
    for (name, form, suffix) in KEPT {
        let (_, sequence) = sequences
            .iter()
            .find(|(own, _)| own == name)
            .unwrap_or_else(|| panic!("the library has no {name} any more: keep another one"));
        for (architecture, assembly) in [
            ("x86_64", x86_64::emit(sequence, form)),
            ("aarch64", aarch64::emit(sequence, form)),
        ] {
            let file = directory.join(format!("{name}{suffix}.{architecture}.s"));
            let listing = listing(&assembly);
            if std::env::var_os("BLESS").is_some() {
                std::fs::write(&file, listing).expect("writable");
                continue;
            }
            let kept = std::fs::read_to_string(&file)
                .unwrap_or_else(|error| panic!("{}: {error}; run with BLESS=1", file.display()));
            assert!(
                kept == listing,
                "{} was\n{kept}\nand now is\n{listing}",
                file.display()
            );
        }
    }
}

fn listing(assembly: &Assembly) -> String {
    assembly
        .lines
        .iter()
        .map(|line| match line {
            Line::Text(text) if text.ends_with(':') => format!("{text}\n"),
            Line::Text(text) => format!("    {text}\n"),
            Line::Acquire(operands) => format!("    load-acquire {operands}\n"),
            Line::Interlocked { lse, exclusive } => {
                format!("    with LSE\n{lse}\n    without\n{exclusive}\n")
            }
        })
        .collect()
}
