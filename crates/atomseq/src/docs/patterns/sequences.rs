// The sequences of the page cache that `docs::patterns` builds.

use atomseq::percpu::Area;

/// The one word of a slot: how many pages the CPU holds, times 65,536, plus the first page.
const HEAD: usize = Area::FIRST_WORD;
/// The part of it that is a page's number; page 0 stands for "none".
const PAGE: usize = 0xffff;
/// The size of a link.
const LINK: usize = size_of::<usize>();

atomseq::sequence! {
    /// Puts a page first.
    unsafe fn release(slot: Slot, links: Word, page: Word) {
        let head = load(slot + HEAD);
        prepare(links + page * LINK, head & PAGE);
        commit(slot + HEAD, (((head >> 16) + 1) << 16) | page);
    }

    /// Takes the first page.
    unsafe fn take(slot: Slot, links: Word) -> Option<Word> {
        let head = load(slot + HEAD);
        let first = head & PAGE;
        if first == 0 { return None }
        let next = load(links + first * LINK);
        commit(slot + HEAD, (((head >> 16) - 1) << 16) | next);
        Some(first)
    }

    /// Takes all pages: returns the word as it was.
    fn take_all(slot: Slot) -> Word {
        let head = load(slot + HEAD);
        commit(slot + HEAD, 0);
        head
    }
}
