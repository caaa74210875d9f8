//! GC96's caching model: a bounded number of descriptors, of which unused ones are written back to
//! make room for new loads.
//!
//! ```text
//! entry:  | T | state | last use |
//! state:  | generation 47 | being written back 1 | loaded 1 | uses 15 |
//!
//! not loaded ──load──> loaded, 1 use <──get, drop──> loaded, 0 uses
//!     ^                                                    │ chosen
//!     └────────────── being written back <─────────────────┘
//! ```
//!
//! Each state change is one compare-and-swap. If a thread wants to use a descriptor and another
//! wants to replace it, exactly one of them succeeds.
//!
//! Both bits together mean loaded, and *seen in use by an audit*: each new use clears the second
//! bit. If it is still set at a later audit, all uses that are counted are older than the first
//! one.

use std::fmt;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ops::Deref;
use std::ptr::with_exposed_provenance;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Error;
use super::audit::Audit;
use super::descriptor::Descriptor;
use super::pool::{Allocated, Pool};
use super::vacancies::Vacancies;
use crate::drops;
use crate::or_panic::OrPanic;

const LOADED: u64 = 1 << 15;
const USES: u64 = LOADED - 1;
const BEING_WRITTEN_BACK: u64 = 1 << 16;
/// The same bit, of an entry that is loaded.
const SEEN_IN_USE: u64 = BEING_WRITTEN_BACK;
const GENERATION: u64 = 1 << 17;
/// The bits of the state that identify a load: the generation.
const NAME: u64 = !(GENERATION - 1);

/// The owner of the contents of a cache's descriptors, which decides which descriptor is replaced.
///
/// Any `Fn(&T)` implements this, and replaces the least recently used descriptor.
///
/// Its functions run in any thread that needs a descriptor, and in signal handlers that call
/// [`Cache::load`]. No gate is closed meanwhile.
pub trait WriteBack<T: Descriptor>: Sync {
    /// Whether uses are counted, for [`Candidate::last_use`]. Counting costs one atomic instruction
    /// a use, on a word shared by all uses.
    const COUNTS_USES: bool = true;

    /// Writes the contents of a descriptor back. The descriptor is not in use and can no longer be
    /// used, and it is reused as soon as this returns. If this panics, the contents are lost and
    /// the descriptor is free. If the thread exits here, by a system call of its own, an
    /// [audit](Cache::audit) calls this again with the same contents; without one, they are lost.
    ///
    /// This function may use the cache, but must not wait for a load that is [being written
    /// back](Gone::BeingWrittenBack). Its caller may be writing exactly that load back, or another
    /// thread that waits for this one.
    ///
    /// If it loads something while no descriptor is free, that load writes another victim back,
    /// which may load again. These calls nest up to as many levels as there are unused descriptors.
    /// A `write_back` should therefore use only what is loaded, or the cache must have room for its
    /// loads.
    fn write_back(&self, victim: &T);

    /// Takes a descriptor out of the owner's structures. Called when it stops being loaded: before
    /// [`write_back`](WriteBack::write_back), or when it is [unloaded](InUse::unload), and always
    /// before it is free. It is not in use and can no longer be used. Not called when the cache is
    /// dropped. The default does nothing.
    ///
    /// The rules of `write_back` hold here too: for a panic, for a thread that exits here, and for
    /// what this may do. An [audit](Cache::audit) calls this for each descriptor that it frees. It
    /// may be the second call for the same contents, or the descriptor was never loaded.
    fn retire(&self, descriptor: &T) {
        let _ = descriptor;
    }

    /// Chooses the descriptor to replace, or `None` if none may be replaced. The default visits
    /// every candidate and chooses the least recently used.
    ///
    /// [`load`](Cache::load) calls this again if the choice was used or written back meanwhile.
    /// After `None`, `load` calls this again if a descriptor became free or its last use ended
    /// meanwhile. Changes made by this function count too, so `load` may never return if this
    /// function
    ///
    /// * loads from the same cache, which may write back the descriptor that this function then
    ///   chooses; or
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

/// A loaded descriptor that is not in use.
///
/// Each choice has its own lifetime, so a candidate of another choice, possibly of another cache,
/// cannot be returned instead:
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
    /// Makes the type invariant in both parameters.
    choice: PhantomData<fn(&'a T) -> &'a T>,
}

impl<'a, T> Candidate<'a, T> {
    /// Returns the descriptor. Until it is chosen, other threads may use and change it.
    pub fn descriptor(&self) -> &'a T {
        &self.entry.descriptor
    }

