//! A bounded cache of reusable objects a CPU, over a source that all CPUs share.
//!
//! ```text
//!   get ──> this CPU's stack ──empty──> a batch of the depot ──empty──> Source::refill, a batch at a time
//!   put ──> this CPU's stack ──full───> half of it to the depot ──full──> Source::spill
//! ```
//!
//! The depot is for objects that are got on one CPU and put back on another: there each get finds
//! an empty stack and each put a full one, sooner or later, and a batch at a time goes back the way
//! that the objects came.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::{Deref, DerefMut};

use super::batch::{Batch, ElementWord};
use super::depot::Depot;
use super::error::Error;
use super::remote::Drain;
use super::stack::Stack;
use crate::AsWord;
use crate::drops;
use crate::sequence::Closed;

/// Where a [`Pool`]'s objects come from and go to.
///
/// Any `Fn() -> T` is a source that makes objects one at a time and drops those it gets back.
/// Behind a pool in an allocator, a source must not allocate through it.
pub trait Source<T: AsWord> {
    /// Adds objects to an empty batch: at least one, or none if there are no more.
    ///
    /// Of these one is returned, as many as fit stay on this CPU, and the others go to the depot.
    /// There a batch is half the capacity and one, at most 31: a source that adds more makes
    /// several, at two atomic instructions each.
    fn refill(&self, batch: &mut Batch<T>);

    /// Takes objects that the pool has no room for; what it leaves in the batch is dropped.
    fn spill(&self, batch: &mut Batch<T>);
}

impl<T: AsWord, F: Fn() -> T> Source<T> for F {
    fn refill(&self, batch: &mut Batch<T>) {
        // An empty batch has room; if not, the object is dropped and the batch is as good.
        let _ = batch.push(self());
    }

    fn spill(&self, _batch: &mut Batch<T>) {}
}

