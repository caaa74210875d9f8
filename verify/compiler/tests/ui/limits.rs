//! A sequence fits between two interruptions and into the registers.

// At most 32 machine instructions.
atomseq::sequence! {
    pub unsafe fn too_long(slot: Slot, a: Word, b: Word) {
        prepare(a + 0, b);
        prepare(a + 8, b);
        prepare(a + 16, b);
        prepare(a + 24, b);
        prepare(a + 32, b);
        prepare(a + 40, b);
        prepare(a + 48, b);
        prepare(a + 56, b);
        prepare(a + 64, b);
        prepare(a + 72, b);
        prepare(a + 80, b);
        prepare(a + 88, b);
        prepare(a + 96, b);
        prepare(a + 104, b);
        prepare(a + 112, b);
        prepare(a + 120, b);
        prepare(a + 128, b);
        prepare(a + 136, b);
        prepare(a + 144, b);
        prepare(a + 152, b);
        prepare(a + 160, b);
        prepare(a + 168, b);
        prepare(a + 176, b);
        prepare(a + 184, b);
        prepare(a + 192, b);
        prepare(a + 200, b);
        prepare(a + 208, b);
        prepare(a + 216, b);
        prepare(a + 224, b);
        prepare(a + 232, b);
        commit(slot + 8, a);
    }
}

// No more words at once than registers.
atomseq::sequence! {
    pub unsafe fn too_many_words(slot: Slot, a: Word, b: Word) {
        let w0 = load(a + 0);
        let w1 = load(a + 8);
        let w2 = load(a + 16);
        let w3 = load(a + 24);
        let w4 = load(a + 32);
        let w5 = load(a + 40);
        let w6 = load(a + 48);
        let w7 = load(a + 56);
        let w8 = load(a + 64);
        let w9 = load(a + 72);
        let w10 = load(a + 80);
        let w11 = load(a + 88);
        let w12 = load(a + 96);
        prepare(b + 0, w0);
        prepare(b + 8, w1);
        prepare(b + 16, w2);
        prepare(b + 24, w3);
        prepare(b + 32, w4);
        prepare(b + 40, w5);
        prepare(b + 48, w6);
        prepare(b + 56, w7);
        prepare(b + 64, w8);
        prepare(b + 72, w9);
        prepare(b + 80, w10);
        prepare(b + 88, w11);
        commit(slot + 8, w12);
    }
}

fn main() {}
