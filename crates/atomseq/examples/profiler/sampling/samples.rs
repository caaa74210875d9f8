//! The table that all threads' handlers record into: how often each program counter was seen.
//!
//! ```text
//! slot:   gate | …     bulk:   entry 0:  program counter | samples
//!                              entry 1:  program counter | samples     program counter 0: vacant
//!                                …
//! ```
//!
//! Several threads and their handlers share it, so it is `percpu` and not `local`: a table a thread
//! would have to be found by the handler, kept while threads come and go, and merged for every
//! thread there ever was; here there is one table a CPU whatever the threads do, and a handler that
//! is preempted half-way by another thread's handler on the same CPU starts its few instructions
//! again. It is a table and not a ring of samples, for then its size depends on how much code runs,
//! not on how long.
//!
//! Open addressing with a bounded search, since a handler must come to an end. Each step is a
//! sequence of its own on whatever CPU the thread is on by then. A thread that is moved between two
//! steps goes on in the other CPU's table, where its program counter may thus be found in a second
//! entry or behind a vacant one: nothing minds, for all entries of a program counter are added up
//! in the end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use atomseq::percpu::{Area, Error};

/// Where an entry has its count; its program counter comes first.
const SAMPLES: usize = size_of::<usize>();

/// The size of an entry.
const ENTRY: usize = 2 * size_of::<usize>();

atomseq::sequence! {
    /// Adds one to the entry at a distance from the slot if it is this program counter's, or says
    /// whose it is.
    unsafe fn bump(slot: Slot, entry: Word, program_counter: Word) -> Option<Word> {
        let place = slot + entry;
        let owner = load(place);
        if owner != program_counter { return Some(owner) }
        let before = load(place + SAMPLES);
        commit(place + SAMPLES, before + 1);
        None
    }

    /// Gives a vacant entry its program counter and a count of one; `false` if it is not vacant.
    unsafe fn claim(slot: Slot, entry: Word, program_counter: Word) -> bool {
        let place = slot + entry;
        let owner = load(place);
        if owner != 0 { return false }
        prepare(place + SAMPLES, 1);
        commit(place, program_counter);
        true
    }
}

/// How often each program counter was seen, with a table a CPU.
pub struct Samples {
    area: Area,
    /// A power of two.
    entries: usize,
}

impl Samples {
    /// How many entries the search for one looks at.
    const LONGEST_SEARCH: usize = 128;

    /// The least and the most entries a CPU.
    pub const ENTRIES: std::ops::RangeInclusive<usize> = 1..=1 << 24;

    /// Nothing seen yet; with room for so many program counters on each CPU, rounded up to a power
    /// of two.
    pub fn new(entries: usize) -> Result<Samples, Error> {
        let entries = entries
            .clamp(*Self::ENTRIES.start(), *Self::ENTRIES.end())
            .next_power_of_two();
        Ok(Samples {
            area: Area::try_new(entries * ENTRY)?,
            entries,
        })
    }