    /// Returns the time of the last use, counted in uses of the whole cache, or 0 if uses are not
    /// counted.
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

// SAFETY: each field is a descriptor, for which zeros are valid and may appear at any time.
unsafe impl<T: Descriptor> Descriptor for Entry<T> {}

/// A bounded number of descriptors that stand for a larger set. When all are taken, the contents of
/// one are handed back to their [owner](WriteBack), and the descriptor serves the new load (GC96,
/// section 2, *the caching model*). The names are the paper's: a *load* takes a descriptor for new
/// contents, which the caller then fills in; nothing is read.
///
/// A [`Loaded`] identifies a load. It may be [`Gone`] at any time; the caller then loads the
/// contents again, once the owner has received everything that was written back. While an [`InUse`]
/// lives, its descriptor stays loaded.
///
/// The cache does not know keys: keep a [`Loaded`] per key, or [its words](Loaded::to_words).
/// [`get`](Loaded::get) it; if it is [`Gone`], [`load`](Cache::load) a descriptor and fill it in.
/// Lists of descriptors, which they leave when they are written back, are in a
/// [`ListCache`](crate::nonblocking::ListCache).
///
/// Scope: `Machine`. Progress: as for [`Pool`], apart from the owner's functions. May be called in
/// signal handlers if the owner's functions may.
///
/// Cost: one atomic instruction to start a use, one to end it, and one to count it. While there is
/// room, [`load`](Cache::load) costs an allocation from the [pages shared by all
/// CPUs](super::Options::cached). After that it visits every descriptor, unless
/// [`choose`](WriteBack::choose) stops early. A refused load visits them at least twice, and adds
/// one atomic instruction to the end of the next use. If the system refuses memory before the limit
/// is reached, each load first retries a few times to get memory.
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
    /// Never gives pages back, because generations must not restart. CPUs keep no free descriptors:
    /// they would move many at a time, and an allocation does not find those that are being moved.
    pool: Pool<Entry<T>>,
    owner: W,
    uses: AtomicU64,
    /// Counts changes to what `load` may take: free descriptors, and loaded ones not in use.
    vacancies: Vacancies,
}

impl<T: Descriptor, W: WriteBack<T>> Cache<T, W> {
    /// Creates a cache of up to `limit` descriptors. If the owner is a closure, annotate the type
    /// of its argument: `|victim: &T|`.
    ///
    /// # Errors
    ///
    /// [`Error::Zero`] if the limit is zero; [`Error::TooLarge`] if the descriptors exceed the
    /// address space, or are aligned to more than a page of the system; [`Error::OutOfMemory`] if
    /// the system refuses memory; [`Error::StartingUp`] during atomseq's own initialization.
    pub fn try_new(limit: usize, owner: W) -> Result<Cache<T, W>, Error> {
        Ok(Cache {
            pool: Pool::options().limit(limit).cached(0).try_build()?,
            owner,
            uses: AtomicU64::new(0),
            vacancies: Vacancies::new(),
        })
    }

    /// Returns the max number of descriptors.
    pub fn limit(&self) -> usize {
        self.pool.limit()
    }

    /// Returns the owner of the contents.
    pub fn owner(&self) -> &W {
        &self.owner
    }

