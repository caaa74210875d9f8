//! A bounded per-CPU cache of reusable objects, over a source that all CPUs share.
//!
//! ```text
//!   get ──> this CPU's stack ──empty──> a batch of the depot ──empty──> Source::refill, in batches
//!   put ──> this CPU's stack ──full───> half of it to the depot ──full──> Source::spill
//! ```
//!
//! The depot serves objects that one CPU gets and another puts back. There every `get` would sooner
//! or later find an empty stack, and every `put` a full one. The depot moves these objects back in
//! batches.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::area::started;
use super::batch::{Batch, ElementWord};
use super::depot::Depot;
use super::error::Error;
use super::once::Once;
use super::remote::Drain;
use super::stack::Stack;
use crate::AsWord;
use crate::drops;
use crate::sequence::Closed;

/// Where the objects of a [`Pool`] come from and go to.
///
/// Any `Fn() -> T` is a source that creates one object at a time, and drops those it gets back. The
/// source of a pool inside an allocator must not allocate through that allocator.
pub trait Source<T: AsWord> {
    /// Adds objects to an empty batch: at least one, unless there are no more.
    ///
    /// The pool returns one of them to its caller, keeps as many as fit on this CPU, and puts the
    /// others into the depot. A batch of the depot holds half the capacity plus one, at most 31.
    /// Objects beyond that take several batches, at two atomic instructions each.
    fn refill(&self, batch: &mut Batch<T>);

    /// Takes objects that the pool has no room for. Objects that it leaves in the batch are
    /// dropped.
    fn spill(&self, batch: &mut Batch<T>);
}

impl<T: AsWord, F: Fn() -> T> Source<T> for F {
    fn refill(&self, batch: &mut Batch<T>) {
        // `push` fails only if the batch is full. Then the object is dropped, and the batch has
        // others.
        let _ = batch.push(self());
    }

    fn spill(&self, _batch: &mut Batch<T>) {}
}

/// A cache of objects with a bounded part per CPU.
///
/// [`get`](Pool::get) and [`put`](Pool::put) run one sequence each. A part that is empty or full
/// exchanges a batch with the depot, which all CPUs share. Only if the depot is empty or full too,
/// the pool calls the [`Source`].
///
/// Scope `SameCpu`. `get` and `put` cost no atomic instruction on the fast path, and block only
/// while another thread holds this CPU's gate. Moving a batch from or to the depot costs two atomic
/// instructions and is lock-free: a thread that stops during it withholds its batch, and the others
/// proceed. A call of the source has the source's progress and cost. Objects that one CPU gets and
/// another puts back thus cost two atomic instructions per batch on either side, and no call of the
/// source while the depot has room.
///
/// Every operation may be called in a signal handler if the source may. In a steady state nothing
/// allocates. A dropped pool gives every object to [`Source::spill`].
///
/// The first [`get`](Pool::get) or [`put`](Pool::put) maps the memory of the parts and the depot.
/// If the system refuses it, the pool caches nothing: each call goes to the source, and asks for
/// the memory again. [`prepare`](Pool::prepare) maps it earlier: call it before handlers are
/// installed that may be the first to use the pool.
///
/// A pool takes one slot (128 bytes) and eight bytes per object for each CPU, and the memory of the
/// depot. A depot takes about as much as the CPUs' parts for capacities from 60 to 500, and less
/// for larger ones: at most 4 KiB per CPU. For smaller ones it takes more, because each batch fills
/// whole cache lines and there are at least eight: 64 bytes per object for a capacity of 1.
///
/// An object is one word ([`AsWord`]): box a larger one, as in `Pool<Box<Vec<u8>>, _>`.
///
/// A static or a field has the source's type after the object's: a function pointer, `fn() -> T`,
/// for a closure that captures nothing, or a type of your own that implements [`Source`].
///
/// ```
/// # use atomseq::percpu::Pool;
/// type Buffer = Box<Vec<u8>>;
/// static BUFFERS: Pool<Buffer, fn() -> Buffer> =
///     Pool::with_capacity_per_cpu(64, || Box::new(Vec::new()));
///
/// BUFFERS.lease().unwrap().push(1);
/// assert_eq!(BUFFERS.cached(), 1);
/// ```
///
/// See [the module](super) for what all per-CPU structures share.
///
/// ```
/// use atomseq::percpu::Pool;
///
/// let buffers = Pool::with_capacity_per_cpu(64, || Box::new([0u8; 4096]));
/// let mut buffer = buffers.get().unwrap();
/// buffer[0] = 1;
/// buffers.put(buffer);
/// assert_eq!(buffers.cached(), 1);
/// ```
pub struct Pool<T: AsWord, S: Source<T>> {
    store: Once<Store<T>>,
    /// How many objects each CPU caches. 0 only of a pool without caches.
    capacity: usize,
    source: S,
}

