//! Descriptors in rows, each in at most one of the first two and in the third: the model of
//! `nonblocking::ListCache`.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{ListCache, Member, MemberInUse};
use atomseq::type_stable::descriptor;
use fastrand::Rng;

use crate::history::{Model, agrees};
use crate::record::Subject;

/// The number of rows. The first two share a link.
const ROWS: usize = 3;

/// More descriptors than a history has.
const MANY: usize = 512;

/// The rows, each from the front.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rows([Vec<u64>; ROWS]);

/// An operation. A descriptor is named by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Puts a descriptor, of which the caller has a use, in front of a row.
    Put(usize, u64),
    /// Puts it at the end of a row.
    PutBehind(usize, u64),
    /// Takes the first one out of a row.
    Take(usize),
    /// Takes a descriptor, of which the caller has a use, out of this row.
    Remove(usize, u64),
    /// Takes it out of the row, of the first two, that it is in.
    Leave(u64),
    /// Counts a row.
    Count(usize),
    /// Moves it from one of the first two rows to the other.
    Move(u64),
}

/// What it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Whether the call took effect.
    Is(bool),
    /// The first one.
    Number(Option<u64>),
    /// How many there are.
    Count(usize),
}

impl Rows {
    fn has(&self, row: usize, number: u64) -> bool {
        self.0[row].contains(&number)
    }

    /// Returns whether the descriptor is in no row of this row's link.
    fn is_out(&self, row: usize, number: u64) -> bool {
        match row {
            2 => !self.has(2, number),
            _ => !self.has(0, number) && !self.has(1, number),
        }
    }

    fn remove(&mut self, row: usize, number: u64) -> bool {
        let is_there = self.has(row, number);
        self.0[row].retain(|other| *other != number);
        is_there
    }
}

impl Model for Rows {
    type Call = Call;
    type Answer = Answer;

    fn step(&mut self, call: &Call, answer: Option<&Answer>) -> bool {
        let right = match *call {
            Call::Put(row, number) => {
                let is_out = self.is_out(row, number);
                is_out.then(|| self.0[row].insert(0, number));
                Answer::Is(is_out)
            }
            Call::PutBehind(row, number) => {
                let is_out = self.is_out(row, number);
                is_out.then(|| self.0[row].push(number));
                Answer::Is(is_out)
            }
            Call::Take(row) => {
                let first = (!self.0[row].is_empty()).then(|| self.0[row].remove(0));
                Answer::Number(first)
            }
            Call::Remove(row, number) => Answer::Is(self.remove(row, number)),
            Call::Leave(number) => Answer::Is(self.remove(0, number) || self.remove(1, number)),
            Call::Count(row) => Answer::Count(self.0[row].len()),
            Call::Move(number) => {
                let from = (0..2).find(|row| self.remove(*row, number));
                if let Some(from) = from {
                    self.0[1 - from].insert(0, number);
                }
                Answer::Is(from.is_some())
            }
        };
        agrees(answer, right)
    }
}

descriptor! {
    /// A number.
    pub struct Numbered {
        number: AtomicU64,
    }
}

type Owner = fn(&Member<Numbered, 2>);
type InUse<'a> = MemberInUse<'a, Numbered, Owner, 2>;

/// A cache.
pub struct Listed {
    cache: ListCache<Numbered, Owner, 2>,
    /// Whether lanes take a move from one row to another for one step.
    moves: bool,
}

impl Listed {
    /// Makes an empty one under this mechanism.
    pub fn fresh(mechanism: Mechanism) -> (Listed, Rows) {
        let owner: Owner = |_| ();
        let cache = ListCache::forced(MANY, [2, 1], owner, mechanism).expect("memory");
        let moves = false;
        (Listed { cache, moves }, Rows::default())
    }

    /// Makes an empty one, in which a descriptor that moves is taken to be in a row all the time.
    pub fn fresh_with_moves(mechanism: Mechanism) -> (Listed, Rows) {
        let (fresh, rows) = Listed::fresh(mechanism);
        let moves = true;
        (Listed { moves, ..fresh }, rows)
    }
}

/// The use that a lane has. Never dropped: the cache may have moved when a history is over.
#[derive(Default)]
pub struct Mine(Option<(u64, ManuallyDrop<InUse<'static>>)>);

impl Mine {
    fn keep(&mut self, number: u64, in_use: InUse<'_>) {
        // SAFETY: the cache stays in place and unmoved until the history is over, and no thread
        // uses the descriptor after that.
        let in_use = unsafe { std::mem::transmute::<InUse<'_>, InUse<'static>>(in_use) };
        if let Some((_, before)) = self.0.replace((number, ManuallyDrop::new(in_use))) {
            drop(ManuallyDrop::into_inner(before));
        }
    }

    /// Returns the use, of a new descriptor if it is not the lane's last one.
    fn of(&mut self, cache: &ListCache<Numbered, Owner, 2>, number: u64) -> &InUse<'static> {
        if self.0.as_ref().is_none_or(|mine| mine.0 != number) {
            let new = cache.load().expect("there are more than a history needs");
            new.number.store(number, Ordering::SeqCst);
            self.keep(number, new);
        }
        &self.0.as_ref().expect("it was kept just now").1
    }
}

impl Subject for Listed {
    type Model = Rows;
    type Memory = Mine;

    fn choose(&self, rng: &mut Rng, mine: &Mine, value: u64) -> Option<Call> {
        let (row, mine) = (rng.usize(..ROWS), mine.0.as_ref().map(|mine| mine.0));
        Some(match (rng.u32(..16), mine) {
            (0..3, _) => Call::Put(row, value),
            (3 | 4, _) => Call::PutBehind(row, value),
            (5 | 6, Some(mine)) => Call::Put(row, mine),
            (7, Some(mine)) => Call::PutBehind(row, mine),
            (8 | 9, Some(mine)) => Call::Remove(row, mine),
            (10, Some(mine)) => Call::Leave(mine),
            (11 | 12, Some(mine)) if self.moves => Call::Move(mine),
            (13, _) => Call::Count(row),
            _ => Call::Take(row),
        })
    }

    fn operate(&self, call: &Call, mine: &mut Mine) -> Answer {
        let list = |row: usize| self.cache.list(row / 2, row % 2);
        match *call {
            Call::Put(row, number) => {
                Answer::Is(list(row).push_front(mine.of(&self.cache, number)))
            }
            Call::PutBehind(row, number) => {
                Answer::Is(list(row).push_back(mine.of(&self.cache, number)))
            }
            Call::Take(row) => {
                let first = list(row).pop_front();
                Answer::Number(first.map(|first| first.number.load(Ordering::SeqCst)))
            }
            Call::Remove(row, number) => Answer::Is(list(row).remove(mine.of(&self.cache, number))),
            Call::Leave(number) => Answer::Is(self.cache.remove(0, mine.of(&self.cache, number))),
            Call::Count(row) => Answer::Count(list(row).len()),
            Call::Move(number) => {
                let in_use = mine.of(&self.cache, number);
                let from = (0..2).find(|row| list(*row).remove(in_use));
                Answer::Is(from.is_some_and(|from| list(1 - from).push_front(in_use)))
            }
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        match before {
            None => Some(Call::Take(0)),
            Some(Answer::Number(Some(_))) => Some(Call::Take(0)),
            Some(Answer::Number(None)) => Some(Call::Count(1)),
            _ => None,
        }
    }
}
