//! The queue of a server: callers whose operations are enqueued, and threads that run these.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::runner::{IDLE, Running, Waited};
use super::{Base, Operation, Plain, RETURNED, Request, Server, State};
use crate::nonblocking::nodes::{Changed, address, until_unchanged};
use crate::sync::Ordering;
use crate::type_stable::Error;

/// How many further requests a server runs after its own operation, before it leaves the queue to
/// the callers that wait in it.
const FURTHER: usize = 16;

/// The outcome of one attempt to serve the queue.
enum Served {
    /// A request was done or dequeued, by this thread or another one.
    Progress,
    /// This thread's own request was done, and its operation panicked.
    Panicked(Box<dyn Any + Send>),
    /// The queue is empty.
    Nothing,
    /// There is no memory for a copy of the object.
    NoMemory,
}

impl<T: Plain, O: Operation<T>> Server<T, O> {
    /// Enqueues an operation, and serves the queue or waits until it is done.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(super) fn run_in_turn(&self, operation: O, me: u64) -> Result<O::Output, Error> {
        let request = self.requests.allocate()?;
        request.operation.store(operation);
        let request = request.into_raw();
        self.enqueue(request);
        let mut waited = Waited::default();
        let mut panicked = None;
        loop {
            if let Some(state) = self.done(request) {
                return match (self.collect(request, state), panicked) {
                    (Some(output), _) => Ok(output),
                    (None, Some(panic)) => resume_unwind(panic),
                    (None, None) => panic!("the operation panicked in the thread that ran it"),
                };
            }
            let runner = self.anchor.runner.load(Ordering::Relaxed);
            // Unvalidated: a hint.
            let progress = self.anchor.versioned.load(&self.anchor.current);
            if runner != IDLE && runner != me && waited.more(runner, progress) {
                continue;
            }
            let Some(_running) = Running::take_over(&self.anchor.runner, me, runner) else {
                continue;
            };
            match self.serve_until(request) {
                Served::Panicked(panic) => panicked = Some(panic),
                // Other callers may have memory to run the operation.
                Served::NoMemory => std::thread::yield_now(),
                Served::Progress | Served::Nothing => {}
            }
        }
    }

    /// Serves the queue until this request is done, and a few more requests then.
    fn serve_until(&self, request: &Request<O>) -> Served {
        while self.done(request).is_none() {
            let served = self.serve(Some(request));
            if !matches!(served, Served::Progress) {
                return served;
            }
        }
        self.serve_further();
        Served::Progress
    }

    /// Serves a few requests of other callers.
    pub(super) fn serve_further(&self) {
        for _ in 0..FURTHER {
            if !matches!(self.serve(None), Served::Progress) {
                break;
            }
        }
    }

    /// Runs the operation of the first request, or dequeues the request if it is done. `own` is the
    /// caller's request.
    fn serve(&self, own: Option<&Request<O>>) -> Served {
        let Some((request, is_done)) = self.first() else {
            return Served::Nothing;
        };
        if is_done {
            self.dequeue(request);
            return Served::Progress;
        }
        // Before the operation, so that it does not run in vain.
        let Ok(state) = self.states.allocate() else {
            return Served::NoMemory;
        };
        let base = self.base();
        let Some(operation) = self.operation(&base, request) else {
            return Served::Progress;
        };
        let mut object = base.object;
        // The copy is discarded if the operation panics.
        let applied = catch_unwind(AssertUnwindSafe(|| operation.apply(&mut object)));
        let (serial, at) = (base.serial + 1, address(request));
        match &applied {
            Ok(output) => state.fill(serial, at, object, Some(*output)),
            Err(_) => state.fill(serial, at, base.object, None),
        }
        let is_own = own.is_some_and(|own| std::ptr::eq(own, request));
        match (self.publish(&base, state, Some(request)), applied) {
            (true, Err(panic)) if is_own => return Served::Panicked(panic),
            (_, Err(panic)) => discard(panic),
            (_, Ok(_)) => {}
        }
        Served::Progress
    }

    fn enqueue(&self, request: &Request<O>) {
        let new = address(request);
        let (first, last) = (&self.anchor.first, &self.anchor.last);
        until_unchanged(|| {
            let version = self.begin();
            match self.request(self.word(first)) {
                None => self.store_pair(version, (first, new), (last, new)),
                Some(_) => {
                    let Some(end) = self.request(self.word(last)) else {
                        // Read at different versions.
                        return Err(Changed::Seen);
                    };
                    self.store_pair(version, (&end.next, new), (last, new))
                }
            }
        });
    }

    /// Removes a request from the front of the queue, if it is still there and done.
    fn dequeue(&self, request: &Request<O>) {
        until_unchanged(|| {
            let version = self.begin();
            let first = &self.anchor.first;
            if self.word(first) != address(request) || self.word(&request.done) == 0 {
                return self.check(version);
            }
            self.store(version, (first, self.behind(request)))
        });
    }

    /// Returns the address of the next request, or 0.
    fn behind(&self, request: &Request<O>) -> u64 {
        match self.word(&self.anchor.last) == address(request) {
            true => 0,
            false => self.word(&request.next),
        }
    }

    /// Returns the first request of the queue, and whether it is done.
    pub(super) fn first(&self) -> Option<(&Request<O>, bool)> {
        until_unchanged(|| {
            let version = self.begin();
            let first = self.request(self.word(&self.anchor.first));
            let first = first.map(|request| (request, self.word(&request.done) != 0));
            self.check(version).map(|()| first)
        })
    }

    /// Returns the operation of a request if, at this base, it is the first and not done.
    fn operation(&self, base: &Base<'_, T, O::Output>, request: &Request<O>) -> Option<O> {
        until_unchanged(|| {
            let version = self.begin();
            let is_first = self.word(&self.anchor.first) == address(request);
            let is_due = is_first && self.word(&request.done) == 0 && self.is_base(base);
            let operation = request.operation.load();
            self.check(version).map(|()| is_due.then_some(operation))
        })
    }

    /// Returns the state that holds the output of a request, if it is done.
    fn done(&self, request: &Request<O>) -> Option<&State<T, O::Output>> {
        until_unchanged(|| {
            let version = self.begin();
            let done = self.word(&request.done);
            self.check(version)?;
            Ok(match done {
                0 => None,
                // SAFETY: the word holds the address of a published state of this server.
                _ => Some(unsafe { self.state(done) }),
            })
        })
    }

    /// Takes the output of a done request, and frees the request. Returns `None` if the operation
    /// panicked.
    fn collect(&self, request: &Request<O>, state: &State<T, O::Output>) -> Option<O::Output> {
        // The state keeps its words: it belongs to this request (invariant 5).
        let has_returned = state.outcome.load(Ordering::Relaxed) == RETURNED;
        let output = state.output.load();
        let is_replaced = until_unchanged(|| {
            let version = self.begin();
            let is_replaced = !std::ptr::eq(self.current(), state);
            let first = &self.anchor.first;
            let reset = (&request.done, 0);
            match self.word(first) == address(request) {
                true => self.store_pair(version, reset, (first, self.behind(request)))?,
                false => self.store(version, reset)?,
            }
            Ok(is_replaced)
        });
        if is_replaced {
            // SAFETY: the state was not the current one any more, and the change above has ended
            // its relation to the request. So this call alone owns it (invariant 5).
            unsafe { self.free(state) };
        }
        // SAFETY: the request is not in the queue any more (invariant 3), and belongs to this call.
        // It was allocated from this pool, and `into_raw` left it to this call.
        drop(unsafe { self.requests.adopt(request) });
        has_returned.then_some(output)
    }
}

/// Drops the value of a panic in an operation, which may be another caller's. If its destructor
/// panics too, this thread goes on: its own operation may have taken place.
#[cold]
fn discard(panic: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(another);
    }
}