/// Where a pool keeps its objects.
struct Store<T: AsWord> {
    cache: Stack<T>,
    depot: Depot,
}

impl<T: AsWord, S: Source<T>> Pool<T, S> {
    /// Creates a pool that caches up to `capacity` objects per CPU. The depot holds at most as many
    /// again as all CPUs together, or eight batches if that is more. The first use maps its memory.
    ///
    /// # Panics
    ///
    /// If `capacity` is zero, or larger than the address space. In a `static`, that is an error of
    /// compilation.
    #[track_caller]
    pub const fn with_capacity_per_cpu(capacity: usize, source: S) -> Pool<T, S> {
        assert!(
            capacity > 0,
            "a capacity of zero holds nothing: ask for at least one"
        );
        assert!(
            capacity <= isize::MAX as usize / 8,
            "the capacity is larger than the address space: ask for less"
        );
        Pool::of(capacity, source)
    }

    /// Creates a pool as [`with_capacity_per_cpu`](Pool::with_capacity_per_cpu) does, and maps its
    /// memory.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCapacity`], [`Error::TooLarge`], [`Error::OutOfMemory`] if the operating system
    /// refuses the memory, [`Error::StartingUp`] during start-up.
    pub fn try_with_capacity_per_cpu(capacity: usize, source: S) -> Result<Pool<T, S>, Error> {
        if capacity == 0 {
            return Err(Error::ZeroCapacity);
        }
        let pool = Pool::of(capacity, source);
        pool.prepare()?;
        Ok(pool)
    }

    /// Creates a pool that caches nothing: `get_at_once` and `put_at_once` find every gate closed.
    /// For callers that have another way.
    pub(crate) fn without_caches(source: S) -> Result<Pool<T, S>, Error> {
        let pool = Pool::of(0, source);
        pool.prepare()?;
        Ok(pool)
    }

    const fn of(capacity: usize, source: S) -> Pool<T, S> {
        Pool {
            store: Once::new(),
            capacity,
            source,
        }
    }

    /// Maps the pool's memory, unless that has been done, and starts atomseq if it has not been
    /// started.
    ///
    /// The first [`get`](Pool::get) or [`put`](Pool::put) does the same. In a signal handler that
    /// is safe only if atomseq has been started, because start-up may allocate.
    ///
    /// # Errors
    ///
    /// Those of [`try_with_capacity_per_cpu`](Pool::try_with_capacity_per_cpu). The pool remains
    /// usable, and caches nothing.
    pub fn prepare(&self) -> Result<(), Error> {
        self.mapped().map(drop)
    }

    /// Returns where the objects are, which this maps if that has not been done.
    #[cold]
    fn mapped(&self) -> Result<&Store<T>, Error> {
        self.store.get_or_make(|| {
            let cache = match self.capacity {
                0 => Stack::closed()?,
                capacity => Stack::try_with_capacity_per_cpu(capacity)?,
            };
            let depot = Depot::try_new(cache.capacity(), cache.cpus())?;
            Ok(Store { cache, depot })
        })
    }

    /// Returns the maximum number of objects that each CPU caches; [`cached`](Pool::cached) is the
    /// total of all CPUs and the depot.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of CPUs that have a part once the memory is mapped; 0 during start-up.
    pub fn cpus(&self) -> usize {
        started().map_or(0, |status| status.features().cpus)
    }

    /// Returns the number of cached objects: [`Stack::len`] plus those in the depot. They are
    /// counted one after the other, so an object that moves during the call counts once, twice or
    /// not at all.
    pub fn cached(&self) -> usize {
        let store = self.store.get();
        store.map_or(0, |store| store.cache.len() + store.depot.len())
    }

