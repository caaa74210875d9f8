//! Mutations of rings, of the cells of queues, and of the shelves of a depot.
//!
//! A mutation is a name, a text that occurs once in the sources, and its replacement. A model must
//! detect each. The `…_IN_MODELS` lists only reduce the number of steps.

// ring: the changes for all models, so that loom sees the ring's accesses; and the mutations.

/// A text that occurs once, and its replacement.
pub const RING_IN_MODELS: &[(&str, &str)] = &[
    ("std::cell::UnsafeCell", "crate::sync::UnsafeCell"),
    ("std::sync::Arc", "crate::sync::Arc"),
    // loom's cells must be constructed one by one. No element is 0.
    (
        "unsafe { places.set_len(count) };",
        "places.resize_with(count, || UnsafeCell::new(MaybeUninit::zeroed()));",
    ),
    // A copy accesses each of the cells.
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
    // A failed model may leave any state behind.
    (
        "drops::each(|| consumer.pop().is_some());",
        "if !std::thread::panicking() { drops::each(|| consumer.pop().is_some()) }",
    ),
];

/// A name, a text that occurs once in the source, and its replacement. Each must be detected.
pub const RING: &[(&str, &str, &str)] = &[
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
    // The position of batches.
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
    // Batches that are pushed.
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
    // Batches that are popped.
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

// queue: the changes for all models, so that loom sees the ring's accesses; and the mutations.

/// A text that occurs once, and its replacement.
pub const QUEUE_IN_MODELS: &[(&str, &str)] = &[
    (
        "crate::dcas::{Backoff, Patience}",
        "crate::outside::{Backoff, Patience}",
    ),
    ("crate::heap::zeros", "crate::outside::zeros"),
    // loom's atomic hints must be constructed.
    (
        "#[derive(Debug, Default)]\nstruct End",
        "#[derive(Debug)]\nstruct End",
    ),
    // Variants may index beyond the cells.
    (
        "unsafe { self.fixed.cells.get_unchecked(self.index(place) as usize) }",
        "&self.fixed.cells[self.index(place) as usize]",
    ),
    (
        "tail: End::default()",
        "tail: End { hint: AtomicU64::new(0), patience: Patience }",
    ),
    (
        "head: End::default()",
        "head: End { hint: AtomicU64::new(0), patience: Patience }",
    ),
];

/// A name, a text that occurs once in the source, and its replacement. Each must be detected.
pub const QUEUE: &[(&str, &str, &str)] = &[
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

// linked_queue: the source in models, and mutations of it.

/// Changes of the source for models.
pub const LINKED_QUEUE_IN_MODELS: &[(&str, &str)] = &[
    ("std::cell::UnsafeCell", "crate::sync::UnsafeCell"),
    (
        "crate::dcas::{Adjacent, Backoff}",
        "crate::outside::{Adjacent, Backoff}",
    ),
    ("const CELLS: u64 = 32;", "const CELLS: u64 = 2;"),
    ("const PATIENCE: usize = 64;", "const PATIENCE: usize = 0;"),
    ("    _room: [AtomicU64; 6],\n", ""),
    // loom's atomics must be constructed. All of them are zero at first.
    (
        "unsafe impl<T: Send> Descriptor for Segment<T> {}",
        "impl<T: Send + 'static> Descriptor for Segment<T> {
            fn zeros() -> Self {
                let zero = || AtomicU64::new(0);
                let cell = || Cell { state: zero(), value: UnsafeCell::new(MaybeUninit::uninit()) };
                Segment { number: zero(), next: zero(), cells: [cell(), cell()], through: zero() }
            }
        }",
    ),
    (
        "pub(super) struct Segments<T: Send> {",
        "pub struct Segments<T: Send + 'static> {",
    ),
    (
        "impl<T: Send> Segments<T> {",
        "impl<T: Send + 'static> Segments<T> {",
    ),
];

/// A name, a text that occurs once in the source, and its replacement. Each must be detected.
pub const LINKED_QUEUE: &[(&str, &str, &str)] = &[
    (
        "changes_are_not_ordered",
        "word.compare_exchange(expected, new, Ordering::SeqCst, Ordering::Relaxed)",
        "word.compare_exchange(expected, new, Ordering::Relaxed, Ordering::Relaxed)",
    ),
    (
        "claims_are_not_atomic",
        "before < claimed && exchange(state, before, claimed)",
        "before < claimed && { state.store(claimed, Ordering::SeqCst); true }",
    ),
    (
        "a_push_that_was_revoked_counts",
        "if exchange(&cell.state, 4 * number + CLAIMED, 4 * number + FULL) {",
        "exchange(&cell.state, 4 * number + CLAIMED, 4 * number + FULL); if true {",
    ),
    (
        "a_push_does_not_look_whether_it_was_revoked",
        "if exchange(&cell.state, 4 * number + CLAIMED, 4 * number + FULL) {",
        "cell.state.store(4 * number + FULL, Ordering::SeqCst); if true {",
    ),
    (
        "a_pop_that_lost_counts",
        "if !exchange(&cell.state, full, full - FULL + OVER) {",
        "exchange(&cell.state, full, full - FULL + OVER); if false {",
    ),
    (
        "an_overtaken_claim_hides_what_follows",
        "if state != 4 * number + CLAIMED {\n                return false;",
        "if false {\n                return false;",
    ),
    (
        "a_claim_that_was_filled_is_passed",
        "match state.load(Ordering::SeqCst) == 4 * number + FULL {",
        "match false {",
    ),
    (
        "the_length_counts_no_claims",
        "if state.load(Ordering::SeqCst) == 4 * number + CLAIMED {",
        "if false {",
    ),
    (
        "the_length_is_of_two_moments",
        "is_there.then_some(count)",
        "let _ = is_there; Some(count)",
    ),
    (
        "a_segment_is_reused_while_it_is_used",
        "Ordering::AcqRel) + 1 == CELLS + 2",
        "Ordering::AcqRel) + 1 == CELLS + 1",
    ),
    (
        "the_last_use_is_not_released",
        "fetch_add(1, Ordering::AcqRel)",
        "fetch_add(1, Ordering::Acquire)",
    ),
    (
        "the_last_use_is_not_acquired",
        "fetch_add(1, Ordering::AcqRel)",
        "fetch_add(1, Ordering::Release)",
    ),
    (
        "a_hint_is_early",
        "self.hint.store(place + 1, Ordering::Release)",
        "self.hint.store(place + 2, Ordering::Release)",
    ),
    (
        "a_number_is_of_no_segment",
        "if segment.number.load(Ordering::Acquire) == 2 * number {",
        "if true {",
    ),
    (
        "two_segments_follow",
        "if exchange(&segment.next, link, address(&*new)) {",
        "segment.next.store(address(&*new), Ordering::SeqCst); if true {",
    ),
];

// depot: mutations of the shelf.

/// A name, a text that occurs once in the source, and its replacement. Each must be detected.
pub const DEPOT: &[(&str, &str, &str)] = &[
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
