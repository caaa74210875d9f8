//! Rounds on structures that all CPUs share: what goes in comes out once.

use std::sync::atomic::{AtomicI64, Ordering};

use atomseq::nonblocking::{LinkedStack, List, OneVisitorList, Queue, RefList, Stack, Unordered};

use crate::torture::harness::lane::{Doing, Lane};
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::harness::ledger::Ledger;
use crate::torture::harness::{Round, STEPS, Setting};

/// A structure of values.
pub trait Shared: Send + Sync + 'static {
    /// Do one lane's values come out in the order in which it put them in?
    const IN_ORDER: bool = false;

    /// Puts a value in. `false`: there is no room.
    fn put(&self, value: u64) -> bool;

    /// Takes one out.
    fn take(&self) -> Option<u64>;

    /// Takes this one out, if it is there. By default it cannot be told from others.
    fn take_this(&self, _value: u64) -> bool {
        false
    }
}

impl Shared for Stack<u64> {
    fn put(&self, value: u64) -> bool {
        self.push(value).is_ok()
    }

    fn take(&self) -> Option<u64> {
        self.pop()
    }
}

impl Shared for Queue<u64> {
    const IN_ORDER: bool = true;

    fn put(&self, value: u64) -> bool {
        self.push(value).is_ok()
    }

    fn take(&self) -> Option<u64> {
        self.pop()
    }
}

impl Shared for LinkedStack<u64> {
    fn put(&self, value: u64) -> bool {
        match value % 4 {
            0 => self.push_back(value).is_ok(),
            _ => self.push(value).is_ok(),
        }
    }

    fn take(&self) -> Option<u64> {
        self.pop()
    }
}

impl Shared for List<u64> {
    fn put(&self, value: u64) -> bool {
        self.try_insert(value, ()).is_ok()
    }

    fn take(&self) -> Option<u64> {
        self.pop_first().map(|(value, ())| value)
    }

    fn take_this(&self, value: u64) -> bool {
        self.remove(&value).is_ok_and(|found| found.is_some())
    }
}

impl Shared for List<u64, (), Unordered> {
    fn put(&self, value: u64) -> bool {
        self.push_front(value, ()).is_ok()
    }

    fn take(&self) -> Option<u64> {
        self.pop_first().map(|(value, ())| value)
    }

    fn take_this(&self, value: u64) -> bool {
        self.remove(&value).is_ok_and(|found| found.is_some())
    }
}

impl Shared for RefList<u64> {
    fn put(&self, value: u64) -> bool {
        self.push_front(value).is_ok()
    }

    fn take(&self) -> Option<u64> {
        self.pop_front().map(|value| *value)
    }

    fn take_this(&self, value: u64) -> bool {
        let found = self.iter().find(|found| **found == value);
        found.is_some_and(|found| self.remove(&found))
    }
}

impl Shared for OneVisitorList<u64> {
    fn put(&self, value: u64) -> bool {
        self.push_front(value).is_ok()
    }

    fn take(&self) -> Option<u64> {
        self.pop_front()
    }

    /// Visits all before it on its way.
    fn take_this(&self, value: u64) -> bool {
        let mut visited = self.visit_first();
        while let Some(visit) = visited {
            if *visit == value {
                return visit.remove() == value;
            }
            visited = visit.into_next();
        }
        false
    }
}

/// How many values there are at most, about: searches take as long as lists are.
const MANY: i64 = 64;

/// A structure and its books.
pub struct Sharing<S> {
    structure: S,
    ledger: Ledger,
    /// How many values are inside, about.
    inside: AtomicI64,
}

impl<S: Shared> Sharing<S> {
    /// A round on this structure.
    pub fn new(structure: S, setting: &mut Setting) -> Sharing<S> {
        let ledger = Ledger::new(setting.salt, setting.lanes, STEPS);
        Sharing {
            structure,
            ledger,
            inside: AtomicI64::new(0),
        }
    }

    fn operate(&self, lane: &mut Lane) -> Checked {
        // Relaxed, here and below: a hint.
        let crowded = self.inside.load(Ordering::Relaxed) > MANY && !lane.one_in(4);
        if crowded || lane.rng.bool() {
            return self.take(lane);
        }
        let Some(value) = self.ledger.issue(lane) else {
            return self.take(lane);
        };
        lane.begin(Doing::Push);
        if !self.structure.put(value) {
            return self.ledger.out_by(lane, value).map(drop);
        }
        self.inside.fetch_add(1, Ordering::Relaxed);
        if lane.one_in(8) && self.structure.take_this(value) {
            self.inside.fetch_sub(1, Ordering::Relaxed);
            return self.ledger.out_by(lane, value).map(drop);
        }
        Ok(())
    }

    fn take(&self, lane: &mut Lane) -> Checked {
        lane.begin(Doing::Pop);
        let Some(value) = self.structure.take() else {
            return Ok(());
        };
        self.inside.fetch_sub(1, Ordering::Relaxed);
        let origin = self.ledger.out_by(lane, value)?;
        if !S::IN_ORDER || origin.lane >= lane.seen.len() {
            return Ok(());
        }
        let seen = std::mem::replace(&mut lane.seen[origin.lane], origin.number + 1);
        if seen > origin.number {
            let broken = Broken::new("a lane's values left a queue out of order");
            let broken = broken.with("issued by lane", origin.lane as u64);
            return Err(broken
                .with("number", origin.number.into())
                .with("after number", (seen - 1).into()));
        }
        Ok(())
    }
}

impl<S: Shared> Round for Sharing<S> {
    fn step(&self, lane: &mut Lane) -> Checked {
        self.operate(lane)
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        self.operate(lane)
    }

    fn finish(&mut self, _lanes: &mut [Lane]) -> Checked {
        while let Some(value) = self.structure.take() {
            self.ledger.out(value)?;
        }
        self.ledger.settle()
    }
}
