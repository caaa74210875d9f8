//! The table that all threads' handlers record into: samples by program counter.
//!
//! ```text
//! slot:   gate | …     bulk:   entry 0:  program counter | samples
//!                              entry 1:  program counter | samples     program counter 0: vacant
//!                                …
//! ```
//!
//! The table is per CPU, not per thread. A table per thread would have to outlive its thread, and
//! the report would have to merge one table for every thread that ever ran. With one table per CPU,
//! the kernel restarts the few instructions of a handler that another thread's handler preempts on
//! the same CPU. It is a table and not a ring of samples, so its size depends on the amount of code
//! that runs, not on the running time.
//!
//! Open addressing with a bounded search, since a handler must terminate. Each step is a sequence
//! of its own, on the CPU where the thread is at that time. A thread that is moved between two
//! steps continues in the other CPU's table. So a program counter may have a second entry there,
//! or one behind a vacant entry. The report adds up all entries of a program counter.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use atomseq::percpu::{Area, Error};

/// Offset of the count in an entry; the program counter comes first.
const SAMPLES: usize = size_of::<usize>();

/// The size of an entry.
const ENTRY: usize = 2 * size_of::<usize>();

atomseq::sequence! {
    /// Adds one to the entry at this offset from the slot if it belongs to `program_counter`, else
    /// returns the program counter that it belongs to, 0 for none.
    unsafe fn bump(slot: Slot, entry: Word, program_counter: Word) -> Option<Word> {
        let place = slot + entry;
        let owner = load(place);
        if owner != program_counter { return Some(owner) }
        let before = load(place + SAMPLES);
        commit(place + SAMPLES, before + 1);
        None
    }

    /// Gives a vacant entry its program counter and a count of one. Returns `false` if it is not
    /// vacant.
    unsafe fn claim(slot: Slot, entry: Word, program_counter: Word) -> bool {
        let place = slot + entry;
        let owner = load(place);
        if owner != 0 { return false }
        prepare(place + SAMPLES, 1);
        commit(place, program_counter);
        true
    }
}

/// Samples by program counter, in one table for each CPU.
pub struct Samples {
    area: Area,
    /// A power of two.
    entries: usize,
}

impl Samples {
    /// The maximum number of entries that a search visits.
    const MAX_SEARCH: usize = 128;

    /// The allowed numbers of entries for each CPU.
    pub const ENTRIES: std::ops::RangeInclusive<usize> = 1..=1 << 24;

    /// Creates an empty table with room for `entries` program counters on each CPU, rounded up to a
    /// power of two.
    pub fn new(entries: usize) -> Result<Samples, Error> {
        let entries = entries
            .clamp(*Self::ENTRIES.start(), *Self::ENTRIES.end())
            .next_power_of_two();
        Ok(Samples {
            area: Area::try_new(entries * ENTRY)?,
            entries,
        })
    }

    /// Counts a sample. Returns `false` if there is no room for its program counter.
    ///
    /// Safe in signal handlers: takes no lock and allocates nothing. Where sections are off, the
    /// slow path closes this CPU's gate.
    pub fn record(&self, program_counter: usize) -> bool {
        // 0 marks vacant entries. No code is at 0 or 1.
        let program_counter = program_counter.max(1);
        let mut index = self.first_index(program_counter);
        for _ in 0..self.entries.min(Self::MAX_SEARCH) {
            let entry = Area::BULK + (index & (self.entries - 1)) * ENTRY;
            // Another handler may claim a vacant entry meanwhile, even for this program counter.
            loop {
                match self.bump(entry, program_counter) {
                    None => return true,
                    Some(0) if self.claim(entry, program_counter) => return true,
                    Some(0) => {}
                    Some(_another) => break,
                }
            }
            index = index.wrapping_add(1);
        }
        false
    }

    /// The negative control: `record` with plain loads and stores, and a yield between them that
    /// lets other threads in.
    #[cfg(test)]
    pub fn record_carelessly(&self, program_counter: usize) -> bool {
        // All samples go to one entry, so that nothing but the count can go wrong.
        let place = self.area.bulk(0).cast::<AtomicUsize>();
        // SAFETY: the first two words of CPU 0's bulk memory, which lives as long as the area.
        let (owner, samples) = unsafe { (place.as_ref(), place.add(1).as_ref()) };
        owner.store(program_counter, Ordering::Relaxed);
        let before = samples.load(Ordering::Relaxed);
        std::thread::yield_now();
        samples.store(before + 1, Ordering::Relaxed);
        true
    }

