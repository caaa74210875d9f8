//! Runs every example and checks what it prints. Each example also asserts its own sums.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each example, and text that its output must contain. `#` stands for a number.
const EXPECTED: [(&str, &[&str]); 9] = [
    (
        "biased",
        &[
            "mutex::Biased    1000010 updates, # ns each",
            "std::sync::Mutex 1000010 updates, # ns each",
        ],
    ),
    (
        "counter",
        &[
            "percpu::Counter  sum 2000000, # ns per increment",
            "AtomicU64        sum 2000000, # ns per increment",
        ],
    ),
    (
        "handler_ring",
        &[
            "# signals handled: # samples received, # lost to a full ring",
            "the thread was interrupted at # places in its code",
        ],
    ),
    (
        "histogram",
        &[
            "400000 requests, 79 µs on average",
            "  median: at most 50 µs",
            "    90 %: at most 200 µs",
            "  99.9 %: at most 1000 µs",
        ],
    ),
    (
        "list_in_handler",
        &[
            "# reads in signal handlers, 0 of them inconsistent",
            "the longest list that a handler saw had # sessions",
            "0 sessions are left open",
        ],
    ),
    (
        "map_in_handler",
        &[
            "# signal handlers found # sessions, 0 of them with a wrong user",
            "0 sessions are left open",
        ],
    ),
    (
        "pool",
        &[
            "160000 requests used a buffer of 4 KiB each",
            "# buffers were allocated; the pool keeps # of them",
            "3591120 bytes of answers",
        ],
    ),
    (
        "sequence",
        &[
            "600000 values recorded by 6 threads",
            "the largest is 599999",
        ],
    ),
    (
        "transfer",
        &[
            "# transfers between 8 accounts by 4 threads",
            "# audits meanwhile and one at the end: 8000 in all accounts",
        ],
    ),
];

/// Returns the path of an example, which cargo builds together with the tests.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let example = profile.join("examples").join(name);
    let example = example.with_extension(std::env::consts::EXE_EXTENSION);
    assert!(
        example.exists(),
        "there is no {example:?}: `cargo build -p atomseq --examples` builds it, as `cargo test` does \
         unless `--test` selects a test"
    );
    example
}

/// Returns whether a line has this form.
fn has_form(line: &str, form: &str) -> bool {
    let mut rest = line;
    for (index, part) in form.split('#').enumerate() {
        if index > 0 {
            let number = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            if number.len() == rest.len() {
                return false;
            }
            rest = number;
        }
        match rest.strip_prefix(part) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.is_empty()
}

#[test]
fn every_example_prints_what_it_should() {
    for (name, forms) in EXPECTED {
        let output = Command::new(built(name)).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {errors}");
        for form in forms {
            let found = text.lines().any(|line| has_form(line, form));
            assert!(found, "{name}: no line {form:?} in\n{text}");
        }
    }
}

/// Examples are short, and none is missing above.
#[test]
fn every_example_is_tested_and_short() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= 80, "{path:?} has {lines} lines");
        names.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
    }
    let expected = EXPECTED.map(|(name, _)| name.to_owned());
    assert_eq!(names, BTreeSet::from(expected));
}

#[test]
fn forms_of_lines_are_recognised() {
    assert!(has_form("sum 12, 3.4 ns", "sum 12, # ns"));
    assert!(has_form("7 of 8", "# of #"));
    for line in ["sum 13, 3.4 ns", "sum 12,  ns", "sum 12, 3.4 ns!"] {
        assert!(!has_form(line, "sum 12, # ns"), "{line}");
    }
}