    /// Returns the source.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Gets an object: from this CPU's part, or from a batch of the depot or the source. `None` if
    /// the source has no more.
    #[inline]
    pub fn get(&self) -> Option<T> {
        match self.store.get().and_then(|store| store.cache.pop()) {
            Some(object) => Some(object),
            None => self.refill(Stack::push_words),
        }
    }

    /// Gets an object without blocking. `Closed` means that this CPU's gate was closed and nothing
    /// changed. The pool has been prepared; of another, every gate is closed.
    #[inline]
    pub(crate) fn get_at_once(&self) -> Result<Option<T>, Closed> {
        match self.store.get().ok_or(Closed)?.cache.pop_at_once()? {
            Some(object) => Ok(Some(object)),
            None => Ok(self.refill(push_at_once)),
        }
    }

    /// Puts an object into this CPU's part. If that is full, moves the object and half of the part,
    /// at most 30, to the depot or the source.
    #[inline]
    pub fn put(&self, object: T) {
        let pushed = match self.store.get() {
            Some(store) => store.cache.push(object),
            None => self.put_first(object),
        };
        if let Err(object) = pushed {
            self.spill(object, Stack::pop_words);
        }
    }

    #[cold]
    #[inline(never)]
    fn put_first(&self, object: T) -> Result<(), T> {
        match self.mapped() {
            Ok(store) => store.cache.push(object),
            // Without memory the object goes to the source, and the next call asks again.
            Err(_) => Err(object),
        }
    }

    /// Puts an object without blocking. Returns the object if this CPU's gate was closed; then
    /// nothing changed.
    #[inline]
    pub(crate) fn put_at_once(&self, object: T) -> Result<(), T> {
        let Some(store) = self.store.get() else {
            return Err(object);
        };
        let word = object.into_word();
        // SAFETY: the word is that of `object`, and it is converted back only where the stack did
        // not take it.
        let object = || unsafe { T::from_word(word) };
        match store.cache.push_at_once(word) {
            Ok(true) => {}
            Ok(false) => self.spill(object(), |cache, words| {
                cache.pop_words_at_once(words).unwrap_or(0)
            }),
            Err(Closed) => return Err(object()),
        }
        Ok(())
    }

    /// Closes the gate of a CPU's part.
    #[cfg(test)]
    pub(crate) fn hold(&self, cpu: usize) -> super::GateGuard<'_>
    where
        T: Send,
    {
        use super::remote::Take;
        self.mapped().unwrap().cache.area().close_gate(cpu)
    }

