//! The program around [`demo_applications`].

fn main() -> std::process::ExitCode {
    demo_common::options::main("applications", demo_applications::run)
}
