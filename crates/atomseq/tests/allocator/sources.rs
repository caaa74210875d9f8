//! Looks for locks of the standard library and thread-locals in the sources that an allocator may run.

use std::fs;
use std::path::Path;

/// What waits inside the standard library, or is set up on first use.
const FORBIDDEN: [&str; 11] = [
    "Mutex",
    "RwLock",
    "Condvar",
    "OnceLock",
    "LazyLock",
    "OnceCell",
    "LazyCell",
    "Once::",
    "Barrier",
    "mpsc",
    "thread_local!",
];

/// What `mutex/` calls its own locks, which sleep by the futex alone. There they are forbidden as `std`'s.
const OWN: [&str; 2] = ["Mutex", "Condvar"];

/// The lines of a source, without comments and without what is behind the tests' heading, that name
/// something forbidden; `has_own` if the source is one of those that have locks of their own.
fn offences(source: &str, has_own: bool) -> Vec<&str> {
    source
        .lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .filter(|line| {
            let code = line.split("//").next().unwrap_or("");
            // A thread-local without an initialiser that runs is a plain word of the thread's.
            let plain = code.contains("thread_local!") && code.contains("= const {");
            let is_own = |name: &str| has_own && OWN.contains(&name) && !code.contains("std::");
            let forbidden = |name: &&str| code.contains(*name) && !is_own(name);
            !plain && FORBIDDEN.iter().any(forbidden)
        })
        .collect()
}

fn look(directory: &Path, looked_at: &mut usize) {
    let has_own = directory
        .components()
        .any(|part| part.as_os_str() == "mutex");
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        // Unit tests in files of their own.
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            look(&path, looked_at);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            assert_eq!(offences(&source, has_own), [""; 0], "in {path:?}");
            *looked_at += 1;
        }
    }
}

#[test]
fn no_source_has_a_lock_or_a_thread_local() {
    let mut looked_at = 0;
    look(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut looked_at,
    );
    assert!(looked_at > 20, "only {looked_at} sources found");
}

#[test]
fn offences_are_seen() {
    let source = "use std::sync::Mutex;\n// a Mutex\nstatic A: u8 = 1; // Once::new\nthread_local! {\n\
                  thread_local!(static B: u8 = const { 0 });\n\
                  #[cfg(test)]\nmod tests { use std::sync::RwLock; }";
    assert_eq!(
        offences(source, false),
        ["use std::sync::Mutex;", "thread_local! {"]
    );
    let own = "use lock_api::RawMutex;\nuse std::sync::Condvar;\nuse std::sync::OnceLock;\nstatic B: Barrier;";
    assert_eq!(offences(own, true), own.lines().skip(1).collect::<Vec<_>>());
}
