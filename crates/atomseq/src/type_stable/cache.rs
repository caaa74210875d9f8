//! GC96's caching model: so many descriptors and no more, and still an allocation never fails.
//!
//! ```text
//! entry:  | T | state | last use |
//! state:  | generation 47 | being written back 1 | loaded 1 | uses 15 |
//!
//! not loaded ──load──> loaded, 1 use <──get, drop──> loaded, 0 uses ──chosen──> being written back ──> not loaded
//! ```
//!
//! Each change of the state is one exchange, so of those who want a descriptor and those who want
//! its place one gets it.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Error;
use super::descriptor::Descriptor;
use super::pool::{Allocated, Pool};
use super::vacancies::Vacancies;
use crate::drops;

const LOADED: u64 = 1 << 15;
const USES: u64 = LOADED - 1;
const BEING_WRITTEN_BACK: u64 = 1 << 16;
const GENERATION: u64 = 1 << 17;
/// The bits of a name.
const NAME: u64 = !(GENERATION - 1);

/// Whom the contents of a cache's descriptors belong to, and who decides which of them goes.
///
/// Any `Fn(&T)` is one that takes back what was used least recently.
///
/// What is called here runs in whichever thread needs a place, and in its signal handlers if they
/// call [`Cache::load`]. No gate is closed meanwhile.
pub trait WriteBack<T: Descriptor>: Sync {
    /// Whether each use is counted, for [`Candidate::last_use`]. It costs one atomic instruction on
    /// a word that all uses share.
    const COUNTS_USES: bool = true;

    /// Takes the contents of a descriptor back. Nobody uses it, nobody can any more, and its place
    /// is taken as soon as this returns. If it panics, the contents are gone and the place is free.
    ///
    /// It may use the cache, but must not wait for what is [being written
    /// back](Gone::BeingWrittenBack): its caller, or another thread that waits for this one, may be
    /// writing just that.
    ///
    /// If it loads what is not there, and no descriptor is free, that load writes another victim
    /// back, which may load again: these calls nest as deep as there are descriptors that are not
    /// in use. So a `write_back` should load only what is there already, or the cache must have
    /// room for it.
    fn write_back(&self, victim: &T);

    /// Chooses what goes: by default what was used least recently, which looks at every descriptor.
    /// `None` if none of them may.
    ///
    /// [`load`](Cache::load) calls this again if the choice has been used or written back
    /// meanwhile. After `None`, `load` calls this again if a descriptor has become free meanwhile,
    /// or its last use has ended. Changes that this function makes itself count too, so `load` may
    /// never return if this function
    ///
    /// * loads from the same cache, which may write back what this function then chooses; or
    /// * ends the last use of a descriptor and then returns `None`, in each call.
    fn choose<'a>(
        &self,
        candidates: impl Iterator<Item = Candidate<'a, T>>,
    ) -> Option<Candidate<'a, T>> {
        candidates.min_by_key(Candidate::last_use)
    }
}

impl<T: Descriptor, F: Fn(&T) + Sync> WriteBack<T> for F {
    fn write_back(&self, victim: &T) {
        self(victim);
    }
}

/// A descriptor that is loaded and that nobody uses.
///
/// One choice has one lifetime, and no candidate of another choice, which may be that of another
/// cache, has the same:
///
/// ```compile_fail
/// use atomseq::type_stable::Candidate;
///
/// fn of_another<'a, T>(candidate: Candidate<'static, T>) -> Candidate<'a, T> {
///     candidate
/// }
/// ```
///
/// ```compile_fail
/// use atomseq::type_stable::Candidate;
///
/// fn of_another<'a, 'b>(candidate: Candidate<'a, &'static u64>) -> Candidate<'a, &'b u64> {
///     candidate
/// }
/// ```
pub struct Candidate<'a, T> {
    entry: &'a Entry<T>,
    state: u64,
    last_use: u64,
    /// Invariant in both.
    choice: PhantomData<fn(&'a T) -> &'a T>,
}