    /// Counts a sample; `false` if there is no room for its program counter.
    ///
    /// For signal handlers: no lock, no allocation. Where sections are off, the slow path's.
    pub fn record(&self, program_counter: usize) -> bool {
        // 0 is for vacant entries. Code is at neither.
        let program_counter = program_counter.max(1);
        let mut index = self.first_index(program_counter);
        for _ in 0..self.entries.min(Self::LONGEST_SEARCH) {
            let entry = Area::BULK + (index & (self.entries - 1)) * ENTRY;
            // A vacant entry may be claimed by another meanwhile, for this program counter even.
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

    /// The negative control: what `record` would be with plain loads and stores, and with another
    /// thread coming in between as now and then it does.
    #[cfg(test)]
    pub fn record_carelessly(&self, program_counter: usize) -> bool {
        // All samples in one entry: nothing but the count is to go wrong.
        let place = self.area.bulk(0).cast::<AtomicUsize>();
        // SAFETY: the first two words of CPU 0's bulk memory, as long as the area.
        let (owner, samples) = unsafe { (place.as_ref(), place.add(1).as_ref()) };
        owner.store(program_counter, Ordering::Relaxed);
        let before = samples.load(Ordering::Relaxed);
        std::thread::yield_now();
        samples.store(before + 1, Ordering::Relaxed);
        true
    }

    /// Where the search begins: the upper bits of a product, which depend on all bits of the
    /// address.
    fn first_index(&self, program_counter: usize) -> usize {
        let product = (program_counter as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (product >> 32) as usize
    }

    #[inline]
    fn bump(&self, entry: usize, program_counter: usize) -> Option<usize> {
        // SAFETY: a place in the bulk memory behind the slot, which only these sequences change.
        match unsafe { bump::on_cpu(self.area.slots(), entry, program_counter) } {
            Ok(owner) => owner,
            Err(_) => self
                .area
                // SAFETY: the same, under the gate.
                .on_slow_path(|held| unsafe { bump::gated(held, entry, program_counter) }),
        }
    }

    #[inline]
    fn claim(&self, entry: usize, program_counter: usize) -> bool {
        // SAFETY: as in `bump`; and nobody looks at the count of a vacant entry.
        match unsafe { claim::on_cpu(self.area.slots(), entry, program_counter) } {
            Ok(claimed) => claimed,
            Err(_) => self
                .area
                // SAFETY: the same, under the gate.
                .on_slow_path(|held| unsafe { claim::gated(held, entry, program_counter) }),
        }
    }

    /// All CPUs' samples together, by program counter.
    pub fn merged(&mut self) -> HashMap<usize, u64> {
        let mut merged = HashMap::new();
        for cpu in 0..self.area.cpus() {
            for (program_counter, samples) in self.entries_of(cpu) {
                *merged.entry(program_counter).or_default() += samples;
            }
        }
        merged
    }

    /// How many entries the fullest CPU uses, and how many each has.
    pub fn fullest(&mut self) -> (usize, usize) {
        let used = (0..self.area.cpus()).map(|cpu| self.entries_of(cpu).count());
        (used.max().unwrap_or(0), self.entries)
    }

    /// The entries that are not vacant. For a caller that has the whole exclusively: nobody
    /// records.
    fn entries_of(&self, cpu: usize) -> impl Iterator<Item = (usize, u64)> {
        let first = self.area.bulk(cpu).cast::<[AtomicUsize; 2]>();
        // SAFETY: so many pairs of words lie there, zeroed before anything else, as long as the
        // area.
        let entries = unsafe { std::slice::from_raw_parts(first.as_ptr(), self.entries) };
        entries
            .iter()
            // Relaxed: whoever recorded has handed the table over since.
            .map(|[owner, samples]| (owner.load(Ordering::Relaxed), samples))
            .filter(|(owner, _)| *owner != 0)
            .map(|(owner, samples)| (owner, samples.load(Ordering::Relaxed) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_record_the_same_lose_nothing() {
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
    fn what_finds_no_room_is_told() {
        let mut samples = Samples::new(4).unwrap();
        let recorded = (1..=1000)
            .filter(|address| samples.record(*address))
            .count();
        assert!(recorded >= 4 && recorded <= 4 * samples.area.cpus());
        assert_eq!(samples.merged().values().sum::<u64>(), recorded as u64);
        // What has an entry still counts, wherever that is.
        let again = samples.record(1);
        let total: u64 = samples.merged().values().sum();
        assert_eq!(total, recorded as u64 + u64::from(again));
        assert_eq!(samples.fullest(), (4, 4));
    }

    #[test]
    fn an_address_of_zero_is_a_sample_too() {
        let mut samples = Samples::new(8).unwrap();
        assert!(samples.record(0) && samples.record(0));
        assert_eq!(samples.merged().values().sum::<u64>(), 2);
    }
}
