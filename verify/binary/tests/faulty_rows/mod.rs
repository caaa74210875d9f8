//! Rows with one fault each, and one without. None of the sequences ever runs.

use std::arch::global_asm;

/// Where their notes lie.
pub const SECTION: &str = ".note.verify_faulty";
/// Where those of two sequences lie that share instructions.
pub const OVERLAPPING: &str = ".note.verify_overlapping";

/// A sequence between 51 and 52, its exit at 60; its clone between 57 and 58.
macro_rules! rows {
    ($($name:literal: $fault:expr, [$($line:literal),* $(,)?], clone [$($cloned:literal),* $(,)?];)*) => {
        /// The functions, and a part of what must be said of each.
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
    "row_calls": Some("only goes on"),
        ["call 50b"],
        clone ["call 50b", "call qword ptr [rsp]", ".long 52b - ."];
    "row_jumps_back": Some("only goes on"),
        ["mov rax, [rdi]", "{{disp32}} jne 51b"],
        clone ["mov rax, [rdi]", "{{disp32}} jne 61f", "call qword ptr [rsp]", ".long 52b - .", "61: call qword ptr [rsp]", ".long 51b - ."];
    "row_jumps_by_register": Some("only goes on"),
        ["jmp rax"],
        clone ["jmp rax", "call qword ptr [rsp]", ".long 52b - ."];
    "row_asks_the_kernel": Some("only goes on"),
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
