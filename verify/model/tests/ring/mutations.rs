//! What models change in the source of the ring, so that they see what it does; and the ring with
//! something wrong.

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
        "drops::each(|| consumer.pop().is_some());",
        "if !std::thread::panicking() { drops::each(|| consumer.pop().is_some()) }",
    ),
];

/// A name, what is there once in the source, and what is there instead. All of them have to be
/// found out.
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
    // Where batches lie.
    (
        "batches_begin_at_the_first_place",
        "&self.places[position & self.mask()..]",
        "&self.places[..]",
    ),
    (
        "batches_go_around_at_the_capacity",
        "from_there.len().min(count)",
        "self.capacity.saturating_sub(position & self.mask()).min(count)",
    ),
    (
        "batches_do_not_go_around",
        "&self.places[..count - to_the_end]",
        "&self.places[..0]",
    ),
    // Batches that go in.
    (
        "a_batch_looks_for_room_for_one",
        "self.room_for(count)",
        "self.room_for(1)",
    ),
    (
        "more_is_put_in_than_fits",
        "self.room_for(count).min(count)",
        "count",
    ),
    (
        "a_batch_is_seen_before_it_is_there",
        "fill(first, from);",
        "let tail = self.0.tail.wrapping_add(pushed);
         self.0.ring().tail.0.store(tail, Ordering::Release);
         fill(first, from);",
    ),
    (
        "the_beginning_goes_in_twice",
        "fill(rest, from.add(first.len()))",
        "fill(rest, from)",
    ),
    (
        "one_of_a_batch_is_seen",
        "self.advance(pushed)",
        "self.advance(pushed.min(1))",
    ),
    (
        "the_rest_of_a_vector_does_not_move_up",
        "std::ptr::copy(start.add(pushed), start, rest)",
        "std::ptr::copy(start, start, rest)",
    ),
    (
        "a_vector_keeps_what_went_in",
        "elements.set_len(rest)",
        "elements.set_len(rest + pushed)",
    ),
    // Batches that come out.
    (
        "a_batch_looks_for_one_element",
        "self.there(count)",
        "self.there(1)",
    ),
    (
        "more_is_taken_out_than_is_there",
        "self.there(count).min(count)",
        "count",
    ),
    (
        "places_are_given_back_before_they_are_read",
        "empty(first, into);",
        "let head = self.0.head.wrapping_add(popped);
         self.0.ring().head.0.store(head, Ordering::Release);
         empty(first, into);",
    ),
    (
        "the_rest_overwrites_the_beginning",
        "empty(rest, into.add(first.len()))",
        "empty(rest, into)",
    ),
    (
        "one_of_a_batch_is_taken_out",
        "self.advance(popped)",
        "self.advance(popped.min(1))",
    ),
    (
        "a_vector_forgets_what_it_held",
        "elements.len() + popped",
        "popped",
    ),
];
