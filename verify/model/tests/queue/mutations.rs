//! What models change in the source of the ring, so that they see what it does; and the ring with
//! something wrong.

/// What is there once, and what is there instead.
pub const IN_MODELS: &[(&str, &str)] = &[
    ("crate::dcas::Backoff", "crate::outside::Backoff"),
    ("crate::heap::zeros", "crate::outside::zeros"),
    // Hints of loom's must be made.
    (
        "#[derive(Debug, Default)]\nstruct End",
        "#[derive(Debug)]\nstruct End",
    ),
    // Variants may look beyond the cells.
    (
        "unsafe { self.fixed.cells.get_unchecked(self.index(place) as usize) }",
        "&self.fixed.cells[self.index(place) as usize]",
    ),
    ("tail: End::default()", "tail: End(AtomicU64::new(0))"),
    ("head: End::default()", "head: End(AtomicU64::new(0))"),
];

/// A name, what is there once in the source, and what is there instead. All of them have to be
/// found out.
pub const MUTATIONS: &[(&str, &str, &str)] = &[
    (
        "hints_are_not_acquired",
        "let place = self.hint::<DUE>().load(Ordering::Acquire);\n        match self.try_change",
        "let place = self.hint::<DUE>().load(Ordering::Relaxed);\n        match self.try_change",
    ),
    (
        "hints_are_not_released",
        ".store(self.next(place), Ordering::Release)",
        ".store(self.next(place), Ordering::Relaxed)",
    ),
    (
        "a_hint_is_early",
        ".store(self.next(place), Ordering::Release)",
        ".store(self.next(self.next(place)), Ordering::Release)",
    ),
    (
        "whoever_is_late_is_refused",
        "return if turn < due {",
        "return if turn != due {",
    ),
    (
        "an_exchange_that_fails_refuses",
        "return Tried::Passed;\n        }\n        // Release",
        "return Tried::Refused;\n        }\n        // Release",
    ),
    (
        "an_exchange_that_fails_counts",
        "return Tried::Passed;\n        }\n        // Release",
        "return Tried::Changed(old);\n        }\n        // Release",
    ),
    (
        "a_round_does_not_count",
        "_ => due + self.fixed.mask,",
        "_ => due - 1,",
    ),
    (
        "a_search_begins_a_round_ahead",
        "(turn - 1 - DUE) & !self.fixed.mask",
        "turn & !self.fixed.mask",
    ),
    (
        "a_search_goes_too_far",
        "false => limit = passed + step - 1,",
        "false => passed += step,",
    ),
    (
        "the_length_is_of_two_moments",
        "if !self.is_passed::<FULL>(head) {",
        "if true {",
    ),
];
