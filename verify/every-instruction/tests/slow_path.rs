//! Interrupts the slow path at each of its instructions, by handlers that operate on the same
//! structure.

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod deadlock;

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
fn main() {
    use std::process::Command;
    use std::time::Duration;

    use verify_every_instruction::slow_path::SlowPath;
    use verify_every_instruction::{platform, registry, watchdog};

    const DISABLE: &str = "ATOMSEQ_DISABLE_RSEQ";
    let again = || Command::new(std::env::current_exe().expect("a program knows its own path"));
    let disabled = std::env::var_os(DISABLE).is_some();
    let control = std::env::args()
        .nth(1)
        .filter(|name| name.starts_with("deadlock"));
    if !disabled && !platform::sections_run("slow path") {
        return;
    }
    let mut checker = SlowPath::new(Duration::from_secs(if control.is_some() { 1 } else { 20 }));
    if let Some(name) = control {
        deadlock::check(&name, &mut checker);
        return;
    }
    registry::check(&mut checker);
    registry::check_remote(&mut checker);
    if !disabled {
        registry::check_claims(&mut checker);
    }
    let (instructions, behind) = checker.instructions();
    println!(
        "slow path, {}: {instructions} instructions interrupted, {behind} of them after a stretch with signals blocked, in {} runs; \
         {} not met; {} violations",
        if disabled {
            "sections off"
        } else {
            "restart limit 0"
        },
        checker.runs,
        checker.unmet,
        checker.violations.len()
    );
    for violation in checker.violations.iter().take(20) {
        println!("violation: {violation}");
    }
    let mut failed = !checker.violations.is_empty() || behind == 0 || checker.unmet > 0;
    // Nobody watches this process while it waits for its children.
    drop(checker);
    if !disabled {
        let status = again()
            .env(DISABLE, "1")
            .status()
            .expect("a program can start itself");
        failed |= !status.success();
        for control in deadlock::CONTROLS {
            let output = again()
                .arg(control)
                .output()
                .expect("a program can start itself");
            let caught = output.status.code() == Some(watchdog::HUNG);
            println!(
                "control {control}: {}",
                if caught { "caught" } else { "NOT CAUGHT" }
            );
            failed |= !caught;
        }
    }
    if failed {
        std::process::exit(1);
    }
}

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
fn main() {
    println!("slow path: does not apply, for sections are not built here");
}
