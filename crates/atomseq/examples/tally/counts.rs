//! A per-CPU hash of counters, built from nothing: one open-addressing table a CPU.
//!
//! ```text
//! slot:   gate | table ──> header: mask | used | previous ──> the table it grew out of
//!                          entry 0:  text | count
//!                          entry 1:  text | count          text 0: vacant
//!                            …
//! ```
//!
//! Looking a word up takes loops, which a sequence does not have, so it happens outside. A thread
//! searches the table it used last, which may be another CPU's by now or one that has been
//! outgrown; then a sequence of a few instructions makes sure that this very table is the one of
//! this CPU and counts. If it is not, the sequence says which table is, and the thread searches
//! again.
//!
//! What makes the search outside sound:
//! - An entry's text is written once, from 0 to the word, by the release store that ends [`claim`];
//!   the search loads it with acquire. So what it reads is either vacant or a whole word.
//! - A vacant entry may be claimed meanwhile: `claim` looks again before it writes.
//! - Only the CPU's own sequences count in a table, and only while it is in the slot. Growing
//!   copies the entries under the closed gate, when no sequence runs, and puts the copy into the
//!   slot.
//! - An outgrown table stays until the whole goes, for threads may still search it. All of a CPU's
//!   outgrown tables together are no larger than its present one.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

use atomseq::percpu::{Area, Error};

use super::table::{Entry, Place, Table};
use super::text::{Map, Store, Text, hash};

/// Where a slot has the address of its table.
const TABLE: usize = Area::FIRST_WORD;

/// Where an entry has its count; its text comes first.
const COUNT: usize = std::mem::offset_of!(Entry, count);

atomseq::sequence! {
    /// Adds one to the word at an address in `table`, or says which table is this CPU's.
    unsafe fn bump(slot: Slot, table: Word, count: Word) -> Option<Word> {
        let now = load(slot + TABLE);
        if now != table { return Some(now) }
        let before = load(count);
        commit(count, before + 1);
        None
    }

    /// Gives a vacant entry of `table` its text and a count of one, or says which table is this
    /// CPU's: the same one if the entry is not vacant any more.
    unsafe fn claim(slot: Slot, table: Word, entry: Word, text: Word) -> Option<Word> {
        let now = load(slot + TABLE);
        if now != table { return Some(now) }
        let taken = load(entry);
        if taken != 0 { return Some(now) }
        prepare(entry + COUNT, 1);
        commit_release(entry, text);
        None
    }

    /// Puts a table into the slot; for a caller that holds the gate.
    unsafe fn install(slot: Slot, table: Word) {
        commit_release(slot + TABLE, table);
    }
}

/// The entries of a first table.
const SMALLEST: usize = 1 << 10;

/// How often each word was counted, with a table a CPU.
///
/// The texts in the tables live as long as `'a`, longer than the tables.
pub struct Counts<'a> {
    area: Area,
    /// Neither shorter nor longer lives will do: texts go in and come out.
    texts: PhantomData<fn(Text<'a>) -> Text<'a>>,
}

