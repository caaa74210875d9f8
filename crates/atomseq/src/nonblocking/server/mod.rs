//! An object whose operations are too large for DCAS: a server runs them one at a time (S92,
//! section 5.1.4; GC96, section 5.2).
//!
//! ```text
//! current ──> state: serial | request | outcome | object | output
//!
//! first ──> request ──> request <── last     empty: first is 0, and the last has no meaning
//!           next         next                the link of the last has no meaning
//!           done         done                0, or, if it is done, the state with its output
//!           operation    operation
//!
//! run, idle    copy the object; apply the operation; { current = new state }            if [*]
//! enqueue      { last.next = request, last = request };  if empty: { first = last = request }
//! serve        copy the object; apply the operation of the first request;
//!              { current = new state, first.done = new state }                          if [*]
//! dequeue      { first = first.next }                                    if first.done is not 0
//! collect      { request.done = 0 }, and dequeue in the same change if it is still the first
//!
//! [*] the current state has the same serial as when it was copied
//! ```
//!
//! S92's caller sets a flag while it runs an operation, and a caller that finds the flag set
//! enqueues its operation instead. The flag is `runner` here. It is only a hint, which keeps
//! threads from running the same operation at the same time: **a server never changes the object in
//! place**. It works on a copy of its own, and one DCAS publishes the copy, with the operation's
//! output. So a server that was stopped, or has exited, has changed nothing. Any other thread runs
//! the same operation again, on a copy of the same object, and the server that comes too late
//! fails.
//!
//! Invariants:
//!
//! 1. `current`, `first`, `last`, and the words `next` and `done` change only together with the
//!    version, and no version recurs. A state's other words are written only by the thread that
//!    allocated it, before it is published.
//! 2. Each published state has a `serial` that is one larger than that of the state it replaces. So
//!    if `current` leads to the same state with the same serial as before, no operation was
//!    published in between: the object is unchanged, and so is whether the first request is done. A
//!    server's copy, and a reader's, therefore remain valid while requests are enqueued, which
//!    advances the version.
//! 3. Requests are done in the order of the queue, each by one change, and only the first one of
//!    the queue is. A done request leaves the queue before the next one is done.
//! 4. A request belongs to its caller, and is freed by it after it has left the queue.
//! 5. A state belongs to `current` while that leads to it, and to the request in its `request` word
//!    as long as that request's `done` leads back to it. The change that ends the latter of the two
//!    makes its thread the owner, which frees it. Both changes are validated by the version, so
//!    exactly one thread finds itself the last.

use std::fmt;
use std::ptr::with_exposed_provenance;

use super::nodes::{Changed, address, until_unchanged};
use super::plain::{Plain, Words};
use crate::dcas::{Mechanism, StableWord, Version, VersionedWords};
use crate::heap::boxed;
use crate::or_panic::OrPanic;
use crate::sync::{AtomicU64, Ordering, spin_loop, this_thread};
use crate::type_stable::{Allocated, Descriptor, Error, Pool};

mod runner;
mod turns;

use runner::{IDLE, Running};

/// An operation of a [`Server`]: a value that says what to do with the object.
///
/// The operation and its output are [`Plain`], because any thread may run the operation, and hands
/// the output to the caller.
pub trait Operation<T: Plain>: Plain {
    /// What the operation returns to its caller.
    type Output: Plain;

    /// Changes the object and returns the output.
    ///
    /// May run several times, in several threads and in signal handlers, each time on a copy of its
    /// own of the same object. Exactly one of these copies becomes the object, and the output of
    /// the same run is the one that the caller gets. So effects outside of `object` may occur more
    /// than once.
    ///
    /// May [load](Server::load) the object of the same server, but must not [run](Server::run) an
    /// operation there at each call: the copy would be outdated each time, so the call would never
    /// return, or overflow the stack.
    fn apply(self, object: &mut T) -> Self::Output;
}

/// An operation's outcomes.
const RETURNED: u64 = 0;
const PANICKED: u64 = 1;

/// An enqueued operation.
#[repr(C)]
struct Request<O> {
    next: StableWord,
    /// 0, or the state that holds the output.
    done: StableWord,
    operation: Words<O>,
}