    /// Gets an object that returns to the pool when it is dropped; `None` as in [`get`](Pool::get).
    pub fn lease(&self) -> Option<Lease<'_, T, S>> {
        self.get().map(|object| Lease {
            pool: self,
            object: Some(object),
        })
    }

    /// Gets an object as [`lease`](Pool::lease) does, with a lease that keeps the pool alive and
    /// borrows nothing. It costs two atomic instructions more, those of the [`Arc`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use atomseq::percpu::Pool;
    ///
    /// let buffers = Arc::new(Pool::with_capacity_per_cpu(64, || Box::new([0u8; 4096])));
    /// let mut buffer = buffers.lease_owned().unwrap();
    /// std::thread::spawn(move || buffer[0] = 1).join().unwrap();
    /// assert_eq!(buffers.cached(), 1);
    /// ```
    pub fn lease_owned(self: &Arc<Self>) -> Option<OwnedLease<T, S>> {
        let object = self.get()?;
        Some(OwnedLease {
            pool: Arc::clone(self),
            object: Some(object),
        })
    }

    /// Returns an iterator that removes every cached object: first CPU by CPU under the gates, as
    /// in [`Stack::drain`], then those in the depot. If other threads use the pool meanwhile, [some
    /// may remain](PoolDrain).
    pub fn drain(&self) -> PoolDrain<'_, T>
    where
        T: Send,
    {
        let store = self.store.get();
        PoolDrain {
            cpus: store.map(|store| store.cache.drain()),
            depot: store.map(|store| &store.depot),
            batches: store.map_or(0, |store| store.depot.cells()),
            batch: Batch::new(),
        }
    }

    /// Removes an object that is cached anywhere. Tries the depot first, then the CPUs under their
    /// gates as [`Stack::steal`] does, and then the depot again.
    ///
    /// It examines one place after the other. `None` therefore does not mean that there was a
    /// moment without cached objects: it may miss objects that other threads move meanwhile.
    ///
    /// An object from the depot comes out of a batch. The rest of the batch returns to the depot,
    /// or goes to [`Source::spill`] if the depot has filled up meanwhile.
    pub fn steal(&self) -> Option<T>
    where
        T: Send,
    {
        self.steal_with(|| ())
    }

    /// Tests use `gap` to move objects between the search of the depot and that of the CPUs.
    fn steal_with(&self, gap: impl FnOnce()) -> Option<T>
    where
        T: Send,
    {
        let store = self.store.get()?;
        let from_depot = || {
            let mut batch = from(&store.depot);
            let object = batch.pop();
            self.put_away(Some(store), batch);
            object
        };
        let from_cpus = || {
            gap();
            store.cache.steal()
        };
        // The second search of the depot finds what was moved there after the first.
        from_depot().or_else(from_cpus).or_else(from_depot)
    }

    /// Removes an object as `steal` does, for callers that will need more: moves half of the
    /// objects of a CPU to this one, at most a batch. Closes no gate but that CPU's.
    pub(crate) fn steal_half_at_once(&self) -> Option<T>
    where
        T: Send,
    {
        let store = self.store.get()?;
        let mut batch = from(&store.depot);
        if batch.is_empty() {
            batch.extend_words(store.depot.room(), |words| store.cache.steal_half(words));
        }
        self.keep_all_but_one(Some(store), batch, push_at_once)
    }

    /// Removes an object that a CPU has cached, under its gate, as [`Stack::steal_from`] does.
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    #[track_caller]
    pub fn steal_from(&self, cpu: usize) -> Option<T>
    where
        T: Send,
    {
        self.store.get()?.cache.steal_from(cpu)
    }

    #[cold]
    #[inline(never)]
    fn refill(&self, keep: impl FnOnce(&Stack<T>, &[ElementWord]) -> usize) -> Option<T> {
        // Without memory, what the source returns goes back to it, and the next call asks again.
        let store = self.mapped().ok();
        let mut batch = store.map_or(Batch::new(), |store| from(&store.depot));
        if batch.is_empty() {
            self.source.refill(&mut batch);
        }
        self.keep_all_but_one(store, batch, keep)
    }

    /// Returns one object of a batch. The others go to this CPU, and what does not fit to the depot
    /// or the source.
    fn keep_all_but_one(
        &self,
        store: Option<&Store<T>>,
        mut batch: Batch<T>,
        keep: impl FnOnce(&Stack<T>, &[ElementWord]) -> usize,
    ) -> Option<T> {
        let object = batch.pop();
        if !batch.is_empty() {
            let kept = store.map_or(0, |store| keep(&store.cache, batch.words()));
            batch.forget_first(kept);
            self.put_away(store, batch);
        }
        object
    }

    #[cold]
    #[inline(never)]
    fn spill(&self, object: T, take: impl FnOnce(&Stack<T>, &mut [ElementWord]) -> usize) {
        let store = self.store.get();
        let mut batch = Batch::new();
        if let Some(store) = store {
            // One place of the batch is reserved for `object`.
            batch.extend_words(store.depot.room() - 1, |words| take(&store.cache, words));
        }
        // Cannot fail: a batch of the depot's size has room.
        let _ = batch.push(object);
        self.put_away(store, batch);
    }

    /// Moves a batch to the depot, in as many cells as needed. What does not fit goes to the
    /// source.
    fn put_away(&self, store: Option<&Store<T>>, mut batch: Batch<T>) {
        if let Some(Store { depot, .. }) = store {
            let pieces = batch.words().chunks(depot.room());
            let put = pieces.take_while(|piece| depot.put(piece));
            batch.forget_first(put.map(<[ElementWord]>::len).sum());
        }
        if !batch.is_empty() {
            self.source.spill(&mut batch);
        }
    }
}

/// Moves as many words to this CPU's stack as fit, none if its gate is closed; returns their
/// number.
fn push_at_once<T: AsWord>(cache: &Stack<T>, words: &[ElementWord]) -> usize {
    cache.push_words_at_once(words).unwrap_or(0)
}

