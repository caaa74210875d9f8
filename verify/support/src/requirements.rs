//! What a test needs and a machine may lack.

use std::io::Write;

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
