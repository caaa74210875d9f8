//! Replacements for the library's modules on which the lists are built.

/// Objects as the lists see them: a version, and words that change with it; each exchange is one
/// step.
pub mod dcas {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, Ordering};

    use shuttle::rand::Rng;

    use crate::sync::step;

    /// The guarantees on which the lists rely, each of which can be removed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Protection {
        /// `is_still` succeeds whatever the version is.
        LastLook,
        /// Exchanges succeed whatever the version is.
        ExchangeVersion,
        /// Nothing marks a node as removed.
        RemovedMark,
        /// A descriptor that is reclaimed is not retired.
        Retirement,
    }

    thread_local!(static LEFT_OUT: Cell<Option<Protection>> = const { Cell::new(None) });

    thread_local!(static INTERRUPTIONS: Cell<bool> = const { Cell::new(false) });

    /// Removes this protection from now on, with or without exchanges that are interrupted.
    pub fn set(left_out: Option<Protection>, interruptions: bool) {
        LEFT_OUT.set(left_out);
        INTERRUPTIONS.set(interruptions);
    }

    pub fn is_left_out(protection: Protection) -> bool {
        LEFT_OUT.get() == Some(protection)
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Mechanism {
        Assisted,
        Kcas,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Version(u64);

    impl Version {
        pub fn number(self) -> u64 {
            self.0
        }
    }

    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct StableWord(AtomicU64);

    // SAFETY: an atomic word.
    unsafe impl crate::type_stable::Descriptor for StableWord {}

    #[derive(Debug)]
    pub struct VersionedWords {
        version: AtomicU64,
        attached: StableWord,
    }

    pub fn mechanism() -> Mechanism {
        Mechanism::Assisted
    }

    #[derive(Clone, Copy)]
    pub struct Reader<'a>(&'a VersionedWords);

    impl Reader<'_> {
        pub fn begin(self) -> Version {
            self.0.begin()
        }

        pub fn mechanism(self) -> Mechanism {
            self.0.mechanism()
        }

        pub fn load(self, word: &StableWord) -> u64 {
            self.0.load(word)
        }

        pub fn is_still(self, version: Version) -> bool {
            self.0.is_still(version)
        }
    }

    /// The mark of a removed node, which no address has.
    const REMOVED: u64 = crate::nonblocking::REMOVED;

    impl VersionedWords {
        pub fn new() -> VersionedWords {
            VersionedWords {
                version: AtomicU64::new(1),
                attached: StableWord::default(),
            }
        }

        pub fn with_mechanism(_mechanism: Mechanism) -> VersionedWords {
            VersionedWords::new()
        }

        pub fn like(_mechanism: Mechanism) -> VersionedWords {
            VersionedWords::new()
        }

        pub fn reader(&self, _mechanism: Mechanism) -> Reader<'_> {
            Reader(self)
        }

        pub fn read_at_once(&self) -> Option<(Version, Reader<'_>)> {
            Some((self.begin(), Reader(self)))
        }

        pub fn attached(&self) -> &StableWord {
            &self.attached
        }

        pub fn mechanism(&self) -> Mechanism {
            Mechanism::Assisted
        }

        pub fn version(&self) -> Version {
            self.begin()
        }

        pub fn begin(&self) -> Version {
            step();
            Version(self.version.load(Ordering::SeqCst))
        }

        pub fn load(&self, word: &StableWord) -> u64 {
            if std::thread::panicking() {
                // A failed model may leave a chain without an end.
                return 0;
            }
            step();
            word.0.load(Ordering::SeqCst)
        }

        pub fn is_still(&self, version: Version) -> bool {
            self.begin() == version || is_left_out(Protection::LastLook)
        }

        pub fn snapshot<const N: usize>(&self, words: [&StableWord; N]) -> ([u64; N], Version) {
            let version = self.begin();
            (words.map(|word| word.0.load(Ordering::SeqCst)), version)
        }

        /// # Safety
        ///
        /// None.
        pub unsafe fn store_pair_if(
            &self,
            version: Version,
            first: (&StableWord, u64),
            second: (&StableWord, u64),
        ) -> bool {
            assert!(!std::ptr::eq(first.0, second.0), "the same word twice");
            self.exchange(version, &[first, second])
        }

        /// # Safety
        ///
        /// None.
        pub unsafe fn store_if(&self, version: Version, word: (&StableWord, u64)) -> bool {
            self.exchange(version, &[word])
        }

        fn exchange(&self, version: Version, words: &[(&StableWord, u64)]) -> bool {
            if self.begin() != version && !is_left_out(Protection::ExchangeVersion) {
                return false;
            }
            if INTERRUPTIONS.get() && shuttle::rand::thread_rng().gen_bool(0.05) {
                // Interrupted and rolled back, which consumes the version.
                self.version.fetch_add(1, Ordering::SeqCst);
                return false;
            }
            for (word, new) in words {
                let new = match is_left_out(Protection::RemovedMark) {
                    true => *new & !REMOVED,
                    false => *new,
                };
                word.0.store(new, Ordering::SeqCst);
            }
            self.version.fetch_add(1, Ordering::SeqCst);
            true
        }

        /// Threads do not sleep here.
        pub fn back_off(&self) {}
    }

    /// The words of figure 5.7, without a version.
    impl StableWord {
        /// S92's `CAS2` (figure 5.3), in one step.
        pub fn cas2(words: [&StableWord; 2], old: [u64; 2], new: [u64; 2]) -> bool {
            step();
            let held = words.map(|word| word.0.load(Ordering::SeqCst));
            if held == old {
                (words[0].0).store(new[0], Ordering::SeqCst);
                (words[1].0).store(new[1], Ordering::SeqCst);
            }
            held == old
        }

        pub fn get(&self) -> u64 {
            step();
            self.0.load(Ordering::SeqCst)
        }

        pub fn set(&self, value: u64) {
            step();
            self.0.store(value, Ordering::SeqCst);
        }
    }
}

