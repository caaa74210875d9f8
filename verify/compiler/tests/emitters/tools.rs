//! The programs of the cross toolchain.

use std::path::PathBuf;
use std::process::{Command, Stdio};

pub const ASSEMBLER: &str = "aarch64-linux-gnu-as";
pub const COMPILER: &str = "aarch64-linux-gnu-gcc";
pub const EMULATOR: &str = "qemu-aarch64";

/// Returns whether these programs are there. Fails if one is missing, unless the environment
/// permits to skip.
pub fn are_there(programs: &[&str]) -> bool {
    for program in programs {
        let found = Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if found.is_ok_and(|status| status.success()) {
            continue;
        }
        if std::env::var_os("ATOMSEQ_SKIP_AARCH64").is_some_and(|value| value == "1") {
            println!("skipped, for ATOMSEQ_SKIP_AARCH64=1 and there is no {program}");
            return false;
        }
        panic!(
            "{program} is missing: apt-get install binutils-aarch64-linux-gnu gcc-aarch64-linux-gnu \
             libc6-dev-arm64-cross qemu-user, or set ATOMSEQ_SKIP_AARCH64=1"
        );
    }
    true
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