impl<'a> Counts<'a> {
    /// Nothing counted yet. A CPU gets its table when it counts its first word.
    pub fn new() -> Result<Counts<'a>, Error> {
        Ok(Counts {
            area: Area::try_new(0)?,
            texts: PhantomData,
        })
    }

    /// What a thread counts with.
    pub fn counter(&self, store: Store<'a>) -> Counter<'_, 'a> {
        Counter {
            counts: self,
            store,
            table: 0,
        }
    }

    /// All CPUs' counts together, and how many entries they took.
    pub fn merged(&mut self) -> (Map<'a>, usize) {
        let mut map = Map::default();
        let mut total = 0;
        for table in self.tables() {
            for entry in table.entries() {
                // Relaxed: nobody counts while the whole is borrowed exclusively.
                let text = entry.text.load(Ordering::Relaxed);
                if text != 0 {
                    // SAFETY: a text that lives as long as `'a`.
                    let text: Text<'a> = unsafe { Text::at(text) };
                    let count = entry.count.load(Ordering::Relaxed);
                    *map.entry(text.bytes()).or_default() += count as u64;
                    total += 1;
                }
            }
        }
        (map, total)
    }

    /// The CPUs' present tables.
    fn tables(&mut self) -> impl Iterator<Item = Table<'_>> {
        (0..self.area.cpus())
            .map(|cpu| self.area.peek(cpu, 0))
            .filter(|table| *table != 0)
            // SAFETY: what is in a slot is a table, and stays as long as the whole.
            .map(|table| unsafe { Table::at(table) })
    }

    /// Gives this CPU a table twice as large if it still has the crowded one; returns its table.
    ///
    /// Allocates before it closes the gate: who holds a gate should not come to wait for another,
    /// and the allocator might have one.
    #[cold]
    fn grow(&self, crowded: usize) -> usize {
        let entries = match crowded {
            0 => SMALLEST,
            // SAFETY: a table that was in a slot, so it stays as long as the whole.
            table => unsafe { Table::at(table) }.entries().len() * 2,
        };
        let larger = Table::create(entries, crowded);
        let table = self.area.on_slow_path(|held| {
            let now = self.area.peek(held.cpu(), 0);
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
            // SAFETY: made above and not installed, so nobody else knows it.
            unsafe { Table::destroy(larger) };
        }
        table
    }
}

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        for cpu in 0..self.area.cpus() {
            let mut address = self.area.peek(cpu, 0);
            while address != 0 {
                // SAFETY: a table or the one it grew out of; no thread has a `Counter` any more.
                unsafe {
                    let previous = Table::at(address).previous();
                    Table::destroy(address);
                    address = previous;
                }
            }
        }
    }
}

/// What one thread counts with.
pub struct Counter<'c, 'a> {
    counts: &'c Counts<'a>,
    store: Store<'a>,
    /// The table this thread used last, or 0.
    table: usize,
}

impl Counter<'_, '_> {
    /// Counts a word once.
    #[inline]
    pub fn count(&mut self, word: &[u8]) {
        let hash = hash(word);
        // Stored when it is first claimed for, and kept for the next attempt.
        let mut text = None;
        loop {
            // SAFETY: a table that was in a slot, so it stays as long as `counts`.
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

    /// Adds one to a word of the table, or says which table is this CPU's.
    #[inline]
    fn bump(&self, count: &AtomicUsize) -> Option<usize> {
        let (area, count) = (&self.counts.area, count.as_ptr().expose_provenance());
        // SAFETY: `count` is a word of `table`; the sequence changes it only if that is this CPU's
        // table.
        match unsafe { bump::on_cpu(area.slots(), self.table, count) } {
            Ok(elsewhere) => elsewhere,
            // SAFETY: the same.
            Err(_) => area.on_slow_path(|held| unsafe { bump::gated(held, self.table, count) }),
        }
    }

    /// Gives a vacant entry its text and a count of one, or says where to look again.
    fn claim(&mut self, entry: &Entry, text: Text<'_>) -> Option<usize> {
        let (area, table) = (&self.counts.area, self.table);
        let entry = (&raw const *entry).expose_provenance();
        // SAFETY: `entry` is one of `table`'s; the sequence changes it only if that is this CPU's
        // table and the entry is vacant, and nobody reads the count of a vacant entry.
        let elsewhere = match unsafe { claim::on_cpu(area.slots(), table, entry, text.address()) } {
            Ok(elsewhere) => elsewhere,
            // SAFETY: the same.
            Err(_) => area
                .on_slow_path(|held| unsafe { claim::gated(held, table, entry, text.address()) }),
        };
        if elsewhere.is_none() {
            // SAFETY: a table that was in a slot, so it stays as long as `counts`.
            let claimed = unsafe { Table::at(table) };
            // On another CPU by now: then a count too little in `used`, see there.
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
    fn threads_that_grow_tables_under_each_other_lose_nothing() {
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
