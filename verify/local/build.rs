//! `tests/calls.rs` replaces the C library's `__tls_get_addr`, which requires that the executable
//! exports it.

#[path = "../../crates/atomseq/build.rs"]
mod sections;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    sections::main();
    let is = |name: &str, value| std::env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-tests=-Wl,--export-dynamic-symbol=__tls_get_addr");
    }
}
