//! What a careful crate makes of `sequence!`: every lint of rustc and clippy is on, looks at the
//! generated code, and must report nothing. Running clippy over this crate is the test.
#![deny(warnings, unused, nonstandard_style, rust_2018_idioms)]
#![deny(missing_docs, unreachable_pub, unsafe_op_in_unsafe_fn)]
#![deny(
    trivial_casts,
    trivial_numeric_casts,
    unused_qualifications,
    unused_results
)]
#![deny(
    elided_lifetimes_in_paths,
    let_underscore_drop,
    unused_lifetimes,
    single_use_lifetimes
)]
#![deny(
    variant_size_differences,
    missing_copy_implementations,
    missing_debug_implementations
)]
#![deny(
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    clippy::cargo_common_metadata
)]
#![deny(
    clippy::undocumented_unsafe_blocks,
    clippy::missing_docs_in_private_items
)]

/// A constant that needs no cast.
pub const OFFSET: usize = 16;

/// A constant that does.
pub const SMALL: u8 = 3;

atomseq::sequence! {
    #[expect(missing_docs, reason = "the lint finds the type, and nothing else")]
    pub unsafe fn undocumented(slot: Slot, word: Word) { commit(slot + 8, word) }

    /// Returns in every way, without a word in a register.
    pub unsafe fn passes(slot: Slot, value: Word, other: Word) -> Option<(Word, Word)> {
        if load(slot + OFFSET) == SMALL { return None }
        if value < other { return Some((value, OFFSET)) }
        prepare_copy(slot + 32, slot + 64, 2);
        commit(slot + OFFSET + 8, value + SMALL);
        Some((other, 5))
    }

    /// Many parameters, not all used, and results in registers.
    pub unsafe fn many(
        slot: Slot, first: Word, second: Word, third: Word, fourth: Word, fifth: Word,
        sixth: Word, unused: Word,
    ) -> (Word, Word) {
        let old = load(slot + OFFSET);
        if old == 0xffff_ffff_ffff { return (old, first) }
        let mixed = (first ^ second) | (min(third, 9) << SMALL);
        prepare32(slot + 24, mixed);
        commit_release(slot + OFFSET, mixed);
        (old, mixed)
    }

    /// Safe for its callers.
    pub fn counted(slot: Slot, amount: Word) -> Word {
        let old = load(slot + OFFSET);
        commit(slot + OFFSET, max(old, !amount) + SMALL);
        old
    }

    /// Nothing is returned, nothing is passed.
    pub(crate) unsafe fn nothing(slot: Slot) { commit32(slot + 8, 1) }

    /// The CPU alone.
    pub unsafe fn compared(word: Word, home: Word) -> bool {
        if cpu() != home { return false }
        commit(word, 1);
        true
    }

    /// Against signal handlers, restarted.
    pub unsafe fn taken(list: Word) -> Option<(Word, Word)> {
        let first = load(list);
        if first == 0 { return None }
        let next = load(first);
        commit(list, next);
        Some((first, SMALL))
    }

    /// Against signal handlers, rolled forward; a parameter is not used.
    pub unsafe fn stored(slot: Slot, word: Word, unused: Word) -> bool {
        store(slot + OFFSET, word);
        if load(word) == SMALL { return false }
        store32(word, word + SMALL);
        true
    }
}

atomseq::sequence! {
    /// Claims, stores, and releases.
    pub unsafe fn claimed(slot: Slot, lock: Word, word: Word) -> Option<(Word, Word)> {
        'abort: { return Some((lock, SMALL)) }
        let found = cas(lock, SMALL, OFFSET);
        if found != SMALL { return None }
        let old = load(slot + OFFSET);
        if old == 0 { commit_release(lock, SMALL); return None }
        store(word, old);
        commit_release(lock, SMALL);
        Some((old, found))
    }
}

/// Uses them as a careful crate would.
#[must_use]
pub const fn names() -> [&'static str; 8] {
    [
        passes::MODEL.name,
        many::MODEL.name,
        counted::MODEL.name,
        nothing::MODEL.name,
        compared::MODEL.name,
        taken::MODEL.name,
        stored::MODEL.name,
        claimed::MODEL.name,
    ]
}
