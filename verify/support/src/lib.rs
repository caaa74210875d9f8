//! What the test crates share. A helper that a third test needs moves here.
//!
//! [`processes`] runs a test in a process of its own: start-up decides once a process, handlers
//! belong to the process, and some tests end it. [`sandbox`] refuses system calls there.
//! [`signals`] has masks, handlers and queued signals as a library would use them that knows
//! nothing of atomseq; [`jump`] leaves handlers by `siglongjmp`. [`timers`] and [`fire`] interrupt
//! a thread again and again, [`pages`] at a chosen instruction. [`cpus`], [`threads`] and [`proc`]
//! place threads, wait for their states and read `/proc`. [`requirements`] skips a test. [`code`]
//! finds the sequences of the running program, and stops threads at any of their instructions.

#![cfg(target_os = "linux")]

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
pub mod code;
pub mod cpus;
pub mod fire;
#[cfg(atomseq_sections)]
pub mod jump;
#[cfg(atomseq_sections)]
pub mod pages;
pub mod proc;
pub mod processes;
pub mod requirements;
pub mod sandbox;
pub mod signals;
pub mod sources;
pub mod threads;
pub mod timers;
pub mod watchdog;

/// The name of the calling test, without its crate's; closures of the test may ask as well.
#[macro_export]
macro_rules! this_test {
    () => {{
        fn here() {}
        let name = std::any::type_name_of_val(&here);
        let name = name.strip_suffix("::here").unwrap_or(name);
        let name = name.trim_end_matches("::{{closure}}");
        name.split_once("::").map_or(name, |(_, rest)| rest)
    }};
}