impl<'a, T> Candidate<'a, T> {
    /// What it is. Until it is chosen, others may use and change it.
    pub fn descriptor(&self) -> &'a T {
        &self.entry.descriptor
    }

    /// When it was used last, counted in uses of the whole cache; 0 if those are not counted.
    pub fn last_use(&self) -> u64 {
        self.last_use
    }
}

impl<T> fmt::Debug for Candidate<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate")
            .field("last_use", &self.last_use)
            .finish()
    }
}

struct Entry<T> {
    descriptor: T,
    state: AtomicU64,
    last_use: AtomicU64,
}

// SAFETY: zeros are an instance of each of its parts.
unsafe impl<T: Descriptor> Descriptor for Entry<T> {}

/// A bounded number of descriptors that stand for more than there are: when all are taken, the
/// contents of one are handed back to their [owner](WriteBack), and its place serves the new one
/// (GC96 2, *the caching model*).
///
/// A [`Loaded`] names what was loaded. It may be [`Gone`] whenever a thread looks: that thread
/// loads it anew, once the owner has all that was written back. While an [`InUse`] lives, what it
/// gives stays.
///
/// Scope: `Machine`. Progress: that of a [`Pool`], but for what the owner does. Cost: one atomic
/// instruction to begin a use, one to end it, and one to count it. [`load`](Cache::load) costs an
/// allocation from the [pages that CPUs share](super::Options::cached) as long as there is room;
/// then a look at every descriptor, unless [`choose`](WriteBack::choose) is content with one of the
/// first; two such looks, at least, if it is refused, and one atomic instruction more at the end of
/// the next use. Where the system refuses memory before the limit is reached, each load asks for
/// it, in vain, a few times before it looks. Usable in signal handlers if the owner is.
///
/// ```
/// use atomseq::type_stable::Cache;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::sync::Mutex;
///
/// let disk = Mutex::new(Vec::new());
/// let pages = Cache::<AtomicU64, _>::try_new(2, |victim: &AtomicU64| {
///     disk.lock().unwrap().push(victim.load(Ordering::Relaxed));
/// })?;
/// let load = |number| {
///     let page = pages.load().unwrap();
///     page.store(number, Ordering::Relaxed);
///     page.loaded()
/// };
/// let (one, two) = (load(1), load(2));
/// assert!(one.get().is_ok());
///
/// let _three = load(3);
/// assert_eq!(*disk.lock().unwrap(), [2]);
/// assert!(two.get().is_err() && one.get().is_ok());
/// # drop(pages);
/// # Ok::<(), atomseq::type_stable::Error>(())
/// ```
pub struct Cache<T: Descriptor, W: WriteBack<T>> {
    /// Stable for ever: generations must not begin anew. No CPU keeps free descriptors for itself:
    /// threads move those many at a time, and no allocation finds what is being moved.
    pool: Pool<Entry<T>>,
    owner: W,
    uses: AtomicU64,
    /// What `load` may take: free descriptors, and loaded ones that nobody uses.
    vacancies: Vacancies,
}

impl<T: Descriptor, W: WriteBack<T>> Cache<T, W> {
    /// A cache of up to `limit` descriptors.
    ///
    /// # Errors
    ///
    /// [`Error::Zero`], [`Error::TooLarge`], [`Error::OutOfMemory`].
    pub fn try_new(limit: usize, owner: W) -> Result<Cache<T, W>, Error> {
        Ok(Cache {
            pool: Pool::options().limit(limit).cached(0).build()?,
            owner,
            uses: AtomicU64::new(0),
            vacancies: Vacancies::new(),
        })
    }

    /// How many descriptors there can be.
    pub fn limit(&self) -> usize {
        self.pool.limit()
    }

    /// Whom the contents belong to.
    pub fn owner(&self) -> &W {
        &self.owner
    }

