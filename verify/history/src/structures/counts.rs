//! `percpu::Counters`: one counter that all lanes share, and counters that a lane creates and
//! drops.
//!
//! A shared counter is added to by ones. So whatever a concurrent reading of the CPUs' words finds
//! between its beginning and its end, the counter had that value at one time. `take` returns what
//! it has read and leaves what was added meanwhile, so it may leave some; what all of them return
//! is what was added.

use std::mem::ManuallyDrop;

use atomseq::percpu::{Count, Counters};
use fastrand::Rng;

use crate::history::{Model, agrees};
use crate::record::Subject;

/// The values of the counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    shared: u64,
    /// The lanes' own, by the values that they were named after.
    own: Vec<(u64, u64)>,
}

/// An operation. A lane's own counter is named by a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Adds one to the shared counter.
    Increment,
    /// Reads the shared counter.
    Sum,
    /// Takes the shared counter's value, and may leave some of it.
    Take,
    /// Takes all of it: no other call is concurrent.
    TakeAll,
    /// Creates a counter.
    Create(u64),
    /// Adds to it.
    Add(u64, u64),
    /// Reads it.
    SumOwn(u64),
    /// Clones it, and drops the first one.
    Replace(u64),
    /// Drops it.
    Drop(u64),
    /// Counts the counters.
    Count,
}

/// What it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The call took effect.
    Done,
    /// A sum.
    Sum(u64),
    /// The number of counters.
    Count(usize),
}

impl Counts {
    /// Returns a lane's own counter.
    fn own(&mut self, name: u64) -> &mut u64 {
        let own = self.own.iter_mut().find(|(own, _)| *own == name);
        &mut own.expect("a counter stays until its lane drops it").1
    }
}

impl Model for Counts {
    type Call = Call;
    type Answer = Answer;

    fn step(&mut self, call: &Call, answer: Option<&Answer>) -> bool {
        let right = match *call {
            Call::Increment => {
                self.shared += 1;
                Answer::Done
            }
            Call::Sum => Answer::Sum(self.shared),
            Call::Take => {
                let taken = match answer {
                    Some(&Answer::Sum(sum)) => sum.min(self.shared),
                    _ => self.shared,
                };
                self.shared -= taken;
                Answer::Sum(taken)
            }
            Call::TakeAll => Answer::Sum(std::mem::take(&mut self.shared)),
            Call::Create(name) => {
                self.own.push((name, 0));
                // The same counters are the same state, in whatever order they were created.
                self.own.sort_unstable();
                Answer::Done
            }
            Call::Add(name, amount) => {
                *self.own(name) += amount;
                Answer::Done
            }
            Call::SumOwn(name) => Answer::Sum(*self.own(name)),
            Call::Replace(name) => {
                self.own(name);
                Answer::Done
            }
            Call::Drop(name) => {
                self.own.retain(|(own, _)| *own != name);
                Answer::Done
            }
            Call::Count => Answer::Count(self.own.len() + 1),
        };
        agrees(answer, right)
    }
}

/// How the shared counter is taken.
pub type Take = fn(&Count) -> u64;

/// A set of counters, with the one that all lanes share.
pub struct Set {
    // Dropped before the set.
    shared: ManuallyDrop<Count<'static>>,
    counters: Box<Counters>,
    take: Take,
}

impl Set {
    /// Makes a set whose shared counter is taken this way.
    pub fn fresh(take: Take) -> (Set, Counts) {
        let counters = Box::new(Counters::new());
        // SAFETY: the set is boxed and is dropped after what it lends, which is not dropped at all.
        let shared = unsafe { extend(counters.create()) };
        let set = Set {
            shared,
            counters,
            take,
        };
        (set, Counts::default())
    }
}

/// # Safety
///
/// The set stays in place until the count is not used any more.
unsafe fn extend(count: Count<'_>) -> ManuallyDrop<Count<'static>> {
    // SAFETY: only the lifetime changes, and the caller promises that the set outlasts it.
    ManuallyDrop::new(unsafe { std::mem::transmute::<Count<'_>, Count<'static>>(count) })
}

/// A lane's own counter, and its name. Never dropped: it stays at the end of a history.
#[derive(Default)]
pub struct Own(Option<(u64, ManuallyDrop<Count<'static>>)>);

impl Own {
    fn count(&mut self) -> &mut ManuallyDrop<Count<'static>> {
        &mut self.0.as_mut().expect("chosen by what the lane has").1
    }
}

impl Subject for Set {
    type Model = Counts;
    type Memory = Own;

    fn choose(&self, rng: &mut Rng, own: &Own, value: u64) -> Option<Call> {
        Some(match (rng.u32(..16), &own.0) {
            (0..5, _) => Call::Increment,
            (5..7, _) => Call::Sum,
            (7, _) => Call::Take,
            (8, _) => Call::Count,
            (_, None) => Call::Create(value),
            (9..11, Some((name, _))) => Call::Add(*name, rng.u64(1..5)),
            (11..13, Some((name, _))) => Call::SumOwn(*name),
            (13, Some((name, _))) => Call::Replace(*name),
            (_, Some((name, _))) => Call::Drop(*name),
        })
    }

    fn operate(&self, call: &Call, own: &mut Own) -> Answer {
        match *call {
            Call::Increment => self.shared.increment(),
            Call::Sum => return Answer::Sum(self.shared.sum()),
            Call::Take => return Answer::Sum((self.take)(&self.shared)),
            Call::TakeAll => return Answer::Sum(self.shared.take()),
            Call::Create(name) => {
                // SAFETY: the set is boxed and stays until the history is over, and no thread uses
                // the count after that.
                own.0 = Some((name, unsafe { extend(self.counters.create()) }));
            }
            Call::Add(_, amount) => own.count().add(amount),
            Call::SumOwn(_) => return Answer::Sum(own.count().sum()),
            Call::Replace(_) => {
                let first = own.count();
                let clone = ManuallyDrop::new((**first).clone());
                drop(ManuallyDrop::into_inner(std::mem::replace(first, clone)));
            }
            Call::Drop(_) => {
                let count = own.0.take().map(|(_, count)| count);
                drop(count.map(ManuallyDrop::into_inner));
            }
            Call::Count => return Answer::Count(self.counters.len()),
        }
        Answer::Done
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        match before {
            None => Some(Call::TakeAll),
            Some(Answer::Sum(_)) => Some(Call::Count),
            Some(_) => None,
        }
    }
}
