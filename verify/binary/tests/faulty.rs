//! The rules must find each of the faults they are for, and nothing in a window without one.

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod windows;

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
fn main() {
    use verify_binary::descriptor::descriptors;
    use verify_binary::executable::Executable;
    use verify_binary::rules;

    let executable = Executable::this();
    let (found, wrong) = descriptors(&executable, windows::SECTION, windows::POINTERS);
    assert_eq!(found.len(), windows::WINDOWS.len());
    assert_eq!(wrong, [""; 0], "these tables are in order");
    let mut failed = false;
    for (name, faults) in windows::WINDOWS {
        let descriptor = found
            .iter()
            .find(|descriptor| descriptor.function == *name)
            .unwrap_or_else(|| panic!("{name} is not in the executable"));
        let mut said = rules::of_the_kernel(&executable, descriptor);
        said.extend(rules::of_a_sequence(&executable, descriptor));
        let says = |fault: &&str| said.iter().any(|rule| rule.contains(*fault));
        let right = faults.iter().all(says) && (said.is_empty() == faults.is_empty());
        println!(
            "control {name}: {}{}",
            if said.is_empty() {
                "nothing".to_string()
            } else {
                said.join("; ")
            },
            if right { "" } else { " WRONG" }
        );
        failed |= !right;
    }
    let (_, overlapping) = descriptors(&executable, windows::OVERLAPPING, windows::POINTERS);
    for fault in ["overlap", "lists"] {
        let right = overlapping.iter().any(|wrong| wrong.contains(fault));
        println!(
            "control of the tables, {fault}: {}",
            if right { "found" } else { "WRONG" }
        );
        failed |= !right;
    }
    if failed {
        std::process::exit(1);
    }
}

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
fn main() {
    println!("faulty windows: does not apply, for sections are not built here");
}
