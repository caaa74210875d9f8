//! What the test crates share. A helper that a third test needs moves here.
//!
//! [`processes`] runs a test in a process of its own: start-up decides once a process, handlers
//! belong to the process, and some tests end it. [`sandbox`] refuses system calls there.
//! [`signals`] has masks, handlers and queued signals as a library would use them that knows
//! nothing of atomseq; [`jump`] leaves handlers by `siglongjmp`. [`timers`] and [`fire`] interrupt
//! a thread again and again, [`pages`] at a chosen instruction. [`cpus`], [`threads`] and [`proc`]
//! place threads, wait for their states and read `/proc`. [`watchdog`] ends a process that hangs.
//! [`code`] finds the sequences of the running program, and stops threads at any of their
//! instructions; [`sources`] reads the library's files. [`is_there_or_skipped`] skips a test whose
//! requirement the machine lacks, and [`number_from_env`] lengthens one.

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
pub mod sandbox;
pub mod signals;
pub mod sources;
pub mod threads;
pub mod timers;
pub mod watchdog;

use std::io::Write;
use std::str::FromStr;

/// Returns `is_there`, whether a test's requirement is present. If not, reports that the calling
/// test is skipped, and how to install what is missing.
///
/// # Panics
///
/// If it is missing and `ATOMSEQ_REQUIRE_ALL=1` is set, as it is in continuous integration.
pub fn is_there_or_skipped(is_there: bool, missing: &str, install: &str) -> bool {
    if is_there {
        return true;
    }
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let is_required = std::env::var_os("ATOMSEQ_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!is_required, "{missing} is missing: {install}");
    let sentence = format!("{test}: skipped, because {missing} is missing: {install}");
    // Not by a macro: the test harness captures what macros print, and shows it for failures only.
    let _ = writeln!(std::io::stderr(), "{sentence}");
    false
}

/// Returns the number in a variable of the environment, or `default` where it is not set.
///
/// # Panics
///
/// If the variable holds something else.
pub fn number_from_env<N: FromStr>(variable: &str, default: N) -> N {
    let Some(text) = std::env::var_os(variable) else {
        return default;
    };
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("{variable} is no number: {text:?}"))
}

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
