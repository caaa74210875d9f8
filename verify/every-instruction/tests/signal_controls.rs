//! What the same harness must catch: the forms with nothing that protects them, and the library's
//! handling switched off, part by part. Each runs in a process of its own.

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod signal_faults;

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
fn main() {
    use std::process::Command;

    if let Some(name) = std::env::args()
        .nth(1)
        .filter(|name| !name.starts_with('-'))
    {
        signal_faults::run(&name);
        return;
    }
    let mut wrong = false;
    for control in signal_faults::CONTROLS {
        let program = std::env::current_exe().expect("a program knows its own path");
        let output = Command::new(program)
            .arg(control.name)
            .output()
            .expect("a program can start itself");
        print!("{}", String::from_utf8_lossy(&output.stdout));
        if !output.status.success() {
            wrong = true;
            println!(
                "control {}: WRONG, {}\n{}",
                control.name,
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
    if wrong {
        std::process::exit(1);
    }
}

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
fn main() {
    println!("controls of signal forms: do not apply, for sequences are not built so here");
}