    /// Takes a descriptor for something new, in use. Its contents are what was there before, or
    /// zeros.
    ///
    /// # Errors
    ///
    /// [`Error::AllInUse`]: the limit is reached, and at one moment during the call no descriptor
    /// could be had. Each was in use; or another thread, or what this call has interrupted, was
    /// loading, unloading or writing it back; or [`choose`](WriteBack::choose) did not choose it.
    /// [`Error::OutOfMemory`]: the same, before the limit is reached, where the system has refused
    /// memory for more.
    pub fn load(&self) -> Result<InUse<'_, T, W>, Error> {
        let entry = self.take()?;
        // Relaxed: nobody else changes what is not loaded.
        let generation = entry.state.load(Ordering::Relaxed) & NAME;
        let state = generation.wrapping_add(GENERATION) | LOADED | 1;
        let entry = entry.into_raw();
        self.count(entry);
        // Release: pairs with the Acquire of those who find it loaded.
        entry.state.store(state, Ordering::Release);
        Ok(InUse { cache: self, entry })
    }

    /// Takes an entry that is free, or else one whose descriptor it writes back. Retries only if
    /// another operation has made an entry vacant during the search, so it is lock-free.
    fn take(&self) -> Result<Allocated<'_, Entry<T>>, Error> {
        let mut sought = None;
        loop {
            let error = match self.pool.allocate() {
                Ok(entry) => return Ok(entry),
                Err(Error::LimitReached) => Error::AllInUse,
                Err(error) => error,
            };
            if let Some(entry) = self.replace() {
                return Ok(entry);
            }
            let before = sought.replace(self.vacancies.seek());
            if before == sought {
                return Err(error);
            }
        }
    }

    /// Writes one descriptor back. Its entry stays allocated.
    #[cold]
    fn replace(&self) -> Option<Allocated<'_, Entry<T>>> {
        loop {
            if let Some(evicted) = self.evict(self.owner.choose(self.candidates())?) {
                evicted.write_back();
                return Some(evicted.into_entry());
            }
        }
    }

    /// What could be written back now.
    fn candidates(&self) -> impl Iterator<Item = Candidate<'_, T>> {
        // What is free is not loaded.
        self.pool.descriptors().filter_map(|entry| {
            // SeqCst: for the order of `vacancies`. The exchange in `evict` says whether it is
            // still so.
            let state = entry.state.load(Ordering::SeqCst);
            (state & !NAME == LOADED).then(|| Candidate {
                entry,
                state,
                last_use: entry.last_use.load(Ordering::Relaxed),
                choice: PhantomData,
            })
        })
    }

    /// Ends what is loaded, if it is still loaded and not in use.
    fn evict<'a>(&'a self, candidate: Candidate<'a, T>) -> Option<Evicted<'a, T, W>> {
        let Candidate { entry, state, .. } = candidate;
        // Acquire: pairs with the Release at the end of each use. Release: see `vacancies`, of
        // taking.
        let evicted = entry.state.compare_exchange(
            state,
            state ^ (LOADED | BEING_WRITTEN_BACK),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        evicted.is_ok().then(|| Evicted {
            // SAFETY: `load` left it allocated, and who ends what is loaded takes it, once. It is
            // from this cache: a policy can return nothing but what this cache's iterator gave it,
            // for only that has its lifetime, in which a `Candidate` is invariant.
            entry: unsafe { self.pool.adopt(entry) },
            freed: Freed(self),
        })
    }

    /// Writes everything back that is not in use; returns how many descriptors that were. Does not
    /// wait for what other threads are writing back at this moment.
    pub fn write_back(&self) -> usize {
        let mut written = 0;
        for candidate in self.candidates() {
            if let Some(evicted) = self.evict(candidate) {
                evicted.write_back();
                written += 1;
            }
        }
        written
    }

    fn count(&self, entry: &Entry<T>) {
        if W::COUNTS_USES {
            // Relaxed: a number on its own.
            let now = self.uses.fetch_add(1, Ordering::Relaxed) + 1;
            entry.last_use.store(now, Ordering::Relaxed);
        }
    }
}

