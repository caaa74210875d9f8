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

use super::batch::{Batch, ElementWord};
use super::depot::Depot;
use super::error::Error;
use super::remote::Drain;
use super::stack::Stack;
use crate::AsWord;
use crate::drops;
use crate::or_panic::OrPanic;
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
/// while another thread holds this CPU's gate or [forks](super#progress). Moving a batch from or to
/// the depot costs two atomic instructions and is lock-free: a thread that stops during it
/// withholds its batch, and the others proceed. A call of the source has the source's progress and
/// cost. Objects that one CPU gets and another puts back thus cost two atomic instructions per
/// batch on either side, and no call of the source while the depot has room.
///
/// Every operation may be called in a signal handler if the source may. In a steady state nothing
/// allocates. A dropped pool gives every object to [`Source::spill`].
///
/// A pool takes one slot (128 bytes) and eight bytes per object for each CPU, and the memory of the
/// depot. A depot takes about as much as the CPUs' parts for capacities from 60 to 500, and less
/// for larger ones: at most 4 KiB per CPU and 128 bytes for every four CPUs, before it is
/// [rounded](crate::docs::limitations#memory). For smaller ones it takes more, because each batch
/// fills whole cache lines and there are at least eight: 64 bytes per object for a capacity of 1.
///
/// An object is one word ([`AsWord`]): box a larger one, as in `Pool<Box<Vec<u8>>, _>`.
///
/// A field has the source's type after the object's: a function pointer, `fn() -> T`, for a closure
/// that captures nothing, or a type of your own that implements [`Source`].
///
/// ```
/// # use atomseq::percpu::Pool;
/// struct Server {
///     buffers: Pool<Box<Vec<u8>>, fn() -> Box<Vec<u8>>>,
/// }
///
/// let server = Server { buffers: Pool::with_capacity_per_cpu(64, || Box::new(Vec::new())) };
/// assert!(server.buffers.lease().is_some());
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
    cache: Stack<T>,
    depot: Depot,
    source: S,
}

impl<T: AsWord, S: Source<T>> Pool<T, S> {
    /// Creates a pool that caches up to `capacity` objects per CPU. The depot holds at most as many
    /// again as all CPUs together, or eight batches if that is more.
    ///
    /// # Panics
    ///
    /// If [`try_with_capacity_per_cpu`](Pool::try_with_capacity_per_cpu) fails.
    #[track_caller]
    pub fn with_capacity_per_cpu(capacity: usize, source: S) -> Pool<T, S> {
        Pool::try_with_capacity_per_cpu(capacity, source).or_panic()
    }

    /// Creates a pool as [`with_capacity_per_cpu`](Pool::with_capacity_per_cpu) does.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCapacity`], [`Error::TooLarge`], [`Error::OutOfMemory`] if the operating system
    /// refuses the memory, [`Error::StartingUp`] during start-up.
    pub fn try_with_capacity_per_cpu(capacity: usize, source: S) -> Result<Pool<T, S>, Error> {
        Pool::of(Stack::try_with_capacity_per_cpu(capacity)?, source)
    }

    /// Creates a pool that caches nothing: `get_at_once` and `put_at_once` find every gate closed.
    /// For callers that have another way.
    pub(crate) fn without_caches(source: S) -> Result<Pool<T, S>, Error> {
        Pool::of(Stack::closed()?, source)
    }

    fn of(cache: Stack<T>, source: S) -> Result<Pool<T, S>, Error> {
        let depot = Depot::try_new(cache.capacity(), cache.cpus())?;
        Ok(Pool {
            cache,
            depot,
            source,
        })
    }

    /// Returns the maximum number of objects that each CPU caches; [`cached`](Pool::cached) is the
    /// total of all CPUs and the depot.
    pub fn capacity(&self) -> usize {
        self.cache.capacity()
    }

    /// Returns the number of CPUs that have a part.
    pub fn cpus(&self) -> usize {
        self.cache.cpus()
    }

    /// Returns the number of cached objects: [`Stack::len`] plus those in the depot. They are
    /// counted one after the other, so an object that moves during the call counts once, twice or
    /// not at all.
    pub fn cached(&self) -> usize {
        self.cache.len() + self.depot.len()
    }

    /// Returns the source.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Gets an object: from this CPU's part, or from a batch of the depot or the source. `None` if
    /// the source has no more.
    #[inline]
    pub fn get(&self) -> Option<T> {
        match self.cache.pop() {
            Some(object) => Some(object),
            None => self.refill(Stack::push_words),
        }
    }

    /// Gets an object without blocking. `Closed` means that this CPU's gate was closed and nothing
    /// changed.
    #[inline]
    pub(crate) fn get_at_once(&self) -> Result<Option<T>, Closed> {
        match self.cache.pop_at_once()? {
            Some(object) => Ok(Some(object)),
            None => Ok(self.refill(push_at_once)),
        }
    }

