//! What is in a user's build, and what is not: the program of this crate is built in release mode,
//! by itself, so that no other crate of the workspace turns the feature `unstable-internals` on.
//!
//! Each check has a negative control: the same with the feature finds what it looks for.
#![cfg(atomseq_sections)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use object::{Object, ObjectSection, ObjectSymbol, SectionFlags};

/// Methods that only tests need.
const METHODS: [&str; 11] = [
    "forced",
    "unordered_forced",
    "by_kcas",
    "try_insert_between",
    "get_between",
    "remove_between",
    "pop_first_between",
    "pop_between",
    "abandon",
    "abandon_lock",
    "abandon_claim",
];

/// Held by each test: they build the same files, differently.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("user")
}

/// Runs Cargo on one package alone, and rustc on its last crate with what follows.
fn cargo(arguments: &[&str], of_rustc: &[&str]) -> Output {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    Command::new(cargo)
        .args(arguments)
        .args(["--release", "--locked", "--offline"])
        .args(of_rustc)
        .env("CARGO_TARGET_DIR", target())
        // What is built in between is shared with the workspace's own release builds. Cargo knows
        // this variable from 1.91 on.
        .env("CARGO_BUILD_BUILD_DIR", target().join("../.."))
        .output()
        .expect("Cargo runs")
}

fn succeeded(output: &Output) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
}

/// The file that holds the program, built with or without the feature.
fn program(features: &[&str]) -> Vec<u8> {
    let arguments = [&["build", "-p", "verify-user"], features].concat();
    succeeded(&cargo(&arguments, &[]));
    std::fs::read(target().join("release/verify-user")).expect("the program")
}

/// Of a program: names that only tests need, and switches of protections that can be written.
fn found(program: &[u8]) -> BTreeSet<String> {
    let file = object::File::parse(program).expect("an executable");
    let mut found = BTreeSet::new();
    let mut has_entries = false;
    for symbol in file.symbols() {
        let name = symbol.name().unwrap_or_default();
        let name = format!("{:#}", rustc_demangle::demangle(name));
        let last = name.rsplit("::").next().unwrap_or_default();
        let is_writable = symbol.section_index().is_some_and(|section| {
            let section = file.section_by_index(section).expect("its section");
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
                panic!("an ELF file");
            };
            sh_flags.contains(object::elf::SHF_WRITE)
        });
        has_entries |= last == "BLOCKED_ON_ENTRY";
        if name.contains("controls::") || last == "BLOCKED_ON_ENTRY" && is_writable {
            found.insert(name);
        } else if name.contains("atomseq") && (METHODS.contains(&last) || last == "set_pauses") {
            found.insert(last.to_owned());
        }
    }
    assert!(has_entries, "the program has symbols, and the library's");
    found
}

#[test]
fn no_protection_can_be_switched_off_in_a_release_build() {
    let _turn = turn();
    assert_eq!(found(&program(&[])), BTreeSet::new());

    let with = found(&program(&["--features", "unstable-internals"]));
    assert!(
        with.iter().any(|name| name.ends_with("controls::OFF")),
        "{with:?}"
    );
    assert!(
        with.iter().any(|name| name.ends_with("BLOCKED_ON_ENTRY")),
        "{with:?}"
    );
}

/// What rustc says of a program that calls them.
fn reaching(what: &str, features: &[&str]) -> Output {
    let reaches = format!("reaches=\"{what}\"");
    let arguments = [&["rustc", "-p", "verify-user"], features].concat();
    cargo(&arguments, &["--", "--cfg", &reaches])
}

#[test]
fn what_only_tests_need_cannot_be_named() {
    let _turn = turn();
    let methods = reaching("methods", &[]);
    assert!(!methods.status.success());
    let error = String::from_utf8_lossy(&methods.stderr);
    for method in METHODS {
        assert!(
            error.contains(&format!(" named `{method}` found")),
            "`{method}` is there without the feature, or something else is wrong:\n{error}"
        );
    }
    let modules = reaching("modules", &[]);
    assert!(!modules.status.success());
    let error = String::from_utf8_lossy(&modules.stderr);
    for name in ["`internals` in `atomseq`", "`Bare` in `dcas`"] {
        assert!(error.contains(name), "{name}:\n{error}");
    }

    for what in ["methods", "modules"] {
        succeeded(&reaching(what, &["--features", "unstable-internals"]));
    }
}

/// The names of all pages and items of the library's documentation.
fn documented(features: &[&str]) -> String {
    let arguments = [&["doc", "-p", "atomseq", "--no-deps"], features].concat();
    succeeded(&cargo(&arguments, &[]));
    let root = target().join("doc/atomseq");
    let mut pages = vec![root];
    let mut text = String::new();
    while let Some(page) = pages.pop() {
        if page.is_dir() {
            let entries = std::fs::read_dir(page).expect("a directory of pages");
            pages.extend(entries.map(|entry| entry.expect("a page").path()));
        } else if page
            .extension()
            .is_some_and(|extension| extension == "html")
        {
            text += &format!("page {}\n", page.display());
            text += &std::fs::read_to_string(page).expect("a page");
        }
    }
    // Or pages of a build before would remain.
    std::fs::remove_dir_all(target().join("doc")).expect("the documentation is removed");
    text
}

#[test]
fn the_documentation_shows_nothing_that_only_tests_need() {
    let _turn = turn();
    let is_shown = |text: &str, method: &str| text.contains(&format!("id=\"method.{method}\""));
    let without = documented(&[]);
    assert!(is_shown(&without, "compare_exchange_pair"));
    let with = documented(&["--features", "unstable-internals"]);
    for method in METHODS {
        assert!(!is_shown(&without, method), "{method}");
        assert!(is_shown(&with, method), "{method}");
    }
    for page in [
        "internals/index.html",
        "dcas/struct.Bare.html",
        "internals/signal_controls",
    ] {
        let page = format!("doc/atomseq/{page}");
        assert!(!without.contains(&page), "{page}");
        assert!(with.contains(&page), "{page}");
    }
    for hidden in ["doc/atomseq/generated", "macro.__assembly"] {
        assert!(!without.contains(hidden), "{hidden}");
    }
}
