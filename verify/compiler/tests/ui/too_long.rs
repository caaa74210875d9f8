//! At most 32 machine instructions.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
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

fn main() {}
