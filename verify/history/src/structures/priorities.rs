//! Values in the order of their priorities: `nonblocking::PriorityQueue`.

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{Handle, PriorityQueue};
use fastrand::Rng;

use crate::history::{Model, agrees};
use crate::record::Subject;
use crate::structures::Element;

/// Priorities are below this number: few, so that many are equal.
const PRIORITIES: u64 = 4;

/// Priorities and values, the least first, and of equal ones the first inserted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Priorities(Vec<(u64, u64)>);

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Inserts a value with this priority.
    Insert(u64, u64),
    /// Pops the least.
    Pop,
    /// Pops the least if its priority is at most this.
    PopDue(u64),
    /// Reads the least priority.
    Peek,
    /// Counts the values.
    Count,
    /// Removes this value, by its handle.
    Remove(u64),
    /// Reads the priority of this value, by its handle.
    Look(u64),
    /// Gives this value another priority. It is no single step, so only a control makes this call.
    Change(u64, u64),
}

/// What it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Whether it took effect.
    Done(bool),
    /// A priority and a value, if there was one.
    Entry(Option<(u64, u64)>),
    /// A priority, if there was one.
    Priority(Option<u64>),
    /// How many there are.
    Count(usize),
}

impl Priorities {
    fn insert(&mut self, priority: u64, value: u64) {
        let place = self.0.partition_point(|(other, _)| *other <= priority);
        self.0.insert(place, (priority, value));
    }

    fn remove(&mut self, value: u64) -> Option<(u64, u64)> {
        let place = self.0.iter().position(|(_, other)| *other == value)?;
        Some(self.0.remove(place))
    }

    fn pop_due(&mut self, now: u64) -> Option<(u64, u64)> {
        let (priority, value) = *self.0.first()?;
        if priority > now {
            return None;
        }
        self.remove(value)
    }
}

impl Model for Priorities {
    type Call = Call;
    type Answer = Answer;

    fn step(&mut self, call: &Call, answer: Option<&Answer>) -> bool {
        let right = match *call {
            Call::Insert(priority, value) => {
                self.insert(priority, value);
                Answer::Done(true)
            }
            Call::Pop => Answer::Entry(self.pop_due(u64::MAX)),
            Call::PopDue(now) => Answer::Entry(self.pop_due(now)),
            Call::Peek => Answer::Priority(self.0.first().map(|(priority, _)| *priority)),
            Call::Count => Answer::Count(self.0.len()),
            Call::Remove(value) => Answer::Entry(self.remove(value)),
            Call::Look(value) => {
                let mut entries = self.0.iter();
                let found = entries.find(|(_, other)| *other == value);
                Answer::Priority(found.map(|(priority, _)| *priority))
            }
            Call::Change(value, priority) => {
                let removed = self.remove(value);
                if removed.is_some() {
                    self.insert(priority, value);
                }
                Answer::Done(removed.is_some())
            }
        };
        agrees(answer, right)
    }
}

/// A queue.
pub struct Pending<E: Element> {
    queue: PriorityQueue<u64, E>,
    /// Whether lanes change priorities.
    changes: bool,
}

impl<E: Element> Pending<E> {
    /// Makes an empty one under this mechanism.
    pub fn fresh(mechanism: Mechanism) -> (Pending<E>, Priorities) {
        let queue = PriorityQueue::forced(mechanism);
        let changes = false;
        (Pending { queue, changes }, Priorities::default())
    }

    /// Makes an empty one, in which lanes take a change of priority for a single step.
    pub fn fresh_with_changes(mechanism: Mechanism) -> (Pending<E>, Priorities) {
        let (queue, model) = Pending::fresh(mechanism);
        let changes = true;
        (Pending { changes, ..queue }, model)
    }
}

/// The value that a lane has inserted last, and its handle.
type Mine = Option<(u64, Handle)>;

impl<E: Element> Subject for Pending<E> {
    type Model = Priorities;
    type Memory = Mine;

    fn choose(&self, rng: &mut Rng, mine: &Mine, value: u64) -> Option<Call> {
        let priority = rng.u64(..PRIORITIES);
        Some(match (rng.u32(..16), mine) {
            (0, _) => Call::Count,
            (1, _) => Call::Peek,
            (2 | 3, Some((value, _))) => Call::Remove(*value),
            (4 | 5, Some((value, _))) if self.changes => Call::Change(*value, priority),
            (4, Some((value, _))) => Call::Look(*value),
            (5..7, _) => Call::PopDue(priority),
            (7..11, _) => Call::Pop,
            _ => Call::Insert(priority, value),
        })
    }

    fn operate(&self, call: &Call, mine: &mut Mine) -> Answer {
        let queue = &self.queue;
        let number = |entry: Option<(u64, E)>| {
            Answer::Entry(entry.map(|(priority, value)| (priority, value.number())))
        };
        let handle = || mine.expect("chosen by what the lane has inserted").1;
        match *call {
            Call::Insert(priority, value) => {
                let inserted = queue.insert(priority, E::of(value)).ok();
                if let Some(handle) = inserted {
                    *mine = Some((value, handle));
                }
                Answer::Done(inserted.is_some())
            }
            Call::Pop => number(queue.pop()),
            Call::PopDue(now) => number(queue.pop_due(now)),
            Call::Peek => Answer::Priority(queue.peek()),
            Call::Count => Answer::Count(queue.len()),
            Call::Remove(_) => number(queue.remove(handle())),
            Call::Look(_) => Answer::Priority(queue.priority(handle())),
            Call::Change(value, priority) => {
                let changed = queue.change_priority(handle(), priority);
                if let Some(handle) = changed {
                    *mine = Some((value, handle));
                }
                Answer::Done(changed.is_some())
            }
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        (before != Some(&Answer::Entry(None))).then_some(Call::Pop)
    }
}
