//! Checks sequences in a finished x86-64 ELF executable.
//!
//! [`executable`] reads the file, [`descriptor`] the descriptors for the kernel. [`rules`] checks
//! what each must satisfy, [`listing`] prints code so that two builds can be compared, and
//! [`fast_path`] follows an operation from its entry to its return. [`row`] reads the table of
//! sequences that signal handlers search, and checks each row. [`golden`] reads the listings with
//! which code is compared. Nothing here is shared with the compiler of sequences.

pub mod descriptor;
pub mod executable;
pub mod fast_path;
pub mod golden;
pub mod listing;
pub mod row;
pub mod rules;
