//! The CPU's number, with a slot and without one.

atomseq::sequence! {
    /// With a slot: the number of the slot.
    pub unsafe fn with_slot(slot: Slot) -> Word {
        let own = cpu();
        commit(slot + 8, own);
        own
    }

    /// Without a slot, compared: nobody else on this CPU comes in between.
    pub unsafe fn compared(word: Word, home: Word) -> bool {
        if cpu() != home { return false }
        commit(word, 1);
        true
    }

    /// Without a slot, as an index.
    pub unsafe fn indexed(words: Word) -> Word {
        let own = words + (cpu() << 6);
        let old = load(own);
        commit(own, old + 1);
        old
    }
}

#[test]
fn cpu_compiles() {
    assert!(atomseq::status().reason().is_none() || !atomseq::status().is_active());
    let mut word = 0usize;
    // SAFETY: `word` is this thread's alone.
    let here = unsafe { compared::on_cpu((&raw mut word) as usize, usize::MAX - 7) };
    assert!(matches!(here, Ok(false) | Err(_)));
    assert_eq!(word, 0);
    let _ = (with_slot::MODEL, indexed::MODEL);
}
