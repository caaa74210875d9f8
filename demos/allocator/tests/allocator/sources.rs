//! Searches the library's sources, which an allocator may run, for locks of the standard library
//! and for thread-locals.

use std::fs;
use std::path::Path;

/// Names of what blocks inside the standard library, or is initialised on first use.
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

/// Names that `mutex/` gives its own locks, which sleep by futex alone. In that directory, only
/// those of `std` are forbidden.
const OWN: [&str; 3] = ["Mutex", "RwLock", "Condvar"];

/// The exceptions for a directory.
#[derive(Clone, Copy)]
struct Allowed {
    /// It has locks of its own.
    own_locks: bool,
    /// Thread-locals with a constant initialiser. Elsewhere not even those: in a shared object, the
    /// first use in a thread may allocate.
    constant_thread_locals: bool,
}

const NOTHING: Allowed = Allowed {
    own_locks: false,
    constant_thread_locals: false,
};

/// Returns the lines with a forbidden name, except in comments and tests.
fn offences(source: &str, allowed: Allowed) -> Vec<&str> {
    let lines = source.split("\n#[cfg(test)]\n").enumerate();
    // The attribute is followed by one item, or by the tests' module and the rest of the file.
    let lines = lines.flat_map(|(part, text)| {
        let mut lines = text.lines();
        let item = lines.clone().next().filter(|_| part > 0);
        if item.is_some_and(|item| item.contains("mod ")) {
            lines = "".lines();
        } else if item.is_some() {
            lines.next();
        }
        lines
    });
    lines
        .filter(|line| {
            let code = line.split("//").next().unwrap_or("");
            let constant = code.contains("thread_local!") && code.contains("= const {");
            let is_own =
                |name: &str| allowed.own_locks && OWN.contains(&name) && !code.contains("std::");
            let forbidden = |name: &&str| code.contains(*name) && !is_own(name);
            !(allowed.constant_thread_locals && constant) && FORBIDDEN.iter().any(forbidden)
        })
        .collect()
}

fn search(directory: &Path, looked_at: &mut usize) {
    let is_in = |name: &str| directory.components().any(|part| part.as_os_str() == name);
    let allowed = Allowed {
        own_locks: is_in("mutex"),
        constant_thread_locals: is_in("portable"),
    };
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        // Unit tests in a file of their own.
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            search(&path, looked_at);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            assert_eq!(offences(&source, allowed), [""; 0], "in {path:?}");
            *looked_at += 1;
        }
    }
}

#[test]
fn no_source_has_a_lock_or_a_thread_local() {
    let mut looked_at = 0;
    search(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/atomseq/src"),
        &mut looked_at,
    );
    assert!(looked_at > 20, "only {looked_at} sources found");
}

#[test]
fn offences_are_found() {
    let source = "use std::sync::Mutex;\n// a Mutex\nstatic A: u8 = 1; // Once::new\nthread_local! {\n\
                  thread_local!(static B: u8 = const { 0 });\n\
                  #[cfg(test)]\nthread_local! {\nuse std::sync::mpsc;\n\
                  #[cfg(test)]\nmod tests { use std::sync::RwLock; }\nuse std::sync::Barrier;";
    let found: Vec<_> = source.lines().collect();
    assert_eq!(
        offences(source, NOTHING),
        [found[0], found[3], found[4], found[7]]
    );
    let portable = Allowed {
        constant_thread_locals: true,
        ..NOTHING
    };
    assert_eq!(offences(source, portable), [found[0], found[3], found[7]]);
    let own = "use lock_api::RawMutex;\nuse std::sync::Condvar;\nuse std::sync::OnceLock;\nstatic B: Barrier;";
    let has_own = Allowed {
        own_locks: true,
        ..NOTHING
    };
    assert_eq!(
        offences(own, has_own),
        own.lines().skip(1).collect::<Vec<_>>()
    );
}
