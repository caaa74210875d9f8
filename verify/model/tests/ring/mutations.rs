//! What models change in the source of the ring, so that they see what it does; and the ring with one ordering less.

/// What is there once, and what is there instead.
pub const IN_MODELS: &[(&str, &str)] = &[
    ("std::cell::UnsafeCell", "crate::sync::UnsafeCell"),
    ("std::sync::Arc", "crate::sync::Arc"),
    // Cells of loom's must be made, one by one. No element is 0.
    (
        "unsafe { places.set_len(count) };",
        "places.resize_with(count, || UnsafeCell::new(MaybeUninit::zeroed()));",
    ),
    // Whoever copies uses each of the places.
    (
        "let start = UnsafeCell::raw_get(places.as_ptr()).cast::<T>();
        start.copy_from_nonoverlapping(from, places.len());",
        "for (number, place) in places.iter().enumerate() {
            (*place.get()).write(from.add(number).read());
        }",
    ),
    (
        "let start = UnsafeCell::raw_get(places.as_ptr()).cast::<T>();
        into.copy_from_nonoverlapping(start, places.len());",
        "for (number, place) in places.iter().enumerate() {
            into.add(number).write((*place.get()).assume_init_read());
        }",
    ),
    // What a model that has failed leaves behind may be anything.
    (
        "self.split().1.drain().for_each(drop);",
        "if !std::thread::panicking() { self.split().1.drain().for_each(drop) }",
    ),
];

/// A name, what is there once in the source, and what is there instead. All of them have to be found out.
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
