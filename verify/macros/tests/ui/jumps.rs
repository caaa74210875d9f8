//! Jumps, conditions, early returns. A sequence jumps forward only, so that it always ends.

// `loop`.
atomseq::sequence! {
    pub unsafe fn backward_loop(slot: Slot, a: Word, b: Word) {
        loop {
            commit(slot + 8, a);
        }
    }
}

// `while`.
atomseq::sequence! {
    pub unsafe fn backward_while(slot: Slot, a: Word, b: Word) {
        while a == b {
            prepare(a, b);
        }
        commit(slot + 8, a);
    }
}

// `for`.
atomseq::sequence! {
    pub unsafe fn backward_for(slot: Slot, a: Word, b: Word) {
        for i in 0..a {
            prepare(i, b);
        }
        commit(slot + 8, a);
    }
}

// `continue`.
atomseq::sequence! {
    pub unsafe fn backward_continue(slot: Slot, a: Word, b: Word) {
        if a == b { continue }
        commit(slot + 8, a);
    }
}

// A condition is one comparison that depends on a word; only `if … { return … }` branches.

// Two comparisons.
atomseq::sequence! {
    pub unsafe fn condition_and(slot: Slot, a: Word, b: Word) {
        if a == 0 && b == 0 { return }
        commit(slot + 8, a);
    }
}

// A word is no condition.
atomseq::sequence! {
    pub unsafe fn condition_no_comparison(slot: Slot, a: Word, b: Word) {
        if a & 1 { return }
        commit(slot + 8, a);
    }
}

// A condition that never changes.
atomseq::sequence! {
    pub unsafe fn condition_constant(slot: Slot, a: Word, b: Word) {
        if 1 == 2 { return }
        commit(slot + 8, a);
    }
}

// An `if` as a word.
atomseq::sequence! {
    pub unsafe fn branch_as_value(slot: Slot, a: Word, b: Word) {
        let larger = if a < b { b } else { a };
        commit(slot + 8, larger);
    }
}

// `match`.
atomseq::sequence! {
    pub unsafe fn match_on_word(slot: Slot, a: Word, b: Word) {
        match a {
            _ => commit(slot + 8, a),
        }
    }
}

// An `if` holds one `return`, before it at most the commit. What it returns is computed before the
// `if`, so it neither loads nor claims.

// An `else`.
atomseq::sequence! {
    pub unsafe fn branch_else(slot: Slot, a: Word, b: Word) -> Word {
        if a == b { return 0 } else { return 1 }
        commit(slot + 8, a);
        a
    }
}

// A store before the `return`.
atomseq::sequence! {
    pub unsafe fn branch_two_statements(slot: Slot, a: Word, b: Word) {
        if a == b {
            prepare(slot + 16, a);
            return
        }
        commit(slot + 8, a);
    }
}

// No `return`.
atomseq::sequence! {
    pub unsafe fn branch_without_return(slot: Slot, a: Word, b: Word) {
        if a == b { prepare(slot + 16, a); }
        commit(slot + 8, a);
    }
}

// The commit depends on the condition.
atomseq::sequence! {
    pub unsafe fn conditional_commit(slot: Slot, a: Word) {
        if a > load(slot + 8) { commit(slot + 8, a); }
    }
}

// So does more than the commit.
atomseq::sequence! {
    pub unsafe fn conditional_prepare(slot: Slot, a: Word) {
        if a > load(slot + 8) {
            prepare(slot + 16, a);
            commit(slot + 8, a);
        }
    }
}

// A `return` without an `if`.
atomseq::sequence! {
    pub unsafe fn return_outside_if(slot: Slot, a: Word, b: Word) -> Word {
        commit(slot + 8, a);
        return a;
    }
}

// The load would happen whether or not the branch is taken.
atomseq::sequence! {
    pub unsafe fn load_in_early_return(slot: Slot, a: Word, b: Word) -> Word {
        if a != 0 { return load(a) }
        commit(slot + 8, b);
        b
    }
}

// So would the claim.
atomseq::sequence! {
    pub unsafe fn cas_in_early_return(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        if word == 0 { return cas(lock, 0, 1) }
        commit(lock, 0);
        0
    }
}

fn main() {}
