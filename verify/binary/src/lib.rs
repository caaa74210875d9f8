//! Checks sequences where they count: in a finished x86-64 ELF executable.
//!
//! [`executable`] reads the file, [`descriptor`] the descriptors that the kernel is given,
//! [`rules`] what each must obey, [`listing`] prints code so that two builds can be compared, and
//! [`fast_path`] follows an operation from its entry to its return. [`row`] reads the table of
//! sequences that signal handlers look into, and says what each row must obey. [`golden`] reads the
//! listings that code is compared with. Nothing here is shared with the compiler of sequences.

pub mod descriptor;
pub mod executable;
pub mod fast_path;
pub mod golden;
pub mod listing;
pub mod row;
pub mod rules;
