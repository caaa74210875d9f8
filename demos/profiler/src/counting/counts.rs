//! A per-CPU hash table of counters, built with `sequence!`: one open-addressing table for each
//! CPU.
//!
//! ```text
//! slot:   gate | table ──> header: mask | used | previous ──> the table it grew out of
//!                          entry 0:  text | count
//!                          entry 1:  text | count          text 0: vacant
//!                            …
//! ```
//!
//! A search needs loops, which a sequence does not have, so it runs outside. A thread searches the
//! table that it used last, which may belong to another CPU by now or may have been outgrown. Then
//! a sequence of a few instructions checks that this table is the current one of this CPU, and
//! counts. If the check fails, the sequence returns the address of the current table, and the
//! thread searches that one.
//!
//! Why the search outside a sequence is sound:
//! - An entry's text is written once, from 0 to the word, by the release store that ends [`claim`];
//!   the search loads it with acquire. So it reads either a vacant entry or a whole word.
//! - Another thread may claim a vacant entry meanwhile, so `claim` checks again before it writes.
//! - Only sequences of the table's own CPU count in it, and only while it is in the slot. A thread
//!   that grows it copies the entries under the closed gate, when no sequence runs, and puts the
//!   copy into the slot.
//! - An outgrown table is freed together with `Counts`, because threads may still search it. All
//!   outgrown tables of a CPU together are no larger than its current one.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

use atomseq::percpu::{Area, Error};

use super::table::{Entry, Place, Table};
use super::text::{Store, Text, hash};

/// Offset of the table's address in a slot.
const TABLE: usize = Area::FIRST_WORD;

/// Offset of the count in an entry; the text comes first.
const COUNT: usize = std::mem::offset_of!(Entry, count);

atomseq::sequence! {
    /// Adds one to the word at the address `count` in `table`. Returns this CPU's table if that is
    /// another one.
    unsafe fn bump(slot: Slot, table: Word, count: Word) -> Option<Word> {
        let now = load(slot + TABLE);
        if now != table { return Some(now) }
        let before = load(count);
        commit(count, before + 1);
        None
    }

    /// Gives a vacant entry of `table` its text and a count of one. Returns this CPU's table if
    /// that is another one, or if the entry is no longer vacant.
    unsafe fn claim(slot: Slot, table: Word, entry: Word, text: Word) -> Option<Word> {
        let now = load(slot + TABLE);
        if now != table { return Some(now) }
        let taken = load(entry);
        if taken != 0 { return Some(now) }
        prepare(entry + COUNT, 1);
        commit_release(entry, text);
        None
    }

    /// Puts a table into the slot. Used under a closed gate only.
    unsafe fn install(slot: Slot, table: Word) {
        commit_release(slot + TABLE, table);
    }
}

/// The number of entries of the first table.
const SMALLEST: usize = 1 << 10;

/// How often each word was counted, in one table for each CPU.
///
/// The texts in the tables live for `'a`, longer than the tables.
pub struct Counts<'a> {
    area: Area,
    /// Invariant: texts go in and come out.
    texts: PhantomData<fn(Text<'a>) -> Text<'a>>,
}

impl<'a> Counts<'a> {
    /// Creates an empty table. A CPU gets its memory when it counts its first word.
    pub fn new() -> Result<Counts<'a>, Error> {
        Ok(Counts {
            area: Area::try_new(0)?,
            texts: PhantomData,
        })
    }

    /// Returns a handle for one thread.
    pub fn counter(&self, store: Store<'a>) -> Counter<'_, 'a> {
        Counter {
            counts: self,
            store,
            table: 0,
        }
    }

    /// Returns how many words were counted in all.
    pub fn total(&mut self) -> u64 {
        let entries = self.tables().flat_map(Table::entries);
        // Relaxed: no thread counts while `self` is borrowed exclusively.
        entries
            .map(|entry| entry.count.load(Ordering::Relaxed) as u64)
            .sum()
    }

    /// Returns the sums over all CPUs, and the number of entries they occupy.
    #[cfg(test)]
    pub fn merged(&mut self) -> (std::collections::HashMap<&'a [u8], u64>, usize) {
        let mut map = std::collections::HashMap::new();
        let mut total = 0;
        for table in self.tables() {
            for entry in table.entries() {
                // Relaxed: no thread counts while `self` is borrowed exclusively.
                let text = entry.text.load(Ordering::Relaxed);
                if text != 0 {
                    // SAFETY: the texts in the tables live for `'a`.
                    let text: Text<'a> = unsafe { Text::at(text) };
                    let count = entry.count.load(Ordering::Relaxed);
                    *map.entry(text.bytes()).or_default() += count as u64;
                    total += 1;
                }
            }
        }
        (map, total)
    }

    /// Returns the current tables of all CPUs.
    fn tables(&mut self) -> impl Iterator<Item = Table<'_>> {
        (0..self.area.cpus())
            .map(|cpu| self.area.peek(cpu, TABLE))
            .filter(|table| *table != 0)
            // SAFETY: a slot contains the address of a table, which is freed with `self`.
            .map(|table| unsafe { Table::at(table) })
    }

    /// Replaces this CPU's table by one of twice the size, if it is still the crowded one. Returns
    /// this CPU's table.
    ///
    /// Allocates before it closes the gate. A thread that holds a gate must not wait for another
    /// one, and the allocator may use gates.
    #[cold]
    fn grow(&self, crowded: usize) -> usize {
        let entries = match crowded {
            0 => SMALLEST,
            // SAFETY: a table that was in a slot, so it is freed with `self`.
            table => unsafe { Table::at(table) }.entries().len() * 2,
        };
        let larger = Table::create(entries, crowded);
        let table = self.area.on_slow_path(|held| {
            let now = self.area.peek(held.cpu(), TABLE);
            if now != crowded {
                return now;
            }
            if crowded != 0 {
                // SAFETY: both are tables, and the gate is closed: the crowded one does not change.
                unsafe { Table::at(larger).take_over(Table::at(crowded)) };
            }
            // SAFETY: the gate is held, and it is a table.
            unsafe { install::gated(held, larger) };
            larger
        });
        if table != larger {
            // SAFETY: created above and not installed, so no other thread has its address.
            unsafe { Table::destroy(larger) };
        }
        table
    }
}

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        for cpu in 0..self.area.cpus() {
            let mut address = self.area.peek(cpu, TABLE);
            while address != 0 {
                // SAFETY: a table or the one that it grew out of. No `Counter` exists any more.
                unsafe {
                    let previous = Table::at(address).previous();
                    Table::destroy(address);
                    address = previous;
                }
            }
        }
    }
}

