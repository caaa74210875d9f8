//! The program around [`demo_procon`].

fn main() -> std::process::ExitCode {
    demo_common::options::main("procon", demo_procon::run)
}
