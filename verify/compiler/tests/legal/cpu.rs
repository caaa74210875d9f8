//! Sequences for one CPU: its number, with a slot and without one; and claims by a
//! compare-and-swap, with visible stores, early returns that release the claim, an abort block.

const FREE: usize = 0;
const HELD: usize = 1;

atomseq::sequence! {
    /// With a slot: the number of the slot.
    pub unsafe fn with_slot(slot: Slot) -> Word {
        let own = cpu();
        commit(slot + 8, own);
        own
    }

    /// Without a slot, compared: nothing else on this CPU interferes.
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

atomseq::sequence! {
    /// Without a slot; the words of an interrupted attempt are parameters and constants.
    pub unsafe fn swap(lock: Word, a: Word, b: Word, least: Word) -> Option<(Word, Word)> {
        'abort: { return Some((lock, HELD)) }
        if cpu() > 0xffff { return None }
        let found = cas(lock, FREE, HELD);
        if found != FREE { return None }
        let first = load(a);
        if first < least { commit_release(lock, FREE); return Some((first, least)) }
        let second = load(b);
        if second < least { commit_release(lock, FREE); return Some((second, least)) }
        store(a, second);
        store32(b, first);
        commit_release(lock, FREE);
        Some((second, first))
    }

    /// With a slot: under its gate as well.
    pub unsafe fn count(slot: Slot, lock: Word) -> Word {
        'abort: { return 3 }
        let before = load(lock);
        let found = cas(lock, before, before + 1);
        if before != found { return found }
        store(slot + 8, before);
        store32(slot + 20, load(slot + 8));
        commit32(slot + 16, 7);
        before
    }
}

#[test]
fn claims_compiles() {
    let (mut lock, mut a, mut b) = (0usize, 5usize, 6usize);
    let address = |word: &mut usize| &raw mut *word as usize;
    let words = [&mut lock, &mut a, &mut b].map(address);
    // SAFETY: the words are this thread's own, and no other thread has their addresses.
    let swap = |least| unsafe { swap::on_cpu(words[0], words[1], words[2], least) };
    let results = [swap(6), swap(5)];
    // Unless it was interrupted, or there are no sections.
    if let [Ok(Some((5, 6))), Ok(Some((6, 5)))] = results {
        assert_eq!((lock, a, b), (0, 6, 5));
    }
    assert!(swap::MODEL.abort.is_some() && swap::MODEL.by_commit == [2, 3]);
    assert!(count::MODEL.by_commit.is_empty());
}
