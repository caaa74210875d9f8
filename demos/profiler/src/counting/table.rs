//! One open-addressing table of texts and their counts: its memory, and the search in it.
//! [`counts`](super::counts) says what threads may do with it at the same time.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::text::Text;

/// The head of a table, as large as two entries.
#[repr(C)]
struct Header {
    /// The number of entries, a power of two, less one.
    mask: usize,
    /// The number of occupied entries, or a few less: a thread that is moved to another CPU right
    /// after it claimed an entry does not count it.
    used: AtomicUsize,
    /// The address of the table that this one replaced, or 0.
    previous: usize,
    _padding: usize,
}

#[repr(C)]
pub struct Entry {
    pub text: AtomicUsize,
    pub count: AtomicUsize,
}

/// A reference to a table.
#[derive(Clone, Copy)]
pub struct Table<'t>(&'t Header);

impl<'t> Table<'t> {
    /// # Safety
    ///
    /// A table is at this address, and it lives for `'t`.
    pub unsafe fn at(address: usize) -> Table<'t> {
        // SAFETY: the caller promises a table that lives for `'t`.
        Table(unsafe { &*std::ptr::with_exposed_provenance(address) })
    }

    fn layout(entries: usize) -> Layout {
        Layout::array::<Entry>(entries + size_of::<Header>() / size_of::<Entry>())
            .expect("tables double, and memory ends long before the address space")
    }

    /// Allocates a table of vacant entries, and returns its address.
    pub fn create(entries: usize, previous: usize) -> usize {
        let layout = Self::layout(entries);
        // SAFETY: the layout is not empty.
        let table = unsafe { alloc_zeroed(layout) }.cast::<Header>();
        if table.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: allocated above, large enough for a header. Zeroed entries are vacant.
        unsafe {
            table.write(Header {
                mask: entries - 1,
                used: AtomicUsize::new(0),
                previous,
                _padding: 0,
            });
        }
        table.expose_provenance()
    }

    /// # Safety
    ///
    /// `create` returned this address, and the table is not used any more.
    pub unsafe fn destroy(address: usize) {
        // SAFETY: the caller promises a table that is not used any more. Address and layout are
        // those of the allocation.
        unsafe {
            let entries = Table::at(address).entries().len();
            dealloc(
                std::ptr::with_exposed_provenance_mut(address),
                Self::layout(entries),
            );
        }
    }

    #[inline]
    pub fn entries(self) -> &'t [Entry] {
        let header: *const Header = self.0;
        let first = std::ptr::with_exposed_provenance(header.addr() + size_of::<Header>());
        // SAFETY: `create` allocated `mask + 1` entries behind the header, in one allocation whose
        // provenance is exposed. All their fields are atomic.
        unsafe { std::slice::from_raw_parts(first, self.0.mask + 1) }
    }

    /// Returns the entry of a word, or the vacant entry where it belongs. Returns `None` if the
    /// table is full and does not contain the word.
    #[inline]
    pub fn search(self, hash: u64, word: &[u8]) -> Option<Place<'t>> {
        let entries = self.entries();
        let mut index = hash as usize;
        for _ in 0..entries.len() {
            let entry = &entries[index & self.0.mask];
            // Acquire: pairs with the release in `claim`.
            let text = entry.text.load(Ordering::Acquire);
            if text == 0 {
                return Some(Place::Vacant(entry));
            }
            // SAFETY: texts outlive the tables, see `counts`.
            let text = unsafe { Text::at(text) };
            if text.hash() == hash && text.bytes() == word {
                return Some(Place::Of(entry));
            }
            index = index.wrapping_add(1);
        }
        None
    }

    /// Returns the counter of occupied entries, which may be a few too low.
    pub fn used(self) -> &'t AtomicUsize {
        &self.0.used
    }

    /// Returns the address of the table that this one replaced, or 0.
    pub fn previous(self) -> usize {
        self.0.previous
    }

    /// Returns whether a larger table should replace this one.
    pub fn is_crowded(self) -> bool {
        // Relaxed: an approximate number is good enough.
        self.0.used.load(Ordering::Relaxed) > self.0.mask / 2
    }

    /// Copies the entries of a table that does not change meanwhile. No other thread has this
    /// table's address yet.
    pub fn take_over(self, from: Table<'_>) {
        let mut used = 0;
        for entry in from.entries() {
            // Relaxed, here and below: the gate's fence orders these accesses after the sequences
            // that ran before, and `install` and the gate order them before those that run later.
            let address = entry.text.load(Ordering::Relaxed);
            if address == 0 {
                continue;
            }
            // SAFETY: texts outlive the tables, see `counts`.
            let text: Text<'_> = unsafe { Text::at(address) };
            if let Some(Place::Vacant(to)) = self.search(text.hash(), text.bytes()) {
                to.text.store(address, Ordering::Relaxed);
                to.count
                    .store(entry.count.load(Ordering::Relaxed), Ordering::Relaxed);
                used += 1;
            }
        }
        self.0.used.store(used, Ordering::Relaxed);
    }
}

pub enum Place<'t> {
    Of(&'t Entry),
    Vacant(&'t Entry),
}

#[cfg(test)]
mod tests {
    use super::super::text::Arena;
    use super::*;

    #[test]
    fn a_search_in_a_full_table_ends() {
        let mut arena = Arena::default();
        let mut store = arena.store();
        let address = Table::create(4, 0);
        // SAFETY: created above, and destroyed below.
        let table: Table<'_> = unsafe { Table::at(address) };
        for number in 0..4u64 {
            let word = [number as u8];
            let Some(Place::Vacant(entry)) = table.search(number, &word) else {
                panic!("one of four entries is vacant");
            };
            let text = store.text(number, &word);
            entry.text.store(text.address(), Ordering::Relaxed);
        }
        assert!(matches!(table.search(2, &[2]), Some(Place::Of(_))));
        assert!(table.search(4, &[4]).is_none());
        // SAFETY: created above, and not used any more.
        unsafe { Table::destroy(address) };
    }
}