// SAFETY: all zeros is a valid instance, and may appear at any time: every field is read as atomic
// words, and has no destructor.
unsafe impl<O: Plain> Descriptor for Request<O> {}

/// The object after one of the operations, and the output of that operation.
#[repr(C)]
struct State<T, R> {
    /// The number of operations so far.
    serial: AtomicU64,
    /// The request whose output this holds, or 0 if the operation was not enqueued.
    request: AtomicU64,
    outcome: AtomicU64,
    object: Words<T>,
    output: Words<R>,
}

// SAFETY: all zeros is a valid instance, and may appear at any time: every field is read as atomic
// words, and has no destructor.
unsafe impl<T: Plain, R: Plain> Descriptor for State<T, R> {}

/// The words that one version covers, and the hint. They keep their address when the server is
/// moved.
struct Anchor {
    versioned: VersionedWords,
    current: StableWord,
    first: StableWord,
    last: StableWord,
    /// The thread that runs an operation, or [`IDLE`]. A hint.
    runner: AtomicU64,
}

/// An object that threads change by operations too large for DCAS, one at a time, without a lock
/// (S92, section 5.1.4; GC96, section 5.2).
///
/// A caller runs its operation itself if no other thread runs one. Otherwise it enqueues the
/// operation and waits; the thread that finishes runs the next operations of the queue. Operations
/// run on a copy of the object, and one DCAS publishes the copy. So a thread that is preempted,
/// stopped or has exited inside an operation leaves the object as it was, and does not block the
/// others: a caller that sees no progress for some microseconds runs the first operation of the
/// queue itself, whatever became of its server.
///
/// [`load`](Server::load) copies the object out. It does not wait for a server, and enqueued
/// operations do not disturb it.
///
/// The scope is `Machine`; progress is that of the [mechanism](super#progress), where an operation
/// is retried only if another one has changed the object. An operation costs a copy of the object
/// in each direction and, on an idle server, one change of one word: one atomic instruction under
/// OS-assisted DCAS, four under k-CAS. Through the queue, it costs up to four changes of at most
/// two words, and one atomic instruction more. Memory: one copy of the object, and up to two others
/// for each thread inside [`run`](Server::run), besides those on its stack. A thread that exits
/// inside `run` leaks at most two copies and its place in the queue; its operation may or may not
/// have taken place.
///
/// `run` and `load` may be called in a signal handler, whatever it has interrupted, if no caller's
/// operation panics: a handler may run the operations of others. If a handler calls `run` in a
/// thread that is inside `run` of the same server, it does not wait for that thread.
///
/// ```
/// use atomseq::nonblocking::{Operation, Server, plain};
///
/// plain! {
///     /// Moves money between two of a hundred accounts; returns whether there was enough.
///     struct Transfer { from: u64, to: u64, amount: u64 }
/// }
///
/// impl Operation<[u64; 100]> for Transfer {
///     type Output = u8;
///
///     fn apply(self, accounts: &mut [u64; 100]) -> u8 {
///         let [from, to] = [self.from, self.to].map(|account| account as usize);
///         let Some(rest) = accounts[from].checked_sub(self.amount) else {
///             return 0;
///         };
///         accounts[from] = rest;
///         accounts[to] += self.amount;
///         1
///     }
/// }
///
/// let bank = Server::new([10; 100]);
/// std::thread::scope(|scope| {
///     for from in 0..4 {
///         let bank = &bank;
///         scope.spawn(move || bank.run(Transfer { from, to: 99, amount: 10 }).unwrap());
///     }
/// });
/// let accounts = bank.load();
/// assert_eq!((accounts[99], accounts.iter().sum::<u64>()), (50, 1000));
/// assert_eq!(bank.run(Transfer { from: 0, to: 1, amount: 1 })?, 0);
/// # Ok::<(), atomseq::type_stable::Error>(())
/// ```
///
/// # When not to use
///
/// Each operation copies the whole object. For a large object of which an operation changes little,
/// use several smaller structures, or a mutex.
pub struct Server<T: Plain, O: Operation<T>> {
    anchor: Box<Anchor>,
    requests: Pool<Request<O>>,
    states: Pool<State<T, O::Output>>,
}

