//! How the shared library is linked. Its functions call each other, as the C library's do, and not
//! what the program defines by the same names. The unwinder of the standard library is in it, since
//! it would load `libgcc_s.so` otherwise: that is most of the time that the library adds to the
//! start of a program.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ENV").as_deref() != Ok("gnu") {
        return;
    }
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    // Before glibc 2.34 they have functions that this library defines, and a plug-in may bring them
    // too late. Since then they are empty archives.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--no-as-needed,-lrt,-lutil,--as-needed");
    if has_static_unwinder() {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--whole-archive,-lgcc_eh,--no-whole-archive");
    }
}

/// Returns whether the linker finds the unwinder as an archive, whose symbols are hidden.
fn has_static_unwinder() -> bool {
    let linker = std::env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let found = Command::new(linker)
        .arg("-print-file-name=libgcc_eh.a")
        .output();
    // A name without a folder if there is none.
    found.is_ok_and(|found| {
        let path = String::from_utf8_lossy(&found.stdout);
        Path::new(path.trim()).is_absolute()
    })
}
