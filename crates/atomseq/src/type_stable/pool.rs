//! Pools, and the descriptors allocated from them.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use super::Error;
use super::descriptor::Descriptor;
use super::layout::{Framed, Geometry};
use super::reference::Reference;
use super::shared::{Address, Shared};
use super::unclaimed;
use crate::or_panic::OrPanic;
use crate::{percpu, platform};

/// The default number of free descriptors that a CPU keeps for itself.
const CACHED: usize = 64;

/// The min number of descriptors per CPU: if a limit leaves fewer, CPUs keep none. To get a
/// descriptor kept by another CPU, a thread must close that CPU's gate and take half of its stack.
/// This takes as long as hundreds of atomic instructions.
///
/// Measured on four CPUs, two threads pushing to a `LinkedStack` with a limit and two popping.
/// Limit 16: 3.6 to 8.7 µs a value with stacks of two a CPU, 0.9 to 1.0 µs without. Limit 64: 2.4
/// to 4.1 µs with stacks of eight, 0.6 to 0.7 µs without.
const MIN_PER_CPU: usize = 16;

/// The options of a [`Pool`], created by [`Pool::options`].
pub struct Options<T> {
    limit: Option<usize>,
    cached: usize,
    stable: Option<Duration>,
    descriptors: PhantomData<fn() -> T>,
}

// A derived implementation would require the same of `T`, and a descriptor cannot be copied.
impl<T> Clone for Options<T> {
    fn clone(&self) -> Options<T> {
        *self
    }
}

impl<T> Copy for Options<T> {}

impl<T> fmt::Debug for Options<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("limit", &self.limit)
            .field("cached", &self.cached)
            .field("stable_for", &self.stable)
            .finish()
    }
}

impl<T: Descriptor> Options<T> {
    /// Sets the max number of allocated descriptors. Default: as many as the address space holds.
    ///
    /// At times fewer can be allocated: see [`allocate`](Pool::allocate). A [`trim`](Pool::trim)
    /// withholds one page of descriptors at a time, which may be all that are free in a small pool.
    pub fn limit(self, descriptors: usize) -> Options<T> {
        Options {
            limit: Some(descriptors),
            ..self
        }
    }

    /// Sets how many free descriptors each CPU keeps for itself. Default: 64. With 0, all free
    /// descriptors are in the pages shared by all CPUs.
    ///
    /// Further free descriptors are in transit between CPUs: at most as many as all CPUs keep
    /// together, or eight batches if that is more.
    ///
    /// A [limit](Options::limit) reduces the number, so that all CPUs together keep at most half of
    /// the limit. If that leaves fewer than 16 a CPU, CPUs keep none. An allocation that finds free
    /// descriptors only on another CPU's stack closes that CPU's gate and moves half of them.
    /// Choose the limit larger than needed if many descriptors are freed on another CPU than where
    /// they are allocated.
    ///
    /// This takes the memory of a [`percpu::Pool`](crate::percpu::Pool) of as many objects for each
    /// CPU.
    pub fn cached(self, descriptors: usize) -> Options<T> {
        Options {
            cached: descriptors,
            ..self
        }
    }

    /// Sets GC96's t_stable: a [`trim`](Pool::trim) gives a page back only after all its
    /// descriptors have been free for longer than `time`. The time is rounded up to milliseconds,
    /// and more than 12 days means indefinitely. Default: no page is given back before the pool is
    /// dropped.
    pub fn stable_for(self, time: Duration) -> Options<T> {
        Options {
            stable: Some(time),
            ..self
        }
    }

