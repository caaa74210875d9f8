//! Thread table entries: the state of a thread, its closure and its outcome, in one allocation with
//! a count of references.

use core::any::Any;
use core::cell::UnsafeCell;
use core::mem;
use core::ptr::{self, NonNull};
use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use super::inherited;
use super::linux::Event;
use super::scope::Count;
use super::shared::Shared;
use super::state::State;

/// The outcome of a closure, as for [`std::thread::JoinHandle::join`].
pub(super) type Outcome<T> = std::thread::Result<T>;

/// The part of an entry that does not depend on the closure's type.
#[repr(C)]
pub(super) struct Header {
    references: AtomicUsize,
    table: &'static Table,
    pub state: State,
    /// The queue of a worker that it waits in.
    pub level: u8,
    /// The worker whose queues it is pushed to: where it ran last.
    pub worker: AtomicU32,
    /// The kernel thread that its stack belongs to, once it is started.
    pub carrier: AtomicU32,
    /// NONE, DONE, DETACHED, or the address of the joiner: an entry of which this owns a
    /// reference, or one more than that of an event.
    joiner: AtomicUsize,
    /// The next one in a list: see [`super::list`].
    pub next: AtomicPtr<Header>,
    /// The procedures that it is to run, the newest first.
    signals: AtomicPtr<Signal>,
    pub shared: Arc<Shared>,
    pub name: Option<Arc<str>>,
    /// What it hands down: accessed by the thread itself alone, once it is published.
    pub inherited: inherited::Table,
    /// The scope that waits for it.
    pub scope: Option<Arc<Count>>,
}

/// No joiner yet.
const NONE: usize = 0;
/// The outcome is there.
const DONE: usize = 2;
/// The outcome is dropped as soon as it is there.
const DETACHED: usize = 4;

/// In place of the procedures of a thread whose closure has returned: no more are accepted. No
/// address of one, which is a multiple of 8.
const CLOSED: *mut Signal = ptr::without_provenance_mut(1);

/// A procedure that another thread asked this one to run.
struct Signal {
    next: *mut Signal,
    procedure: Box<dyn FnOnce() + Send>,
}

/// The functions for one type of closure.
struct Table {
    /// Calls the closure and stores the outcome, or stores the outcome of a thread that was
    /// destroyed before it began.
    run: unsafe fn(NonNull<Header>, bool),
    /// Moves the outcome out, to an `Option<Outcome<T>>`, or drops it if the place is null. Returns
    /// whether it was a panic.
    take: unsafe fn(NonNull<Header>, *mut ()) -> bool,
    free: unsafe fn(NonNull<Header>),
}

/// An entry with its closure or its outcome.
#[repr(C)]
struct Entry<F, T> {
    header: Header,
    stage: UnsafeCell<Stage<F, T>>,
}

enum Stage<F, T> {
    Closure(F),
    Outcome(Outcome<T>),
    Empty,
}

/// The outcome of a thread that [`Thread::destroy`](super::Thread::destroy) ended.
///
/// ```
/// # use atomseq_threads::runtime::{self, Runtime};
/// let runtime = Runtime::new()?;
/// let thread = runtime.spawn(|| loop {
///     runtime::park()
/// });
/// thread.thread().destroy();
/// assert!(thread.join().unwrap_err().is::<runtime::Destroyed>());
/// # Ok::<(), runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Destroyed;

impl<F: FnOnce() -> T, T> Entry<F, T> {
    const TABLE: Table = Table {
        run: Self::run,
        take: Self::take,
        free: Self::free,
    };