/// Zeroed memory, aligned to a page.
pub mod mappings {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 4096).expect("a layout")
    }

    pub fn map(bytes: usize) -> Option<NonNull<u8>> {
        // SAFETY: the models map no memory without a size.
        NonNull::new(unsafe { alloc_zeroed(layout(bytes)) })
    }

    /// # Safety
    ///
    /// The library's contract.
    pub unsafe fn unmap(memory: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise: mapped by `map` with this size.
        unsafe { dealloc(memory.as_ptr(), layout(bytes)) };
    }
}

pub mod platform {
    pub fn prefetch(_address: usize) {}
}

/// A cache whose transitions are single steps.
pub mod cache {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::cell::{Cell, RefCell};
    use std::marker::PhantomData;
    use std::mem::offset_of;
    use std::ops::Deref;
    use std::ptr::with_exposed_provenance;

    use super::dcas::{Protection, is_left_out};
    use super::type_stable::{Audit, Descriptor, Error};
    use crate::sync::step;

    /// The library's trait.
    pub trait WriteBack<T: Descriptor>: Sync {
        const COUNTS_USES: bool = true;

        fn write_back(&self, victim: &T);

        fn retire(&self, _descriptor: &T) {}

        fn choose<'a>(
            &self,
            mut candidates: impl Iterator<Item = Candidate<'a, T>>,
        ) -> Option<Candidate<'a, T>> {
            candidates.next()
        }
    }

    impl<T: Descriptor, F: Fn(&T) + Sync> WriteBack<T> for F {
        fn write_back(&self, victim: &T) {
            self(victim);
        }
    }

    /// No model chooses.
    pub struct Candidate<'a, T>(PhantomData<fn(&'a T) -> &'a T>);

    /// No model has as many.
    #[derive(Debug)]
    pub struct TooManyUses;

    impl std::fmt::Display for TooManyUses {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            unreachable!("no use is refused")
        }
    }

    #[repr(C)]
    struct Entry<T> {
        is_loaded: Cell<bool>,
        uses: Cell<u32>,
        descriptor: T,
    }

    pub struct Cache<T: Descriptor, W: WriteBack<T>> {
        owner: W,
        limit: usize,
        all: RefCell<Vec<*mut Entry<T>>>,
        free: RefCell<Vec<*mut Entry<T>>>,
    }

    // SAFETY: all threads of a model run on one, and no use of the cells lasts over a step.
    unsafe impl<T: Descriptor, W: WriteBack<T>> Sync for Cache<T, W> {}
    // SAFETY: all threads of a model run on one.
    unsafe impl<T: Descriptor, W: WriteBack<T>> Send for Cache<T, W> {}

    impl<T: Descriptor, W: WriteBack<T>> Cache<T, W> {
        pub fn try_new(limit: usize, owner: W) -> Result<Cache<T, W>, Error> {
            Ok(Cache {
                owner,
                limit,
                all: RefCell::new(Vec::new()),
                free: RefCell::new(Vec::new()),
            })
        }

        pub fn limit(&self) -> usize {
            self.limit
        }

        pub fn owner(&self) -> &W {
            &self.owner
        }

        pub fn load(&self) -> Result<InUse<'_, T, W>, Error> {
            step();
            let free = self.free.borrow_mut().pop();
            let entry = match free {
                Some(free) => free,
                None if self.all.borrow().len() < self.limit => {
                    // SAFETY: entries have a size.
                    let new = unsafe { alloc_zeroed(Layout::new::<Entry<T>>()) };
                    new.expose_provenance();
                    self.all.borrow_mut().push(new.cast());
                    new.cast()
                }
                None => self.evict().ok_or(Error::LimitReached)?,
            };
            step();
            // SAFETY: zeros are an instance, and so is what was freed.
            let entry = unsafe { &*entry };
            entry.is_loaded.set(true);
            entry.uses.set(1);
            Ok(InUse { cache: self, entry })
        }

        fn evict(&self) -> Option<*mut Entry<T>> {
            let is_unused = |entry: &&*mut Entry<T>| {
                // SAFETY: as in `load`.
                let entry = unsafe { &***entry };
                entry.is_loaded.get() && entry.uses.get() == 0
            };
            let victim = self.all.borrow().iter().find(is_unused).copied()?;
            // SAFETY: as in `load`.
            let entry = unsafe { &*victim };
            entry.is_loaded.set(false);
            self.retire(&entry.descriptor);
            self.owner.write_back(&entry.descriptor);
            Some(victim)
        }

        fn retire(&self, descriptor: &T) {
            step();
            if !is_left_out(Protection::Retirement) {
                self.owner.retire(descriptor);
            }
        }

        /// # Safety
        ///
        /// The library's contract.
        pub unsafe fn use_of(
            &self,
            descriptor: &T,
        ) -> Result<Option<InUse<'_, T, W>>, TooManyUses> {
            step();
            let address = std::ptr::from_ref(descriptor).addr() - offset_of!(Entry<T>, descriptor);
            // SAFETY: the caller's promise.
            let entry: &Entry<T> = unsafe { &*with_exposed_provenance(address) };
            Ok(entry.is_loaded.get().then(|| {
                entry.uses.set(entry.uses.get() + 1);
                InUse { cache: self, entry }
            }))
        }

        pub fn write_back(&self) -> usize {
            let mut written = 0;
            while let Some(entry) = self.evict() {
                self.free.borrow_mut().push(entry);
                written += 1;
            }
            written
        }

        /// No model has the words of a load.
        pub fn loaded_from_words(&self, _words: [u64; 2]) -> Option<Loaded<'_, T, W>> {
            None
        }

        /// # Safety
        ///
        /// None: no model audits.
        pub unsafe fn audit(&self, _time: std::time::Duration) -> Audit {
            unreachable!("no model audits")
        }
    }

    impl<T: Descriptor, W: WriteBack<T>> Drop for Cache<T, W> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                return;
            }
            for entry in self.all.take() {
                // SAFETY: allocated with this layout, and no list uses it any more.
                unsafe { dealloc(entry.cast(), Layout::new::<Entry<T>>()) };
            }
        }
    }

    impl<T: Descriptor, W: WriteBack<T>> std::fmt::Debug for Cache<T, W> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Cache").finish_non_exhaustive()
        }
    }

    /// No model keeps the name of a load.
    pub struct Loaded<'a, T: Descriptor, W: WriteBack<T>>(PhantomData<&'a Cache<T, W>>);

    pub struct InUse<'a, T: Descriptor, W: WriteBack<T>> {
        cache: &'a Cache<T, W>,
        entry: &'a Entry<T>,
    }

    impl<'a, T: Descriptor, W: WriteBack<T>> InUse<'a, T, W> {
        pub fn cache(&self) -> &'a Cache<T, W> {
            self.cache
        }

        /// Frees the descriptor, unless there is another use of it.
        pub fn unload(self) -> bool {
            step();
            if self.entry.uses.get() > 1 {
                return false;
            }
            let (cache, entry) = (self.cache, self.entry);
            std::mem::forget(self);
            entry.is_loaded.set(false);
            entry.uses.set(0);
            cache.retire(&entry.descriptor);
            let entry = std::ptr::from_ref(entry).cast_mut();
            cache.free.borrow_mut().push(entry);
            true
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
            self.entry.uses.set(self.entry.uses.get() - 1);
        }
    }
}

