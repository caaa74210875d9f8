//! One history while it is being made: a structure, the lanes that use it, and their events.
//!
//! A thread has two lanes: its own, and one for the signal handlers that interrupt it. A call is
//! recorded before it begins, so that it is in the history if the thread exits inside.

use std::cell::UnsafeCell;

use crossbeam_utils::CachePadded;
use fastrand::Rng;

use crate::history::Clock;
use crate::history::Model;
use crate::history::{Event, History, LANES};
use crate::interrupt::Others;

/// The largest number of threads of a history: two lanes each, and one lane for the end.
pub const THREADS: usize = LANES / 2;

/// The lane that takes out what is left at the end.
const LAST: usize = LANES - 1;

/// More calls than can be needed to take out what is left.
const MAX_LEFT: usize = 1_000;

/// A structure under test.
pub trait Subject: Send + Sync + Sized + 'static {
    /// Its sequential specification.
    type Model: Model<Call: Send, Answer: Send> + Send;
    /// What a lane keeps from one call to the next.
    type Memory: Default + Send;

    /// Returns the lane's next call, if it has any. `value` differs each time and is never 0; its
    /// bits from 16 on are the lane's number plus one. Also called in signal handlers: allocates no
    /// memory.
    fn choose(
        &self,
        rng: &mut Rng,
        memory: &Self::Memory,
        value: u64,
    ) -> Option<<Self::Model as Model>::Call>;

    /// Makes the call.
    fn operate(
        &self,
        call: &<Self::Model as Model>::Call,
        memory: &mut Self::Memory,
    ) -> <Self::Model as Model>::Answer;

    /// Returns, after all other calls, the calls that show what is left, one after the other.
    fn last(
        &self,
        before: Option<&<Self::Model as Model>::Answer>,
    ) -> Option<<Self::Model as Model>::Call>;

    /// Recovers what exited threads held, if the structure has an audit, while no other thread uses
    /// it. Returns how many values.
    fn recover(&self) -> usize {
        0
    }
}

/// Returns the lane that a value encodes.
pub fn lane_of(value: u64) -> usize {
    (value >> 16) as usize - 1
}

/// A function that makes a structure's calls.
pub type Operation<S> = fn(
    &S,
    &<<S as Subject>::Model as Model>::Call,
    &mut <S as Subject>::Memory,
) -> <<S as Subject>::Model as Model>::Answer;

/// Returns the one function through which all calls of a structure go, so that the stops that are
/// found in it apply to all.
pub fn operation<S: Subject>() -> Operation<S> {
    std::hint::black_box(S::operate)
}

struct Lane<S: Subject> {
    rng: Rng,
    memory: S::Memory,
    most: usize,
    events: Vec<Event<S::Model>>,
}

/// One history while it is being made.
pub struct Record<S: Subject> {
    /// The structure under test.
    pub subject: S,
    before: S::Model,
    /// The clock: which calls have returned.
    pub clock: Clock,
    threads: usize,
    calls: usize,
    lanes: [CachePadded<UnsafeCell<Lane<S>>>; LANES],
}

// SAFETY: the subject and the clock are shared as such; a lane is used by one thread at a time, by
// the contract of `call`.
unsafe impl<S: Subject> Sync for Record<S> {}

impl<S: Subject> Record<S> {
    /// Makes a record for this number of threads and of calls of each thread; half as many calls of
    /// its handlers. All choices follow from the seed.
    pub fn new(subject: S, before: S::Model, threads: usize, calls: usize, seed: u64) -> Record<S> {
        assert!(threads <= THREADS, "more threads than lanes");
        let lane = |number: usize| {
            let most = if number < THREADS { calls } else { calls / 2 };
            CachePadded::new(UnsafeCell::new(Lane {
                rng: Rng::with_seed(seed.wrapping_mul(LANES as u64).wrapping_add(number as u64)),
                memory: S::Memory::default(),
                most,
                // The capacity suffices: signal handlers allocate no memory.
                events: Vec::with_capacity(most),
            }))
        };
        Record {
            subject,
            before,
            clock: Clock::default(),
            threads,
            calls,
            lanes: std::array::from_fn(lane),
        }
    }

    /// Makes one call, which the lane chooses. Returns `false` if the lane has made all of its
    /// calls.
    ///
    /// # Safety
    ///
    /// No other user of the lane exists meanwhile: neither another thread nor a handler that
    /// interrupts this one.
    pub unsafe fn call(&self, number: usize) -> bool {
        // SAFETY: the caller's promise.
        let lane = unsafe { &mut *self.lanes[number].get() };
        if lane.events.len() == lane.most {
            return false;
        }
        let value = ((number as u64 + 1) << 16) + lane.events.len() as u64 + 1;
        let call = self.subject.choose(&mut lane.rng, &lane.memory, value);
        let Some(call) = call else {
            return false;
        };
        self.note(number, lane, call);
        true
    }

    /// Makes this call.
    ///
    /// # Safety
    ///
    /// The contract of [`call`](Record::call).
    pub unsafe fn call_this(&self, number: usize, call: <S::Model as Model>::Call) {
        // SAFETY: the caller's promise.
        let lane = unsafe { &mut *self.lanes[number].get() };
        assert!(lane.events.len() < lane.most, "the lane has no room left");
        self.note(number, lane, call);
    }

    #[inline(never)]
    fn note(&self, number: usize, lane: &mut Lane<S>, call: <S::Model as Model>::Call) {
        let Lane { memory, events, .. } = lane;
        let seen = self.clock.seen();
        events.push(Event {
            call: call.clone(),
            answer: None,
            seen,
        });
        let answer = operation::<S>()(&self.subject, &call, memory);
        let calls = events.len();
        if let Some(event) = events.last_mut() {
            event.answer = Some(answer);
        }
        self.clock.returned(number, calls);
    }

    /// Returns the history, when no thread uses it any more. The last lane's calls take out what is
    /// left.
    pub fn finish(mut self) -> (S, History<S::Model>) {
        let mut answer = None;
        let last = self.lanes[LAST].get_mut();
        while let Some(call) = self.subject.last(answer.as_ref()) {
            let seen = self.clock.seen();
            let given = self.subject.operate(&call, &mut last.memory);
            last.events.push(Event {
                call,
                answer: Some(given.clone()),
                seen,
            });
            answer = Some(given);
            // A limit: more has come out than ever went in, which no model allows.
            if last.events.len() >= MAX_LEFT {
                break;
            }
        }
        let lanes = self.lanes.map(|lane| lane.into_inner().into_inner().events);
        (
            self.subject,
            History {
                before: self.before,
                lanes: lanes.into(),
            },
        )
    }
}

impl<S: Subject> Record<S> {
    /// Drops what the lanes keep. The structure stays as the calls have left it, to be dropped in
    /// place.
    pub fn forget_memories(&mut self) {
        for lane in &mut self.lanes {
            lane.get_mut().memory = S::Memory::default();
        }
    }
}

impl<S: Subject> Others for Record<S> {
    fn are_done(&self, thread: usize) -> bool {
        let others = (0..self.threads).filter(|other| *other != thread);
        others
            .into_iter()
            .all(|other| self.clock.count(other) == self.calls)
    }

    fn call(&self, thread: usize) -> bool {
        // SAFETY: the second lane of the thread that a handler interrupts; one handler at a time
        // acts.
        unsafe { self.call(THREADS + thread) }
    }

    fn call_in(&self, lane: usize) -> bool {
        // SAFETY: the caller guarantees that no call of this lane is in progress.
        unsafe { self.call(lane) }
    }
}
