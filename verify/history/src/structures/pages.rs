//! Entries of pages, which go one by one or a subtree at once: `nonblocking::PageMap`.

use std::collections::BTreeMap;

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::PageMap;
use fastrand::Rng;

use crate::history::{Model, agrees};
use crate::record::Subject;

/// The pages: two of each of two leaves below one child.
pub const PAGES: [u64; 4] = [0, 1, 64, 65];

/// How many of them are in a leaf.
pub const OF_LEAF: usize = 2;

/// Entries by page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pages(BTreeMap<u64, u64>);

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Stores the entry of a page.
    Insert(u64, u64),
    /// Replaces the entry of a page, if it has one.
    Update(u64, u64),
    /// Removes the entry of a page.
    Remove(u64),
    /// Looks an entry up.
    Find(u64),
    /// Reads the entries of the leaf of this page.
    Look(u64),
    /// Takes out the entries of the leaf of this page.
    Unload(u64),
    /// Takes out the entries of all pages.
    UnloadAll,
}

/// What it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The entry at that time, or before.
    Entry(Option<u64>),
    /// The entries of some of the pages.
    Entries([Option<u64>; PAGES.len()]),
}

/// Returns whether a page is in the leaf of another.
fn is_in_leaf(page: u64, of: u64) -> bool {
    page / 64 == of / 64
}

impl Pages {
    fn entries(&self, are_asked: impl Fn(u64) -> bool) -> Answer {
        let entry = |page| self.0.get(&page).copied().filter(|_| are_asked(page));
        Answer::Entries(PAGES.map(entry))
    }
}

impl Model for Pages {
    type Call = Call;
    type Answer = Answer;

    fn step(&mut self, call: &Call, answer: Option<&Answer>) -> bool {
        let right = match *call {
            Call::Insert(page, value) => Answer::Entry(self.0.insert(page, value)),
            Call::Update(page, value) => {
                let there = self.0.get_mut(&page);
                Answer::Entry(there.map(|there| std::mem::replace(there, value)))
            }
            Call::Remove(page) => Answer::Entry(self.0.remove(&page)),
            Call::Find(page) => Answer::Entry(self.0.get(&page).copied()),
            Call::Look(of) => self.entries(|page| is_in_leaf(page, of)),
            Call::Unload(of) => {
                let taken = self.entries(|page| is_in_leaf(page, of));
                self.0.retain(|page, _| !is_in_leaf(*page, of));
                taken
            }
            Call::UnloadAll => {
                let taken = self.entries(|_| true);
                self.0.clear();
                taken
            }
        };
        agrees(answer, right)
    }
}

/// Returns the next call of a lane on the first pages, as many as `pages`.
pub(crate) fn choose(rng: &mut Rng, pages: usize, value: u64) -> Call {
    let page = PAGES[rng.usize(..pages)];
    match rng.u32(..16) {
        0..6 => Call::Insert(page, value),
        6 => Call::Update(page, value),
        7 | 8 => Call::Remove(page),
        9 | 10 => Call::Find(page),
        11 => Call::Look(page),
        12 | 13 => Call::Unload(page),
        14 => Call::UnloadAll,
        _ => Call::Find(page),
    }
}

/// Collects entries that are written back.
#[derive(Default)]
struct Written([Option<u64>; PAGES.len()]);

impl Written {
    fn note(&mut self, page: u64, value: u64) {
        let place = PAGES.iter().position(|other| *other == page);
        self.0[place.expect("no other page ever has an entry")] = Some(value);
    }
}

/// A map.
pub struct Mapped<const BITS: u32>(PageMap<u64, BITS>);

impl Mapped<32> {
    /// Makes an empty one for 32-bit addresses.
    pub fn fresh(mechanism: Mechanism) -> (Mapped<32>, Pages) {
        (Mapped(PageMap::forced(mechanism)), Pages::default())
    }
}

impl Mapped<48> {
    /// Makes an empty one for 48-bit addresses.
    pub fn wide(mechanism: Mechanism) -> (Mapped<48>, Pages) {
        (Mapped(PageMap::wide_forced(mechanism)), Pages::default())
    }
}

impl<const BITS: u32> Subject for Mapped<BITS> {
    type Model = Pages;
    type Memory = ();

    fn choose(&self, rng: &mut Rng, (): &(), value: u64) -> Option<Call> {
        Some(choose(rng, PAGES.len(), value))
    }

    fn operate(&self, call: &Call, (): &mut ()) -> Answer {
        let map = &self.0;
        let mut written = Written::default();
        let mut note = |page, value| written.note(page, value);
        match *call {
            Call::Insert(page, value) => {
                Answer::Entry(map.insert(page, value).expect("there is memory"))
            }
            Call::Update(page, value) => Answer::Entry(map.update(page, |_| value)),
            Call::Remove(page) => Answer::Entry(map.remove(page)),
            Call::Find(page) => Answer::Entry(map.get(page)),
            Call::Look(page) => {
                for (entry, page) in map.snapshot(page).into_iter().zip(page & !63..) {
                    entry.into_iter().for_each(|entry| note(page, entry));
                }
                Answer::Entries(written.0)
            }
            Call::Unload(page) => {
                map.unload(page, note);
                Answer::Entries(written.0)
            }
            Call::UnloadAll => {
                map.unload_subtree(0, note);
                Answer::Entries(written.0)
            }
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        before.is_none().then_some(Call::UnloadAll)
    }
}
