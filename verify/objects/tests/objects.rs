//! The table of sequences is found in an executable, in a static one, in one with link-time
//! optimization, in a shared object that is linked, and in one that is loaded later.

#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

use std::path::{Path, PathBuf};
use std::process::Command;

use atomseq::internals::table;
use verify_objects::{HOLDERS, check, run};
use verify_support::is_there_or_skipped;

/// The program that finds its own sequences. Cargo builds it without what only these tests need.
const PROBE: &str = env!("CARGO_BIN_EXE_probe");

/// Returns the directory of this package's examples, which cargo builds for its tests.
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

/// Returns a program's output, if it succeeds.
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

/// Returns the number after `rows: `.
fn rows(text: &str) -> usize {
    number(text, "rows: ")
}

fn number(text: &str, what: &str) -> usize {
    let line = text.lines().find_map(|line| line.strip_prefix(what));
    let digits = line.and_then(|line| line.split(';').next());
    digits
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_else(|| panic!("no {what} in {text}"))
}

/// Builds the probe in release mode with other flags than the tests, and runs it. Only the program
/// itself is compiled with these flags: what it depends on is the same for all of them.
fn probe_built(name: &str, arguments: &[&str], flags: &[&str]) -> (PathBuf, String) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["rustc", "--quiet", "--release"])
        .args(["-p", "verify-objects", "--bin", "probe"])
        .args(arguments)
        .arg("--target-dir")
        .arg(&directory)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        // What is built in between is shared with the workspace's own builds, as far as it is the
        // same. Cargo knows this variable from 1.91 on.
        .env(
            "CARGO_BUILD_BUILD_DIR",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(".."),
        )
        .arg("--")
        .args(flags);
    output(&mut cargo);
    let probe = directory.join("release/probe");
    let text = output(&mut Command::new(&probe));
    (probe, text)
}

fn has_bfd() -> bool {
    let version = Command::new("ld.bfd").arg("--version").output();
    let is_there = version.is_ok_and(|output| output.status.success());
    is_there_or_skipped(is_there, "the linker ld.bfd", "apt-get install binutils")
}

/// Returns whether `cc` can link static programs.
fn has_static_libc() -> bool {
    let mut compiler = Command::new("cc");
    let path = compiler.arg("-print-file-name=libc.a").output();
    // `cc` prints the name without a directory if it finds no such file.
    let is_there = path.is_ok_and(|path| path.stdout.contains(&b'/'));
    let install = "apt-get install libc6-dev, or dnf install glibc-static";
    is_there_or_skipped(is_there, "the static C library", install)
}

#[test]
fn an_executable_finds_its_own() {
    run();
    table::refresh();
    let rows = check(&HOLDERS).expect("its own sequences");
    println!("rows: {rows}");
    assert!(rows >= 6);
    // Repeatedly: the result stays the same, and replaced tables are freed.
    for _ in 0..100 {
        table::refresh();
    }
    assert_eq!(check(&HOLDERS), Ok(rows));
}

