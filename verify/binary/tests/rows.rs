//! Checks every row of this executable's table of sequences, and that the signal-atomic forms
//! consist of the same instructions, those of the golden files.
//!
//! `BLESS=1 cargo test --release -p verify-binary --test rows` rewrites the golden files.

#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

mod signal_forms;

use signal_forms::PROGRAMS;
use verify_binary::executable::Executable;
use verify_binary::row::{self, rows};

#[test]
fn every_row_is_in_order() {
    signal_forms::run();
    let executable = Executable::this();
    let (rows, mut wrong) = rows(&executable, row::SECTION);
    for row in &rows {
        let rules = row::of_a_row(&executable, row);
        wrong.extend(
            rules
                .iter()
                .map(|rule| format!("{}: not so: {rule}", row.function)),
        );
    }
    let clones = rows.iter().filter(|row| row.clone.is_some()).count();
    println!(
        "binary: {} rows, {clones} with a clone; {} violations",
        rows.len(),
        wrong.len()
    );
    assert_eq!(wrong, [""; 0]);
    for (program, forms) in PROGRAMS {
        for (form, expected) in *forms {
            let function = format!("signal_{program}_{form}");
            let own: Vec<_> = rows.iter().filter(|row| row.function == function).collect();
            match (expected, own.as_slice()) {
                (None, []) => {}
                (Some(has_clone), [row]) => {
                    assert_eq!(row.clone.is_some(), *has_clone, "{function}")
                }
                (_, others) => panic!("{function} has {} rows", others.len()),
            }
        }
    }
}

/// The protected forms have not one instruction more than the unprotected form.
#[test]
#[cfg(not(debug_assertions))]
fn the_forms_are_the_same_instructions() {
    use verify_binary::golden::{Golden, compiler, is_blessing};
    use verify_binary::listing;

    signal_forms::run();
    let executable = Executable::this();
    let mut file = Golden::read("signals");
    let mut compared = 0;
    for (program, forms) in PROGRAMS {
        let code = |(form, _): &signal_forms::Form| {
            let name = format!("signal_{program}_{form}");
            let function = executable.function(&name).expect("it was called");
            let code = executable.instructions(function.place.clone());
            let lengths: Vec<usize> = code.iter().map(|each| each.len()).collect();
            (
                listing::function(&executable, function.place.clone(), &[]),
                lengths,
            )
        };
        let unprotected = code(&forms[0]);
        for form in &forms[1..] {
            assert_eq!(unprotected, code(form), "{program}: {form:?}");
        }
        let fresh = format!("{}\n{}\n", compiler(), unprotected.0.join("\n"));
        if is_blessing() {
            file.bless(program, &fresh);
        }
        let golden = file.listing(program);
        let golden = golden.unwrap_or_else(|| panic!("no listing of {program}: run with BLESS=1"));
        // Another compiler may choose other registers.
        if golden.lines().next() == fresh.lines().next() {
            compared += 1;
            assert_eq!(golden, fresh, "{program} differs from its golden file");
        }
    }
    println!(
        "golden: {} programs in all their forms; {compared} compared with their files",
        PROGRAMS.len()
    );
}

#[test]
fn faulty_rows_are_found_out() {
    let executable = Executable::this();
    let (rows, wrong) = rows(&executable, faulty_rows::SECTION);
    assert_eq!(wrong, [""; 0], "this table is in order");
    assert_eq!(rows.len(), faulty_rows::ROWS.len());
    for (name, fault) in faulty_rows::ROWS {
        let row = rows
            .iter()
            .find(|row| row.function == *name)
            .expect("it is in the executable");
        let said = row::of_a_row(&executable, row);
        println!("control {name}: {}", said.join("; "));
        match fault {
            None => assert_eq!(said, [""; 0], "{name}"),
            Some(fault) => {
                assert!(
                    said.iter().any(|rule| rule.contains(fault)),
                    "{name}: {said:?}"
                );
            }
        }
    }
    let (_, wrong) = verify_binary::row::rows(&executable, faulty_rows::OVERLAPPING);
    assert!(
        wrong.iter().any(|wrong| wrong.contains("overlap")),
        "{wrong:?}"
    );
}

/// Rows with one fault each, and one without. None of the sequences ever runs.
mod faulty_rows {
    use std::arch::global_asm;

    /// The section of their notes.
    pub const SECTION: &str = ".note.verify_faulty";
    /// The section of the notes of two sequences that share instructions.
    pub const OVERLAPPING: &str = ".note.verify_overlapping";

