//! Names that the generated code uses as well, and names that need a raw identifier.

atomseq::sequence! {
    /// Parameters.
    pub unsafe fn parameters(
        slot: Slot, status: Word, restarts: Word, t0: Word, stride: Word, r#in: Word,
    ) -> Word {
        let rseq = load(slot + 8);
        let held = status + restarts + t0;
        let on_cpu = stride + r#in;
        if rseq == held { return on_cpu }
        commit(slot + 8, on_cpu);
        rseq
    }

    /// Parameters of a sequence that returns no loaded word.
    pub unsafe fn labels(slot: Slot, closed: Word, aborted: Word, exit0: Word, a0: Word, r1: Word) -> Word {
        if closed == aborted { return exit0 }
        commit(slot + 8, a0 + r1);
        r1
    }

    /// The operations' own names.
    pub unsafe fn load(slot: Slot, load: Word, commit: Word, min: Word, cpu: Word) -> Word {
        let load32 = load(load);
        let store = min(min, cpu);
        commit(slot + 8, commit + store);
        load32
    }

    /// A keyword.
    pub unsafe fn r#type(slot: Slot, r#loop: Word) {
        let r#fn = r#loop + 1;
        commit(slot + 8, r#fn);
    }

    /// A form's name.
    pub unsafe fn on_cpu(slot: Slot, word: Word) { commit(slot + 8, word) }

    /// A parameter that is not used.
    pub unsafe fn again(slot: Slot, word: Word) { commit(slot + 8, 1) }

    /// A type's name.
    pub unsafe fn Option(slot: Slot, word: Word) -> Option<Word> { commit(slot + 8, word); Some(word) }
}

#[test]
fn names_compiles() {
    let _ = (
        parameters::MODEL,
        labels::MODEL,
        load::MODEL,
        r#type::MODEL,
        on_cpu::MODEL,
        again::MODEL,
        Option::MODEL,
    );
}
