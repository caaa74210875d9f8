//! k-CAS with an ordering that is too weak, and homes with one protection less: a name, what is there once in the sources, and
//! what is there instead.

/// All of them; each has to be found out.
pub const MUTATIONS: &[(&str, &str, &str)] = &[
    (
        "references_are_put_in_without_release",
        "own.word(), Ordering::SeqCst",
        "own.word(), Ordering::Relaxed",
    ),
    (
        "decisions_have_no_release",
        "undecided | found,\n        Ordering::SeqCst",
        "undecided | found,\n        Ordering::Relaxed",
    ),
    (
        "filled_in_before_the_number",
        "fence(Ordering::Release);\n    for",
        "for",
    ),
    ("read_after_the_number", "fence(Ordering::Acquire);", ""),
    ("no_barrier", "platform::barrier();", ""),
    (
        "nobody_at_home_looks_again",
        "compiler_fence(Ordering::SeqCst);\n        self.user.load(Ordering::Relaxed) == me",
        "compiler_fence(Ordering::SeqCst);\n        true",
    ),
    (
        "nobody_looks_who_is_inside",
        "self.inside.load(Ordering::Acquire) == 0",
        "true",
    ),
    (
        "left_without_release",
        "self.inside.store(0, Ordering::Release);",
        "self.inside.store(0, Ordering::Relaxed);",
    ),
];
