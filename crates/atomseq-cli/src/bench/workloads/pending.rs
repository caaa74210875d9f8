//! The workload of priority queues, the hold model of event simulation: a thread inserts its event
//! some time after the last one that it popped, and pops the next one.
//!
//! The queue holds the same number of events all the time, and one more for each thread that has
//! inserted. An event is inserted anywhere among them: its time is a random one of a span in which
//! all others lie. Each event has a number: in the end each must be there once.

use std::sync::{Mutex, PoisonError};

use crossbeam_utils::CachePadded;
use fastrand::Rng;

use crate::bench::engine::Subject;
use crate::bench::fault::Fault;
use crate::error::Refused;

/// The time after which an event follows at most. Equal times are rare.
const SPAN: u64 = 1 << 30;

/// Something that returns the least first.
pub trait Pending: Sync {
    /// Inserts an event; false if there is no memory.
    fn insert(&self, time: u64, event: u64) -> bool;

    /// Takes an event out, of the least time.
    fn pop(&self) -> Option<(u64, u64)>;
}

/// A queue under this workload.
pub struct Hold<Q> {
    queue: Q,
    events: u64,
    hands: Vec<CachePadded<Mutex<Hand>>>,
}

/// What a thread has popped last, and what it chooses times by.
struct Hand {
    now: u64,
    event: u64,
    rng: Rng,
}

impl<Q: Pending + 'static> Hold<Q> {
    /// The subject for that many threads, with that many events beside the threads' own.
    pub fn boxed(threads: usize, events: u64, queue: Q) -> Box<dyn Subject> {
        let hand = |thread: u64| {
            CachePadded::new(Mutex::new(Hand {
                now: 0,
                event: events + thread,
                // A fixed seed: two benchmarks of one machine differ by the machine only.
                rng: Rng::with_seed(thread + 1),
            }))
        };
        let hands = (0..threads as u64).map(hand).collect();
        Box::new(Self {
            queue,
            events,
            hands,
        })
    }
}

impl<Q: Pending + 'static> Subject for Hold<Q> {
    fn prepare(&self, thread: usize) -> Result<(), Refused> {
        let mut hand = self.hands[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for event in (thread as u64..self.events).step_by(self.hands.len()) {
            let time = hand.rng.u64(..SPAN);
            assert!(self.queue.insert(time, event), "{NO_MEMORY}");
        }
        Ok(())
    }

    fn run(&self, thread: usize, operations: u64) {
        let mut hand = self.hands[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Hand { now, event, rng } = &mut *hand;
        for _ in 0..operations {
            let time = *now + rng.u64(..SPAN);
            assert!(self.queue.insert(time, *event), "{NO_MEMORY}");
            let next = self.queue.pop();
            (*now, *event) = next.expect("this thread has just inserted an event");
        }
    }

    fn check(&self, _operations: u64) -> Result<(), Fault> {
        let all = self.events as usize + self.hands.len();
        let mut there = vec![false; all];
        let hands = self.hands.iter();
        let held = hands.map(|hand| hand.lock().unwrap_or_else(PoisonError::into_inner).event);
        held.for_each(|event| there[event as usize] = true);
        let mut last = 0;
        while let Some((time, event)) = self.queue.pop() {
            if time < last {
                return Err(format!("an event of {last} came before one of {time}").into());
            }
            last = time;
            let there = there.get_mut(event as usize).filter(|there| !**there);
            let Some(there) = there else {
                return Err(format!("event {event} came twice, or never went in").into());
            };
            *there = true;
        }
        let count = there.into_iter().filter(|there| *there).count();
        if count == all {
            return Ok(());
        }
        let sentence = format!("{} of {all} events are missing", all - count);
        Err(Fault::count(all as u64, [count as u64], sentence))
    }
}

const NO_MEMORY: &str = "there is no memory for an event";

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;
    use crate::bench::engine::GRAIN;
    use crate::bench::peers::mutexed::Mutexed;

    /// Does to the event of this number what it says.
    struct Faulty(
        Mutexed<BinaryHeap<Reverse<(u64, u64)>>>,
        Option<u64>,
        Change,
    );

    type Change = fn(u64, u64) -> (u64, u64);

    impl Pending for Faulty {
        fn insert(&self, time: u64, event: u64) -> bool {
            let is_it = Some(event) == self.1;
            let (time, event) = if is_it {
                (self.2)(time, event)
            } else {
                (time, event)
            };
            event == u64::MAX || self.0.insert(time, event)
        }

        fn pop(&self) -> Option<(u64, u64)> {
            self.0.pop()
        }
    }

    fn judge(event: Option<u64>, change: Change) -> Result<(), String> {
        let case = Hold::boxed(1, 5, Faulty(Mutexed::default(), event, change));
        case.prepare(0).unwrap();
        if event.is_none() {
            case.run(0, GRAIN);
        }
        case.check(GRAIN).map_err(|fault| fault.sentence)
    }

    #[test]
    fn the_check_tells_a_whole_queue_from_one_that_loses_or_doubles() {
        assert_eq!(judge(None, |time, event| (time, event)), Ok(()));
        let lost = judge(Some(3), |time, _| (time, u64::MAX));
        assert_eq!(lost.unwrap_err(), "1 of 6 events are missing");
        let doubled = judge(Some(3), |time, _| (time, 2));
        assert_eq!(doubled.unwrap_err(), "event 2 came twice, or never went in");
    }

    /// Returns the event that was inserted last.
    #[derive(Default)]
    struct NewestFirst(Mutex<Vec<(u64, u64)>>);

    impl Pending for NewestFirst {
        fn insert(&self, time: u64, event: u64) -> bool {
            self.0.lock().unwrap().push((time, event));
            true
        }

        fn pop(&self) -> Option<(u64, u64)> {
            self.0.lock().unwrap().pop()
        }
    }

    #[test]
    fn the_check_finds_events_out_of_order() {
        let case = Hold::boxed(1, 100, NewestFirst::default());
        case.prepare(0).unwrap();
        let fault = case.check(0).unwrap_err();
        assert!(fault.sentence.contains("came before"), "{fault}");
    }
}