    /// Takes a descriptor for new contents, in use by the caller. It holds the contents of an
    /// earlier load, or zeros.
    ///
    /// # Errors
    ///
    /// [`Error::AllInUse`]: the limit is reached, and at one moment during the call no descriptor
    /// was available. Each one was in use; or was being loaded, unloaded or written back, by
    /// another thread or by the code that this call interrupted; or was not chosen by
    /// [`choose`](WriteBack::choose). [`Error::OutOfMemory`]: the same before the limit is reached,
    /// if the system refused memory for more.
    pub fn load(&self) -> Result<InUse<'_, T, W>, Error> {
        let entry = self.take()?;
        // Relaxed: only its owner, this thread, changes an entry that is not loaded.
        let generation = entry.state.load(Ordering::Relaxed) & NAME;
        let state = generation.wrapping_add(GENERATION) | LOADED | 1;
        let entry = entry.into_raw();
        self.count(entry);
        // Release: publishes the entry; pairs with the Acquire exchange in `Loaded::get`.
        entry.state.store(state, Ordering::Release);
        Ok(InUse { cache: self, entry })
    }

    /// Returns the load that [`to_words`](Loaded::to_words) has named, or `None` if no descriptor
    /// of this cache lies there. Wait-free; costs no atomic instruction.
    ///
    /// Other words may name a load of something else.
    pub fn loaded_from_words(&self, [address, generation]: [u64; 2]) -> Option<Loaded<'_, T, W>> {
        Some(Loaded {
            cache: self,
            entry: self.pool.descriptor_at(usize::try_from(address).ok()?)?,
            generation: generation & NAME,
        })
    }

    /// Starts a use of a descriptor, whichever load it is of. `None` if it is not loaded, or was
    /// loaded again meanwhile.
    ///
    /// # Errors
    ///
    /// [`TooManyUses`], for a caller that must not panic here.
    ///
    /// # Safety
    ///
    /// The descriptor belongs to this cache.
    pub(crate) unsafe fn use_of(
        &self,
        descriptor: &T,
    ) -> Result<Option<InUse<'_, T, W>>, TooManyUses> {
        let address = std::ptr::from_ref(descriptor).addr() - offset_of!(Entry<T>, descriptor);
        // SAFETY: by the caller's promise, this is the entry that the descriptor is in. It stays
        // mapped and valid while the cache lives, and no `&mut` to it exists. The provenance of the
        // descriptor does not cover the entry, so this uses the exposed one.
        let entry: &Entry<T> = unsafe { &*with_exposed_provenance(address) };
        // Relaxed: `get` checks that the state still has this generation.
        let generation = entry.state.load(Ordering::Relaxed) & NAME;
        let cache = self;
        let loaded = Loaded {
            cache,
            entry,
            generation,
        };
        loaded.try_get().map(Result::ok)
    }

    /// Takes a free entry, or writes one back and takes it. Retries only if another operation has
    /// vacated an entry during the search, so it is lock-free.
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

    /// Writes one descriptor back and returns its entry, still allocated.
    #[cold]
    fn replace(&self) -> Option<Allocated<'_, Entry<T>>> {
        loop {
            if let Some(evicted) = self.evict(self.owner.choose(self.candidates())?) {
                evicted.write_back();
                return Some(evicted.into_entry());
            }
        }
    }

    /// Iterates over the descriptors that could be written back now.
    fn candidates(&self) -> impl Iterator<Item = Candidate<'_, T>> {
        // This includes free entries, but those are never in the state `LOADED`.
        self.pool.descriptors().filter_map(|entry| {
            // SeqCst: for the order of `vacancies`. The exchange in `evict` checks that the state
            // is still the same.
            let state = entry.state.load(Ordering::SeqCst);
            (state & (LOADED | USES) == LOADED).then(|| Candidate {
                entry,
                state,
                last_use: entry.last_use.load(Ordering::Relaxed),
                choice: PhantomData,
            })
        })
    }

    /// Moves an entry from loaded to being written back, if it is still loaded and unused.
    fn evict<'a>(&'a self, candidate: Candidate<'a, T>) -> Option<Evicted<'a, T, W>> {
        let Candidate { entry, state, .. } = candidate;
        self.claim(entry);
        // Acquire: pairs with the SeqCst decrement at the end of each use. Release: pairs with the
        // SeqCst load in `candidates`; `vacancies` relies on it for taking.
        let evicted = entry.state.compare_exchange(
            state,
            state & NAME | BEING_WRITTEN_BACK,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        evicted.is_ok().then(|| Evicted {
            // SAFETY: `load` left the entry allocated with `into_raw`, and only the thread whose
            // exchange ends the load adopts it. The entry belongs to this cache: `choose` can
            // return only a candidate of the iterator it was given, because no other has that
            // lifetime, in which `Candidate` is invariant.
            entry: unsafe { self.pool.adopt(entry) },
            freed: Freed(self),
        })
    }

    /// Writes back every descriptor that is not in use, and returns how many. Does not wait for
    /// write-backs by other threads.
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

    /// Makes descriptors available again that exited threads held: GC96's audit. Returns how many
    /// descriptors are allocated, and how many of them were recovered.
    ///
    /// A thread that exits, by a system call of its own, may leave a descriptor in one of three
    /// states, from which the second audit recovers it, if `time` has passed since the first one:
    ///
    /// * In use. All its uses end. Every new use postpones this to the second audit after it.
    /// * Being written back. The owner's [`write_back`](WriteBack::write_back) is called again, and
    ///   the descriptor is freed.
    /// * Taken by [`load`](Cache::load), or being freed. It is freed.
    ///
    /// A descriptor that such a thread was just moving to or from the pool's pages is not found.
    /// Wait-free apart from the owner's functions; costs up to four atomic instructions for each
    /// allocated descriptor, and makes the next load or unload of it cost one more. `time` is
    /// rounded up to milliseconds, and is one at least.
    ///
    /// ```
    /// use atomseq::type_stable::Cache;
    /// use std::sync::atomic::AtomicU64;
    /// use std::time::Duration;
    ///
    /// let cache = Cache::try_new(1, |_: &AtomicU64| ())?;
    /// // As if the thread had exited with the descriptor in use.
    /// std::mem::forget(cache.load()?);
    /// assert!(cache.load().is_err());
    ///
    /// let time = Duration::from_millis(5);
    /// for _ in 0..2 {
    ///     // SAFETY: the only thread is here, and has no use that it will end.
    ///     unsafe { cache.audit(time) };
    ///     std::thread::sleep(2 * time);
    /// }
    /// assert!(cache.load().is_ok());
    /// # Ok::<(), atomseq::type_stable::Error>(())
    /// ```
    ///
    /// # Safety
    ///
    /// * When this is called, no thread that continues has had the same [`InUse`], or been inside
    ///   one operation on this cache, for longer than `time` and since before an earlier audit
    ///   returned, even if it was stopped meanwhile. The owner's functions, and handlers that
    ///   interrupt an operation, are part of it. To keep a descriptor in use for longer,
    ///   [`get`](Loaded::get) a new use between two audits, before the old one ends.
    /// * No other audit of this cache runs at the same time.
    ///
    /// Otherwise two threads might own a descriptor.
    pub unsafe fn audit(&self, time: Duration) -> Audit {
        let claim_all = || self.claim_all();
        let mut recovered = 0;
        // The audit of a pool finds everything if the time is zero, claimed or not.
        let time = time.max(Duration::from_nanos(1));
        let audit = self.pool.audit_after(time, claim_all, |unclaimed| {
            let entry = unclaimed.descriptor();
            // Acquire: pairs with the Release of the thread that made the state what it is.
            let state = entry.state.load(Ordering::Acquire);
            if state & LOADED != 0 {
                // An unused one was claimed above, unless it has become unused since.
                if state & USES == 0 || state & SEEN_IN_USE == 0 {
                    return;
                }
                // The bit was set by an audit more than `time` before this one started, since when
                // there was no new use. The caller promises that the threads of all older ones do
                // not continue.
                // SeqCst: as at the end of a use.
                let (unused, order) = (state & NAME | LOADED, Ordering::SeqCst);
                let ended = entry.state.compare_exchange(state, unused, order, order);
                if ended.is_ok() {
                    self.vacancies.report();
                    recovered += 1;
                }
                return;
            }
            // SAFETY: an entry that is not loaded belongs to a thread inside an operation, which
            // claimed it as it became the owner. If that was before `claim_all`, the thread was
            // inside for longer than `time` when this audit started, so the caller promises that it
            // does not continue. It was not later: `claim_all` leaves a loaded entry unclaimed only
            // if its uses are older than an earlier audit. The caller promises that their threads
            // do not continue, and while there are uses, no thread becomes the owner.
            let Some(entry) = (unsafe { unclaimed.reclaim() }) else {
                return;
            };
            recovered += 1;
            let freed = Freed(self);
            let evicted = Evicted { entry, freed };
            match state & BEING_WRITTEN_BACK {
                // It was being unloaded, perhaps.
                0 => evicted.retire(),
                _ => evicted.write_back(),
            }
        });
        Audit {
            unclaimed: recovered,
            ..audit
        }
    }

    /// Claims what no audit may recover: all that is loaded, except if every use is older than an
    /// audit.
    fn claim_all(&self) {
        for reference in self.pool.allocated() {
            let state = &reference.descriptor().state;
            // Relaxed: the exchange checks that the state is the same.
            let seen = state.load(Ordering::Relaxed);
            if seen & LOADED == 0 || seen & USES > 0 && seen & SEEN_IN_USE != 0 {
                continue;
            }
            if seen & USES > 0 {
                // If this fails, the state has changed. The next audit sees it in use again.
                // Relaxed: the header's word, which this claims below, measures the time.
                let (new, order) = (seen | SEEN_IN_USE, Ordering::Relaxed);
                let _ = state.compare_exchange(seen, new, order, order);
            }
            reference.claim();
        }
    }

    /// Claims an entry before this thread becomes its owner: see [`audit`](Cache::audit).
    #[inline(always)]
    fn claim(&self, entry: &Entry<T>) {
        // SAFETY: all entries are descriptors of this pool.
        unsafe { self.pool.claim(entry) };
    }

    fn count(&self, entry: &Entry<T>) {
        if W::COUNTS_USES {
            // Relaxed: the count orders no other data.
            let now = self.uses.fetch_add(1, Ordering::Relaxed) + 1;
            entry.last_use.store(now, Ordering::Relaxed);
        }
    }
}

