//! Decides, as the library's build script does, whether this build has protected sections:
//! `cfg(atomseq_sections)`. (`lib.rs` compares the answers.)

fn main() {
    println!("cargo::rerun-if-changed=Cargo.toml");
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