#[test]
fn a_shared_object_that_is_loaded_later_is_found() {
    let text = output(Command::new(PROBE).arg(plugin()));
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

/// One codegen unit without dead code, as in a careful release build.
#[test]
#[ignore = "builds the library once more: the step `long tests` of .ci/soak runs it"]
fn an_executable_optimized_as_a_whole_finds_its_own() {
    let whole = [
        "--config",
        "profile.release.lto=\"fat\"",
        "--config",
        "profile.release.codegen-units=1",
    ];
    let (_, text) = probe_built("whole", &whole, &["-Clink-arg=-Wl,--gc-sections"]);
    assert!(rows(&text) >= 6);
}

#[test]
fn a_static_executable_finds_its_own() {
    if !has_static_libc() {
        return;
    }
    let (probe, text) = probe_built("static", &[], &["-Ctarget-feature=+crt-static"]);
    assert!(rows(&text) >= 6);
    assert!(!asks_for_a_dynamic_linker(
        &std::fs::read(probe).expect("just built")
    ));
    let this = std::env::current_exe().and_then(std::fs::read);
    assert!(asks_for_a_dynamic_linker(&this.expect("this program")));
}

/// Returns whether this ELF file has a program header of type `PT_INTERP`.
fn asks_for_a_dynamic_linker(file: &[u8]) -> bool {
    program_headers(file)
        .iter()
        .any(|header| header[0] as u32 == 3)
}

/// Returns an ELF file's program headers, as words.
fn program_headers(file: &[u8]) -> Vec<[u64; 7]> {
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"));
    let (headers, size, count) = (word(32) as usize, word(54) as u16, word(56) as u16);
    (0..usize::from(count))
        .map(|index| std::array::from_fn(|at| word(headers + index * usize::from(size) + 8 * at)))
        .collect()
}

/// The linker that most systems have, whatever this toolchain's own is.
#[test]
#[ignore = "builds the library once more: the step `long tests` of .ci/soak runs it"]
fn an_executable_of_the_system_linker_finds_its_own() {
    if !has_bfd() {
        return;
    }
    let (_, text) = probe_built("bfd", &[], &["-Clink-arg=-fuse-ld=bfd"]);
    assert!(rows(&text) >= 6);
}

/// A linker script may put all notes into one section, where atomseq's follow others whose lengths
/// fit only an alignment of four, in a segment that declares eight.
#[test]
#[ignore = "builds the library once more: the step `long tests` of .ci/soak runs it"]
fn an_executable_with_all_notes_in_one_section_finds_its_own() {
    if !has_bfd() {
        return;
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let script = directory.join("notes.ld");
    let text = "SECTIONS { .note.all : ALIGN(8) { *(.note.gnu.property) *(.note.gnu.build-id) *(.note.ABI-tag) \
                *(.note.atomseq) } } INSERT AFTER .interp;\n";
    std::fs::write(&script, text).expect("writable");
    let script = format!("-Clink-arg=-Wl,--build-id=sha1,-T,{}", script.display());
    let (probe, text) = probe_built("merged", &[], &["-Clink-arg=-fuse-ld=bfd", &script]);
    assert!(rows(&text) >= 6);
    let file = std::fs::read(probe).expect("just built");
    let notes = |header: &[u64; 7]| header[0] as u32 == 4 && header[6] == 8;
    assert!(program_headers(&file).iter().any(notes));
}

/// Moves atomseq's notes to a segment of their own, after all others, as tools do that make room
/// for a longer library path in a finished file. `change` may change each note's description.
/// Returns the new file, of this name.
fn with_moved_notes(program: &Path, name: &str, change: impl Fn(&mut [u8])) -> PathBuf {
    const LOAD: u32 = 1;
    const NOTE: u32 = 4;
    const EH_FRAME: u32 = 0x6474_e550;
    const PAGE: u64 = 4096;
    let mut file = std::fs::read(program).expect("just built");
    let headers = program_headers(&file);
    let is_ours = |header: &[u64; 7]| {
        let bytes = header[1] as usize..(header[1] + header[4]) as usize;
        header[0] as u32 == NOTE && file[bytes].windows(8).any(|name| name == b"atomseq\0")
    };
    let ours = headers.iter().position(is_ours).expect("it has notes");
    // Only unwinding uses this header.
    let spare = headers
        .iter()
        .position(|header| header[0] as u32 == EH_FRAME);
    let loads = headers.iter().filter(|header| header[0] as u32 == LOAD);
    let end = loads.map(|header| header[2] + header[5]).max();
    let (offset, length) = (headers[ours][1] as usize, headers[ours][4]);
    let mut notes = file[offset..offset + length as usize].to_vec();
    file[offset..offset + length as usize].fill(0);
    // After notes of others, in the same segment.
    let first = notes.chunks_exact(4).position(|word| word[..] == *b"atom");
    let first = 4 * first.expect("a name") - 12;
    for note in notes[first..].chunks_exact_mut(44) {
        assert!(note.starts_with(b"\x0c\0\0\0\x14\0\0\0\x02\0\0\0atomseq\0"));
        change(&mut note[24..]);
    }
    file.resize(file.len().next_multiple_of(PAGE as usize), 0);
    let place = (
        end.expect("segments").next_multiple_of(PAGE),
        file.len() as u64,
    );
    file.extend(notes);
    let table = u64::from_le_bytes(file[32..40].try_into().expect("eight bytes")) as usize;
    for (index, kind) in [(ours, NOTE), (spare.expect("it can unwind"), LOAD)] {
        let readable = 4;
        let alignment = if kind == LOAD { PAGE } else { 4 };
        let header = [place.1, place.0, place.0, length, length, alignment];
        let words = header.map(u64::to_le_bytes).concat();
        let at = table + 56 * index;
        file[at..at + 4].copy_from_slice(&kind.to_le_bytes());
        file[at + 4..at + 8].copy_from_slice(&u32::to_le_bytes(readable));
        file[at + 8..at + 56].copy_from_slice(&words);
    }
    let moved = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::copy(program, &moved).expect("writable, and executable");
    std::fs::write(&moved, file).expect("writable");
    moved
}

/// In an executable, and in a shared object that is loaded later.
#[test]
fn notes_that_were_moved_are_understood() {
    let probe = with_moved_notes(Path::new(PROBE), "moved", |_| {});
    let plugin = with_moved_notes(&plugin(), "moved.so", |_| {});
    let text = output(Command::new(probe).arg(plugin));
    assert!(rows(&text) >= 6);
    assert!(text.contains("rows with the plugin: "));
}

/// They name an address 12 bytes after each sequence, or one so far away that it is not code.
#[test]
fn notes_that_name_no_sequence_are_refused() {
    for moved in [12, 1 << 28] {
        let probe = with_moved_notes(Path::new(PROBE), "wrong", |description| {
            let last = description.last_chunk_mut().expect("five words");
            *last = (i32::from_le_bytes(*last) - moved).to_le_bytes();
        });
        let text = output(&mut Command::new(probe));
        assert!(number(&text, "refused: ") >= 6);
    }
}

/// A tool that moves notes in such a program may have moved its beginning, too: the distance cannot
/// be determined.
#[test]
#[ignore = "builds the library once more: the step `long tests` of .ci/soak runs it"]
fn moved_notes_of_an_executable_with_fixed_addresses_are_refused() {
    let fixed = ["-Crelocation-model=static", "-Ctarget-feature=-crt-static"];
    let (probe, text) = probe_built("fixed", &[], &fixed);
    let moved = output(&mut Command::new(with_moved_notes(
        &probe,
        "moved-fixed",
        |_| {},
    )));
    assert_eq!(number(&moved, "refused: "), rows(&text));
}
