//! The program around [`demo_profiler`].

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    demo_common::options::main("profiler", demo_profiler::run)
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("profiler: needs timers that interrupt one thread, which only Linux has");
    std::process::exit(2);
}
