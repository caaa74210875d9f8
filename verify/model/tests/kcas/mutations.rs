//! k-CAS with one protection less: a name, what is there once in the sources, and what is there instead.

/// All of them; each has to be found out.
pub const MUTATIONS: &[(&str, &str, &str)] = &[
    (
        "installed_is_not_marked",
        "entry.installed.store(sequence, Ordering::Release);",
        "",
    ),
    (
        "released_is_not_marked",
        "entry.released.store(reference.sequence, Ordering::Release);",
        "",
    ),
    (
        "decided_too_early",
        "release(content);",
        "release(content);\ndecide(SUCCEEDED);",
    ),
    (
        "the_last_word_is_left_out",
        "descriptor.entries[..count].iter().enumerate()",
        "descriptor.entries[..count - 1].iter().enumerate()",
    ),
    (
        "undecided_is_overridden",
        "Resolved::Undecided(_) => {",
        "Resolved::Undecided(found) if true => value = found,\nResolved::Undecided(_) => {",
    ),
    (
        "values_are_not_compared",
        "if value != old {",
        "if value != value {",
    ),
    (
        "stale_references_are_believed",
        "if status >> 2 != reference.sequence {\n        return Resolved::Stale;\n    }",
        "",
    ),
    (
        "blocks_are_shared",
        "self.busy.swap(1, Ordering::Acquire) != 0",
        "self.busy.swap(1, Ordering::Acquire) > 1",
    ),
];
