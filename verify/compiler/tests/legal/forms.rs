//! Every type of result, and the forms against signal handlers.

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

atomseq::sequence! {
    /// Restarted or rolled forward.
    pub unsafe fn take(list: Word) -> Option<Word> {
        let first = load(list);
        if first == 0 { return None }
        let next = load(first);
        commit(list, next);
        Some(first)
    }

    /// Rolled forward only: early returns may follow visible stores, and loads see them.
    pub unsafe fn several(a: Word, b: Word, limit: Word) -> (Word, Word) {
        let old = load(a);
        store(a, old + 1);
        if old >= limit { return (old, 0) }
        store32(b, old);
        let seen = load32(b);
        store(b + 8, seen + 1);
        (old, seen + 2)
    }

    /// Sees two words of one time.
    pub unsafe fn both(a: Word, b: Word) -> (Word, Word) {
        (load(a), load(b))
    }

    /// M94's first program.
    pub unsafe fn null() {}

    /// A slot is a plain address.
    pub unsafe fn add(slot: Slot, amount: Word) {
        commit(slot + 8, load(slot + 8) + amount);
    }
}

#[test]
fn signal_compiles() {
    let (mut words, mut halves, mut slot) = ([1usize, 2], [0usize; 2], [0usize, 5]);
    let at = |word: &mut usize| &raw mut *word as usize;
    let first = at(&mut words[0]);
    let mut list = first;
    // SAFETY: words of this thread alone, and the list is one link that holds zero or the next.
    unsafe {
        null::rolling();
        assert_eq!(take::restarting(at(&mut list)), Some(first));
        list = 0;
        assert_eq!(take::rolling(at(&mut list)), None);
        assert_eq!(take::unprotected(at(&mut list)), None);
        assert_eq!(both::rolling(first, first + 8), (1, 2));
        assert_eq!(several::rolling(first, at(&mut halves[0]), 9), (1, 3));
        assert_eq!((words, halves), ([2, 2], [1, 2]));
        add::restarting(at(&mut slot[0]), 2);
        add::rolling(at(&mut slot[0]), 3);
        assert_eq!(slot, [0, 10]);
    }
}
