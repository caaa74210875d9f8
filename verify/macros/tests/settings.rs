//! Every exported macro in crates of all editions, each in several settings: without a prelude,
//! without `std`, with warnings denied, and where every name that the language provides means
//! something else.
//!
//! One package contains them all, with a binary for each, in cargo's directory for test artefacts.
//! Each binary runs what it has declared: a name that resolves to another item could change
//! behaviour instead of failing to compile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const EDITIONS: [&str; 4] = ["2015", "2018", "2021", "2024"];

/// The first lines of a crate, and whether it shadows names.
const SETTINGS: [(&str, &str, bool); 5] = [
    ("plain", "", false),
    (
        "strict",
        "#![deny(warnings, unused, missing_docs, unsafe_op_in_unsafe_fn, unused_results, \
         unreachable_pub, unused_lifetimes, single_use_lifetimes, \
         rust_2018_compatibility, rust_2021_compatibility, rust_2024_compatibility)]",
        false,
    ),
    ("without_prelude", "#![no_implicit_prelude]", false),
    ("without_std", "#![no_std]", false),
    ("shadowed", "#![no_implicit_prelude]", true),
];

/// Returns the text of a crate's root. The sources rely on the names `library` and `language` only.
fn root(attributes: &str, sources: &Path, shadowed: bool, broken: &str) -> String {
    let path = |file: &str| format!("{:?}", sources.join(file));
    let setting = match shadowed {
        true => format!("#[macro_use] #[path = {}] mod setting;", path("shadows.rs")),
        false => "mod setting {}".to_string(),
    };
    format!(
        "//! A crate.\n{attributes}\n#![allow(non_camel_case_types, non_upper_case_globals, dead_code, unused_macros)]\n\
         #![allow(unused_imports)]\n\
         extern crate atomseq as library;\nextern crate core as language;\n{setting}\n\
         #[path = {}] mod every_macro;\n{broken}\nfn main() {{ every_macro::all(); }}\n",
        path("every_macro.rs")
    )
}

/// Runs cargo on the packages in this directory, with this workspace's versions, and without
/// network access.
fn cargo(directory: &Path, arguments: &[&str]) -> Output {
    command(directory, arguments).output().expect("cargo runs")
}

/// The same, not run yet.
fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(arguments)
        .args(["--offline", "--quiet", "--manifest-path"])
        .arg(directory.join("Cargo.toml"))
        .env(
            "CARGO_TARGET_DIR",
            directory.parent().expect("a parent").join("target"),
        )
        // No debugger looks at these programs.
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    command
}

/// Writes the packages of a workspace: name, edition and root of each.
fn workspace(name: &str, packages: &[(String, &str, String)]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let verify = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a parent");
    let repository = verify.parent().expect("a parent");
    fs::create_dir_all(&directory).expect("a directory");
    let members: Vec<&String> = packages.iter().map(|(member, ..)| member).collect();
    let manifest = format!("[workspace]\nresolver = \"2\"\nmembers = {members:?}\n");
    fs::write(directory.join("Cargo.toml"), manifest).expect("a file");
    fs::copy(repository.join("Cargo.lock"), directory.join("Cargo.lock")).expect("a file");
    for (member, edition, root) in packages {
        let sources = directory.join(member).join("src");
        fs::create_dir_all(&sources).expect("a directory");
        let manifest = format!(
            "[package]\nname = {member:?}\nversion = \"0.0.0\"\nedition = {edition:?}\n\
             [dependencies]\natomseq = {{ path = {:?} }}\n",
            repository.join("crates/atomseq")
        );
        fs::write(directory.join(member).join("Cargo.toml"), manifest).expect("a file");
        fs::write(sources.join("main.rs"), root).expect("a file");
    }
    directory
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/settings")
}

#[test]
fn every_macro_does_the_same_in_every_crate() {
    let mut packages = Vec::new();
    for edition in EDITIONS {
        for (setting, attributes, shadowed) in SETTINGS {
            let root = root(attributes, &sources(), shadowed, "");
            packages.push((format!("{setting}-{edition}"), edition, root));
        }
    }
    let directory = workspace("settings", &packages);
    let built = cargo(&directory, &["build", "--workspace"]);
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    assert!(said.is_empty(), "something warns: {said}");
    let binaries = directory.parent().expect("a parent").join("target/debug");
    for (package, ..) in &packages {
        let ran = Command::new(binaries.join(package))
            .output()
            .expect("it runs");
        assert!(ran.status.success(), "{package}: {ran:?}");
    }
    println!("{} crates", packages.len());
}

/// Returns the target that cargo builds for by itself.
fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output();
    let text = String::from_utf8(output.expect("rustc runs").stdout).expect("text");
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("rustc names its host").to_owned()
}

/// Tools that measure coverage, such as cargo-tarpaulin, also link what is never called. There,
/// too, no code may refer to the first image of a thread's static: the linker would refuse it.
#[test]
fn every_macro_does_the_same_where_dead_code_is_linked() {
    let name = "dead-code";
    let packages = [(name.to_string(), "2024", root("", &sources(), false, ""))];
    let directory = workspace(name, &packages);
    let others = std::env::var("RUSTFLAGS").unwrap_or_default();
    // The target is named, so that what macros need is not built again: the flags are not for it.
    let ran = command(&directory, &["run", "--target", &host()])
        .env("RUSTFLAGS", format!("{others} -C link-dead-code"))
        .output();
    let ran = ran.expect("cargo runs");
    assert!(ran.status.success(), "{ran:?}");
}

/// The control: an expansion that takes a name from its place of use fails in the crate that
/// shadows the name, and nowhere else.
#[test]
fn a_name_from_the_place_of_use_is_noticed() {
    let named = "mod careless { use crate::setting::*; fn careless() -> usize { 1 } }";
    let called = "mod careless { use crate::setting::*; fn careless(slots: crate::library::percpu::Slots<'_>) { \
                  let _: *mut u8 = slots.base(); } }";
    for (index, broken) in [named, called].into_iter().enumerate() {
        for (shadowed, builds) in [(false, true), (true, false)] {
            let root = root("", &sources(), shadowed, broken);
            let name = format!("careless-{index}-{shadowed}");
            let directory = workspace(&name, &[(name.clone(), "2021", root)]);
            let output = cargo(&directory, &["build", "--workspace"]);
            assert_eq!(output.status.success(), builds, "{name}: {output:?}");
        }
    }
}

/// The messages of the compiler of sequences appear in crates of every edition.
#[test]
fn a_refused_sequence_is_explained() {
    let broken = "library::sequence! { unsafe fn loops(at: Word) { loop {} } }";
    let sources = sources();
    let packages = EDITIONS.map(|edition| {
        let root = root("", &sources, false, broken);
        (format!("refused-{edition}"), edition, root)
    });
    let directory = workspace("refused", &packages);
    for (package, ..) in &packages {
        let output = cargo(&directory, &["build", "--package", package]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("error: a backward jump"), "{package}: {said}");
    }
}