/// A pool that reuses the node freed last, and detects double frees.
pub mod type_stable {
    pub use super::cache::{Cache, Candidate, InUse, Loaded, TooManyUses, WriteBack};

    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::cell::RefCell;
    use std::marker::PhantomData;
    use std::ops::Deref;

    /// The library's trait.
    ///
    /// # Safety
    ///
    /// None.
    pub unsafe trait Descriptor: Sync + Sized {}

    // SAFETY: as in the library.
    unsafe impl<T: Descriptor, const N: usize> Descriptor for [T; N] {}

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Error {
        Zero,
        TooLarge,
        OutOfMemory,
        LimitReached,
    }

    impl std::fmt::Display for Error {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{self:?}")
        }
    }

    impl std::error::Error for Error {}

    pub struct Options<T> {
        limit: usize,
        descriptors: PhantomData<T>,
    }

    impl<T: Descriptor> Options<T> {
        pub fn limit(self, limit: usize) -> Options<T> {
            Options { limit, ..self }
        }

        pub fn try_build(self) -> Result<Pool<T>, Error> {
            Ok(Pool {
                limit: self.limit,
                all: RefCell::new(Vec::new()),
                free: RefCell::new(Vec::new()),
                descriptors: PhantomData,
            })
        }
    }

    pub struct Pool<T> {
        limit: usize,
        all: RefCell<Vec<*mut u8>>,
        free: RefCell<Vec<*mut u8>>,
        descriptors: PhantomData<T>,
    }

    // SAFETY: all threads of a model run on one, and no use of the cells lasts over a step.
    unsafe impl<T: Descriptor> Sync for Pool<T> {}
    // SAFETY: all threads of a model run on one operating-system thread, and no use of the cells
    // lasts over a step.
    unsafe impl<T: Descriptor> Send for Pool<T> {}

    /// Descriptors are aligned to 64 bytes.
    fn layout<T>() -> Layout {
        let layout = Layout::new::<T>().align_to(64).expect("a layout");
        layout.pad_to_align()
    }

    impl<T: Descriptor> Pool<T> {
        pub fn options() -> Options<T> {
            Options {
                limit: usize::MAX,
                descriptors: PhantomData,
            }
        }

        pub fn limit(&self) -> usize {
            self.limit
        }

        /// Returns the addresses of the allocated nodes.
        pub fn allocated(&self) -> impl Iterator<Item = *mut u8> {
            let free = self.free.borrow().clone();
            let all = self.all.borrow().clone();
            all.into_iter().filter(move |node| !free.contains(node))
        }

        pub fn allocate(&self) -> Result<Allocated<'_, T>, Error> {
            let freed = self.free.borrow_mut().pop();
            let node = freed.unwrap_or_else(|| {
                // SAFETY: nodes have a size.
                let node = unsafe { alloc_zeroed(layout::<T>()) };
                self.all.borrow_mut().push(node);
                node
            });
            node.expose_provenance();
            // SAFETY: zeros are an instance, and so is what was freed.
            let descriptor = unsafe { &*node.cast::<T>() };
            Ok(Allocated {
                pool: self,
                descriptor,
            })
        }

        /// # Safety
        ///
        /// The library's contract, which is checked.
        pub unsafe fn adopt(&self, descriptor: &T) -> Allocated<'_, T> {
            let node = std::ptr::from_ref(descriptor).cast::<u8>().cast_mut();
            assert!(self.all.borrow().contains(&node), "freed elsewhere");
            // SAFETY: as in `allocate`.
            let descriptor = unsafe { &*node.cast::<T>() };
            Allocated {
                pool: self,
                descriptor,
            }
        }

        /// # Safety
        ///
        /// None.
        pub unsafe fn claim(&self, _descriptor: &T) {}

        /// No model audits.
        pub fn audit_after<'pool>(
            &'pool self,
            _time: std::time::Duration,
            _claim_all: impl FnOnce(),
            _found: impl FnMut(Unclaimed<'pool, T>),
        ) -> Audit {
            unreachable!("no model audits")
        }

        fn put(&self, descriptor: &T) {
            let node = std::ptr::from_ref(descriptor).cast::<u8>().cast_mut();
            // A failed model may leave any state behind.
            let is_free = self.free.borrow().contains(&node) && !std::thread::panicking();
            assert!(!is_free, "freed twice");
            self.free.borrow_mut().push(node);
        }
    }

    impl<T> Drop for Pool<T> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                return;
            }
            for node in self.all.take() {
                // SAFETY: allocated with this layout, and no list uses it any more.
                unsafe { dealloc(node, layout::<T>()) };
            }
        }
    }

    /// The counts of an audit.
    #[derive(Clone, Copy, Debug)]
    pub struct Audit {
        pub allocated: usize,
        pub unclaimed: usize,
    }

    /// What an audit finds.
    pub struct Unclaimed<'pool, T: Descriptor>(Allocated<'pool, T>);

    impl<'pool, T: Descriptor> Unclaimed<'pool, T> {
        pub fn descriptor(&self) -> &'pool T {
            self.0.descriptor
        }

        /// # Safety
        ///
        /// None.
        pub unsafe fn reclaim(self) -> Option<Allocated<'pool, T>> {
            Some(self.0)
        }
    }

    pub struct Allocated<'pool, T: Descriptor> {
        pool: &'pool Pool<T>,
        descriptor: &'pool T,
    }

    impl<'pool, T: Descriptor> Allocated<'pool, T> {
        pub fn into_raw(self) -> &'pool T {
            let descriptor = self.descriptor;
            std::mem::forget(self);
            descriptor
        }
    }

    impl<T: Descriptor> Deref for Allocated<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.descriptor
        }
    }

    impl<T: Descriptor> Drop for Allocated<'_, T> {
        fn drop(&mut self) {
            self.pool.put(self.descriptor);
        }
    }
}