    /// # Safety
    ///
    /// An entry of these types, whose closure no other thread runs.
    unsafe fn run(header: NonNull<Header>, is_destroyed: bool) {
        // SAFETY: the caller's promise; the outcome is not announced yet.
        let stage = unsafe { &mut *header.cast::<Self>().as_ref().stage.get() };
        let Stage::Closure(closure) = mem::replace(stage, Stage::Empty) else {
            return;
        };
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the caller's promise.
            let header = unsafe { header.as_ref() };
            // Also if a destructor of a procedure panics.
            let values = inherited::Closes(&header.inherited);
            let closes = Closes(header);
            let result = match is_destroyed {
                true => {
                    drop(closure);
                    None
                }
                false => Some(closure()),
            };
            // Not at the end: the compiler would leak the result if one of them panicked.
            drop(closes);
            drop(values);
            result
        }));
        let destroyed = || Box::new(Destroyed) as Box<dyn Any + Send>;
        *stage = Stage::Outcome(outcome.and_then(|result| result.ok_or_else(destroyed)));
    }

    /// # Safety
    ///
    /// An entry of these types whose outcome was announced; null or a place for an
    /// `Option<Outcome<T>>`. The caller alone takes it.
    unsafe fn take(header: NonNull<Header>, place: *mut ()) -> bool {
        // SAFETY: the caller's promise.
        let stage = unsafe { &mut *header.cast::<Self>().as_ref().stage.get() };
        let outcome = match mem::replace(stage, Stage::Empty) {
            Stage::Outcome(outcome) => Some(outcome),
            _ => None,
        };
        let is_panic = matches!(&outcome, Some(Err(payload)) if !payload.is::<Destroyed>());
        if !place.is_null() {
            // SAFETY: the caller's place.
            unsafe { place.cast::<Option<Outcome<T>>>().write(outcome) };
        } else if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| drop(outcome)))
            // A safepoint in its destructor: a thread that goes on meets that again.
            && !payload.is::<Destroyed>()
        {
            // As std: it may be a scheduler's stack that would unwind.
            eprintln!("atomseq-threads: the destructor of a thread's result has panicked");
            std::process::abort();
        }
        is_panic
    }

    /// # Safety
    ///
    /// The last reference, to an entry of these types.
    unsafe fn free(header: NonNull<Header>) {
        // SAFETY: `Task::new` made it of a box.
        drop(unsafe { Box::from_raw(header.cast::<Self>().as_ptr()) });
    }
}

/// A reference to an entry.
pub(super) struct Task(NonNull<Header>);

// SAFETY: the header is of atomics and constants, and of a table of values that are `Send` and
// `Sync`, which the thread itself alone accesses. Closure and outcome are `Send`, and accessed by
// the thread that runs the entry and then by the one that joins it.
unsafe impl Send for Task {}
// SAFETY: shared access reaches atomics and constants only.
unsafe impl Sync for Task {}

impl core::ops::Deref for Task {
    type Target = Header;
    #[inline]
    fn deref(&self) -> &Header {
        // SAFETY: the reference keeps it.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for Task {
    #[inline]
    fn clone(&self) -> Task {
        // Relaxed: the caller's reference keeps the entry.
        let before = self.references.fetch_add(1, Relaxed);
        // As `Arc`: more references than that are leaks, which must not wrap around.
        if before > isize::MAX as usize {
            std::process::abort();
        }
        Task(self.0)
    }
}

impl Drop for Task {
    #[inline]
    fn drop(&mut self) {
        // Release, and acquire below: all uses come before the end.
        if self.references.fetch_sub(1, Release) == 1 {
            fence(Acquire);
            // SAFETY: the last reference.
            unsafe { (self.table.free)(self.0) };
        }
    }
}

impl Task {
    /// Makes an entry.
    ///
    /// # Safety
    ///
    /// The closure and its outcome stay valid until the outcome was taken or dropped, by `take` or
    /// by `run` if the entry is detached.
    pub unsafe fn new<F, T>(
        f: F,
        shared: Arc<Shared>,
        name: Option<Arc<str>>,
        level: u8,
        inherited: Option<inherited::Table>,
        scope: Option<Arc<Count>>,
    ) -> Task
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let header = Header {
            references: AtomicUsize::new(1),
            table: const { &Entry::<F, T>::TABLE },
            state: State::new(),
            level,
            worker: AtomicU32::new(0),
            carrier: AtomicU32::new(0),
            joiner: AtomicUsize::new(NONE),
            next: AtomicPtr::new(ptr::null_mut()),
            signals: AtomicPtr::new(ptr::null_mut()),
            shared,
            name,
            inherited: inherited.unwrap_or_default(),
            scope,
        };
        let entry = Box::new(Entry {
            header,
            stage: UnsafeCell::new(Stage::<F, T>::Closure(f)),
        });
        Task(NonNull::from(Box::leak(entry)).cast())
    }

