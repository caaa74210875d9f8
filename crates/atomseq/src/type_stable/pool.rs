//! Pools, and descriptors that are allocated from them.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use super::Error;
use super::descriptor::Descriptor;
use super::layout::{Framed, Geometry};
use super::reference::Reference;
use super::shared::{Address, Shared};
use super::unclaimed;
use crate::{percpu, platform};

/// How many free descriptors a CPU keeps for itself unless told otherwise.
const CACHED: usize = 64;

/// Where a limit leaves a CPU fewer than so many, it keeps none: whoever needs one that another CPU
/// keeps has to close that CPU's gate, for half of them, which takes as long as hundreds of atomic
/// instructions.
///
/// Measured on four CPUs, two threads pushing to a `LinkedStack` of at most so many values and two
/// popping: limit 16, a value in 3.6 to 8.7 µs with stacks of two a CPU, in 0.9 to 1.0 without;
/// limit 64, 2.4 to 4.1 with stacks of eight, 0.6 to 0.7 without.
const FEWEST: usize = 16;

/// What a [`Pool`] is to be like; made by [`Pool::options`].
#[derive(Clone, Copy, Debug)]
pub struct Options<T> {
    limit: Option<usize>,
    cached: usize,
    stable: Option<Duration>,
    descriptors: PhantomData<fn() -> T>,
}

impl<T: Descriptor> Options<T> {
    /// No more than so many descriptors at a time. Default: as many as the address space holds.
    ///
    /// Fewer may be had at times: see [`allocate`](Pool::allocate). A [`trim`](Pool::trim)
    /// withholds a page of them at a time, and for a pool of few pages that may be all that are
    /// free.
    pub fn limit(self, descriptors: usize) -> Options<T> {
        Options {
            limit: Some(descriptors),
            ..self
        }
    }

    /// Each CPU keeps up to so many free descriptors for itself; and as many again of all CPUs, at
    /// most, or eight batches where that is more, are on their way between them. Default: 64. With
    /// 0, all are free in the pages that the CPUs share.
    ///
    /// With a [limit](Options::limit) it is fewer, so that all CPUs together keep no more than half
    /// of the limit, and none where that would be fewer than 16 each. An allocation that finds
    /// nothing free but what another CPU keeps closes that CPU's gate, and brings half of that
    /// along. So leave a limit some room if much of it is freed on another CPU than where it is
    /// allocated.
    pub fn cached(self, descriptors: usize) -> Options<T> {
        Options {
            cached: descriptors,
            ..self
        }
    }

    /// GC96's t_stable: a page goes back to the system, in a [`trim`](Pool::trim), only after all
    /// its descriptors have been free for longer than this. Rounded up to milliseconds; what is
    /// longer than 12 days counts as for ever. Default: for ever; nothing goes back before the pool
    /// is dropped.
    pub fn stable_for(self, time: Duration) -> Options<T> {
        Options {
            stable: Some(time),
            ..self
        }
    }

    /// The pool, or why there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Zero`], [`Error::TooLarge`], [`Error::OutOfMemory`], [`Error::StartingUp`].
    pub fn build(self) -> Result<Pool<T>, Error> {
        let geometry = Geometry::of::<T>(self.limit)?;
        let error = |error| match error {
            percpu::Error::TooLarge => Error::TooLarge,
            percpu::Error::StartingUp => Error::StartingUp,
            _ => Error::OutOfMemory,
        };
        let cpus = percpu::started().map_err(error)?.features().cpus;
        let cached = match self.limit.map(|limit| limit / 2 / cpus) {
            Some(share) if share < FEWEST => 0,
            Some(share) => self.cached.min(share),
            None => self.cached,
        };
        let shared = Shared::new(geometry, cached);
        let cache = match cached {
            0 => percpu::Pool::without_caches(shared),
            _ => percpu::Pool::try_with_capacity_per_cpu(cached, shared),
        };
        let cache = cache.map_err(error)?;
        Ok(Pool {
            cache,
            stable: self.stable,
            audits: AtomicU32::new(0),
            descriptors: PhantomData,
        })
    }
}

