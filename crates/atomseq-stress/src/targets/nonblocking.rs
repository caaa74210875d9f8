//! The target `nonblocking`: structures shared by all CPUs, by both mechanisms. Each value that is
//! put in is taken out once. Signal handlers make the same operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{
    HashMap, LinkedQueue, LinkedStack, List, ListCache, Member, MultiMap, OneVisitorList,
    Operation, PageMap, PriorityQueue, Queue, RefHashMap, RefList, Server, Stack, Unordered, plain,
};
use atomseq::type_stable::{WriteBack, descriptor};

use super::rings::RingRound;
use crate::engine::invariant::{Checked, Violation};
use crate::engine::lane::{Activity, Lane};
use crate::engine::ledger::Ledger;
use crate::engine::{Interruptions, Round, STEPS, Setting, Target};

/// The target `nonblocking`.
pub const TARGET: Target = Target {
    name: "nonblocking",
    group: "nonblocking",
    about: "each value is taken out once; handlers make the same operations",
    round,
    steps: STEPS,
    interruptions: Interruptions::Timed,
    counts: "",
};

fn round(setting: &mut Setting) -> Arc<dyn Round> {
    use Mechanism::{Assisted, Kcas};
    fn of<S: Shared>(structure: S, setting: &mut Setting) -> Arc<dyn Round> {
        Arc::new(SharedRound::new(structure, setting))
    }
    let by = match setting.rng.bool() {
        true => Assisted,
        false => Kcas,
    };
    // From always full to never full.
    let capacity = 1 << setting.rng.u32(0..=10);
    match (setting.rng.u32(..16), by) {
        (0, _) => of(Stack::<u64>::forced(capacity, by), setting),
        (1, Assisted) => of(Queue::<u64>::with_capacity(capacity), setting),
        (1, Kcas) => of(Queue::<u64>::by_kcas(capacity), setting),
        (2, _) => of(LinkedStack::<u64>::forced(by), setting),
        (3, _) => of(List::<u64>::forced(by), setting),
        (4, _) => of(List::<u64, (), Unordered>::unordered_forced(by), setting),
        (5, _) => of(RefList::<u64>::forced(by), setting),
        (6, _) => of(OneVisitorList::<u64>::forced(by), setting),
        (7, _) => of(LinkedQueue::<u64>::forced(by), setting),
        (8, _) => of(PriorityQueue::<u64, u64>::forced(by), setting),
        (9, _) => of(PageMap::<u64>::forced(by), setting),
        (10, _) => of(
            Server::<Values, Change>::forced(Values::default(), by),
            setting,
        ),
        (11, _) => of(HashMap::<u64>::new(), setting),
        (12, _) => of(RefHashMap::<u64, u64>::new(), setting),
        (13, _) => of(MultiMap::<u64, u64>::forced(4, by), setting),
        (14, _) => of(Listed::by(by), setting),
        _ => Arc::new(RingRound::new(capacity, setting)),
    }
}

/// A structure of values.
pub trait Shared: Send + Sync + 'static {
    /// Whether the values of one lane are taken out in the order in which it put them in.
    const IN_ORDER: bool = false;

    /// Puts a value in; false if there is no room.
    fn put(&self, value: u64) -> bool;

    /// Takes a value out.
    fn take(&self) -> Option<u64>;

    /// Takes this value out if it is there; structures without such an operation return false.
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