    pub fn as_ptr(&self) -> *mut Header {
        self.0.as_ptr()
    }

    /// Returns the addresses of what a thread can wait for that waits for this one: the entry, and
    /// the count of its scope, or the entry again.
    pub fn awaited(&self) -> [*mut (); 2] {
        let entry = self.as_ptr().cast();
        let scope = self.scope.as_ref().map(Arc::as_ptr);
        [entry, scope.map_or(entry, |scope| scope.cast_mut().cast())]
    }

    /// Drops a reference, unless it is the last one, which it returns.
    fn drop_unless_last(self) -> Option<Task> {
        let mut count = self.references.load(Relaxed);
        // If this is the only reference, no other thread can make another one.
        while count > 1 {
            // Release: as in `drop`.
            match self
                .references
                .compare_exchange_weak(count, count - 1, Release, Relaxed)
            {
                Ok(_) => {
                    mem::forget(self);
                    return None;
                }
                Err(now) => count = now,
            }
        }
        Some(self)
    }

    pub fn into_raw(self) -> *mut Header {
        mem::ManuallyDrop::new(self).0.as_ptr()
    }

    /// # Safety
    ///
    /// The result of `into_raw`, once.
    pub unsafe fn from_raw(header: *mut Header) -> Task {
        // SAFETY: not null, by the caller's promise.
        Task(unsafe { NonNull::new_unchecked(header) })
    }

    /// Calls the closure, or drops it if the thread is destroyed, and stores the outcome.
    ///
    /// # Safety
    ///
    /// The caller took the entry as a new one.
    pub unsafe fn run(&self, is_destroyed: bool) {
        // SAFETY: its own table; the caller's promise.
        unsafe { (self.table.run)(self.0, is_destroyed) };
    }

    /// Announces the outcome, or drops it if the thread is detached: references to the entry may
    /// outlive the scope that the outcome borrows from. Returns a joiner to wake.
    ///
    /// # Safety
    ///
    /// After `run`, once.
    pub unsafe fn announce(&self) -> Option<Task> {
        match self.joiner.swap(DONE, SeqCst) {
            NONE => None,
            DETACHED => {
                // SAFETY: the handle is gone, so no other thread takes it.
                unsafe { self.discard() };
                None
            }
            word if word & 1 != 0 => {
                // SAFETY: the joiner leaves its frame only after this.
                unsafe { Event::set((word & !1) as *const Event) };
                None
            }
            // SAFETY: the joiner's reference, which it gave away with the exchange.
            task => Some(unsafe { Task::from_raw(task as *mut Header) }),
        }
    }

    /// Drops an announced outcome.
    ///
    /// # Safety
    ///
    /// As `Table::take`.
    unsafe fn discard(&self) {
        // SAFETY: its own table; the caller's promise.
        let is_panic = unsafe { (self.table.take)(self.0, ptr::null_mut()) };
        if let (true, Some(scope)) = (is_panic, &self.scope) {
            scope.note_panic();
        }
    }

    /// Returns whether the outcome was announced.
    pub fn is_announced(&self) -> bool {
        self.joiner.load(SeqCst) == DONE
    }

    /// Announces `joiner`, to be woken at the end. Returns false if that has come.
    pub fn expect_end(&self, joiner: Task) -> bool {
        let joiner = joiner.into_raw() as usize;
        let exchanged = self.joiner.compare_exchange(NONE, joiner, SeqCst, SeqCst);
        if exchanged.is_err() {
            // SAFETY: not given away.
            drop(unsafe { Task::from_raw(joiner as *mut Header) });
        }
        exchanged.is_ok()
    }

    /// Waits for the end, as a kernel thread.
    pub fn wait_for_end(&self) {
        let end = Event::new();
        let address = &raw const end as usize | 1;
        let exchanged = self.joiner.compare_exchange(NONE, address, SeqCst, SeqCst);
        if exchanged.is_ok() {
            end.wait(&self.shared.patience);
        }
    }

