//! The program around [`demo_logbook`].

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    demo_common::options::main("logbook", demo_logbook::run)
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("logbook: needs timers that interrupt one thread, which only Linux has");
    std::process::exit(2);
}