/// An entry whose descriptor is being written back by its holder, and by nobody else. Dropped, it
/// is free.
struct Evicted<'a, T: Descriptor, W: WriteBack<T>> {
    entry: Allocated<'a, Entry<T>>,
    /// Dropped after the entry.
    freed: Freed<'a, T, W>,
}

impl<'a, T: Descriptor, W: WriteBack<T>> Evicted<'a, T, W> {
    fn write_back(&self) {
        /// The owner has it, or has panicked.
        struct End<'a>(&'a AtomicU64);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                // Release: pairs with the Acquire in `Loaded::get`, so that a thread which finds it
                // gone finds what the owner did.
                self.0.fetch_and(!BEING_WRITTEN_BACK, Ordering::Release);
            }
        }
        let _end = End(&self.entry.state);
        self.freed.0.owner.write_back(&self.entry.descriptor);
    }

    fn into_entry(self) -> Allocated<'a, Entry<T>> {
        let Evicted { entry, freed } = self;
        std::mem::forget(freed);
        entry
    }
}

/// Reports, when it is dropped, that an entry has become free.
struct Freed<'a, T: Descriptor, W: WriteBack<T>>(&'a Cache<T, W>);

impl<T: Descriptor, W: WriteBack<T>> Drop for Freed<'_, T, W> {
    fn drop(&mut self) {
        self.0.vacancies.report();
    }
}

/// Writes everything back.
impl<T: Descriptor, W: WriteBack<T>> Drop for Cache<T, W> {
    fn drop(&mut self) {
        // Nobody is left who could use anything; a use that was never ended does not count.
        let mut entries = self.pool.allocated();
        drops::each(|| {
            let Some(reference) = entries.next() else {
                return false;
            };
            let entry = reference.descriptor();
            if entry.state.load(Ordering::Acquire) & LOADED != 0 {
                self.owner.write_back(&entry.descriptor);
            }
            true
        });
    }
}

impl<T: Descriptor, W: WriteBack<T>> fmt::Debug for Cache<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("limit", &self.limit())
            .field("loaded", &self.pool.allocated().count())
            .finish()
    }
}

/// Why a [`Loaded`] names nothing that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Its owner is taking it back at this moment, in this thread or another one: where it is
    /// loaded anew from may not have all of it yet. Look again later; do not wait for it in a
    /// handler, nor in [`write_back`](WriteBack::write_back) or [`choose`](WriteBack::choose),
    /// which may have interrupted or called each other.
    BeingWrittenBack,
    /// Its owner has it, or it was [unloaded](InUse::unload).
    Unloaded,
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Gone::BeingWrittenBack => {
                "it is being written back: look again before it is loaded anew"
            }
            Gone::Unloaded => "it is no longer loaded: load it anew",
        })
    }
}

impl std::error::Error for Gone {}

/// A name of something that was loaded into a [`Cache`], and may have been written back since.
pub struct Loaded<'cache, T: Descriptor, W: WriteBack<T>> {
    cache: &'cache Cache<T, W>,
    entry: &'cache Entry<T>,
    generation: u64,
}

