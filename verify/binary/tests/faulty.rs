//! The rules must detect each of the faults for which they exist, and report nothing in a window
//! without one.

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

/// Windows with one fault each, and one without. None of them ever runs.
///
/// Registers as in an emitted sequence: rax an area, rdx the offset of struct rseq, rsi a word.
#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod windows {
    use std::arch::global_asm;

    /// The section of the descriptors.
    pub const SECTION: &str = "verify_faulty";
    /// The section of their addresses.
    pub const POINTERS: &str = "verify_faulty_pointers";
    /// Two descriptors of one window.
    pub const OVERLAPPING: &str = "verify_overlapping";

    macro_rules! arm {
        () => {
            "lea r8, [rip + 50f]; mov qword ptr fs:[rdx + 8], r8"
        };
    }

    macro_rules! number {
        () => {
            "movsxd r8, dword ptr fs:[rdx + 4]; imul r8, qword ptr [rax + 8]; add r8, qword ptr [rax]"
        };
    }

    macro_rules! gate {
        () => {
            "cmp dword ptr [r8], 0; jne 54f"
        };
    }

    macro_rules! signature {
        () => {
            ".byte 0x0f, 0xb9, 0x3d, 0x53, 0x30, 0x05, 0x53"
        };
    }

    /// The CPU's number, compared immediately.
    macro_rules! cpu {
        () => {
            "movsxd r8, dword ptr fs:[rdx + 4]; cmp r8, 0x3fff; ja 54f"
        };
    }

    /// Claims the word at rdi with the CPU's number.
    macro_rules! claim {
        () => {
            "mov rax, qword ptr [rdi]; lock cmpxchg qword ptr [rdi], r8; jne 54f"
        };
    }

    /// `start` and `end` are labels: 51 and 52 where these are correct. 53 is the abort address.
    macro_rules! windows {
        ($($name:literal: [$($fault:literal),*], head $head:literal, start $start:literal, end $end:literal, abort $abort:literal,
            [$($line:expr),* $(,)?], then [$($after:expr),* $(,)?];)*) => {
            /// The functions, and parts of the messages that each must cause.
            pub const WINDOWS: &[(&str, &[&str])] = &[$(($name, &[$($fault),*])),*];

            $(global_asm!(
                concat!(".pushsection .text.", $name, ", \"axR\", @progbits"),
                concat!(".type ", $name, ", @function"),
                concat!($name, ":"),
                $($line,)*
                "54: ret",
                $($after,)*
                concat!(".size ", $name, ", . - ", $name),
                ".popsection",
                ".pushsection verify_faulty, \"awR\", @progbits",
                ".balign 32",
                "50:",
                concat!(".long ", $head),
                concat!(".quad ", $start, "b, ", $end, "b - ", $start, "b, ", $abort, "b"),
                ".popsection",
                ".pushsection verify_faulty_pointers, \"awR\", @progbits",
                ".quad 50b",
                ".popsection",
            );)*
        };
    }

    windows! {
        "window_correct": [], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), "add qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_of_another_version": ["has version 0"], head "1, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), "add qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_with_flags": ["has no flags"], head "0, 1", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), "add qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_of_nothing": ["covers something"], head "0, 0", start "51", end "51", abort "53",
            [arm!(), "51:", number!(), gate!(), "add qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_without_signature": ["has the signature"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), "add qword ptr [r8 + 8], rsi", "52:"],
            then [".byte 0x0f, 0xb9, 0x3d, 0x53, 0x30, 0x05, 0x54", "53: jmp 54b"];
        "window_with_its_abort_inside": ["aborts to somewhere outside"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), signature!(), "53:", "add qword ptr [r8 + 8], rsi", "52:"],
            then [];
        "window_that_continues_when_aborted": ["restarts before the window"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), "55:", "add qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 55b"];
        "window_unarmed": ["is armed"], head "0, 0", start "51", end "52", abort "53",
            ["nop", "51:", number!(), gate!(), "add qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_armed_by_another": ["is armed"], head "0, 0", start "51", end "52", abort "53",
            ["lea r8, [rip + 54f]; mov qword ptr fs:[rdx + 8], r8",
                "51:", number!(), gate!(), "add qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_that_starts_late": ["begins with reading the number"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), number!(), "51:", gate!(), "add qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_without_gate": ["tests the gate"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), "add qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_too_long": ["ends with a store"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), "add qword ptr [r8 + 8], rsi", "xor eax, eax", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_too_short": ["ends with a store"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), "mov r9, qword ptr [r8 + 8]", "52:", "mov qword ptr [r8 + 8], rsi"],
            then [signature!(), "53: jmp 54b"];
        "window_in_the_middle_of_an_instruction": ["ends where an instruction ends"],
            head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), ".byte 0x49, 0x01", "52:", ".byte 0x70, 0x08"],
            then [signature!(), "53: jmp 54b"];
        "window_with_a_call": ["only continues", "leaves the stack alone"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), "call rsi", "add qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_with_a_system_call": ["only continues"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), "syscall", "add qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_with_a_trap": ["only continues"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), "int 0x80", "add qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_that_jumps_backward": ["only continues"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), "55: dec rsi", "jne 55b", "add qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_with_an_atomic_instruction": ["is no atomic instruction"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), "lock add qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_with_an_exchange": ["is no atomic instruction"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), "xchg qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_that_pushes": ["leaves the stack alone"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), "push rsi", "add qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_with_two_commits": ["stores only once"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), "add qword ptr [r8 + 8], rsi", "add qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_of_many_instructions": ["has 33 instructions"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", number!(), gate!(), ".rept 27; inc rsi; .endr", "add qword ptr [r8 + 8], rsi", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_that_claims": [], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", cpu!(), claim!(), "cmp qword ptr [rsi], rcx; jne 55f", "mov qword ptr [rdi + 8], rsi",
                "mov qword ptr [rsi], r9", "55: mov qword ptr [rdi], r10", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_that_claims_without_leaving": ["leaves if it cannot claim"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", cpu!(), "mov rax, qword ptr [rdi]; lock cmpxchg qword ptr [rdi], r8", "mov qword ptr [rsi], r9",
                "mov qword ptr [rdi], r10", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_that_stays_without_its_claim": ["leaves if it cannot claim"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", cpu!(), "mov rax, qword ptr [rdi]; lock cmpxchg qword ptr [rdi], r8; jne 55f", "mov qword ptr [rsi], r9",
                "55: mov qword ptr [rdi], r10", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_that_stores_before_its_claim": ["stores nothing before it has claimed"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", cpu!(), "mov qword ptr [rsi], r9", claim!(), "mov qword ptr [rdi], r10", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_that_claims_twice": ["is no atomic instruction"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", cpu!(), claim!(), "lock cmpxchg qword ptr [rsi], r9", "mov qword ptr [rdi], r10", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_that_does_not_give_back": ["stores only once"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", cpu!(), claim!(), "mov qword ptr [rsi], r9", "mov qword ptr [rsi + 8], r10", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_that_gives_back_too_early": ["stores only once"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", cpu!(), claim!(), "mov qword ptr [rdi], r10", "mov qword ptr [rsi], r9", "mov qword ptr [rdi], r10", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_that_branches_before_its_commit": ["only continues"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", cpu!(), claim!(), "cmp qword ptr [rsi], rcx; jne 55f", "mov qword ptr [rsi], r9",
                "55: mov qword ptr [rsi + 8], r9", "mov qword ptr [rdi], r10", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_that_branches_to_its_commit_unclaimed": ["only continues"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51:", cpu!(), "cmp qword ptr [rsi], rcx; jne 55f", "mov r9, qword ptr [rsi]", "55: mov qword ptr [rdi], r10", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_of_any_cpu": ["compares the number of the CPU"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51: movsxd r8, dword ptr fs:[rdx + 4]", claim!(), "mov qword ptr [rsi], r9", "mov qword ptr [rdi], r10", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_that_compares_the_cpu_late": ["compares the number of the CPU"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51: movsxd r8, dword ptr fs:[rdx + 4]", claim!(), "cmp r8, 0x3fff; ja 54f", "mov qword ptr [rdi], r10", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_of_this_cpu": [], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51: movsxd r8, dword ptr fs:[rdx + 4]", "mov r9, rsi; and r9, 0x3fff; cmp r8, r9; jne 54f",
                "mov qword ptr [rdi], r10", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_that_stays_on_another_cpu": ["compares the number of the CPU"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51: movsxd r8, dword ptr fs:[rdx + 4]", "mov r9, rsi; and r9, 0x3fff; cmp r8, r9",
                "mov qword ptr [rdi], r10", "52:"],
            then [signature!(), "53: jmp 54b"];
        "window_that_asks_for_its_cpu_late": ["compares the number of the CPU"], head "0, 0", start "51", end "52", abort "53",
            [arm!(), "51: movsxd r8, dword ptr fs:[rdx + 4]", "mov qword ptr [rdi], r10; cmp r8, rsi; jne 54f",
                "mov qword ptr [rdi], r10", "52:"],
            then [signature!(), "53: jmp 54b"];
    }

    global_asm!(
        ".pushsection verify_overlapping, \"awR\", @progbits",
        ".balign 32",
        ".long 0, 0",
        ".quad window_correct, 8, window_correct",
        ".long 0, 0",
        ".quad window_correct + 4, 8, window_correct",
        ".popsection",
    );
}
