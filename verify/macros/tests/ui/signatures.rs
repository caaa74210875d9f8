//! Attributes, signatures, results and plain functions. Attributes mean the same for every form.

// `forbid` is refused: the generated code allows lints. It may stand around the macro.
atomseq::sequence! {
    #[forbid(unused)]
    pub unsafe fn attribute_forbid(slot: Slot, a: Word) {
        commit(slot + 8, a);
    }
}

// Every form would need it, and the assembly ignores it.
atomseq::sequence! {
    #[target_feature(enable = "avx")]
    pub unsafe fn attribute_target_feature(slot: Slot, a: Word) {
        commit(slot + 8, a);
    }
}

// On a statement it would have no effect.
atomseq::sequence! {
    pub unsafe fn attribute_inside(slot: Slot, a: Word, b: Word) {
        #[cfg(debug_assertions)]
        if a == 0 { return }
        commit(slot + 8, b);
    }
}

// On a condition.
atomseq::sequence! {
    pub unsafe fn attribute_on_condition(slot: Slot, a: Word) {
        if #[cfg(any())] (a == 0) { return }
        commit(slot + 8, a);
    }
}

// On parentheses.
atomseq::sequence! {
    pub unsafe fn attribute_on_parentheses(slot: Slot, a: Word) {
        commit(slot + 8, #[cfg(any())] (a));
    }
}

// On a result.
atomseq::sequence! {
    pub unsafe fn attribute_on_result(slot: Slot, a: Word) -> Option<(Word, Word)> {
        commit(slot + 8, a);
        Some(#[cfg(any())] (a, a))
    }
}

// A sequence is a function over slots and words.

// No sequence at all.
atomseq::sequence! {}

// Not a function.
atomseq::sequence! {
    const A: usize = 1;
}

// `const`.
atomseq::sequence! {
    pub const unsafe fn constant_fn(slot: Slot, a: Word) {
        commit(slot + 8, a);
    }
}

// A generic parameter.
atomseq::sequence! {
    pub unsafe fn generic<T>(slot: Slot, a: Word) {
        commit(slot + 8, a);
    }
}

// A parameter of another type.
atomseq::sequence! {
    pub unsafe fn parameter_type(slot: Slot, a: usize) {
        commit(slot + 8, a);
    }
}

// A result of another type.
atomseq::sequence! {
    pub unsafe fn result_type(slot: Slot, a: Word, b: Word) -> u32 {
        commit(slot + 8, a);
        a
    }
}

// A result has the shape that the signature promises.

// A word is promised.
atomseq::sequence! {
    pub unsafe fn result_missing(slot: Slot, a: Word, b: Word) -> Word {
        commit(slot + 8, a);
    }
}

// Nothing is promised.
atomseq::sequence! {
    pub unsafe fn result_unpromised(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a);
        a
    }
}

// Two words are promised.
atomseq::sequence! {
    pub unsafe fn result_not_a_pair(slot: Slot, a: Word, b: Word) -> (Word, Word) {
        commit(slot + 8, a);
        a
    }
}

// `true` or `false` is promised.
atomseq::sequence! {
    pub unsafe fn result_not_bool(slot: Slot, a: Word, b: Word) -> bool {
        commit(slot + 8, a);
        a
    }
}

// An option is promised.
atomseq::sequence! {
    pub unsafe fn result_not_option(slot: Slot, a: Word, b: Word) -> Option<Word> {
        if a == 0 { return 0 }
        commit(slot + 8, a);
        Some(a)
    }
}

// A plain `fn` reaches whole words of its slot alone, so that its callers need not vouch for
// anything.

// No slot.
atomseq::sequence! {
    pub fn without_slot(a: Word, b: Word) {
        commit(a, b);
    }
}

// No form for its CPU: a slot is any address in `rolling`.
atomseq::sequence! {
    pub fn without_commit(slot: Slot, a: Word) {
        store(slot + 8, a);
    }
}

// An address from a parameter.
atomseq::sequence! {
    pub fn parameter(slot: Slot, a: Word) {
        let word = load(a);
        commit(slot + 8, word);
    }
}

// An address from a word of the slot, which any other plain `fn` may have stored.
atomseq::sequence! {
    pub fn loaded(slot: Slot, a: Word) -> Word {
        let first = load(slot + 8);
        let next = load(first);
        commit(slot + 8, next);
        first
    }
}

// A store to such an address.
atomseq::sequence! {
    pub fn prepared(slot: Slot, a: Word) {
        prepare(load(slot + 8), a);
        commit(slot + 8, a);
    }
}

// An offset that the caller chooses.
atomseq::sequence! {
    pub fn computed(slot: Slot, a: Word) {
        commit(slot + (a << 3), a);
    }
}

// Even if it is bounded.
atomseq::sequence! {
    pub fn bounded(slot: Slot, a: Word) {
        commit(slot + 8 + ((a & 7) << 3), a);
    }
}

// The difference of two addresses.
atomseq::sequence! {
    pub fn difference(slot: Slot, a: Word) {
        let zero = slot - slot;
        commit(slot + 8, load(zero + 16));
    }
}

// A `cas` elsewhere.
atomseq::sequence! {
    pub fn claimed(slot: Slot, lock: Word) -> bool {
        'abort: { return false }
        let found = cas(lock, 0, 1);
        if found != 0 { return false }
        commit(slot + 8, 0);
        true
    }
}

// A commit elsewhere.
atomseq::sequence! {
    pub fn committed(slot: Slot, a: Word) {
        let word = load(slot + 8);
        commit(a, word);
    }
}

// Half a word.
atomseq::sequence! {
    pub fn half_loaded(slot: Slot) {
        let half = load32(slot + 8);
        commit(slot + 16, half);
    }
}

// A half that is stored.
atomseq::sequence! {
    pub fn half_committed(slot: Slot, a: Word) {
        commit32(slot + 8, a);
    }
}

// A copy.
atomseq::sequence! {
    pub fn copied(slot: Slot, a: Word) {
        prepare_copy(slot + 16, slot + 32, 2);
        commit(slot + 8, a);
    }
}

// Bulk memory, which an area need not have.
atomseq::sequence! {
    pub fn bulk(slot: Slot, a: Word) {
        commit(slot + atomseq::percpu::Area::BULK, a);
    }
}

// A word behind those of the slot: refused in every sequence.
atomseq::sequence! {
    pub fn behind(slot: Slot, a: Word) {
        commit(slot + 128, a);
    }
}

// The gate.
atomseq::sequence! {
    pub fn gate(slot: Slot, a: Word) {
        commit(slot, a);
    }
}

// Its address.
atomseq::sequence! {
    pub fn returned(slot: Slot, a: Word) -> Word {
        commit(slot + 8, a);
        slot + 8
    }
}

// An attribute that may stand once.
atomseq::sequence! {
    #[inline]
    #[inline(never)]
    pub unsafe fn attribute_twice(word: Word) -> Word {
        load(word)
    }
}

fn main() {}