/// Takes a batch from the depot. It is empty if the depot is.
fn from<T: AsWord>(depot: &Depot) -> Batch<T> {
    let mut batch = Batch::new();
    batch.extend_words(usize::MAX, |words| depot.take(words));
    batch
}

impl<T: AsWord, S: Source<T>> Drop for Pool<T, S> {
    fn drop(&mut self) {
        let Some(store) = self.store.get_mut() else {
            return;
        };
        let mut cpus = 0..store.cache.cpus();
        let mut cpu = cpus.next();
        drops::each(|| {
            let mut batch = Batch::new();
            while let Some(of) = cpu {
                batch.extend_words(usize::MAX, |words| store.cache.pop_words_from(of, words));
                if !batch.is_empty() {
                    break;
                }
                cpu = cpus.next();
            }
            if batch.is_empty() {
                batch = from(&store.depot);
            }
            let is_last = batch.is_empty();
            if !is_last {
                self.source.spill(&mut batch);
            }
            !is_last
        });
    }
}

impl<T: AsWord, S: Source<T> + fmt::Debug> fmt::Debug for Pool<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("cached", &self.cached())
            .field("capacity", &self.capacity())
            .field("source", &self.source)
            .finish()
    }
}

/// An iterator that removes the objects of a [`Pool`], CPU by CPU and then from the depot; created
/// by [`Pool::drain`].
///
/// It returns every object only if no other thread uses the pool meanwhile. Otherwise these may
/// remain:
///
/// - Objects that are put during the iteration.
/// - Objects that a [`get`](Pool::get) with an empty part moves from the depot to a CPU that the
///   iterator has already passed.
/// - Older objects of a CPU on which newer ones are put meanwhile: see
///   [`Stack::drain`](super::Stack::drain).
///
/// Objects that were removed but not yet returned are dropped with the iterator.
pub struct PoolDrain<'a, T: AsWord> {
    cpus: Option<Drain<'a, T>>,
    depot: Option<&'a Depot>,
    /// The number of batches that it may still take from the depot.
    batches: usize,
    /// The batch that it is returning.
    batch: Batch<T>,
}

impl<T: AsWord> Iterator for PoolDrain<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if let Some(object) = self.cpus.as_mut()?.next() {
            return Some(object);
        }
        if self.batch.is_empty() && self.batches > 0 {
            self.batch = from(self.depot?);
            self.batches = match self.batch.len() {
                0 => 0,
                _ => self.batches - 1,
            };
        }
        self.batch.pop()
    }
}

impl<T: AsWord> FusedIterator for PoolDrain<'_, T> {}

impl<T: AsWord> fmt::Debug for PoolDrain<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolDrain")
            .field("cpus", &self.cpus)
            .field("taken", &self.batch.len())
            .finish()
    }
}

/// An object of a [`Pool`], which returns to the pool when the lease is dropped.
pub struct Lease<'a, T: AsWord, S: Source<T>> {
    pool: &'a Pool<T, S>,
    object: Option<T>,
}

/// An object of a [`Pool`] in an [`Arc`], which it keeps alive, and to which it returns when the
/// lease is dropped; created by [`Pool::lease_owned`].
pub struct OwnedLease<T: AsWord, S: Source<T>> {
    pool: Arc<Pool<T, S>>,
    object: Option<T>,
}

/// Implements the operations of a lease.
macro_rules! lease {
    ($name:literal [$($lifetime:lifetime)?] $lease:ty) => {
        impl<$($lifetime,)? T: AsWord, S: Source<T>> $lease {
            /// Returns the object and keeps it out of the pool.
            pub fn into_inner(mut self) -> T {
                self.object.take().expect(HELD)
            }
        }

        impl<$($lifetime,)? T: AsWord, S: Source<T>> Deref for $lease {
            type Target = T;

            fn deref(&self) -> &T {
                self.object.as_ref().expect(HELD)
            }
        }

        impl<$($lifetime,)? T: AsWord, S: Source<T>> DerefMut for $lease {
            fn deref_mut(&mut self) -> &mut T {
                self.object.as_mut().expect(HELD)
            }
        }

        impl<$($lifetime,)? T: AsWord, S: Source<T>> Drop for $lease {
            fn drop(&mut self) {
                if let Some(object) = self.object.take() {
                    self.pool.put(object);
                }
            }
        }

        impl<$($lifetime,)? T: AsWord + fmt::Debug, S: Source<T>> fmt::Debug for $lease {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple($name).field(&**self).finish()
            }
        }
    };
}

