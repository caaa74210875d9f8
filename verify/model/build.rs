//! Files of the library that this crate compiles a second time leave their own tests out here.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=atomseq_model");
}
