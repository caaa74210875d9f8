//! The workload of queues, stacks and pools in flow: half of the threads produce, the other half
//! consume.
//!
//! An operation is one element from a producer to a consumer, and all threads share the operations
//! of a run. A thread that finds no room, or no element, waits and tries again. In the end every
//! element must have arrived once.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::bench::engine::Subject;
use crate::bench::fault::Fault;

/// How a thread waits that finds no room, or no element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It stays on its CPU.
    Spin,
    /// It lets another thread have its CPU.
    Yield,
}

impl Wait {
    #[inline(always)]
    fn once(self) {
        match self {
            Self::Spin => std::hint::spin_loop(),
            Self::Yield => std::thread::yield_now(),
        }
    }
}

/// Which threads produce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roles {
    /// The first half, so that each CPU has as many of both where two threads share one.
    Halves,
    /// Every second thread, so that no CPU has both where the number of CPUs is even.
    Turns,
}

/// Something that takes an element from a producer to a consumer.
pub trait Way: Sync {
    /// The element on its way.
    type Element;

    /// Makes the element of a number.
    fn make(&self, number: u64) -> Self::Element;

    /// Sends an element; gives it back when there is no room.
    fn send(&self, element: Self::Element) -> Result<(), Self::Element>;

    /// Receives an element, if one is there.
    fn receive(&self) -> Option<Self::Element>;

    /// Gives an element up that has arrived; its number.
    fn end(&self, element: Self::Element) -> u64;
}

/// A way on which threads produce and consume.
pub struct Flow<W> {
    way: W,
    wait: Wait,
    roles: Roles,
    /// By thread: what it sent or received so far.
    ledgers: Vec<CachePadded<Ledger>>,
}

impl<W: Way + 'static> Flow<W> {
    /// The subject for that many threads, an even number.
    pub fn boxed(threads: usize, wait: Wait, roles: Roles, way: W) -> Box<dyn Subject> {
        Box::new(Self::new(threads, wait, roles, way))
    }
}

impl<C: Conveyor + 'static> Flow<Through<C>> {
    /// The subject of a container.
    pub fn through(threads: usize, wait: Wait, container: C) -> Box<dyn Subject> {
        Flow::boxed(threads, wait, Roles::Halves, Through(container))
    }
}

impl<W: Way> Flow<W> {
    fn new(threads: usize, wait: Wait, roles: Roles, way: W) -> Self {
        assert!(threads.is_multiple_of(2), "half of the threads produce");
        Self {
            way,
            wait,
            roles,
            ledgers: (0..threads).map(|_| CachePadded::default()).collect(),
        }
    }

    /// A function of its own, so that what surrounds the loop takes none of its registers.
    #[inline(never)]
    fn produce(&self, first: u64, elements: u64) -> Entry {
        let mut sent = Entry::default();
        for number in first..first + elements {
            let mut element = self.way.make(number);
            while let Err(refused) = self.way.send(element) {
                element = refused;
                self.wait.once();
            }
            sent.add(number);
        }
        sent
    }

    #[inline(never)]
    fn consume(&self, elements: u64) -> Entry {
        let mut received = Entry::default();
        for _ in 0..elements {
            let element = loop {
                match self.way.receive() {
                    Some(element) => break element,
                    None => self.wait.once(),
                }
            };
            received.add(self.way.end(element));
        }
        received
    }

    /// Whether a thread produces, and its number among those of its role.
    fn role(&self, thread: usize) -> (bool, usize) {
        let half = self.ledgers.len() / 2;
        match self.roles {
            Roles::Halves => (thread < half, thread % half),
            Roles::Turns => (thread.is_multiple_of(2), thread / 2),
        }
    }
}

impl<W: Way> Subject for Flow<W> {
    fn run(&self, thread: usize, operations: u64) {
        let (produces, index) = self.role(thread);
        let half = self.ledgers.len() as u64 / 2;
        let until = |index: u64| operations * index / half;
        let share = until(index as u64 + 1) - until(index as u64);
        let ledger = &self.ledgers[thread];
        // Relaxed: only this thread writes its ledger, and it is read after the threads have ended.
        let entry = if produces {
            // Numbers of different producers differ.
            let first = (thread as u64) << 40 | ledger.elements.load(Ordering::Relaxed);
            self.produce(first, share)
        } else {
            self.consume(share)
        };
        ledger.enter(share, entry);
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        let elements = operations / self.ledgers.len() as u64;
        let mut total = [(0, Entry::default()); 2];
        for (thread, ledger) in self.ledgers.iter().enumerate() {
            let (produces, _) = self.role(thread);
            let (count, entry) = &mut total[usize::from(produces)];
            let (more, of) = ledger.read();
            *count += more;
            *entry = entry.with(of);
        }
        let [(received, arrived), (sent, left)] = total;
        if (sent, received) != (elements, elements) {
            let sentence =
                format!("{sent} elements were sent and {received} received, of {elements}");
            return Err(Fault::count(elements, [sent, received], sentence));
        }
        if arrived != left {
            return Err("other elements were received than were sent".into());
        }
        match self.way.receive() {
            Some(element) => {
                self.way.end(element);
                Err("an element was there after all had been received".into())
            }
            None => Ok(()),
        }
    }
}