/// An entry that is being written back, owned exclusively by the holder. Dropping it frees the
/// entry.
struct Evicted<'a, T: Descriptor, W: WriteBack<T>> {
    entry: Allocated<'a, Entry<T>>,
    /// Declared last, so that it is dropped after the entry.
    freed: Freed<'a, T, W>,
}

impl<'a, T: Descriptor, W: WriteBack<T>> Evicted<'a, T, W> {
    fn write_back(&self) {
        /// Marks the write-back as finished, also if the owner panics.
        struct End<'a>(&'a AtomicU64);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                // Release: pairs with the Acquire in `Loaded::get`, so that a thread that sees the
                // load gone also sees what the owner wrote.
                self.0.fetch_and(!BEING_WRITTEN_BACK, Ordering::Release);
            }
        }
        let _end = End(&self.entry.state);
        self.retire();
        self.freed.0.owner.write_back(&self.entry.descriptor);
    }

    fn retire(&self) {
        self.freed.0.owner.retire(&self.entry.descriptor);
    }

    fn into_entry(self) -> Allocated<'a, Entry<T>> {
        let Evicted { entry, freed } = self;
        std::mem::forget(freed);
        entry
    }
}

/// Reports on drop that an entry has become free.
struct Freed<'a, T: Descriptor, W: WriteBack<T>>(&'a Cache<T, W>);

