//! One history while it is made: a structure, the lanes that use it, and what they note.
//!
//! A thread has two lanes: its own, and one for the signal handlers that interrupt it. A call is
//! noted before it begins, so that it is there if the thread ends inside.

use std::cell::UnsafeCell;

use crossbeam_utils::CachePadded;
use fastrand::Rng;

use crate::history::Clock;
use crate::history::Model;
use crate::history::{Event, History, LANES};
use crate::interrupt::Others;

/// The most threads of a history: two lanes each, and one for the end.
pub const THREADS: usize = LANES / 2;

/// The lane that looks at what is left.
const LAST: usize = LANES - 1;

/// The most that can be left, and more than that.
const MAX_LEFT: usize = 1_000;

/// A structure that histories are made of.
pub trait Subject: Send + Sync + Sized + 'static {
    /// What it should be.
    type Model: Model<Call: Send, Answer: Send> + Send;
    /// What a lane keeps from one call to the next.
    type Memory: Default + Send;

    /// The lane's next call, if it has any. `value` is another one each time, and never 0; the
    /// number of the lane plus one is in its bits from 16 on. In signal handlers too: it takes no
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

    /// When all are done, the calls that show what is left, one after the other.
    fn last(
        &self,
        before: Option<&<Self::Model as Model>::Answer>,
    ) -> Option<<Self::Model as Model>::Call>;
}

/// The lane that a value stands for.
pub fn lane_of(value: u64) -> usize {
    (value >> 16) as usize - 1
}

/// What makes a structure's calls.
pub type Operation<S> = fn(
    &S,
    &<<S as Subject>::Model as Model>::Call,
    &mut <S as Subject>::Memory,
) -> <<S as Subject>::Model as Model>::Answer;

/// The one function that all calls of a structure go through, so that what is stopped in it is all
/// there is.
pub fn operation<S: Subject>() -> Operation<S> {
    std::hint::black_box(S::operate)
}

struct Lane<S: Subject> {
    rng: Rng,
    memory: S::Memory,
    most: usize,
    events: Vec<Event<S::Model>>,
}

/// One history while it is made.
pub struct Record<S: Subject> {
    /// The structure.
    pub subject: S,
    before: S::Model,
    /// Who has returned.
    pub clock: Clock,
    threads: usize,
    calls: usize,
    lanes: [CachePadded<UnsafeCell<Lane<S>>>; LANES],
}

// SAFETY: the subject and the clock are shared as such; a lane is used by one thread at a time, by
// the promise to `call`.
unsafe impl<S: Subject> Sync for Record<S> {}

impl<S: Subject> Record<S> {
    /// For so many threads, and so many calls of each; half as many of its handlers. All choices
    /// follow from the seed.
    pub fn new(subject: S, before: S::Model, threads: usize, calls: usize, seed: u64) -> Record<S> {
        assert!(threads <= THREADS, "so many threads have no lanes");
        let lane = |number: usize| {
            let most = if number < THREADS { calls } else { calls / 2 };
            CachePadded::new(UnsafeCell::new(Lane {
                rng: Rng::with_seed(seed.wrapping_mul(LANES as u64).wrapping_add(number as u64)),
                memory: S::Memory::default(),
                most,
                // Never more: signal handlers take no memory.
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

    /// One call of the lane's choice. `false`: it has made them all.
    ///
    /// # Safety
    ///
    /// Nobody else uses the lane meanwhile: neither another thread nor a handler that interrupts
    /// this one.
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

    /// This call.
    ///
    /// # Safety
    ///
    /// As for [`call`](Record::call).
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

    /// The history, when nobody uses it any more: what is left comes out as the last lane's calls.
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
            // No end to it: more comes out than ever went in, which no model allows.
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
    /// Drops what the lanes keep. The structure stays as the calls have left it, to be dropped
    /// where it lies.
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
        // SAFETY: the caller says that nobody is inside one.
        unsafe { self.call(lane) }
    }
}
