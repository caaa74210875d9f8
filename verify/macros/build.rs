//! Whether this build has sections, as the library's own build script says it.

#[path = "../../crates/atomseq/build.rs"]
mod sections;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    sections::main();
}