    /// A sequence between 51 and 52, its exit at 60; its clone between 57 and 58.
    macro_rules! rows {
        ($($name:literal: $fault:expr, [$($line:literal),* $(,)?], clone [$($cloned:literal),* $(,)?];)*) => {
            /// The functions, and a part of the message that each must cause.
            pub const ROWS: &[(&str, Option<&str>)] = &[$(($name, $fault)),*];

            $(global_asm!(
                concat!(".pushsection .text.", $name, ", \"axR\", @progbits"),
                concat!(".type ", $name, ", @function"),
                concat!($name, ":"),
                "50: nop",
                "51:",
                $($line,)*
                "52: ret",
                "60: ret",
                concat!(".size ", $name, ", . - ", $name),
                ".popsection",
                concat!(".pushsection .text.", $name, ".clone, \"axR\", @progbits"),
                "57:",
                $($cloned,)*
                "58: nop",
                ".popsection",
                ".pushsection .note.verify_faulty, \"aR\", @note",
                ".balign 4",
                ".long 12, 20, 2",
                ".asciz \"atomseq\"",
                ".long 0",
                ".long 51b - .",
                ".long 52b - .",
                ".long 57b - .",
                ".long 58b - .",
                ".long 0",
                ".popsection",
            );)*
        };
    }

    rows! {
        "row_in_order": None,
            ["mov rax, [rdi]", "test rax, rax", "{{disp32}} je 60f", "mov [rdi + 8], rax"],
            clone ["mov rax, [rdi]", "test rax, rax", "{{disp32}} je 61f", "mov [rdi + 8], rax",
                "call qword ptr [rsp]", ".long 52b - .", "61: call qword ptr [rsp]", ".long 60b - ."];
        "row_calls": Some("only continues"),
            ["call 50b"],
            clone ["call 50b", "call qword ptr [rsp]", ".long 52b - ."];
        "row_jumps_back": Some("only continues"),
            ["mov rax, [rdi]", "{{disp32}} jne 51b"],
            clone ["mov rax, [rdi]", "{{disp32}} jne 61f", "call qword ptr [rsp]", ".long 52b - .", "61: call qword ptr [rsp]", ".long 51b - ."];
        "row_jumps_by_register": Some("only continues"),
            ["jmp rax"],
            clone ["jmp rax", "call qword ptr [rsp]", ".long 52b - ."];
        "row_asks_the_kernel": Some("only continues"),
            ["syscall"],
            clone ["syscall", "call qword ptr [rsp]", ".long 52b - ."];
        "row_locks": Some("atomic"),
            ["lock add qword ptr [rdi], rax"],
            clone ["lock add qword ptr [rdi], rax", "call qword ptr [rsp]", ".long 52b - ."];
        "row_pushes": Some("stack"),
            ["push rax"],
            clone ["push rax", "call qword ptr [rsp]", ".long 52b - ."];
        "row_knows_its_place": Some("another place"),
            ["lea rax, [rip]"],
            clone ["lea rax, [rip]", "call qword ptr [rsp]", ".long 52b - ."];
        "row_is_long": Some("33 instructions"),
            [".rept 33", "mov rax, [rdi]", ".endr"],
            clone [".rept 33", "mov rax, [rdi]", ".endr", "call qword ptr [rsp]", ".long 52b - ."];
        "row_clone_differs": Some("`mov rax,[rsi]` is `mov rax,[rdi]`"),
            ["mov rax, [rdi]"],
            clone ["mov rax, [rsi]", "call qword ptr [rsp]", ".long 52b - ."];
        "row_clone_is_shorter": Some("as many instructions"),
            ["mov rax, [rdi]", "{{disp32}} je 60f", "mov [rdi + 8], rax"],
            clone ["mov rax, [rdi]", "je 61f", "mov [rdi + 8], rax", ".byte 0x0f, 0x1f, 0x40, 0x00", "call qword ptr [rsp]", ".long 52b - .", "61: call qword ptr [rsp]", ".long 60b - ."];
        "row_clone_does_not_come_back": Some("end leads to its end"),
            ["mov rax, [rdi]"],
            clone ["mov rax, [rdi]", "nop", "nop", "nop", ".long 52b - ."];
        "row_clone_goes_on_elsewhere": Some("end leads to its end"),
            ["mov rax, [rdi]"],
            clone ["mov rax, [rdi]", "call qword ptr [rsp]", ".long 51b - ."];
        "row_exit_goes_on_elsewhere": Some("leads to 0x"),
            ["mov rax, [rdi]", "{{disp32}} je 60f"],
            clone ["mov rax, [rdi]", "{{disp32}} je 61f", "call qword ptr [rsp]", ".long 52b - .", "61: call qword ptr [rsp]", ".long 52b - ."];
        "row_limit_is_late": Some("ends with its ends"),
            ["mov rax, [rdi]"],
            clone ["mov rax, [rdi]", "call qword ptr [rsp]", ".long 52b - .", "nop"];
    }

    global_asm!(
        ".pushsection .text.row_overlapping, \"axR\", @progbits",
        "51: nop",
        "52: nop",
        "53: nop",
        "54: ret",
        ".popsection",
        ".pushsection .note.verify_overlapping, \"aR\", @note",
        ".balign 4",
        ".long 12, 20, 2",
        ".asciz \"atomseq\"",
        ".long 0",
        ".long 51b - ., 53b - . + 4, 0, 0, 0",
        ".long 12, 20, 2",
        ".asciz \"atomseq\"",
        ".long 0",
        ".long 52b - ., 54b - . + 4, 0, 0, 0",
        ".popsection",
    );
}