impl<'cache, T: Descriptor, W: WriteBack<T>> Loaded<'cache, T, W> {
    /// Uses it.
    ///
    /// ```
    /// use atomseq::type_stable::{Cache, Gone};
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    ///
    /// let disk = AtomicU64::new(0);
    /// let pages = Cache::try_new(1, |page: &AtomicU64| disk.store(page.load(Relaxed), Relaxed))?;
    /// let page = pages.load()?;
    /// page.store(7, Relaxed);
    /// let name = page.loaded();
    /// drop(page);
    /// let another = pages.load()?;
    /// while name.get().is_err_and(|gone| gone == Gone::BeingWrittenBack) {
    ///     std::thread::yield_now();
    /// }
    /// // Now it can be loaded anew.
    /// assert_eq!(name.get().unwrap_err(), Gone::Unloaded);
    /// assert_eq!(disk.load(Relaxed), 7);
    /// # drop(another);
    /// # drop(pages);
    /// # Ok::<(), atomseq::type_stable::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Gone`].
    ///
    /// # Panics
    ///
    /// If it is in use 32,767 times already.
    pub fn get(&self) -> Result<InUse<'cache, T, W>, Gone> {
        // Acquire, here and below: pairs with the Release of the thread that has written it back,
        // or unloaded it.
        let mut state = self.entry.state.load(Ordering::Acquire);
        while state & !USES == self.generation | LOADED {
            assert!(state & USES < USES, "a descriptor is in use too often");
            // Acquire: pairs with the Release in `load`, and with that at the end of each use.
            // Release: see `vacancies`, of taking.
            match self.entry.state.compare_exchange_weak(
                state,
                state + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    self.cache.count(self.entry);
                    return Ok(InUse {
                        cache: self.cache,
                        entry: self.entry,
                    });
                }
                Err(now) => state = now,
            }
        }
        match state == self.generation | BEING_WRITTEN_BACK {
            true => Err(Gone::BeingWrittenBack),
            false => Err(Gone::Unloaded),
        }
    }
}

impl<T: Descriptor, W: WriteBack<T>> Clone for Loaded<'_, T, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Descriptor, W: WriteBack<T>> Copy for Loaded<'_, T, W> {}

impl<T: Descriptor, W: WriteBack<T>> fmt::Debug for Loaded<'_, T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded")
            .field("address", &std::ptr::from_ref(self.entry))
            .field("generation", &(self.generation / GENERATION))
            .finish()
    }
}

/// A descriptor that stays loaded while this lives. A thread that keeps too many, or a few for too
/// long, leaves none to be written back.
pub struct InUse<'cache, T: Descriptor, W: WriteBack<T>> {
    cache: &'cache Cache<T, W>,
    entry: &'cache Entry<T>,
}

impl<'cache, T: Descriptor, W: WriteBack<T>> InUse<'cache, T, W> {
    /// Its name for later.
    pub fn loaded(&self) -> Loaded<'cache, T, W> {
        // Relaxed: the generation stays while this lives.
        let state = self.entry.state.load(Ordering::Relaxed);
        Loaded {
            cache: self.cache,
            entry: self.entry,
            generation: state & NAME,
        }
    }

    /// Ends what is loaded, without writing it back.
    ///
    /// # Errors
    ///
    /// Itself, if others use it too.
    pub fn unload(self) -> Result<(), Self> {
        let alone = self.loaded().generation | LOADED | 1;
        // Acquire: pairs with the Release at the end of each use. Release: with the Acquire in
        // `Loaded::get`.
        let unloaded = self.entry.state.compare_exchange(
            alone,
            alone & NAME,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        if unloaded.is_err() {
            return Err(self);
        }
        // SAFETY: `load` left it allocated, and who ends what is loaded takes it, once.
        drop(unsafe { self.cache.pool.adopt(self.entry) });
        self.cache.vacancies.report();
        std::mem::forget(self);
        Ok(())
    }
}

impl<T: Descriptor, W: WriteBack<T>> Deref for InUse<'_, T, W> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.entry.descriptor
    }
}

impl<T: Descriptor, W: WriteBack<T>> Drop for InUse<'_, T, W> {
    fn drop(&mut self) {
        // SeqCst: for the order of `vacancies`. It includes Release: what was done with it comes
        // before; pairs with the Acquire of who writes it back.
        let before = self.entry.state.fetch_sub(1, Ordering::SeqCst);
        if before & USES == 1 {
            self.cache.vacancies.report();
        }
    }
}

impl<T: Descriptor + fmt::Debug, W: WriteBack<T>> fmt::Debug for InUse<'_, T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InUse").field(&**self).finish()
    }
}