impl<T: Descriptor, W: WriteBack<T>> Drop for Freed<'_, T, W> {
    fn drop(&mut self) {
        self.0.vacancies.report();
    }
}

/// Writes back everything that is loaded.
impl<T: Descriptor, W: WriteBack<T>> Drop for Cache<T, W> {
    fn drop(&mut self) {
        // No user can exist any more, because all borrow the cache. Uses that were leaked are
        // ignored.
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

/// Reports why a [`Loaded`] cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The contents are being written back, by this thread or another one, so the owner may not
    /// have all of them yet. Retry later. Do not wait for this in a signal handler, nor in
    /// [`write_back`](WriteBack::write_back) or [`choose`](WriteBack::choose): they may have
    /// interrupted or called the write-back.
    BeingWrittenBack,
    /// The contents were written back or [unloaded](InUse::unload).
    Unloaded,
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Gone::BeingWrittenBack => {
                "it is being written back: retry later, before loading it again"
            }
            Gone::Unloaded => "it is no longer loaded: load it again",
        })
    }
}

impl std::error::Error for Gone {}

/// The identity of one load of a [`Cache`], which may have been written back since.
pub struct Loaded<'cache, T: Descriptor, W: WriteBack<T>> {
    cache: &'cache Cache<T, W>,
    entry: &'cache Entry<T>,
    generation: u64,
}

