//! A sequence jumps forward only, so that it always ends.

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

fn main() {}