/// A cache of objects with a bounded part a CPU: [`get`](Pool::get) and [`put`](Pool::put) are one
/// sequence each. A part that is empty or full exchanges a batch with the depot, which all CPUs
/// share; only when that is empty or full as well is the [`Source`] asked, for a batch.
///
/// Scope `SameCpu`; [`get`](Pool::get) and [`put`](Pool::put) cost no atomic instruction and wait
/// only while another thread holds this CPU's gate. A batch from or to the depot costs two atomic
/// instructions and never waits: a thread that is stopped meanwhile keeps its batch, and the others
/// go on. When the source is asked, it is the source that decides. So objects that are got on one
/// CPU and put back on another cost two atomic instructions a batch on either side, and the source
/// nothing, as long as the depot has room.
///
/// Usable in signal handlers if the source is. Once warm, nothing allocates. Dropped, it spills
/// everything. Takes a slot and eight bytes an object for each CPU. The depot takes about as much
/// again for capacities from 60 to 500, and less for larger ones: 4 KiB a CPU at most. For smaller
/// ones it takes more, since each of its batches, of half the capacity and one, fills whole cache
/// lines, and there are at least eight: 64 bytes an object for a capacity of 1. [The module](super)
/// tells the rest.
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
    /// A pool that caches up to `capacity` objects a CPU; and as many again of all CPUs, at most,
    /// in the depot, or eight batches where that is more.
    ///
    /// # Panics
    ///
    /// If [`try_with_capacity_per_cpu`](Pool::try_with_capacity_per_cpu) fails.
    pub fn with_capacity_per_cpu(capacity: usize, source: S) -> Pool<T, S> {
        Pool::try_with_capacity_per_cpu(capacity, source).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The pool of [`with_capacity_per_cpu`](Pool::with_capacity_per_cpu), or why there is none.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCapacity`], [`Error::TooLarge`], [`Error::OutOfMemory`].
    pub fn try_with_capacity_per_cpu(capacity: usize, source: S) -> Result<Pool<T, S>, Error> {
        Pool::of(Stack::try_with_capacity_per_cpu(capacity)?, source)
    }

    /// A pool that caches nothing, for who can do without: `get_at_once` and `put_at_once` find
    /// every gate closed.
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

    /// How many objects each CPU caches at most.
    pub fn capacity(&self) -> usize {
        self.cache.capacity()
    }

    /// How many CPUs have a part.
    pub fn cpus(&self) -> usize {
        self.cache.cpus()
    }

    /// How many objects are cached: [`Stack::len`] and what lies between CPUs, one after the other.
    /// An object that moves meanwhile counts once, twice or not at all.
    pub fn cached(&self) -> usize {
        self.cache.len() + self.depot.len()
    }

    /// The source behind the pool.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Takes an object: this CPU's, or one of a batch from the depot or the source; `None` if the
    /// source has no more.
    #[inline]
    pub fn get(&self) -> Option<T> {
        match self.cache.pop() {
            Some(object) => Some(object),
            None => self.refill(Stack::push_words),
        }
    }

    /// The same for who waits for nobody: if this CPU's gate is closed, nothing was done.
    #[inline]
    pub(crate) fn get_at_once(&self) -> Result<Option<T>, Closed> {
        match self.cache.pop_at_once()? {
            Some(object) => Ok(Some(object)),
            None => Ok(self.refill(push_at_once)),
        }
    }

    /// Gives an object back, to this CPU or, together with half of its full part (at most 30), to
    /// the depot or the source.
    #[inline]
    pub fn put(&self, object: T) {
        if let Err(object) = self.cache.push(object) {
            self.spill(object, Stack::pop_words);
        }
    }

    /// The same for who waits for nobody: if this CPU's gate is closed, the object comes back.
    #[inline]
    pub(crate) fn put_at_once(&self, object: T) -> Result<(), T> {
        let word = object.into_word();
        // SAFETY: made above, and the stack did not take it.
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

    /// Takes an object that goes back by itself, or `None` as [`get`](Pool::get).
    pub fn lease(&self) -> Option<Lease<'_, T, S>> {
        self.get().map(|object| Lease {
            pool: self,
            object: Some(object),
        })
    }

    /// Takes every cached object out: CPU by CPU through the gates, see [`Stack::drain`], then
    /// those between CPUs. While other threads use the pool [some may stay](PoolDrain).
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

    /// Takes an object that is cached anywhere: between CPUs, else on one, the next ones first and
    /// this one last, through its gate; see [`Stack::steal`]; else between CPUs, where it may have
    /// gone meanwhile.
    ///
    /// It looks at one place after the other, so `None` does not say that none was cached at any
    /// moment: an object that other threads move meanwhile may be missed, alone or in a batch.
    ///
    /// An object between CPUs is one of a batch. The others go back into the depot, or, if that was
    /// filled meanwhile, to [`Source::spill`].
    pub fn steal(&self) -> Option<T>
    where
        T: Send,
    {
        self.steal_with(|| ())
    }

    /// `gap` is for tests, which move objects between the looks at the depot and at the CPUs.
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
        // What was put into the depot after the first look counts as well.
        from_depot().or_else(from_cpus).or_else(from_depot)
    }

    /// The same for who will want more of them: half of what that CPU has comes along to this one,
    /// at most a batch. Closes no gate but that CPU's.
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

    /// Takes an object that a CPU has cached, through its gate; see [`Stack::steal_from`].
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
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

    /// Takes an object out of a batch; the others go to this CPU, or else to the depot or the
    /// source.
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
        // One place is left for the object itself.
        batch.extend_words(self.depot.room() - 1, |words| take(&self.cache, words));
        // There is room: a batch of the depot fits.
        let _ = batch.push(object);
        self.put_away(batch);
    }

    /// Puts a batch into the depot, in as many cells as it takes; what these have no room for goes
    /// to the source.
    fn put_away(&self, mut batch: Batch<T>) {
        let pieces = batch.words().chunks(self.depot.room());
        let put = pieces.take_while(|piece| self.depot.put(piece));
        batch.forget_first(put.map(<[ElementWord]>::len).sum());
        if !batch.is_empty() {
            self.source.spill(&mut batch);
        }
    }
}

/// Moves as many words onto this CPU's stack as there is room for, none if its gate is closed;
/// returns how many.
fn push_at_once<T: AsWord>(cache: &Stack<T>, words: &[ElementWord]) -> usize {
    cache.push_words_at_once(words).unwrap_or(0)
}

/// A batch from the depot; it is empty if there is none.
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

/// The objects of a [`Pool`], taken out CPU by CPU, then those between CPUs; made by
/// [`Pool::drain`].
///
/// What is put meanwhile may stay where it is. So may objects that were cached before: a
/// [`get`](Pool::get) that finds its CPU's part empty moves a batch there from the depot, and the
/// iterator may already have passed that CPU. Of a CPU that it is taking from, it returns the
/// newest, and [as many older ones stay](super::Stack::drain). It returns every object only if the
/// pool is not used meanwhile. Objects that were taken out but not asked for are dropped with the
/// iterator.
pub struct PoolDrain<'a, T: AsWord> {
    cpus: Drain<'a, T>,
    depot: &'a Depot,
    /// How many more batches it takes from the depot.
    batches: usize,
    /// The last one.
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

/// An object on loan from a [`Pool`]; dropped, it goes back.
pub struct Lease<'a, T: AsWord, S: Source<T>> {
    pool: &'a Pool<T, S>,
    object: Option<T>,
}

impl<T: AsWord, S: Source<T>> Lease<'_, T, S> {
    /// Keeps the object: it does not go back.
    pub fn into_inner(mut self) -> T {
        self.object
            .take()
            .expect("a lease has its object until it is dropped")
    }
}

impl<T: AsWord, S: Source<T>> Deref for Lease<'_, T, S> {
    type Target = T;

    fn deref(&self) -> &T {
        self.object
            .as_ref()
            .expect("a lease has its object until it is dropped")
    }
}

impl<T: AsWord, S: Source<T>> DerefMut for Lease<'_, T, S> {
    fn deref_mut(&mut self) -> &mut T {
        self.object
            .as_mut()
            .expect("a lease has its object until it is dropped")
    }
}

impl<T: AsWord, S: Source<T>> Drop for Lease<'_, T, S> {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            self.pool.put(object);
        }
    }
}

impl<T: AsWord + fmt::Debug, S: Source<T>> fmt::Debug for Lease<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(&**self).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Makes batches of four, counts what comes back.
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
    fn everything_made_is_given_back() {
        let source = Arc::new(Counting::default());
        let pool = Pool::with_capacity_per_cpu(8, source.clone());
        let out: Vec<_> = (0..50).map(|_| pool.get().unwrap()).collect();
        out.into_iter().for_each(|object| pool.put(object));
        // Each CPU's eight, and as many again or eight batches of five in the depot.
        assert!(pool.cached() <= 8 * pool.cpus() + 40.max(8 * pool.cpus()));
        drop(pool);
        let made = source.made.load(Ordering::Relaxed);
        assert!(made >= 50);
        assert_eq!(source.returned.load(Ordering::Relaxed), made);
    }

    /// The source makes what is out at a time and what one stack can keep, and nothing more after
    /// that.
    #[cfg(atomseq_sections)]
    #[test]
    fn objects_flow_from_cpu_to_cpu_without_the_source() {
        // Bursts of three batches, for which every depot has room.
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

    /// Objects that another CPU has come over by halves, and not one by one.
    #[cfg(atomseq_sections)]
    #[test]
    fn who_steals_closes_a_gate_for_half_of_the_objects() {
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
            // 16, 8, 4, 2, 1 and 1; and perhaps a few where the kernel has restarted a section too
            // often.
            let closed = CLOSED.get() - before;
            assert!(closed <= OBJECTS / 2, "{closed} gates");
        });
    }

    #[test]
    fn everything_cached_can_be_taken_out_wherever_it_is() {
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
        // What was taken out of the depot but not asked for is dropped, not lost.
        fill();
        let in_depot = pool.depot.len();
        let mut drained = pool.drain();
        let on_cpus = pool.cache.len();
        assert!(drained.by_ref().take(on_cpus + 1).count() == on_cpus + 1);
        drop(drained);
        assert!(pool.depot.len() < in_depot);
    }

    /// Fills each batch, counts what comes back.
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

    /// Ten capacities, with batches larger than a cell of the depot, and smaller.
    #[test]
    fn of_a_full_batch_only_what_has_no_room_goes_back_to_the_source() {
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

    /// An object that another thread moves there while `steal` is between the depot and the CPUs.
    #[test]
    fn what_has_gone_from_a_cpu_to_the_depot_meanwhile_is_stolen() {
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

    /// 1,000 objects, as many as one CPU keeps.
    #[test]
    fn a_dropped_pool_gives_everything_back_and_closes_no_gate() {
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
    fn a_lease_goes_back() {
        let pool = Pool::with_capacity_per_cpu(4, || Box::new(7));
        **pool.lease().unwrap() = 8;
        assert_eq!(pool.cached(), 1);
        let kept = pool.lease().unwrap().into_inner();
        assert!(*kept == 7 || *kept == 8);
    }

    #[test]
    fn a_capacity_of_one_still_circulates() {
        let pool = Pool::with_capacity_per_cpu(1, || Box::new(0));
        for _ in 0..10 {
            let (a, b) = (pool.get().unwrap(), pool.get().unwrap());
            pool.put(a);
            pool.put(b);
        }
        assert!(pool.cached() >= 1);
    }

    #[test]
    fn an_exhausted_source_is_not_an_error() {
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
}
