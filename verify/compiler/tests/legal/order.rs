//! The arguments of one statement are evaluated from left to right, so that a `load_acquire` orders
//! the loads that are written after it.

use atomseq::sequence::model::{Program, Step};

atomseq::sequence! {
    /// Stores that are prepared, a copy, and a commit.
    pub unsafe fn prepared(slot: Slot, a: Word) {
        prepare(load(a), load(a + 8));
        prepare32(load(a + 16), load(a + 24));
        prepare_copy(load(a + 32), load(a + 40), load(a + 48));
        commit(load_acquire(a + 56), load(a + 64));
    }

    /// A commit of half a word.
    pub unsafe fn halved(slot: Slot, a: Word) { commit32(load(a), load32(a + 8)); }

    /// A commit that releases.
    pub unsafe fn released(slot: Slot, a: Word) { commit_release(load(a), load(a + 8)); }

    /// Visible stores.
    pub unsafe fn stored(a: Word) {
        store(load(a), load(a + 8));
        store32(load(a + 16), load(a + 24));
    }

    /// A compare-and-swap.
    pub unsafe fn exchanged(slot: Slot, a: Word) -> bool {
        'abort: { return false }
        let found = cas(load(a), 1, load(a + 8));
        if found != 1 { return false }
        store(load(a + 16), load(a + 24));
        commit(slot + 8, 0);
        true
    }

    /// What has a value: a comparison, operators, a result.
    pub unsafe fn computed(a: Word) -> (Word, Word) {
        if load(a) < load(a + 8) { return (0, 0) }
        let least = min(load(a + 16), load(a + 24) - load(a + 32));
        (least + load(a + 40), load(a + 48) ^ least)
    }
}

/// The offsets of what a model loads from its parameter `a`, in order.
fn offsets(model: &Program, a: usize) -> Vec<usize> {
    let loads = model.steps.iter().filter_map(|step| match step {
        Step::Load { from, .. } if from.base == a => Some(from.offset),
        _ => None,
    });
    loads.collect()
}

/// Every statement with several arguments, once: 9 of them, in 6 sequences.
#[test]
fn loads_of_a_statement_stand_in_the_order_of_its_text() {
    for (model, a, loads) in [
        (prepared::MODEL, 1, 9),
        (halved::MODEL, 1, 2),
        (released::MODEL, 1, 2),
        (stored::MODEL, 0, 4),
        (exchanged::MODEL, 1, 4),
        (computed::MODEL, 0, 7),
    ] {
        let textual: Vec<usize> = (0..loads).map(|index| 8 * index).collect();
        assert_eq!(offsets(&model, a), textual, "{}", model.name);
    }
}
