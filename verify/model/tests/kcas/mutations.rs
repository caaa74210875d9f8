//! k-CAS with one protection less: a name, what is there once in the sources, and what is there instead.

/// All of them; each has to be found out.
pub const MUTATIONS: &[(&str, &str, &str)] = &[
    (
        "installed_is_not_marked",
        "descriptor.installed.fetch_or(put, Ordering::Relaxed);",
        "",
    ),
    (
        "released_is_not_marked",
        "entry.released.store(reference.sequence, Ordering::Release);",
        "",
    ),
    (
        "decided_too_early",
        "part.old = content;",
        "part.old = content;
         let (from, to) = (undecided, undecided | SUCCEEDED);
         let _ = descriptor.status.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);",
    ),
    (
        "the_last_word_is_left_out",
        "parts.iter_mut().enumerate()",
        "parts.iter_mut().rev().skip(1).rev().enumerate()",
    ),
    (
        "undecided_is_overridden",
        "Resolved::Undecided(_) => {",
        "Resolved::Undecided(found) if true => value = found,\nResolved::Undecided(_) => {",
    ),
    (
        "values_are_not_compared",
        "if value != part.old {",
        "if value != value {",
    ),
    (
        "stale_references_are_believed",
        "if sequence_of(status) != reference.sequence {\n        return Resolved::Stale;\n    }\n    match",
        "match",
    ),
    ("descriptors_are_taken_twice", "taken.ok()?;", ""),
    (
        "sequence_numbers_stay",
        "((sequence_of(status) + 1) % SEQUENCES).max(1)",
        "1",
    ),
    (
        "helpers_are_not_counted",
        "|| self.helpers.load(Ordering::SeqCst) != 0",
        "",
    ),
    ("owners_are_not_waited_for", "!has_left ||", ""),
];