impl<'cache, T: Descriptor, W: WriteBack<T>> Loaded<'cache, T, W> {
    /// Starts a use of the descriptor, which keeps it loaded. Lock-free; costs one atomic
    /// instruction, and one to count the use.
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
    /// // Now it can be loaded again.
    /// assert_eq!(name.get().unwrap_err(), Gone::Unloaded);
    /// assert_eq!(disk.load(Relaxed), 7);
    /// # drop(another);
    /// # drop(pages);
    /// # Ok::<(), atomseq::type_stable::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Gone`] if the contents are being written back or no longer loaded.
    ///
    /// # Panics
    ///
    /// If the descriptor is in use 32,767 times already.
    #[track_caller]
    pub fn get(&self) -> Result<InUse<'cache, T, W>, Gone> {
        self.try_get().or_panic()
    }

    fn try_get(&self) -> Result<Result<InUse<'cache, T, W>, Gone>, TooManyUses> {
        // Acquire, here and in a failed exchange: pairs with the Release of the thread that wrote
        // it back or unloaded it.
        let mut state = self.entry.state.load(Ordering::Acquire);
        while state & !(USES | SEEN_IN_USE) == self.generation | LOADED {
            if state & USES == USES {
                return Err(TooManyUses);
            }
            // Acquire: pairs with the Release in `load` and with the end of each use. Release:
            // pairs with the SeqCst load in `candidates`; `vacancies` relies on it for taking.
            match self.entry.state.compare_exchange_weak(
                state,
                (state & !SEEN_IN_USE) + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    self.cache.count(self.entry);
                    return Ok(Ok(InUse {
                        cache: self.cache,
                        entry: self.entry,
                    }));
                }
                Err(now) => state = now,
            }
        }
        match state == self.generation | BEING_WRITTEN_BACK {
            true => Ok(Err(Gone::BeingWrittenBack)),
            false => Ok(Err(Gone::Unloaded)),
        }
    }
}

/// A descriptor is in use as often as its state can count.
#[derive(Debug)]
pub(crate) struct TooManyUses;

impl fmt::Display for TooManyUses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a descriptor is in use too often")
    }
}

impl<T: Descriptor, W: WriteBack<T>> Loaded<'_, T, W> {
    /// Returns this identity as two words, for structures of plain values: for example a
    /// [`HashMap`](crate::nonblocking::HashMap) that keeps one for each key. No other load of this
    /// cache has the same words. [`Cache::loaded_from_words`] is the inverse.
    pub fn to_words(&self) -> [u64; 2] {
        [
            std::ptr::from_ref(self.entry).addr() as u64,
            self.generation,
        ]
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

/// A use of a descriptor, which stays loaded while this lives. If too many uses last too long, no
/// descriptor is left to write back.
pub struct InUse<'cache, T: Descriptor, W: WriteBack<T>> {
    cache: &'cache Cache<T, W>,
    entry: &'cache Entry<T>,
}

impl<'cache, T: Descriptor, W: WriteBack<T>> InUse<'cache, T, W> {
    /// Returns the identity of the load, for later uses.
    pub fn loaded(&self) -> Loaded<'cache, T, W> {
        // Relaxed: the generation does not change while this use lasts.
        let state = self.entry.state.load(Ordering::Relaxed);
        Loaded {
            cache: self.cache,
            entry: self.entry,
            generation: state & NAME,
        }
    }

    /// Returns the cache.
    pub(crate) fn cache(&self) -> &'cache Cache<T, W> {
        self.cache
    }

    /// Discards the contents without writing them back, and frees the descriptor.
    ///
    /// # Errors
    ///
    /// Returns `self` if there are other uses of the descriptor.
    pub fn unload(self) -> Result<(), Self> {
        let alone = self.loaded().generation | LOADED | 1;
        self.cache.claim(self.entry);
        // Acquire: pairs with the end of each use. Release: pairs with the Acquire in
        // `Loaded::get`.
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let is_alone = |state| (state & !SEEN_IN_USE == alone).then_some(alone & NAME);
        let unloaded = self.entry.state.fetch_update(order.0, order.1, is_alone);
        if unloaded.is_err() {
            return Err(self);
        }
        let InUse { cache, entry } = self;
        std::mem::forget(self);
        let unloaded = Evicted {
            // SAFETY: `load` left the entry allocated with `into_raw`, and only the thread whose
            // exchange ends the load adopts it: this one.
            entry: unsafe { cache.pool.adopt(entry) },
            freed: Freed(cache),
        };
        unloaded.retire();
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
        // SeqCst: for the order of `vacancies`. Includes Release: orders this use before a later
        // owner; pairs with the Acquire in `evict` and `unload`.
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