    /// Takes the announced outcome.
    ///
    /// # Safety
    ///
    /// `T` is that of `Task::new`, and the caller alone takes it.
    pub unsafe fn take<T>(&self) -> Option<Outcome<T>> {
        let mut outcome = None;
        // SAFETY: the caller's promise; the place is of this type.
        unsafe { (self.table.take)(self.0, (&raw mut outcome).cast()) };
        outcome
    }

    /// Leaves the outcome to the thread itself to drop, or drops it if it is there.
    ///
    /// # Safety
    ///
    /// The caller alone may take the outcome, and does not any more.
    pub unsafe fn detach(&self) {
        let detached = |word| (word != DONE).then_some(DETACHED);
        match self.joiner.fetch_update(SeqCst, SeqCst, detached) {
            // SAFETY: announced, and the caller's.
            Err(_) => unsafe { self.discard() },
            Ok(NONE | DETACHED) => {}
            // A join that was unwound: a kernel thread's is not.
            // SAFETY: the reference that the joiner gave away, which no other thread took.
            Ok(task) => drop(unsafe { Task::from_raw(task as *mut Header) }),
        }
    }

    /// Adds a procedure to run (S92, section 5.3.2). The whole stack is taken at once, so one
    /// compare-and-swap of its head is enough, where S92 takes a double one. Drops the procedure if
    /// the closure has returned.
    pub fn push_signal(&self, procedure: Box<dyn FnOnce() + Send>) {
        let next = ptr::null_mut();
        let mut signal = Box::new(Signal { next, procedure });
        let mut head = self.signals.load(Relaxed);
        while head != CLOSED {
            signal.next = head;
            let first = Box::into_raw(signal);
            match self.signals.compare_exchange(head, first, SeqCst, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
            // SAFETY: not pushed.
            signal = unsafe { Box::from_raw(first) };
        }
    }

    /// Runs the procedures that are there, the newest first. If one panics, the rest is dropped.
    pub fn run_signals(&self) {
        let empty = |head| (head != CLOSED).then_some(ptr::null_mut());
        let taken = self.signals.fetch_update(SeqCst, SeqCst, empty);
        let mut signals = Signals(taken.unwrap_or(ptr::null_mut()));
        while let Some(procedure) = signals.pop() {
            procedure();
        }
    }
}

impl Shared {
    /// Drops a reference as a scheduler, which must not free: see invariant 4 of `role`. The last
    /// one is left to `free_unused`.
    pub fn drop_later(&self, task: Task) {
        if !self.options.frees_later() {
            return drop(task);
        }
        let Some(last) = task.drop_unless_last() else {
            return;
        };
        self.unused.push(last);
    }

    /// Frees what schedulers have left.
    pub fn free_unused(&self) {
        self.unused.take_all().for_each(drop);
    }
}

/// Procedures that were taken from an entry.
struct Signals(*mut Signal);

impl Signals {
    fn pop(&mut self) -> Option<Box<dyn FnOnce() + Send>> {
        // SAFETY: this alone has them; each is a box of `push_signal`.
        let first = (!self.0.is_null()).then(|| unsafe { Box::from_raw(self.0) })?;
        self.0 = first.next;
        Some(first.procedure)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        /// Drops the others as the destructor of one unwinds.
        struct Rest<'a>(&'a mut Signals);
        impl Drop for Rest<'_> {
            fn drop(&mut self) {
                while self.0.pop().is_some() {}
            }
        }
        let rest = Rest(self);
        while rest.0.pop().is_some() {}
    }
}

/// Drops the procedures that a thread has not run, at the end of its closure, and refuses others.
/// Their destructors are a user's code, which must not run where an entry is freed: that may be a
/// scheduler, and an entry without references.
struct Closes<'a>(&'a Header);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        let signals = self.0.signals.swap(CLOSED, SeqCst);
        if signals != CLOSED {
            drop(Signals(signals));
        }
    }
}
