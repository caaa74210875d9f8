//! The programs of the cross toolchain.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use verify_support::is_there_or_skipped;

pub const ASSEMBLER: &str = "aarch64-linux-gnu-as";
pub const COMPILER: &str = "aarch64-linux-gnu-gcc";
pub const EMULATOR: &str = "qemu-aarch64";

/// How to have the programs, on Debian and its relatives.
const INSTALL: &str = "apt-get install binutils-aarch64-linux-gnu gcc-aarch64-linux-gnu \
                       libc6-dev-arm64-cross qemu-user";

/// Returns whether these programs are installed. If one is missing, reports that the test is
/// skipped and how to install the programs.
///
/// # Panics
///
/// If one is missing and `ATOMSEQ_REQUIRE_ALL=1` is set, as it is in continuous integration.
pub fn are_there(programs: &[&str]) -> bool {
    let is_installed = |program: &&&str| {
        let version = Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        version.is_ok_and(|status| status.success())
    };
    let missing = programs.iter().find(|program| !is_installed(program));
    is_there_or_skipped(missing.is_none(), missing.unwrap_or(&""), INSTALL)
}

/// Returns a directory for the files of one test.
pub fn directory(test: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("emitters-{test}"));
    std::fs::create_dir_all(&directory).expect("cargo's directory for tests");
    directory
}

/// Runs a program, which must succeed; returns what it printed.
pub fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("the program was found before");
    assert!(
        output.status.success(),
        "{command:?} failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Assembles a file in a directory; returns the object file.
pub fn assemble(directory: &std::path::Path, text: &str) -> PathBuf {
    let (source, object) = (directory.join("sequences.s"), directory.join("sequences.o"));
    std::fs::write(&source, text).expect("writable");
    run(Command::new(ASSEMBLER)
        .args(["-march=armv8-a+lse", "-o"])
        .arg(&object)
        .arg(&source));
    object
}

/// Links the functions in `text` with a driver, a file of C beside this one. Returns the program.
pub fn link(test: &str, text: &str, driver: &str) -> PathBuf {
    let directory = directory(test);
    let object = assemble(&directory, text);
    let program = directory.join("driver");
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emitters");
    run(Command::new(COMPILER)
        .args(["-O1", "-static", "-o"])
        .arg(&program)
        .arg(source.join(driver))
        .arg(&object));
    program
}