/// What an operation starts from: the current state, and a copy of its object.
struct Base<'a, T, R> {
    state: &'a State<T, R>,
    serial: u64,
    object: T,
}

impl<T: Plain, O: Operation<T>> Server<T, O> {
    /// Creates a server of this object.
    ///
    /// # Panics
    ///
    /// If [`try_new`](Server::try_new) fails.
    #[track_caller]
    pub fn new(object: T) -> Server<T, O> {
        Server::made(VersionedWords::new(), object).or_panic()
    }

    /// Creates a server of this object.
    ///
    /// # Errors
    ///
    /// [`TooLarge`](Error::TooLarge) if the object, an operation or its output is aligned to more
    /// than a page, or exceeds the address space; [`OutOfMemory`](Error::OutOfMemory);
    /// [`StartingUp`](Error::StartingUp) during atomseq's own initialization.
    pub fn try_new(object: T) -> Result<Server<T, O>, Error> {
        Server::made(VersionedWords::new(), object)
    }

    /// Creates a server that uses this mechanism whatever the process has chosen, for tests and
    /// comparisons.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(object: T, mechanism: Mechanism) -> Server<T, O> {
        Server::made(VersionedWords::with_mechanism(mechanism), object).or_panic()
    }

    fn made(versioned: VersionedWords, object: T) -> Result<Server<T, O>, Error> {
        let anchor = boxed(Anchor {
            versioned,
            current: StableWord::default(),
            first: StableWord::default(),
            last: StableWord::default(),
            runner: AtomicU64::new(IDLE),
        });
        let server = Server {
            anchor: anchor.ok_or(Error::OutOfMemory)?,
            requests: Pool::options().try_build()?,
            states: Pool::options().try_build()?,
        };
        let state = server.states.allocate()?;
        state.fill(0, 0, object, None);
        let at = address(state.into_raw());
        until_unchanged(|| server.store(server.begin(), (&server.anchor.current, at)));
        Ok(server)
    }

    /// Runs an operation and returns its output.
    ///
    /// Waits, with pauses, while another thread runs an operation and makes progress; see
    /// [`Server`].
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`]: there is no memory for a copy of the object or for a request, and
    /// the object is unchanged. A call that has enqueued its operation does not fail. If it lacks
    /// memory for a copy, it waits until another call has done the operation or there is memory.
    ///
    /// # Panics
    ///
    /// If the operation panics. The object is unchanged then. If another thread has run the
    /// operation, the panic that occurred there is replaced by one in this thread, and its value is
    /// dropped there.
    #[track_caller]
    pub fn run(&self, operation: O) -> Result<O::Output, Error> {
        let me = this_thread();
        // Relaxed, here and below: a hint. Changes of the object order themselves.
        let runner = self.anchor.runner.load(Ordering::Relaxed);
        if runner == IDLE || runner == me {
            let _running = Running::start(&self.anchor.runner, me, runner);
            if let Some(output) = self.run_alone(operation)? {
                self.serve_further();
                return Ok(output);
            }
        }
        self.run_in_turn(operation, me)
    }

    /// Returns a copy of the object as of some time during the call. No atomic instruction.
    ///
    /// Retried only if an operation was published meanwhile.
    pub fn load(&self) -> T {
        self.base().object
    }

    /// Returns the number of operations that have taken place so far. Those that have panicked
    /// count only if they were enqueued.
    pub fn operations(&self) -> u64 {
        until_unchanged(|| {
            let version = self.begin();
            let serial = self.current().serial.load(Ordering::Relaxed);
            self.check(version).map(|()| serial)
        })
    }

    /// Returns the number of modifications, including those of the queue, plus 1 (GC96, section
    /// 5.3). Interrupted attempts may count too, as for
    /// [`Domain::version`](crate::dcas::Domain::version).
    pub fn version(&self) -> Version {
        self.anchor.versioned.version()
    }

    /// Returns the mechanism that this server uses.
    pub fn mechanism(&self) -> Mechanism {
        self.anchor.versioned.mechanism()
    }

    /// Leaves the state in which a thread is stopped indefinitely while it runs an operation, to
    /// test that callers take over.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn abandon(&self) {
        self.anchor
            .runner
            .store(runner::ABANDONED, Ordering::Relaxed);
    }

    /// Returns how many states and requests are allocated. Exact only while no thread is inside an
    /// operation.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> (usize, usize) {
        (
            self.states.allocated().count(),
            self.requests.allocated().count(),
        )
    }

    /// Runs an operation, unless others are enqueued.
    fn run_alone(&self, operation: O) -> Result<Option<O::Output>, Error> {
        while self.first().is_none() {
            // Before the operation, so that it does not run in vain.
            let state = self.states.allocate()?;
            let base = self.base();
            let mut object = base.object;
            let output = operation.apply(&mut object);
            state.fill(base.serial + 1, 0, object, Some(output));
            if self.publish(&base, state, None) {
                return Ok(Some(output));
            }
        }
        Ok(None)
    }

    /// Returns the current state with a copy of its object, both as of one time.
    fn base(&self) -> Base<'_, T, O::Output> {
        loop {
            let version = self.begin();
            let state = self.current();
            // Acquire: pairs with the release in `fill`. So the copy below is not older than the
            // serial.
            let serial = state.serial.load(Ordering::Acquire);
            let object = state.object.load();
            let base = Base {
                state,
                serial,
                object,
            };
            // If the version has changed, but the state is the current one now with this serial, it
            // had been filled in before the copy, and was not replaced since (invariant 2).
            if self.check(version).is_ok() || self.is_current(&base) {
                return base;
            }
            spin_loop();
        }
    }

    /// Returns whether no operation has been published since this base.
    fn is_current(&self, base: &Base<'_, T, O::Output>) -> bool {
        until_unchanged(|| {
            let version = self.begin();
            let is_current = self.is_base(base);
            self.check(version).map(|()| is_current)
        })
    }

    /// Returns the same. It counts only if the version is unchanged afterwards.
    #[inline(always)]
    fn is_base(&self, base: &Base<'_, T, O::Output>) -> bool {
        let is_same = std::ptr::eq(self.current(), base.state);
        is_same && base.state.serial.load(Ordering::Relaxed) == base.serial
    }

    /// Replaces the state by the one after it, and reports it to the request, if no operation has
    /// been published since this base. Otherwise frees the new state and returns `false`.
    fn publish(
        &self,
        base: &Base<'_, T, O::Output>,
        state: Allocated<'_, State<T, O::Output>>,
        request: Option<&Request<O>>,
    ) -> bool {
        let new = address(&*state);
        let published = until_unchanged(|| {
            let version = self.begin();
            if !self.is_base(base) {
                return self.check(version).map(|()| None);
            }
            let is_collected = self.is_collected(base.state);
            let current = (&self.anchor.current, new);
            match request {
                // The request was the first, and not done, at this base. So it still is.
                Some(request) => self.store_pair(version, current, (&request.done, new))?,
                None => self.store(version, current)?,
            }
            Ok(Some(is_collected))
        });
        if published.is_some() {
            state.into_raw();
        }
        if published == Some(true) {
            // SAFETY: the change above has ended the state's place as the current one, and its
            // request had collected its output, so this call alone owns it (invariant 5).
            unsafe { self.free(base.state) };
        }
        published.is_some()
    }

    /// Returns whether no request waits for the output of this state. It counts only if the version
    /// is unchanged afterwards.
    fn is_collected(&self, state: &State<T, O::Output>) -> bool {
        match self.request(state.request.load(Ordering::Relaxed)) {
            Some(request) => self.word(&request.done) != address(state),
            None => true,
        }
    }

    /// # Safety
    ///
    /// The caller alone owns the state, which was published.
    unsafe fn free(&self, state: &State<T, O::Output>) {
        // SAFETY: the state was allocated from this pool, and `into_raw` left it to the server. The
        // caller promises that it owns it.
        drop(unsafe { self.states.adopt(state) });
    }

    /// Returns the current state. It counts only if the version is unchanged afterwards.
    #[inline(always)]
    fn current(&self) -> &State<T, O::Output> {
        // SAFETY: since the server was created, the word holds the address of a published state.
        unsafe { self.state(self.word(&self.anchor.current)) }
    }

    /// # Safety
    ///
    /// A state with this address was published.
    #[inline(always)]
    unsafe fn state(&self, address: u64) -> &State<T, O::Output> {
        // SAFETY: the caller's promise: it is the exposed address of a descriptor of the pool,
        // which remains one, allocated or free, as long as the pool lives.
        unsafe { &*with_exposed_provenance::<State<T, O::Output>>(address as usize) }
    }

    /// Returns the request at an address that a word of the queue, or of a state, has held. Returns
    /// `None` for 0.
    #[inline(always)]
    fn request(&self, address: u64) -> Option<&Request<O>> {
        if address == 0 {
            return None;
        }
        // SAFETY: these words hold 0 or exposed addresses of descriptors of this pool, which remain
        // descriptors, allocated or free, as long as the pool lives. (The `request` word of a state
        // that is being reused holds one of the two, too.)
        Some(unsafe { &*with_exposed_provenance::<Request<O>>(address as usize) })
    }

    #[inline(always)]
    fn begin(&self) -> Version {
        self.anchor.versioned.begin()
    }

    /// Returns the value of a covered word. It counts only if the version is unchanged afterwards.
    #[inline(always)]
    fn word(&self, word: &StableWord) -> u64 {
        self.anchor.versioned.load(word)
    }

    /// Returns `Ok` if the version is unchanged, so that everything read since counts.
    #[inline(always)]
    fn check(&self, version: Version) -> Result<(), Changed> {
        match self.anchor.versioned.is_still(version) {
            true => Ok(()),
            false => Err(Changed::Seen),
        }
    }

    /// Stores to a word if the version is unchanged.
    #[inline(always)]
    fn store(&self, version: Version, word: (&StableWord, u64)) -> Result<(), Changed> {
        // SAFETY: the word is one of the anchor, or of a request of this server's pool. Both live
        // as long as the server, and only its `versioned` changes them.
        match unsafe { self.anchor.versioned.store_if(version, word) } {
            true => Ok(()),
            false => self.forestalled(),
        }
    }

    /// Stores to two different words if the version is unchanged.
    #[inline(always)]
    fn store_pair(
        &self,
        version: Version,
        first: (&StableWord, u64),
        second: (&StableWord, u64),
    ) -> Result<(), Changed> {
        // SAFETY: as for `store`, and the words are different: those of the anchor have different
        // names, and of each pair at most one is a request's.
        match unsafe { self.anchor.versioned.store_pair_if(version, first, second) } {
            true => Ok(()),
            false => self.forestalled(),
        }
    }

    #[cold]
    fn forestalled(&self) -> Result<(), Changed> {
        self.anchor.versioned.back_off();
        Err(Changed::Forestalled)
    }
}

impl<T: Plain, R: Plain> State<T, R> {
    /// Writes the words of a state that the caller alone owns. Without an output, the operation
    /// panicked.
    fn fill(&self, serial: u64, request: u64, object: T, output: Option<R>) {
        // Relaxed: published by the change that makes the state the current one. Ordered after the
        // release fence of the allocation, which pairs with the acquire fence in
        // `VersionedWords::is_still`.
        self.request.store(request, Ordering::Relaxed);
        self.object.store(object);
        let outcome = match output {
            Some(output) => {
                self.output.store(output);
                RETURNED
            }
            None => PANICKED,
        };
        self.outcome.store(outcome, Ordering::Relaxed);
        // Release: pairs with the acquire in `base`. A thread that reads this serial reads no older
        // object.
        self.serial.store(serial, Ordering::Release);
    }
}

impl<T: Plain + Default, O: Operation<T>> Default for Server<T, O> {
    fn default() -> Self {
        Server::new(T::default())
    }
}

impl<T: Plain + fmt::Debug, O: Operation<T>> fmt::Debug for Server<T, O> {
    /// Shows the object as of one time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.load()).finish()
    }
}
