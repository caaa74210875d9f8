//! Passes the compiler's version to the tests: other compilers generate other code for whole
//! functions.

#[path = "../../crates/atomseq/build.rs"]
mod sections;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    sections::main();
    let compiler = std::env::var_os("RUSTC").expect("Cargo names the compiler");
    let output = std::process::Command::new(compiler)
        .arg("--version")
        .output()
        .expect("the compiler prints its version");
    let version = String::from_utf8_lossy(&output.stdout);
    println!("cargo::rustc-env=COMPILER={}", version.trim());
}