    /// Creates the pool.
    ///
    /// # Errors
    ///
    /// [`Error::Zero`] if the limit is zero; [`Error::TooLarge`] if the descriptors, or the room
    /// for those that [CPUs keep](Options::cached), exceed the address space, or if the descriptors
    /// are aligned to more than a page of the system; [`Error::OutOfMemory`] if the system refuses
    /// memory; [`Error::StartingUp`] during atomseq's own initialization.
    pub fn try_build(self) -> Result<Pool<T>, Error> {
        let geometry = Geometry::of::<T>(self.limit)?;
        let error = |error| match error {
            percpu::Error::TooLarge => Error::TooLarge,
            percpu::Error::StartingUp => Error::StartingUp,
            _ => Error::OutOfMemory,
        };
        let cpus = percpu::started().map_err(error)?.features().cpus;
        let cached = match self.limit.map(|limit| limit / 2 / cpus) {
            Some(share) if share < MIN_PER_CPU => 0,
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

/// An allocator of descriptors of one type in memory that keeps that type: GC96's type-stable
/// memory.
///
/// A freed descriptor remains an instance of `T` and keeps its contents until it is allocated again
/// or its page is [given back](Pool::trim). The pool neither constructs nor drops a `T`, and hands
/// out shared references only. A thread can therefore read a descriptor that may have been freed
/// and reused, and then check by a version number whether the read was valid: see [`Reference`].
///
/// [`allocate`](Pool::allocate) pops from this CPU's stack, and dropping an [`Allocated`] pushes to
/// it. Both take constant time. If the stack is empty or full, up to 32 descriptors at once move
/// from or to the descriptors in transit between CPUs, or else the pages shared by all CPUs.
///
/// Scope: `Machine`. Progress: lock-free, with three exceptions. A call that finds nothing else
/// free takes from the CPUs' stacks through their gates, and waits as
/// [`close_gate`](crate::percpu::Area::close_gate) does. A call that needs more memory while
/// another thread maps some yields the processor at most 121 times for each turn of another thread,
/// then maps its own. If the system refuses memory, a call waits up to 100 ms for a delayed thread
/// that may hold the last of it, then returns [`Error::OutOfMemory`]. A signal handler waits for
/// the thread it has interrupted no longer than for any other.
///
/// Cost: no atomic instruction on the fast path; two for up to 31 descriptors that change CPU; one
/// for up to 32 taken out of a page, and two to four more if they are the last ones there; one for
/// each put back into a page, and up to two more for the first one that a page without free ones
/// gets. A thread that cannot run sections, or finds this CPU's gate held, uses the pages directly,
/// one descriptor at a time. So does every thread on systems without sections. Every operation may
/// be called in a signal handler that interrupted any other, and none calls the global allocator;
/// see [the module](super).
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
    /// The number of audits started.
    pub(super) audits: AtomicU32,
    descriptors: PhantomData<T>,
}

impl<T: Descriptor> Pool<T> {
    /// Creates a pool without a limit that gives no pages back.
    ///
    /// # Panics
    ///
    /// If [`Options::try_build`] fails.
    #[track_caller]
    pub fn new() -> Pool<T> {
        let pool = Pool::options().try_build();
        pool.or_panic()
    }

    /// Returns the default options of a pool.
    ///
    /// ```
    /// use atomseq::type_stable::Pool;
    /// use std::sync::atomic::AtomicU64;
    /// use std::time::Duration;
    ///
    /// let pool = Pool::<AtomicU64>::options()
    ///     .limit(1000)
    ///     .stable_for(Duration::from_secs(1))
    ///     .try_build()?;
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

    /// Returns the max number of allocated descriptors.
    pub fn limit(&self) -> usize {
        self.shared().geometry().limit
    }

    /// Returns how long all descriptors of a page must have been free before a trim gives it back.
    /// `None`: no page is given back.
    pub fn stable_for(&self) -> Option<Duration> {
        self.stable
    }

    /// Allocates a descriptor. Its contents are those of the last owner, or zeros.
    ///
    /// # Errors
    ///
    /// [`Error::LimitReached`] if the search, which visits one place after another, found no free
    /// descriptor. Each one was allocated, was moving to or from a CPU's stack, was in a page that
    /// a [`trim`](Pool::trim) is giving back, or moved during the search. [`Error::OutOfMemory`] if
    /// nothing is free and the operating system refuses memory, or if another thread got the
    /// remaining memory and did not publish it in time.
    #[inline]
    pub fn allocate(&self) -> Result<Allocated<'_, T>, Error> {
        match self.cache.get_at_once() {
            Ok(Some(address)) => Ok(self.hand_out(address)),
            _ => self.allocate_slowly(),
        }
    }

    /// Allocates when the CPU's stack is empty or cannot be used now.
    #[cold]
    #[inline(never)]
    fn allocate_slowly(&self) -> Result<Allocated<'_, T>, Error> {
        if platform::register_this_thread() {
            if let Ok(Some(address)) = self.cache.get_at_once() {
                return Ok(self.hand_out(address));
            }
        }
        // The shared pages come before the gates, so this waits for no gate while the pages have a
        // free descriptor.
        let from_pages = || {
            let mut taken = None;
            let all = self.shared();
            all.take(1, |descriptor| taken = Some(Address(descriptor)))?;
            Ok(taken.expect("it takes at least one"))
        };
        let address = from_pages().or_else(|_: Error| match self.cache.steal_half_at_once() {
            Some(address) => Ok(address),
            // Retries the pages: other threads may have freed descriptors. Otherwise this returns
            // the error.
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
        // Release: orders the new version before the stores of the new owner. Pairs with the
        // Acquire fence in `Reference::read`.
        fence(Ordering::Release);
        debug_assert!(version % 2 == 1, "allocated twice");
        allocated
    }

    /// Takes back a descriptor that [`Allocated::into_raw`] returned.
    ///
    /// # Safety
    ///
    /// `descriptor` must have been returned by `into_raw` of an `Allocated` of this pool, and must
    /// be adopted only once.
    pub unsafe fn adopt(&self, descriptor: &T) -> Allocated<'_, T> {
        // The provenance of a `&T` does not cover the header behind it, so this uses the exposed
        // one.
        let framed = with_exposed_provenance_mut(ptr::from_ref(descriptor).addr());
        Allocated {
            pool: self,
            framed: NonNull::new(framed).expect("a reference is not null"),
        }
    }

    /// Claims a descriptor, whichever allocation it belongs to now, so that the next
    /// [audit](Pool::audit) does not report it. Costs no atomic instruction if no audit has found
    /// it since it was claimed last.
    ///
    /// # Safety
    ///
    /// The descriptor belongs to this pool.
    #[inline(always)]
    pub(crate) unsafe fn claim(&self, descriptor: &T) {
        // As in `adopt`.
        let framed = with_exposed_provenance::<Framed<T>>(ptr::from_ref(descriptor).addr());
        // SAFETY: each descriptor of a pool has its header behind it, and stays mapped while the
        // pool lives. The header's words are atomic.
        unclaimed::claim_if_found(unsafe { &(*framed).header.unclaimed });
    }

    /// Returns the descriptor at an address, allocated or free, or `None` if the pool has none
    /// there. Searches up to 31 chunks. Wait-free; costs no atomic instruction.
    pub fn descriptor_at(&self, address: usize) -> Option<&T> {
        let (descriptor, _) = self.shared().descriptor_at(address)?;
        // SAFETY: `Shared::descriptor_at` returns only descriptors of this pool, and each stays a
        // valid, shared `T` while the pool, borrowed here, lives.
        Some(unsafe { descriptor.cast().as_ref() })
    }

    /// Returns a reference to the allocated descriptor at an address, or `None` if there is no
    /// descriptor there or it is free.
    pub fn reference_at(&self, address: usize) -> Option<Reference<'_, T>> {
        let (descriptor, header) = self.shared().descriptor_at(address)?;
        // Acquire: pairs with the Release in `unclaimed::begin`.
        let version = header.version.load(Ordering::Acquire);
        // SAFETY: `Shared::descriptor_at` returns only descriptors of this pool, which is borrowed
        // for the lifetime of the result.
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

/// A descriptor allocated from a [`Pool`] and owned by the holder. Dropping it frees the
/// descriptor.
///
/// It gives `&T` but never `&mut T`, since other threads may read the descriptor at any time.
pub struct Allocated<'pool, T: Descriptor> {
    pool: &'pool Pool<T>,
    framed: NonNull<Framed<T>>,
}

// SAFETY: it consists of a shared pool and a shared descriptor, and both are `Sync`. Freeing is not
// bound to the allocating thread.
unsafe impl<T: Descriptor> Send for Allocated<'_, T> {}
// SAFETY: a shared `Allocated` gives access only to `&Pool` and `&T`, which are `Sync`.
unsafe impl<T: Descriptor> Sync for Allocated<'_, T> {}

impl<'pool, T: Descriptor> Allocated<'pool, T> {
    #[inline]
    fn framed(&self) -> &'pool Framed<T> {
        // SAFETY: the descriptor and its header stay mapped while the pool lives, and no `&mut` to
        // them exists.
        unsafe { self.framed.as_ref() }
    }

    /// Returns a reference to this allocation, which detects when the allocation has ended.
    pub fn reference(&self) -> Reference<'pool, T> {
        // Relaxed: only the owner changes the version while the allocation lasts.
        let version = self.framed().header.version.load(Ordering::Relaxed);
        // SAFETY: the descriptor belongs to `self.pool`, which lives for `'pool`.
        unsafe { Reference::new(self.framed, version) }
    }

    /// Returns the address of the descriptor, a multiple of 64.
    pub fn address(&self) -> usize {
        self.framed.as_ptr().expose_provenance()
    }

    /// Leaves the descriptor allocated and returns it, for structures that keep its address in
    /// words of their own. [`Pool::adopt`] takes it back. If that never happens, an
    /// [audit](Pool::audit) finds it.
    pub fn into_raw(self) -> &'pool T {
        let descriptor = &self.framed().descriptor;
        std::mem::forget(self);
        descriptor
    }

    /// Returns the pool that the descriptor belongs to.
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
        // Relaxed: only the owner changes the version of an allocated descriptor. Release: orders
        // the owner's accesses before the free version; pairs with the Acquire loads of the
        // version.
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
