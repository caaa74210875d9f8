//! Records what the figures of `atomseq bench` were taken with: the compiler and, when the command
//! is built from a git checkout, the commit and whether the tree differed from it. Decides, as the
//! library's build script does, whether this build has protected sections: `cfg(atomseq_sections)`.
//! (`main.rs` compares the answers.)

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    sections();
    println!("cargo::rerun-if-env-changed=RUSTC");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    if let Some(version) = output(Command::new(rustc).arg("--version")) {
        println!("cargo::rustc-env=ATOMSEQ_RUSTC={version}");
    }

    // Outside a checkout (a packaged crate) the commit is unknown; a repository further up is not
    // ours.
    if !Path::new("../../.git").exists() {
        return;
    }
    if let Some(commit) = git(&["rev-parse", "HEAD"]) {
        println!("cargo::rustc-env=ATOMSEQ_COMMIT={commit}");
        let modified = git(&["status", "--porcelain", "--untracked-files=no"]);
        println!("cargo::rustc-env=ATOMSEQ_MODIFIED={}", modified.is_some());
        println!("cargo::rerun-if-changed=..");
        for file in ["HEAD", "logs/HEAD"] {
            if let Some(path) = git(&["rev-parse", "--git-path", file])
                && Path::new(&path).exists()
            {
                println!("cargo::rerun-if-changed={path}");
            }
        }
    }
}

fn sections() {
    let is_one_of = |name: &str, values: &[&str]| {
        std::env::var(name).is_ok_and(|value| values.contains(&value.as_str()))
    };
    let sections = is_one_of("CARGO_CFG_TARGET_OS", &["linux"])
        && is_one_of("CARGO_CFG_TARGET_ARCH", &["x86_64", "aarch64"])
        && is_one_of("CARGO_CFG_TARGET_POINTER_WIDTH", &["64"])
        && std::env::var_os("CARGO_CFG_ATOMSEQ_PORTABLE").is_none()
        && std::env::var_os("CARGO_CFG_MIRI").is_none();
    if sections {
        println!("cargo::rustc-cfg=atomseq_sections");
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    output(Command::new("git").args(arguments))
}

/// What a successful command printed, trimmed; `None` when it failed or printed nothing.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|o| o.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_string();
    (!text.is_empty()).then_some(text)
}