const HELD: &str = "a lease holds its object until it is dropped";

lease!("Lease" ['a] Lease<'a, T, S>);
lease!("OwnedLease" [] OwnedLease<T, S>);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn store<T: AsWord, S: Source<T>>(pool: &Pool<T, S>) -> &Store<T> {
        pool.mapped().unwrap()
    }

    /// Creates batches of four, and counts the objects that come back.
    #[derive(Debug, Default)]
    struct Counting {
        made: AtomicUsize,
        returned: AtomicUsize,
    }

    impl Source<Box<usize>> for Arc<Counting> {
        fn refill(&self, batch: &mut Batch<Box<usize>>) {
            for _ in 0..4 {
                batch
                    .push(Box::new(self.made.fetch_add(1, Ordering::Relaxed)))
                    .unwrap();
            }
        }

        fn spill(&self, batch: &mut Batch<Box<usize>>) {
            self.returned.fetch_add(batch.len(), Ordering::Relaxed);
            batch.for_each(drop);
        }
    }

    #[test]
    fn every_created_object_returns_to_the_source() {
        let source = Arc::new(Counting::default());
        let pool = Pool::with_capacity_per_cpu(8, source.clone());
        let out: Vec<_> = (0..50).map(|_| pool.get().unwrap()).collect();
        out.into_iter().for_each(|object| pool.put(object));
        // Eight per CPU; in the depot as many again, or eight batches of five.
        assert!(pool.cached() <= 8 * pool.cpus() + 40.max(8 * pool.cpus()));
        drop(pool);
        let made = source.made.load(Ordering::Relaxed);
        assert!(made >= 50);
        assert_eq!(source.returned.load(Ordering::Relaxed), made);
    }

    /// The source creates the objects that are in use at a time plus what one stack can keep, and
    /// nothing more after that.
    #[cfg(atomseq_sections)]
    #[test]
    fn objects_return_between_cpus_without_the_source() {
        // A burst is three batches; every depot has room for them.
        const CAPACITY: usize = 64;
        const BURST: usize = 96;
        const ROUNDS: usize = 500;
        crate::affinity::on_two_cpus(|[here, there], move_to| {
            let source = Arc::new(Counting::default());
            let pool = Pool::with_capacity_per_cpu(CAPACITY, source.clone());
            for _ in 0..ROUNDS {
                move_to(here);
                let burst: Vec<_> = (0..BURST).map(|_| pool.get().unwrap()).collect();
                move_to(there);
                burst.into_iter().for_each(|object| pool.put(object));
            }
            let made = source.made.load(Ordering::Relaxed);
            assert!(made <= BURST + CAPACITY + 4, "{made} of {}", ROUNDS * BURST);
            assert_eq!(source.returned.load(Ordering::Relaxed), 0);
        });
    }

    /// The objects of another CPU are moved by halves, not one by one.
    #[cfg(atomseq_sections)]
    #[test]
    fn a_steal_closes_a_gate_for_half_of_the_objects() {
        use crate::percpu::gate::CLOSED;

        struct Nothing;
        impl Source<usize> for Nothing {
            fn refill(&self, _batch: &mut Batch<usize>) {}
            fn spill(&self, _batch: &mut Batch<usize>) {}
        }
        crate::affinity::on_two_cpus(|[here, there], move_to| {
            const OBJECTS: usize = 32;
            let pool = Pool::with_capacity_per_cpu(64, Nothing);
            move_to(there);
            (0..OBJECTS).for_each(|object| pool.put(object));
            move_to(here);
            let before = CLOSED.get();
            let taken = std::iter::from_fn(|| pool.get().or_else(|| pool.steal_half_at_once()));
            assert_eq!(taken.count(), OBJECTS);
            // 16, 8, 4, 2, 1 and 1, and possibly a few more where the kernel restarted a sequence
            // too often.
            let closed = CLOSED.get() - before;
            assert!(closed <= OBJECTS / 2, "{closed} gates");
        });
    }

    #[test]
    fn every_cached_object_can_be_removed() {
        let pool = Pool::with_capacity_per_cpu(8, Arc::new(Counting::default()));
        let fill = || {
            let out: Vec<_> = (0..40).map(|_| pool.get().unwrap()).collect();
            out.into_iter().for_each(|object| pool.put(object));
            assert_eq!(
                pool.cached(),
                store(&pool).cache.len() + store(&pool).depot.len()
            );
            assert!(store(&pool).depot.len() > 0);
            pool.cached()
        };
        let cached = fill();
        assert_eq!(std::iter::from_fn(|| pool.steal()).count(), cached);
        let cached = fill();
        assert_eq!(pool.drain().count(), cached);
        assert_eq!(pool.cached(), 0);
        // Objects removed from the depot but not returned are dropped, not lost.
        fill();
        let in_depot = store(&pool).depot.len();
        let mut drained = pool.drain();
        let on_cpus = store(&pool).cache.len();
        assert!(drained.by_ref().take(on_cpus + 1).count() == on_cpus + 1);
        drop(drained);
        assert!(store(&pool).depot.len() < in_depot);
    }

    /// Fills each batch, and counts the objects that come back.
    #[derive(Default)]
    struct Filling {
        made: AtomicUsize,
        returned: AtomicUsize,
    }

    impl Source<usize> for Arc<Filling> {
        fn refill(&self, batch: &mut Batch<usize>) {
            while !batch.is_full() {
                let object = self.made.fetch_add(1, Ordering::Relaxed);
                batch.push(object).expect("room");
            }
        }

        fn spill(&self, batch: &mut Batch<usize>) {
            self.returned.fetch_add(batch.len(), Ordering::Relaxed);
            batch.for_each(drop);
        }
    }

    /// Ten capacities: a batch is larger than a cell of the depot for some, smaller for others.
    #[test]
    fn only_objects_without_room_return_to_the_source() {
        for capacity in [1, 2, 3, 4, 8, 16, 29, 30, 31, 60] {
            let source = Arc::new(Filling::default());
            let pool = Pool::with_capacity_per_cpu(capacity, source.clone());
            let room = capacity + store(&pool).depot.cells() * store(&pool).depot.room();
            let mut objects = vec![pool.get().expect("an object")];
            let others = Batch::<usize>::CAPACITY - 1;
            assert_eq!(pool.cached(), others.min(room), "capacity {capacity}");
            let returned = source.returned.load(Ordering::Relaxed);
            assert_eq!(returned, others.saturating_sub(room));
            objects.extend(pool.drain());
            assert_eq!(objects.len() + returned, Batch::<usize>::CAPACITY);
            objects.sort_unstable();
            objects.dedup();
            assert_eq!(objects.len() + returned, Batch::<usize>::CAPACITY);
            assert_eq!(
                source.made.load(Ordering::Relaxed),
                Batch::<usize>::CAPACITY
            );
        }
    }

    /// Another thread moves the object to the depot while `steal` is between depot and CPUs.
    #[test]
    fn a_steal_finds_an_object_that_moves_to_the_depot_meanwhile() {
        let pool = Pool::with_capacity_per_cpu(4, Arc::new(Filling::default()));
        pool.put(7);
        let stolen = pool.steal_with(|| {
            let mut batch = Batch::new();
            batch
                .push(store(&pool).cache.steal().expect("the object"))
                .expect("room");
            pool.put_away(pool.store.get(), batch);
        });
        assert_eq!(stolen, Some(7));
        assert_eq!(pool.cached(), 0);
    }

    /// 1,000 objects, the capacity of one CPU.
    #[test]
    fn a_dropped_pool_spills_every_object_and_closes_no_gate() {
        use crate::percpu::gate::CLOSED;

        const OBJECTS: usize = 1000;
        let source = Arc::new(Filling::default());
        let pool = Pool::with_capacity_per_cpu(OBJECTS, source.clone());
        (0..OBJECTS).for_each(|object| pool.put(object));
        let before = CLOSED.get();
        drop(pool);
        assert_eq!(CLOSED.get(), before);
        assert_eq!(source.returned.load(Ordering::Relaxed), OBJECTS);
    }

    #[test]
    fn a_dropped_lease_returns_its_object() {
        let pool = Pool::with_capacity_per_cpu(4, || Box::new(7));
        **pool.lease().unwrap() = 8;
        assert_eq!(pool.cached(), 1);
        let kept = pool.lease().unwrap().into_inner();
        assert!(*kept == 7 || *kept == 8);
    }

    #[test]
    fn a_pool_of_capacity_one_reuses_objects() {
        let pool = Pool::with_capacity_per_cpu(1, || Box::new(0));
        for _ in 0..10 {
            let (a, b) = (pool.get().unwrap(), pool.get().unwrap());
            pool.put(a);
            pool.put(b);
        }
        assert!(pool.cached() >= 1);
    }

    #[test]
    fn a_static_pool_caches_its_first_object() {
        static POOL: Pool<usize, fn() -> usize> = Pool::with_capacity_per_cpu(4, || 7);
        assert_eq!((POOL.capacity(), POOL.cached()), (4, 0));
        assert_eq!((POOL.steal(), POOL.drain().count()), (None, 0));
        POOL.put(8);
        assert_eq!(store(&POOL).cache.len(), 1);
        assert_eq!(POOL.steal(), Some(8));
        assert_eq!(POOL.get(), Some(7));
    }

    #[test]
    fn threads_that_use_a_pool_first_share_its_memory() {
        for _ in 0..if cfg!(miri) { 3 } else { 100 } {
            let source = Arc::new(Filling::default());
            let pool = Pool::with_capacity_per_cpu(16, source.clone());
            let barrier = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (pool, barrier) = (&pool, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        (0..4).for_each(|object| pool.put(4 * thread + object));
                    });
                }
            });
            assert_eq!(source.returned.load(Ordering::Relaxed), 0);
            let mut objects: Vec<usize> = pool.drain().collect();
            objects.sort_unstable();
            assert!(objects.into_iter().eq(0..16));
        }
    }

    #[test]
    fn a_pool_too_large_to_map_goes_to_its_source() {
        let source = Arc::new(Filling::default());
        let capacity = isize::MAX as usize / 8;
        let pool = Pool::with_capacity_per_cpu(capacity, source.clone());
        assert!(matches!(
            pool.prepare(),
            Err(Error::TooLarge | Error::OutOfMemory)
        ));
        let object = pool.get().expect("an object");
        assert_eq!(pool.cached(), 0);
        pool.put(object);
        assert_eq!(
            source.returned.load(Ordering::Relaxed),
            source.made.load(Ordering::Relaxed)
        );
        let refused = [0, usize::MAX].map(|capacity| {
            let made = Pool::<usize, _>::try_with_capacity_per_cpu(capacity, source.clone());
            made.map(drop).unwrap_err()
        });
        assert_eq!(refused, [Error::ZeroCapacity, Error::TooLarge]);
    }

    #[test]
    fn a_get_from_an_exhausted_source_returns_none() {
        struct Nothing;
        impl Source<usize> for Nothing {
            fn refill(&self, _batch: &mut Batch<usize>) {}
            fn spill(&self, _batch: &mut Batch<usize>) {}
        }
        let pool = Pool::with_capacity_per_cpu(4, Nothing);
        assert_eq!(pool.get(), None);
        pool.put(3);
        assert_eq!(pool.get().or_else(|| pool.steal()), Some(3));
    }

    #[test]
    fn an_owned_lease_keeps_its_pool_and_returns_its_object() {
        let source = Arc::new(Counting::default());
        let pool = Arc::new(Pool::with_capacity_per_cpu(8, source.clone()));
        let [first, second] = [0, 1].map(|_| pool.lease_owned().unwrap());
        drop(pool);
        assert_eq!(source.returned.load(Ordering::Relaxed), 0);
        let mut second = second;
        **second = 77;
        let made = source.made.load(Ordering::Relaxed);
        let kept = std::thread::spawn(move || {
            drop(second);
            first.into_inner()
        });
        kept.join().unwrap();
        // The pool went with its last lease.
        assert_eq!(source.returned.load(Ordering::Relaxed), made - 1);
    }
}