/// A thread's handle.
pub struct Counter<'c, 'a> {
    counts: &'c Counts<'a>,
    store: Store<'a>,
    /// The address of the table that this thread used last, or 0.
    table: usize,
}

impl Counter<'_, '_> {
    /// Counts a word once.
    #[inline]
    pub fn count(&mut self, word: &[u8]) {
        let hash = hash(word);
        // Stored before the first attempt to claim an entry, and kept for the next attempt.
        let mut text = None;
        loop {
            // SAFETY: a table that was in a slot, so it is freed with `counts`.
            let table = (self.table != 0).then(|| unsafe { Table::at(self.table) });
            let place = table.and_then(|table| table.search(hash, word));
            let elsewhere = match place {
                Some(Place::Of(entry)) => self.bump(&entry.count),
                Some(Place::Vacant(entry)) => {
                    let text = *text.get_or_insert_with(|| self.store.text(hash, word));
                    self.claim(entry, text)
                }
                None => Some(self.counts.grow(self.table)),
            };
            match elsewhere {
                None => return,
                Some(table) => self.table = table,
            }
        }
    }

    /// Adds one to a word of the table, or returns this CPU's table if that is another one.
    #[inline]
    fn bump(&self, count: &AtomicUsize) -> Option<usize> {
        let (area, count) = (&self.counts.area, count.as_ptr().expose_provenance());
        // SAFETY: `count` is a word of `table`. The sequence changes it only if that is this CPU's
        // table.
        match unsafe { bump::on_cpu(area.slots(), self.table, count) } {
            Ok(elsewhere) => elsewhere,
            // SAFETY: as for the sequence, with this CPU's gate closed.
            Err(_) => area.on_slow_path(|held| unsafe { bump::gated(held, self.table, count) }),
        }
    }

    /// Gives a vacant entry its text and a count of one, or returns the table to search again.
    fn claim(&mut self, entry: &Entry, text: Text<'_>) -> Option<usize> {
        let (area, table) = (&self.counts.area, self.table);
        let entry = (&raw const *entry).expose_provenance();
        // SAFETY: `entry` is one of `table`'s. The sequence changes it only if that is this CPU's
        // table and the entry is vacant, and no thread reads the count of a vacant entry.
        let elsewhere = match unsafe { claim::on_cpu(area.slots(), table, entry, text.address()) } {
            Ok(elsewhere) => elsewhere,
            // SAFETY: as for the sequence, with this CPU's gate closed.
            Err(_) => area
                .on_slow_path(|held| unsafe { claim::gated(held, table, entry, text.address()) }),
        };
        if elsewhere.is_none() {
            // SAFETY: a table that was in a slot, so it is freed with `counts`.
            let claimed = unsafe { Table::at(table) };
            // If the thread has been moved to another CPU, `used` misses this entry, see there.
            let _ = self.bump(claimed.used());
            if claimed.is_crowded() {
                self.table = self.counts.grow(table);
            }
        }
        elsewhere
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::Arena;
    use super::*;

    #[test]
    fn concurrent_growth_loses_no_count() {
        const THREADS: usize = 4;
        const WORDS: usize = 20_000;
        let mut arenas: Vec<Arena> = (0..THREADS).map(|_| Arena::default()).collect();
        let mut counts = Counts::new().unwrap();
        std::thread::scope(|scope| {
            for (thread, arena) in arenas.iter_mut().enumerate() {
                let mut counter = counts.counter(arena.store());
                scope.spawn(move || {
                    for index in 0..WORDS {
                        let word = (index * (thread + 1) % WORDS).to_string();
                        counter.count(word.as_bytes());
                        counter.count(b"the");
                    }
                });
            }
        });
        let (map, entries) = counts.merged();
        assert_eq!(map[&b"the"[..]], (THREADS * WORDS) as u64);
        assert_eq!(map.values().sum::<u64>(), (2 * THREADS * WORDS) as u64);
        assert_eq!(map[&b"0"[..]], 1 + 2 + 1 + 4);
        assert_eq!(map.len(), WORDS + 1);
        assert!(entries >= map.len());
    }
}
