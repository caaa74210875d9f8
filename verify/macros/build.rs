//! Sets this build's cfgs, by the library's own build script.

#[path = "../../crates/atomseq/build.rs"]
mod sections;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    sections::main();
}
