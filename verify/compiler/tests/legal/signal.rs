//! The forms against signal handlers.

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