impl Shared for LinkedQueue<u64> {
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
    /// Some entries are removed and inserted again.
    fn put(&self, value: u64) -> bool {
        if self.try_insert(value, ()).is_err() {
            return false;
        }
        if !value.is_multiple_of(4) {
            return true;
        }
        // If it is absent, another lane has taken it out.
        let removed = self.remove_to_change(&value).ok().flatten();
        removed.is_none_or(|removal| removal.reinsert(value, ()).is_ok())
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

impl Shared for HashMap<u64> {
    fn put(&self, value: u64) -> bool {
        self.try_insert(value, ()).is_ok()
    }

    fn take(&self) -> Option<u64> {
        self.pop().map(|(value, ())| value)
    }

    fn take_this(&self, value: u64) -> bool {
        self.remove(&value).is_some()
    }
}

/// Several values under each of a few keys, two in a bucket.
impl Shared for MultiMap<u64, u64> {
    fn put(&self, value: u64) -> bool {
        self.insert(value % 8, value).is_ok()
    }

    fn take(&self) -> Option<u64> {
        (0..8).find_map(|key| self.pop(&key))
    }

    fn take_this(&self, value: u64) -> bool {
        self.contains(&(value % 8), &value) && self.remove(&(value % 8), &value)
    }
}

/// Keys are few, so that a value often takes the place of another, which is put back elsewhere.
/// Readers acquire guards of values that others take out.
impl Shared for RefHashMap<u64, u64> {
    fn put(&self, value: u64) -> bool {
        let mut carried = value;
        for key in value.. {
            let _guard = self.get(&(key.wrapping_mul(31) % LENT));
            match self.insert(key % LENT, carried) {
                Ok(None) => break,
                Ok(Some(old)) => carried = *old,
                Err(_) => return false,
            }
        }
        true
    }

    fn take(&self) -> Option<u64> {
        (0..LENT).find_map(|number| Some(*self.remove(&(number * 37 % LENT))?))
    }

    fn take_this(&self, value: u64) -> bool {
        // Whatever is in its place now is put back.
        let removed = self.remove(&(value % LENT));
        match removed {
            Some(removed) if *removed == value => true,
            Some(removed) => {
                assert!(self.put(*removed), "there is memory");
                false
            }
            None => false,
        }
    }
}

/// How many keys of a map of counted values are used.
const LENT: u64 = 512;

impl Shared for PriorityQueue<u64, u64> {
    /// Some entries change their priority, and some are removed and inserted again.
    fn put(&self, value: u64) -> bool {
        let Ok(handle) = self.insert(value % 32, value) else {
            return false;
        };
        match value % 8 {
            0 => _ = self.change_priority(handle, value % 7),
            1 => {
                if let Some((_, same)) = self.remove(handle) {
                    return same == value && self.insert(value % 5, same).is_ok();
                }
            }
            _ => {}
        }
        true
    }

    /// Takes the next one that is due, or else the next one.
    fn take(&self) -> Option<u64> {
        let due = self.pop_due(8).or_else(|| self.pop());
        due.map(|(_, value)| value)
    }
}

/// How many pages of a map are used: a few of each of 32 leaves, below four children.
const USED: u64 = 256;

/// Returns a page by its number.
fn page(number: u64) -> u64 {
    number % 4 * 8192 + number / 32 * 64 + number / 4 % 8
}

/// A value is the entry of any page. One that is in its place goes to the next page.
impl Shared for PageMap<u64> {
    fn put(&self, value: u64) -> bool {
        let mut carried = value;
        for number in value.. {
            match self.insert(page(number % USED), carried) {
                Ok(None) => break,
                Ok(Some(old)) => carried = old,
                Err(_) => return false,
            }
        }
        true
    }

    fn take(&self) -> Option<u64> {
        for number in 0..USED {
            let page = page(number * 37 % USED);
            if self.get(page).is_none() {
                continue;
            }
            // Takes a whole leaf, or below a child, and puts back all values but one.
            let mut taken = None;
            let mut unloaded = |_: u64, value: u64| {
                if let Some(more) = taken.replace(value) {
                    assert!(self.put(more), "there is memory");
                }
            };
            match number % 8 {
                0 => _ = self.unload(page, unloaded),
                1 => _ = self.unload_subtree(page, unloaded),
                _ => {
                    if let Some(value) = self.remove(page) {
                        unloaded(page, value);
                    }
                }
            }
            if taken.is_some() {
                return taken;
            }
        }
        None
    }
}

impl Shared for RefList<u64> {
    /// Some go behind the first one.
    fn put(&self, value: u64) -> bool {
        let first = self.front().filter(|_| value.is_multiple_of(4));
        let is_behind = first.is_some_and(|first| first.insert_behind(value).is_ok());
        is_behind || self.push_front(value).is_ok()
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
    /// Some go behind the first one that has no visitor.
    fn put(&self, value: u64) -> bool {
        let first = value
            .is_multiple_of(4)
            .then(|| self.visit_first())
            .flatten();
        let is_behind = first.is_some_and(|first| first.insert_behind(value).is_ok());
        is_behind || self.push_front(value).is_ok()
    }

    fn take(&self) -> Option<u64> {
        self.pop_front()
    }

    /// Visits all elements before it.
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

descriptor! {
    /// A value, or 0 once it was taken out.
    pub struct Valued {
        value: AtomicU64,
    }
}

/// The owner of cached values: those that are written back.
pub struct WrittenBack(Queue<u64>);

impl WriteBack<Member<Valued, 2>> for WrittenBack {
    fn write_back(&self, victim: &Member<Valued, 2>) {
        let value = victim.value.swap(0, Ordering::SeqCst);
        if value != 0 {
            self.0.push(value).expect("it has room for all values");
        }
    }
}

/// Cached values, each on two lists, in a cache that is too small.
pub struct Listed(ListCache<Valued, WrittenBack, 2>);

/// How many lists of the first link there are. The second one has one.
const LISTS: usize = 3;

impl Listed {
    fn by(mechanism: Mechanism) -> Listed {
        let owner = WrittenBack(Queue::with_capacity(1 << 14));
        let cache = ListCache::forced(MANY as usize / 2, [LISTS, 1], owner, mechanism);
        Listed(cache.expect("memory"))
    }
}

impl Shared for Listed {
    fn put(&self, value: u64) -> bool {
        let Ok(new) = self.0.load() else {
            return false;
        };
        // What it held was written back, or taken out.
        new.value.store(value + 1, Ordering::SeqCst);
        // A handler, or another lane, may have taken it out of the first list meanwhile.
        self.0.list(0, value as usize % LISTS).push_front(&new);
        self.0.list(1, 0).push_front(&new);
        true
    }

    /// Takes the first value out of a list, and off the other list that it is on.
    fn take(&self) -> Option<u64> {
        loop {
            let lists = (0..LISTS).map(|number| (0, number)).chain([(1, 0)]);
            let mut popped =
                lists.filter_map(|(link, number)| self.0.list(link, number).pop_front());
            let Some(popped) = popped.next() else {
                let value = self.0.owner().0.pop();
                return value.map(|value| value - 1);
            };
            let value = popped.value.swap(0, Ordering::SeqCst);
            self.0.remove(0, &popped);
            self.0.remove(1, &popped);
            // It fails if another lane uses it too. Then it is written back, without a value.
            _ = popped.unload();
            if value != 0 {
                return Some(value - 1);
            }
        }
    }
}

plain! {
    /// The object of a server: a queue of values, the oldest first.
    #[derive(Default)]
    pub struct Values {
        values: [u64; ROOM],
        count: u64,
    }
}

/// How many values a server's queue has room for.
const ROOM: usize = 24;

plain! {
    /// An operation of a server: puts this value in, or takes the oldest one out.
    pub struct Change {
        is_put: u64,
        value: u64,
    }
}

impl Operation<Values> for Change {
    /// Whether there was room, or a value, and the value.
    type Output = [u64; 2];

    fn apply(self, queue: &mut Values) -> [u64; 2] {
        let count = queue.count as usize;
        match self.is_put {
            0 if count == 0 => [0, 0],
            0 => {
                let oldest = queue.values[0];
                queue.values.copy_within(1.., 0);
                queue.count -= 1;
                [1, oldest]
            }
            _ if count == ROOM => [0, 0],
            _ => {
                queue.values[count] = self.value;
                queue.count += 1;
                [1, self.value]
            }
        }
    }
}

impl Shared for Server<Values, Change> {
    const IN_ORDER: bool = true;

    fn put(&self, value: u64) -> bool {
        let change = Change { is_put: 1, value };
        self.run(change).is_ok_and(|[done, _]| done == 1)
    }

    fn take(&self) -> Option<u64> {
        let change = Change {
            is_put: 0,
            value: 0,
        };
        let [done, value] = self.run(change).ok()?;
        (done == 1).then_some(value)
    }
}

/// The approximate max number of values inside: the time of a search grows with the length of a
/// list.
const MANY: i64 = 64;

/// A structure and its ledger.
pub struct SharedRound<S> {
    structure: S,
    ledger: Ledger,
    /// The approximate number of values inside.
    inside: AtomicI64,
}

impl<S: Shared> SharedRound<S> {
    /// Returns a round on this structure.
    pub fn new(structure: S, setting: &mut Setting) -> SharedRound<S> {
        let ledger = Ledger::new(setting.salt, setting.lanes, STEPS);
        SharedRound {
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
        lane.begin(Activity::Push);
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
        lane.begin(Activity::Pop);
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
            let violation = Violation::new("a lane's values left a queue out of order");
            let violation = violation.with("issued by lane", origin.lane as u64);
            return Err(violation
                .with("number", origin.number.into())
                .with("after number", (seen - 1).into()));
        }
        Ok(())
    }
}

impl<S: Shared> Round for SharedRound<S> {
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
        self.ledger.check_final()
    }
}