/// Descriptors of one type, in memory that stays of that type: GC96's type-stable memory.
///
/// A descriptor that was freed is still an instance of `T`, with the contents that it had, until
/// the pool gives it to the next who allocates: the pool neither makes nor drops a `T`, and hands
/// out shared references only. So whoever comes upon the address of a descriptor that may have been
/// freed and allocated again can look into it, and find out by a version number whether what it
/// found there counts: see [`Reference`].
///
/// [`allocate`](Pool::allocate) and its opposite, dropping an [`Allocated`], take constant time:
/// they pop from and push to this CPU's stack. Only when that is empty or full, they exchange up to
/// 32 descriptors at once with those that are on their way between CPUs, or else with the pages
/// that all CPUs share.
///
/// Scope: `Machine`. Progress: lock-free; but a call that finds nothing free any more looks at the
/// CPUs' stacks through their gates, and waits while another thread holds one of those. A call that
/// needs more memory while another thread maps some waits for that: it yields the processor at most
/// 121 times for each turn of another thread, and then maps its own. A refused call waits up to a
/// hundred milliseconds before it returns [`Error::OutOfMemory`], if a thread that was held up may
/// have the memory. A signal handler waits for the thread that it has interrupted at most as long
/// as for others. Cost: no atomic instruction on the fast path; two for up to 31 descriptors that
/// change CPU, one for up to 32 taken out of a page, and one for each that goes back there. A
/// thread that cannot run sections, or comes while this CPU's gate is held, takes the way of the
/// pages, for one descriptor at a time; so do all where there are no sections. Every operation may
/// be called from a signal handler that has interrupted any other one, and none calls the global
/// allocator; [the module](super) tells the rest.
///
/// ```
/// use atomseq::type_stable::Pool;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// let pool = Pool::<[AtomicUsize; 4]>::new();
/// let words = pool.allocate().unwrap();
/// words[0].store(7, Ordering::Relaxed);
///
/// let reference = words.reference();
/// assert_eq!(reference.read(|words| words[0].load(Ordering::Relaxed)), Some(7));
/// drop(words);
/// assert_eq!(reference.read(|words| words[0].load(Ordering::Relaxed)), None);
/// // The memory is still that of four atomics:
/// assert_eq!(reference.descriptor()[0].load(Ordering::Relaxed), 7);
/// ```
pub struct Pool<T: Descriptor> {
    pub(super) cache: percpu::Pool<Address, Shared>,
    pub(super) stable: Option<Duration>,
    /// How many audits there were.
    pub(super) audits: AtomicU32,
    descriptors: PhantomData<T>,
}

impl<T: Descriptor> Pool<T> {
    /// A pool without a limit, whose pages stay with it.
    ///
    /// # Panics
    ///
    /// If [`Options::build`] fails.
    pub fn new() -> Pool<T> {
        let pool = Pool::options().build();
        pool.unwrap_or_else(|error| panic!("{error}"))
    }

    /// What a pool can be told.
    ///
    /// ```
    /// use atomseq::type_stable::Pool;
    /// use std::sync::atomic::AtomicU64;
    /// use std::time::Duration;
    ///
    /// let pool = Pool::<AtomicU64>::options()
    ///     .limit(1000)
    ///     .stable_for(Duration::from_secs(1))
    ///     .build()?;
    /// assert_eq!(pool.limit(), 1000);
    /// # Ok::<(), atomseq::type_stable::Error>(())
    /// ```
    pub fn options() -> Options<T> {
        Options {
            limit: None,
            cached: CACHED,
            stable: None,
            descriptors: PhantomData,
        }
    }

    /// How many descriptors there can be.
    pub fn limit(&self) -> usize {
        self.shared().geometry().limit
    }

    /// How long a page stays of its type after all its descriptors were freed; `None`: for ever.
    pub fn stable_for(&self) -> Option<Duration> {
        self.stable
    }

