//! The program around [`demo_cachekernel`].

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    demo_common::options::main("cachekernel", demo_cachekernel::run)
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("cachekernel: needs threads that exit inside operations, as only Linux lets them");
    std::process::exit(2);
}
