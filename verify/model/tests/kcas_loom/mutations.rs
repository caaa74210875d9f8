//! k-CAS with an ordering that is too weak, and homes with one protection less: a name, what is
//! there once in the sources, and what is there instead.

/// All of them; each has to be found out. A version that is taken without release is not among
/// them: helpers would follow addresses that were never filled in.
pub const MUTATIONS: &[(&str, &str, &str)] = &[
    (
        "the_version_is_read_without_acquire",
        "let content = version.load(Ordering::Acquire);",
        "let content = version.load(Ordering::Relaxed);",
    ),
    (
        "words_are_read_without_acquire",
        "let content = word.load(Ordering::Acquire);\n        if content & MARK == 0 {",
        "let content = word.load(Ordering::Relaxed);\n        if content & MARK == 0 {",
    ),
    (
        "readers_do_not_look_again",
        "Some(value) if word.load(Ordering::Relaxed) == content => return value,",
        "Some(value) => return value,",
    ),
    (
        "owners_put_references_in_without_release",
        "own.word(), Ordering::AcqRel, Ordering::Acquire)",
        "own.word(), Ordering::Acquire, Ordering::Acquire)",
    ),
    (
        "over_without_release",
        "status.store(over, Ordering::Release)",
        "status.store(over, Ordering::Relaxed)",
    ),
    (
        "over_without_acquire",
        "blocks::at(self.index).status.load(Ordering::Acquire)",
        "blocks::at(self.index).status.load(Ordering::Relaxed)",
    ),
    (
        "the_version_moves_on_without_release",
        "let (ended, is_ended) = (Ordering::Release,",
        "let (ended, is_ended) = (Ordering::Relaxed,",
    ),
    (
        "filled_in_before_the_number",
        "fence(Ordering::Release);\n    let of_version",
        "let of_version",
    ),
    (
        "read_after_the_number",
        "fence(Ordering::Acquire);\n    let sequence",
        "let sequence",
    ),
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
    (
        "old_values_are_read_without_acquire",
        "if version.load(Ordering::Acquire) != number {",
        "if version.load(Ordering::Relaxed) != number {",
    ),
];