    /// Puts an object into this CPU's part. If that is full, moves the object and half of the part,
    /// at most 30, to the depot or the source.
    #[inline]
    pub fn put(&self, object: T) {
        if let Err(object) = self.cache.push(object) {
            self.spill(object, Stack::pop_words);
        }
    }

    /// Puts an object without blocking. Returns the object if this CPU's gate was closed; then
    /// nothing changed.
    #[inline]
    pub(crate) fn put_at_once(&self, object: T) -> Result<(), T> {
        let word = object.into_word();
        // SAFETY: the word is that of `object`, and it is converted back only where the stack did
        // not take it.
        let object = || unsafe { T::from_word(word) };
        match self.cache.push_at_once(word) {
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
        self.cache.area().close_gate(cpu)
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
        PoolDrain {
            cpus: self.cache.drain(),
            depot: &self.depot,
            batches: self.depot.cells(),
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
        let from_depot = || {
            let mut batch = from(&self.depot);
            let object = batch.pop();
            self.put_away(batch);
            object
        };
        let from_cpus = || {
            gap();
            self.cache.steal()
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
        let mut batch = from(&self.depot);
        if batch.is_empty() {
            batch.extend_words(self.depot.room(), |words| self.cache.steal_half(words));
        }
        self.keep_all_but_one(batch, push_at_once)
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
        self.cache.steal_from(cpu)
    }

    #[cold]
    #[inline(never)]
    fn refill(&self, keep: impl FnOnce(&Stack<T>, &[ElementWord]) -> usize) -> Option<T> {
        let mut batch = from(&self.depot);
        if batch.is_empty() {
            self.source.refill(&mut batch);
        }
        self.keep_all_but_one(batch, keep)
    }

    /// Returns one object of a batch. The others go to this CPU, and what does not fit to the depot
    /// or the source.
    fn keep_all_but_one(
        &self,
        mut batch: Batch<T>,
        keep: impl FnOnce(&Stack<T>, &[ElementWord]) -> usize,
    ) -> Option<T> {
        let object = batch.pop();
        if !batch.is_empty() {
            let kept = keep(&self.cache, batch.words());
            batch.forget_first(kept);
            self.put_away(batch);
        }
        object
    }

    #[cold]
    #[inline(never)]
    fn spill(&self, object: T, take: impl FnOnce(&Stack<T>, &mut [ElementWord]) -> usize) {
        let mut batch = Batch::new();
        // One place of the batch is reserved for `object`.
        batch.extend_words(self.depot.room() - 1, |words| take(&self.cache, words));
        // Cannot fail: a batch of the depot's size has room.
        let _ = batch.push(object);
        self.put_away(batch);
    }

    /// Moves a batch to the depot, in as many cells as needed. What does not fit goes to the
    /// source.
    fn put_away(&self, mut batch: Batch<T>) {
        let pieces = batch.words().chunks(self.depot.room());
        let put = pieces.take_while(|piece| self.depot.put(piece));
        batch.forget_first(put.map(<[ElementWord]>::len).sum());
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
        let mut cpus = 0..self.cache.cpus();
        let mut cpu = cpus.next();
        drops::each(|| {
            let mut batch = Batch::new();
            while let Some(of) = cpu {
                batch.extend_words(usize::MAX, |words| self.cache.pop_words_from(of, words));
                if !batch.is_empty() {
                    break;
                }
                cpu = cpus.next();
            }
            if batch.is_empty() {
                batch = from(&self.depot);
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
    cpus: Drain<'a, T>,
    depot: &'a Depot,
    /// The number of batches that it may still take from the depot.
    batches: usize,
    /// The batch that it is returning.
    batch: Batch<T>,
}

impl<T: AsWord> Iterator for PoolDrain<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if let Some(object) = self.cpus.next() {
            return Some(object);
        }
        if self.batch.is_empty() && self.batches > 0 {
            self.batch = from(self.depot);
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
            assert_eq!(pool.cached(), pool.cache.len() + pool.depot.len());
            assert!(pool.depot.len() > 0);
            pool.cached()
        };
        let cached = fill();
        assert_eq!(std::iter::from_fn(|| pool.steal()).count(), cached);
        let cached = fill();
        assert_eq!(pool.drain().count(), cached);
        assert_eq!(pool.cached(), 0);
        // Objects removed from the depot but not returned are dropped, not lost.
        fill();
        let in_depot = pool.depot.len();
        let mut drained = pool.drain();
        let on_cpus = pool.cache.len();
        assert!(drained.by_ref().take(on_cpus + 1).count() == on_cpus + 1);
        drop(drained);
        assert!(pool.depot.len() < in_depot);
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
            let room = capacity + pool.depot.cells() * pool.depot.room();
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
                .push(pool.cache.steal().expect("the object"))
                .expect("room");
            pool.put_away(batch);
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