/// Distinguishes two collections of numbers of the same size, in all but contrived cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    sum: u64,
    squares: u64,
}

impl Entry {
    #[inline(always)]
    fn add(&mut self, number: u64) {
        self.sum = self.sum.wrapping_add(number);
        self.squares = self.squares.wrapping_add(number.wrapping_mul(number));
    }

    fn with(self, other: Self) -> Self {
        Self {
            sum: self.sum.wrapping_add(other.sum),
            squares: self.squares.wrapping_add(other.squares),
        }
    }
}

/// What one thread sent or received.
#[derive(Default)]
struct Ledger {
    elements: AtomicU64,
    sum: AtomicU64,
    squares: AtomicU64,
}

impl Ledger {
    /// Relaxed, as in `read`: only one thread writes, and others read after it has ended.
    fn enter(&self, elements: u64, entry: Entry) {
        self.elements.fetch_add(elements, Ordering::Relaxed);
        self.sum.fetch_add(entry.sum, Ordering::Relaxed);
        self.squares.fetch_add(entry.squares, Ordering::Relaxed);
    }

    fn read(&self) -> (u64, Entry) {
        let entry = Entry {
            sum: self.sum.load(Ordering::Relaxed),
            squares: self.squares.load(Ordering::Relaxed),
        };
        (self.elements.load(Ordering::Relaxed), entry)
    }
}

/// A container that producers push numbers to and consumers pop them from.
pub trait Conveyor: Sync {
    /// Pushes a number; gives it back when there is no room.
    fn push(&self, number: u64) -> Result<(), u64>;

    /// Pops a number, if there is one.
    fn pop(&self) -> Option<u64>;
}

/// The way through a container: its elements are their numbers.
pub struct Through<C>(pub C);

impl<C: Conveyor> Way for Through<C> {
    type Element = u64;

    #[inline(always)]
    fn make(&self, number: u64) -> u64 {
        number
    }

    #[inline(always)]
    fn send(&self, element: u64) -> Result<(), u64> {
        self.0.push(element)
    }

    #[inline(always)]
    fn receive(&self) -> Option<u64> {
        self.0.pop()
    }

    #[inline(always)]
    fn end(&self, element: u64) -> u64 {
        element
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use crossbeam_queue::ArrayQueue;

    use super::*;
    use crate::bench::engine::GRAIN;

    /// Changes the number of one element; `u64::MAX` loses it.
    struct Faulty(ArrayQueue<u64>, Option<(u64, u64)>);

    impl Conveyor for Faulty {
        fn push(&self, number: u64) -> Result<(), u64> {
            match self.1 {
                Some((of, to)) if of == number => self.0.push(to),
                _ => self.0.push(number),
            }
        }

        fn pop(&self) -> Option<u64> {
            self.0.pop()
        }
    }

    fn judge(
        threads: usize,
        roles: Roles,
        wait: Wait,
        fault: Option<(u64, u64)>,
    ) -> Result<(), Fault> {
        let way = Through(Faulty(ArrayQueue::new(4), fault));
        let flow = Flow::new(threads, wait, roles, way);
        thread::scope(|scope| {
            for thread in 0..threads {
                let flow = &flow;
                scope.spawn(move || flow.run(thread, GRAIN));
            }
        });
        flow.check(GRAIN * threads as u64)
    }

    #[test]
    fn every_element_arrives_for_all_roles_and_waits() {
        for roles in [Roles::Halves, Roles::Turns] {
            for wait in [Wait::Spin, Wait::Yield] {
                for threads in [2, 6, 8] {
                    assert_eq!(judge(threads, roles, wait, None), Ok(()));
                }
            }
        }
    }

    #[test]
    fn the_check_finds_an_element_that_became_another() {
        let fault = judge(2, Roles::Halves, Wait::Yield, Some((3, 4))).unwrap_err();
        assert_eq!(fault, "other elements were received than were sent".into());
    }

    #[test]
    fn the_check_finds_elements_that_were_not_received_or_came_from_nowhere() {
        let flow = || {
            let way = Through(Faulty(ArrayQueue::new(GRAIN as usize + 1), None));
            Flow::new(2, Wait::Spin, Roles::Halves, way)
        };
        let lost = flow();
        lost.run(0, GRAIN);
        let fault = lost.check(GRAIN * 2).unwrap_err();
        assert_eq!(
            fault.sentence,
            "64 elements were sent and 0 received, of 64"
        );
        assert_eq!((fault.expected, fault.found), (Some(64), vec![64, 0]));
        let doubled = flow();
        doubled.way.0.0.push(7).unwrap();
        doubled.run(0, GRAIN);
        doubled.run(1, GRAIN);
        assert!(doubled.check(GRAIN * 2).is_err());
    }

    #[test]
    fn half_of_the_threads_produce() {
        for roles in [Roles::Halves, Roles::Turns] {
            let flow = Flow::new(6, Wait::Spin, roles, Through(ArrayQueue::new(1)));
            let of: Vec<_> = (0..6).map(|thread| flow.role(thread)).collect();
            for index in 0..3 {
                assert!(of.contains(&(true, index)) && of.contains(&(false, index)));
            }
        }
    }
}