    /// Returns the index at which the search starts: the upper bits of a product, which depend on
    /// all bits of the address.
    fn first_index(&self, program_counter: usize) -> usize {
        let product = (program_counter as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (product >> 32) as usize
    }

    #[inline]
    fn bump(&self, entry: usize, program_counter: usize) -> Option<usize> {
        // SAFETY: an entry in the bulk memory behind the slot, which only these sequences change.
        match unsafe { bump::on_cpu(self.area.slots(), entry, program_counter) } {
            Ok(owner) => owner,
            Err(_) => self
                .area
                // SAFETY: as for the sequence, with this CPU's gate closed.
                .on_slow_path(|held| unsafe { bump::gated(held, entry, program_counter) }),
        }
    }

    #[inline]
    fn claim(&self, entry: usize, program_counter: usize) -> bool {
        // SAFETY: an entry in the bulk memory behind the slot, which only these sequences change.
        // No thread reads the count of a vacant entry.
        match unsafe { claim::on_cpu(self.area.slots(), entry, program_counter) } {
            Ok(claimed) => claimed,
            Err(_) => self
                .area
                // SAFETY: as for the sequence, with this CPU's gate closed.
                .on_slow_path(|held| unsafe { claim::gated(held, entry, program_counter) }),
        }
    }

    /// Returns the samples of all CPUs, by program counter.
    pub fn merged(&mut self) -> HashMap<usize, u64> {
        let mut merged = HashMap::new();
        for cpu in 0..self.area.cpus() {
            for (program_counter, samples) in self.entries_on(cpu) {
                *merged.entry(program_counter).or_default() += samples;
            }
        }
        merged
    }

    /// Returns how many entries are in use in the fullest table, and how many each table has.
    pub fn fullest(&mut self) -> (usize, usize) {
        let used = (0..self.area.cpus()).map(|cpu| self.entries_on(cpu).count());
        (used.max().unwrap_or(0), self.entries)
    }

    /// Returns the occupied entries. The caller owns `self` exclusively, so no handler records.
    fn entries_on(&self, cpu: usize) -> impl Iterator<Item = (usize, u64)> {
        let first = self.area.bulk(cpu).cast::<[AtomicUsize; 2]>();
        // SAFETY: the bulk memory has `entries` pairs of words, zeroed at the start, and lives as
        // long as the area.
        let entries = unsafe { std::slice::from_raw_parts(first.as_ptr(), self.entries) };
        entries
            .iter()
            // Relaxed: the threads that recorded have been joined.
            .map(|[owner, samples]| (owner.load(Ordering::Relaxed), samples))
            .filter(|(owner, _)| *owner != 0)
            .map(|(owner, samples)| (owner, samples.load(Ordering::Relaxed) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_records_are_all_counted() {
        const THREADS: usize = 6;
        const ROUNDS: usize = 20_000;
        let mut samples = Samples::new(256).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for round in 0..ROUNDS {
                        assert!(samples.record(0x1000 + round % 100));
                    }
                });
            }
        });
        let merged = samples.merged();
        assert_eq!(merged.len(), 100);
        assert!(
            merged
                .values()
                .all(|samples| *samples == (THREADS * ROUNDS / 100) as u64)
        );
    }

    #[test]
    fn a_full_table_is_reported() {
        let mut samples = Samples::new(4).unwrap();
        let recorded = (1..=1000)
            .filter(|address| samples.record(*address))
            .count();
        assert!(recorded >= 4 && recorded <= 4 * samples.area.cpus());
        assert_eq!(samples.merged().values().sum::<u64>(), recorded as u64);
        // A program counter that has an entry is still counted.
        let again = samples.record(1);
        let total: u64 = samples.merged().values().sum();
        assert_eq!(total, recorded as u64 + u64::from(again));
        assert_eq!(samples.fullest(), (4, 4));
    }

    #[test]
    fn an_address_of_zero_is_counted() {
        let mut samples = Samples::new(8).unwrap();
        assert!(samples.record(0) && samples.record(0));
        assert_eq!(samples.merged().values().sum::<u64>(), 2);
    }
}
