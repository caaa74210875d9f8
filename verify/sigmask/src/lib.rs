//! Compiles and runs C programs with and without `libatomseq_sigmask.so`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// Returns the library, which Cargo puts beside the tests.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let library = test.with_file_name("libatomseq_sigmask.so");
    assert!(library.exists(), "{} is missing", library.display());
    library
}

/// Compiles a program of this crate's `tests`, once a test binary.
pub fn compile(name: &str) -> PathBuf {
    static PROGRAMS: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let program = programs.entry(name.to_owned());
    program.or_insert_with(|| compile_now(name)).clone()
}

fn compile_now(name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name);
    let test = std::env::current_exe().expect("the path of this test");
    let program = test.with_extension(name.trim_end_matches(".c"));
    let mut compiler = Command::new("cc");
    compiler.args([
        "-O1",
        "-D_FORTIFY_SOURCE=2",
        "-Wno-deprecated-declarations",
        "-o",
    ]);
    let output = compiler
        .arg(&program)
        .arg(source)
        .args(["-lm", "-lpthread", "-lresolv"])
        .output();
    let output = output.expect("cc runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}

/// Returns a command with the library.
pub fn with(program: &Path) -> Command {
    let mut command = without(program);
    command.env("LD_PRELOAD", library());
    command
}

/// Returns a command without the library.
pub fn without(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "600"]).arg(program);
    command.env_remove("LD_PRELOAD");
    command
}

/// Runs a command, and returns what it printed.
pub fn output(command: &mut Command) -> Output {
    command.output().expect("the command runs")
}
