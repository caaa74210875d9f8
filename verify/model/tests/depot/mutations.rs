//! The shelf with something wrong.

/// A name, what is there once in the source, and what is there instead. All of them have to be
/// found out.
pub const MUTATIONS: &[(&str, &str, &str)] = &[
    (
        "whoever_tries_has_claimed",
        "if before & 1 << cell != 0",
        "if true",
    ),
    (
        "claims_are_not_atomic",
        "let before = word.fetch_and(!(1 << cell), Ordering::Acquire);",
        "let before = word.load(Ordering::Acquire); word.store(before & !(1 << cell), Ordering::Relaxed);",
    ),
    (
        "claims_acquire_nothing",
        "fetch_and(!(1 << cell), Ordering::Acquire)",
        "fetch_and(!(1 << cell), Ordering::Relaxed)",
    ),
    (
        "what_was_filled_is_not_released",
        "self.full.fetch_or(1 << cell, Ordering::Release)",
        "self.full.fetch_or(1 << cell, Ordering::Relaxed)",
    ),
    (
        "what_was_emptied_is_not_released",
        "self.free.fetch_or(1 << cell, Ordering::Release)",
        "self.free.fetch_or(1 << cell, Ordering::Relaxed)",
    ),
    (
        "cells_are_full_before_they_are_filled",
        "fill(cell);",
        "self.full.fetch_or(1 << cell, Ordering::Release); fill(cell);",
    ),
    (
        "cells_are_free_before_they_are_emptied",
        "let taken = empty(cell);",
        "self.free.fetch_or(1 << cell, Ordering::Release); let taken = empty(cell);",
    ),
    (
        "filled_cells_stay_free",
        "self.full.fetch_or(1 << cell, Ordering::Release)",
        "self.free.fetch_or(1 << cell, Ordering::Release); self.full.fetch_or(1 << cell, Ordering::Release)",
    ),
];
