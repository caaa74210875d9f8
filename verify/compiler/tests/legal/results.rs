//! Every result.

atomseq::sequence! {
    /// Nothing.
    pub unsafe fn nothing(slot: Slot, a: Word) {
        if a == 0 { return }
        if a == 1 { return; }
        commit(slot + 8, a);
    }

    /// A word that was passed in, or a constant: no register leaves the section.
    pub unsafe fn passed(slot: Slot, a: Word) -> Word {
        if a == 0 { return 18446744073709551615 }
        commit(slot + 8, a);
        a
    }

    /// A word that was loaded.
    pub unsafe fn loaded(slot: Slot, a: Word) -> Word {
        let old = load(slot + 8);
        if old == a { return a + 1 }
        commit(slot + 8, a);
        (old)
    }

    /// Yes or no.
    pub unsafe fn flag(slot: Slot, a: Word) -> bool {
        if load(slot + 8) == a { return false }
        commit(slot + 8, a);
        true
    }

    /// Two words.
    pub unsafe fn pair(slot: Slot, a: Word) -> (Word, Word) {
        let old = load(slot + 8);
        if old == 0 { return (a, 0) }
        let sum = old + a;
        commit(slot + 8, a);
        (old, sum)
    }

    /// A word, maybe.
    pub unsafe fn option(slot: Slot, a: Word) -> Option<Word> {
        let old = load(slot + 8);
        if old == 0 { return None }
        if old == 1 { return Some(a) }
        commit(slot + 8, a);
        Some(old)
    }

    /// Two words, maybe.
    pub unsafe fn option_pair(slot: Slot, a: Word) -> Option<(Word, Word)> {
        let old = load(slot + 8);
        if old == 0 { return None }
        commit(slot + 8, a);
        Some((old, a))
    }
}

/// The types that come out.
pub fn types(area: &atomseq::percpu::Area) {
    // SAFETY: the sequences touch only the slot.
    unsafe {
        let _: Result<(), _> = nothing::on_cpu(area.slots(), 1);
        let _: Result<usize, _> = passed::on_cpu(area.slots(), 1);
        let _: Result<usize, _> = loaded::on_cpu(area.slots(), 1);
        let _: Result<bool, _> = flag::on_cpu(area.slots(), 1);
        let _: Result<(usize, usize), _> = pair::on_cpu(area.slots(), 1);
        let held = area.close_gate(0);
        let _: Option<usize> = option::gated(&held, 1);
        let _: Option<(usize, usize)> = option_pair::gated(&held, 1);
    }
}

#[test]
fn results_compiles() {
    types(&atomseq::percpu::Area::try_new(0).unwrap());
}
