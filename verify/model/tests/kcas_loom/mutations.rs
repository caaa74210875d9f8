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
    (
        "homes_of_the_living_are_taken",
        "platform::has_ended(user)",
        "true",
    ),
    (
        "moved_out_without_release",
        "let (success, failure) = (Ordering::AcqRel, ",
        "let (success, failure) = (Ordering::Relaxed, ",
    ),
    (
        "two_move_in",
        "self.user\n            .compare_exchange(from, to, success, failure)\n            .is_ok()",
        "{ self.user.store(to, success); true }",
    ),
    (
        "asked_about_an_earlier_thread",
        "self.user.load(Ordering::Acquire)",
        "self.user.load(Ordering::Relaxed)",
    ),
    (
        "nobody_counts_who_moves_in",
        "before.wrapping_add(MOVE)",
        "before",
    ),
];
