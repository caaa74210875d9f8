//! The table of sequences is found in an executable, in a static one, in one that was optimized as a whole, in a shared
//! object that is linked, and in one that is loaded later.

#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

use std::path::{Path, PathBuf};
use std::process::Command;

use atomseq::internals::table;
use verify_objects::{HOLDERS, check, run};

/// Where cargo puts this package's examples, which it builds for its tests.
fn examples() -> PathBuf {
    let test = std::env::current_exe().expect("a program has a path");
    let profile = test
        .parent()
        .and_then(Path::parent)
        .expect("in deps, in the profile's directory");
    profile.join("examples")
}

fn plugin() -> PathBuf {
    examples().join("libplugin.so")
}

/// What a program prints, if it ends well.
fn output(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{command:?} failed: {}\n{out}\n{err}",
        output.status
    );
    println!("{}", out.trim_end());
    out.into_owned()
}

/// The number behind `rows: `.
fn rows(text: &str) -> usize {
    let line = text.lines().find_map(|line| line.strip_prefix("rows: "));
    line.and_then(|rows| rows.parse().ok())
        .unwrap_or_else(|| panic!("no rows in {text}"))
}

/// Builds the probe in another way than the tests were built, and runs it.
fn probe_built(name: &str, arguments: &[&str], flags: &str) -> (PathBuf, String) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let target = "x86_64-unknown-linux-gnu";
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "build",
            "--quiet",
            "--release",
            "-p",
            "verify-objects",
            "--example",
            "probe",
        ])
        .args(["--target", target])
        .args(arguments)
        .arg("--target-dir")
        .arg(&directory)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", flags);
    output(&mut cargo);
    let probe = directory.join(target).join("release/examples/probe");
    let text = output(&mut Command::new(&probe));
    (probe, text)
}

#[test]
fn an_executable_finds_its_own() {
    run();
    table::refresh();
    let rows = check(&HOLDERS).expect("its own sequences");
    println!("rows: {rows}");
    assert!(rows >= 6);
    // Again and again: nothing changes, and what was replaced is given back.
    for _ in 0..100 {
        table::refresh();
    }
    assert_eq!(check(&HOLDERS), Ok(rows));
}

#[test]
fn a_shared_object_that_is_loaded_later_is_found() {
    let text = output(Command::new(examples().join("probe")).arg(plugin()));
    assert!(rows(&text) >= 6);
    assert_eq!(
        text.matches("rows with the plugin: ").count(),
        2,
        "it is loaded twice"
    );
}

#[test]
fn a_shared_object_that_is_linked_is_found() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("linked");
    std::fs::create_dir_all(&directory).expect("cargo's directory");
    let (source, program) = (directory.join("main.c"), directory.join("main"));
    let text = "#include <stdio.h>\nsize_t plugin_rows(void);\n\
                int main(void) { size_t rows = plugin_rows(); printf(\"rows: %zu\\n\", rows); return rows == 0; }\n";
    std::fs::write(&source, text).expect("writable");
    let mut compiler = Command::new("cc");
    let rpath = format!("-Wl,-rpath,{}", examples().display());
    output(
        compiler
            .arg("-o")
            .arg(&program)
            .args([source, plugin()])
            .arg(rpath),
    );
    let text = output(&mut Command::new(program));
    assert!(rows(&text) >= 6);
}

/// One unit of code, dead code dropped: what a careful release build does.
#[test]
fn an_executable_optimized_as_a_whole_finds_its_own() {
    let whole = [
        "--config",
        "profile.release.lto=\"fat\"",
        "--config",
        "profile.release.codegen-units=1",
    ];
    let (_, text) = probe_built("whole", &whole, "-C link-arg=-Wl,--gc-sections");
    assert!(rows(&text) >= 6);
}

#[test]
fn a_static_executable_finds_its_own() {
    let (probe, text) = probe_built("static", &[], "-C target-feature=+crt-static");
    assert!(rows(&text) >= 6);
    assert!(!asks_for_a_dynamic_linker(
        &std::fs::read(probe).expect("just built")
    ));
    let this = std::env::current_exe().and_then(std::fs::read);
    assert!(asks_for_a_dynamic_linker(&this.expect("this program")));
}

/// Has this ELF file a program header of type `PT_INTERP`?
fn asks_for_a_dynamic_linker(file: &[u8]) -> bool {
    program_headers(file)
        .iter()
        .any(|header| header[0] as u32 == 3)
}

/// An ELF file's program headers, as words.
fn program_headers(file: &[u8]) -> Vec<[u64; 7]> {
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"));
    let (headers, size, count) = (word(32) as usize, word(54) as u16, word(56) as u16);
    (0..usize::from(count))
        .map(|index| std::array::from_fn(|at| word(headers + index * usize::from(size) + 8 * at)))
        .collect()
}

/// The linker that most systems have, whatever this toolchain's own is.
#[test]
fn an_executable_of_the_system_linker_finds_its_own() {
    let (_, text) = probe_built("bfd", &[], "-C link-arg=-fuse-ld=bfd");
    assert!(rows(&text) >= 6);
}

/// A linker script may put all notes into one section, where atomseq's lie behind others whose lengths fit no
/// alignment but four, in a segment that says eight.
#[test]
fn an_executable_with_all_notes_in_one_section_finds_its_own() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let script = directory.join("notes.ld");
    let text = "SECTIONS { .note.all : ALIGN(8) { *(.note.gnu.property) *(.note.gnu.build-id) *(.note.ABI-tag) \
                *(.note.atomseq) } } INSERT AFTER .interp;\n";
    std::fs::write(&script, text).expect("writable");
    let flags = format!(
        "-C link-arg=-fuse-ld=bfd -C link-arg=-Wl,--build-id=sha1,-T,{}",
        script.display()
    );
    let (probe, text) = probe_built("merged", &[], &flags);
    assert!(rows(&text) >= 6);
    let file = std::fs::read(probe).expect("just built");
    let notes = |header: &[u64; 7]| header[0] as u32 == 4 && header[6] == 8;
    assert!(program_headers(&file).iter().any(notes));
}
