//! The ring with one ordering less: a name, what is there once in the source, and what is there instead.

/// All of them; each has to be found out.
pub const MUTATIONS: &[(&str, &str, &str)] = &[
    (
        "elements_are_not_released",
        "tail.0.store(tail, Ordering::Release)",
        "tail.0.store(tail, Ordering::Relaxed)",
    ),
    (
        "elements_are_not_acquired",
        "self.0.ring().tail.0.load(Ordering::Acquire)",
        "self.0.ring().tail.0.load(Ordering::Relaxed)",
    ),
    (
        "places_are_not_released",
        "head.0.store(head, Ordering::Release)",
        "head.0.store(head, Ordering::Relaxed)",
    ),
    (
        "places_are_not_acquired",
        "self.0.ring().head.0.load(Ordering::Acquire)",
        "self.0.ring().head.0.load(Ordering::Relaxed)",
    ),
];