    /// Takes a descriptor. Its contents are what the last owner has left, or zeros.
    ///
    /// # Errors
    ///
    /// [`Error::LimitReached`]: each descriptor is allocated, or is on its way to or from a CPU's stack just now, or lies in a
    /// page that a [`trim`](Pool::trim) is giving back just now, or moved while this call looked
    /// for one: it looks at one place after another. [`Error::OutOfMemory`]: nothing is free, and
    /// the operating system has refused memory for more; or another thread has got what was left,
    /// and was held up for longer than this call waits before it could publish it.
    #[inline]
    pub fn allocate(&self) -> Result<Allocated<'_, T>, Error> {
        match self.cache.get_at_once() {
            Ok(Some(address)) => Ok(self.hand_out(address)),
            _ => self.allocate_slowly(),
        }
    }

    /// Nothing is free, or this CPU's stack cannot be used now.
    #[cold]
    #[inline(never)]
    fn allocate_slowly(&self) -> Result<Allocated<'_, T>, Error> {
        if platform::register_this_thread() {
            if let Ok(Some(address)) = self.cache.get_at_once() {
                return Ok(self.hand_out(address));
            }
        }
        // Nobody is waited for as long as the pages have one.
        let from_pages = || {
            let mut taken = None;
            let all = self.shared();
            all.take(1, |descriptor| taken = Some(Address(descriptor)))?;
            Ok(taken.expect("it takes at least one"))
        };
        let address = from_pages().or_else(|_: Error| match self.cache.steal_half_at_once() {
            Some(address) => Ok(address),
            // Freed by others meanwhile, or the reason why there is none.
            None => from_pages(),
        });
        Ok(self.hand_out(address?))
    }

    #[cold]
    #[inline(never)]
    fn put_slowly(&self, mut address: Address) {
        if platform::register_this_thread() {
            match self.cache.put_at_once(address) {
                Ok(()) => return,
                Err(back) => address = back,
            }
        }
        self.shared().put(address);
    }

    #[inline]
    fn hand_out(&self, address: Address) -> Allocated<'_, T> {
        let allocated = Allocated {
            pool: self,
            framed: address.0.cast(),
        };
        let header = &allocated.framed().header;
        let version = unclaimed::begin(&header.version, &header.unclaimed);
        // Release: before whatever the new owner stores; pairs with the fence in `Reference::read`.
        fence(Ordering::Release);
        debug_assert!(version % 2 == 1, "allocated twice");
        allocated
    }

    /// Takes a descriptor back from [`Allocated::into_raw`].
    ///
    /// # Safety
    ///
    /// The descriptor came out of `into_raw` of this pool, and is taken back once.
    pub unsafe fn adopt(&self, descriptor: &T) -> Allocated<'_, T> {
        // The header lies behind the descriptor, where a reference to that does not reach.
        let framed = with_exposed_provenance_mut(ptr::from_ref(descriptor).addr());
        Allocated {
            pool: self,
            framed: NonNull::new(framed).expect("a reference is not null"),
        }
    }

    /// The descriptor at an address, if there is one in this pool: allocated or free, for it is a
    /// `T` in either case. Looks at one chunk after the other, of which there are at most 31.
    pub fn descriptor_at(&self, address: usize) -> Option<&T> {
        let (descriptor, _) = self.shared().descriptor_at(address)?;
        // SAFETY: a descriptor of the pool is a `T` for as long as the pool lives.
        Some(unsafe { descriptor.cast().as_ref() })
    }

    /// A reference to the descriptor at an address, if there is one in this pool that is allocated
    /// now.
    pub fn reference_at(&self, address: usize) -> Option<Reference<'_, T>> {
        let (descriptor, header) = self.shared().descriptor_at(address)?;
        // Acquire: pairs with the Release in `unclaimed::begin`.
        let version = header.version.load(Ordering::Acquire);
        // SAFETY: a descriptor of the pool, which lives as long.
        (version % 2 == 1).then(|| unsafe { Reference::new(descriptor.cast(), version) })
    }

    pub(super) fn shared(&self) -> &Shared {
        self.cache.source()
    }
}

impl<T: Descriptor> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool::new()
    }
}

impl<T: Descriptor> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("limit", &self.limit())
            .field("stable_for", &self.stable)
            .field("cached", &self.cache.cached())
            .finish()
    }
}

/// A descriptor that its holder has from a [`Pool`], for itself; dropped, it is free.
///
/// It gives `&T` and never `&mut T`, since others may look at the descriptor at any time.
pub struct Allocated<'pool, T: Descriptor> {
    pool: &'pool Pool<T>,
    framed: NonNull<Framed<T>>,
}

// SAFETY: it is a reference to a pool and one to a descriptor, both of which threads share.
unsafe impl<T: Descriptor> Send for Allocated<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Descriptor> Sync for Allocated<'_, T> {}

impl<'pool, T: Descriptor> Allocated<'pool, T> {
    #[inline]
    fn framed(&self) -> &'pool Framed<T> {
        // SAFETY: a descriptor and its header are there as long as the pool, and only shared.
        unsafe { self.framed.as_ref() }
    }

    /// A reference that knows when this allocation has ended.
    pub fn reference(&self) -> Reference<'pool, T> {
        // Relaxed: it changes when this allocation ends.
        let version = self.framed().header.version.load(Ordering::Relaxed);
        // SAFETY: a descriptor of the pool, which lives as long.
        unsafe { Reference::new(self.framed, version) }
    }

    /// Where the descriptor lies: a multiple of 64.
    pub fn address(&self) -> usize {
        self.framed.as_ptr().expose_provenance()
    }

    /// Leaves the descriptor allocated, for structures that keep its address in words of their own.
    /// [`Pool::adopt`] undoes it; if nobody does, an audit finds it.
    pub fn into_raw(self) -> &'pool T {
        let descriptor = &self.framed().descriptor;
        std::mem::forget(self);
        descriptor
    }

    /// The pool that it is from.
    pub fn pool(&self) -> &'pool Pool<T> {
        self.pool
    }
}

impl<T: Descriptor> Deref for Allocated<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.framed().descriptor
    }
}

impl<T: Descriptor> Drop for Allocated<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let version = &self.framed().header.version;
        // Relaxed: only its owner changes it. Release: what the owner did comes before; pairs with
        // the Acquire of those who look whether it is free.
        let free = version.load(Ordering::Relaxed).wrapping_add(1);
        version.store(free, Ordering::Release);
        debug_assert!(free.is_multiple_of(2), "freed twice");
        if let Err(address) = self.pool.cache.put_at_once(Address(self.framed.cast())) {
            self.pool.put_slowly(address);
        }
    }
}

impl<T: Descriptor + fmt::Debug> fmt::Debug for Allocated<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Allocated").field(&**self).finish()
    }
}
