//! Cached descriptors that are on several lists at once (GC96, section 5.2).
//!
//! ```text
//! descriptor:   link 0 | link 1 | … | contents
//!
//! link:         0             on no list of this link
//!               address       the same link of the next member
//!               2 n + 1       the last member of list n
//!
//! insert    { link = member, member's link = what the link held }   if the version is unchanged, and the member's link is 0
//! remove    { link = member's link, member's link = 0 }             if the version is unchanged
//! ```
//!
//! Each link has a version, which covers that link of all descriptors and the heads of its lists.
//! So whether a descriptor is on a list of the link, and on which one, is known at each version.
//!
//! Invariants, beside those of `list`:
//!
//! 1. A descriptor on a list is loaded, or is being retired: it is inserted by a thread that uses
//!    it, and `Cache` calls `retire`, which takes it off all lists, after its last use and before
//!    it is free or loaded again.
//! 2. So if a descriptor was on a list at a version, was used after that, and the version is still
//!    the same, then the use is of the load that is on the list.
//! 3. Links change by exchanges at their version only, also those of free descriptors. The memory
//!    is never given back before the cache is dropped.

use std::fmt;
use std::mem::offset_of;
use std::ops::Deref;
use std::ptr::with_exposed_provenance;
use std::time::Duration;

use super::nodes::{Anchor, Changed, STEPS, until_unchanged};
use crate::dcas::{Mechanism, StableWord, Version, VersionedWords, mechanism};
use crate::heap::zeros;
use crate::type_stable::{
    Audit, Cache, Candidate, Descriptor, Error, InUse, Loaded, TooManyUses, WriteBack,
};

mod members;

pub use members::CacheList;

/// The link of a descriptor that is on no list of that link.
const OUT: u64 = 0;

/// A descriptor of a [`ListCache`], with as many links. It dereferences to the descriptor.
#[repr(C)]
pub struct Member<T, const LINKS: usize> {
    links: [StableWord; LINKS],
    descriptor: T,
}

// SAFETY: each field is a descriptor, for which zeros are valid and may appear at any time.
unsafe impl<T: Descriptor, const LINKS: usize> Descriptor for Member<T, LINKS> {}

impl<T, const LINKS: usize> Deref for Member<T, LINKS> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.descriptor
    }
}

impl<T: fmt::Debug, const LINKS: usize> fmt::Debug for Member<T, LINKS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.descriptor.fmt(f)
    }
}

/// A [`Cache`] whose descriptors are members of lists, each of several at once (GC96, section 5.2).
///
/// Each descriptor has `LINKS` links, and is on at most one list of each link. Insertion and
/// removal are one step for each list. A descriptor that is written back leaves all its lists
/// before the owner gets it, and one that is [unloaded](InUse::unload) leaves them before it is
/// free, by itself. So the owner need not know a descriptor's lists to reclaim it. Until it has
/// left a list, operations that return a descriptor skip it, and the others may find it.
///
/// GC96's example for section 5.1 is a list of the threads to which a signal is delivered. Here it
/// is one list for each page, beside a list of the threads of each address space:
///
/// ```
/// use atomseq::nonblocking::{ListCache, Member};
/// use atomseq::type_stable::descriptor;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// descriptor! {
///     struct Thread { id: AtomicU64 }
/// }
/// const OF_PAGE: usize = 0;
/// const OF_SPACE: usize = 1;
///
/// // Two threads are loaded at a time, on the lists of 64 pages and 8 spaces.
/// let written_back = AtomicU64::new(0);
/// let owner = |victim: &Member<Thread, 2>| written_back.store(victim.id.load(Relaxed), Relaxed);
/// let threads = ListCache::try_new(2, [64, 8], owner)?;
/// for id in [1, 2] {
///     let thread = threads.load()?;
///     thread.id.store(id, Relaxed);
///     threads.list(OF_PAGE, 7).push_front(&thread);
///     threads.list(OF_SPACE, 3).push_front(&thread);
/// }
/// // A third one takes the place of the least recently used one, on both lists.
/// let third = threads.load()?;
/// assert_eq!(written_back.load(Relaxed), 1);
/// assert_eq!([threads.list(OF_PAGE, 7).len(), threads.list(OF_SPACE, 3).len()], [1, 1]);
///
/// let second = threads.list(OF_PAGE, 7).pop_front().unwrap();
/// assert_eq!(second.id.load(Relaxed), 2);
/// assert_eq!(threads.list(OF_SPACE, 3).len(), 1);
/// # drop((third, second));
/// # drop(threads);
/// # Ok::<(), atomseq::type_stable::Error>(())
/// ```
///
/// The scope is `Machine`. Progress is that of the [mechanism](super#progress), for each link;
/// loads and uses have that of a [`Cache`]. All lists of a link share a version: an operation is
/// retried if another one has changed any of them meanwhile. Lists that should not conflict have
/// links of their own, which cost a word in each descriptor. An insertion, and a removal, is one
/// change of two words, after a search from the front: one atomic instruction under OS-assisted
/// DCAS, at most six under k-CAS. An operation that returns a descriptor also starts a use of it,
/// at two atomic instructions. A descriptor that leaves the cache first looks for its place on each
/// of its lists.
///
/// Every operation may be called in a signal handler, if the owner's functions may. A thread that
/// is stopped or exits inside an operation does not block the others. An
/// [audit](ListCache::audit) recovers what an exited thread held, except for [what it was moving to
/// or from the pool](Cache::audit).
pub struct ListCache<T, W, const LINKS: usize>
where
    T: Descriptor,
    W: WriteBack<Member<T, LINKS>>,
{
    cache: Cache<Member<T, LINKS>, Unlisting<W, LINKS>>,
}

/// The use of a descriptor of a [`ListCache`].
pub type MemberInUse<'a, T, W, const LINKS: usize> =
    InUse<'a, Member<T, LINKS>, Unlisting<W, LINKS>>;

impl<T, W, const LINKS: usize> ListCache<T, W, LINKS>
where
    T: Descriptor,
    W: WriteBack<Member<T, LINKS>>,
{
    /// Creates a cache of up to `limit` descriptors, with so many lists of each link. If the owner
    /// is a closure, annotate the type of its argument: `|victim: &Member<T, 2>|`.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::try_new`]; [`Error::Zero`] if a link has no list.
    pub fn try_new(limit: usize, lists: [usize; LINKS], owner: W) -> Result<Self, Error> {
        ListCache::made(limit, lists, owner, VersionedWords::new)
    }

    /// Creates a cache whose lists use this mechanism whatever the process has chosen, for tests
    /// and comparisons.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(
        limit: usize,
        lists: [usize; LINKS],
        owner: W,
        mechanism: Mechanism,
    ) -> Result<Self, Error> {
        let versioned = || VersionedWords::with_mechanism(mechanism);
        ListCache::made(limit, lists, owner, versioned)
    }

    fn made(
        limit: usize,
        lists: [usize; LINKS],
        owner: W,
        versioned: impl Fn() -> VersionedWords,
    ) -> Result<Self, Error> {
        let mut failed = None;
        let lists = lists.map(|count| {
            Lists::new(count, versioned())
                .map_err(|error| failed = Some(error))
                .ok()
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let lists = lists.map(|lists| lists.expect("none has failed"));
        let cache = Cache::try_new(limit, Unlisting { owner, lists })?;
        Ok(ListCache { cache })
    }

    /// Returns the mechanism that the lists use.
    pub fn mechanism(&self) -> Mechanism {
        let first = self.cache.owner().lists.first();
        first.map_or_else(mechanism, |lists| lists.anchor.versioned.mechanism())
    }

    /// Returns the max number of descriptors.
    pub fn limit(&self) -> usize {
        self.cache.limit()
    }

    /// Returns the owner of the contents.
    pub fn owner(&self) -> &W {
        &self.cache.owner().owner
    }

    /// Takes a descriptor for new contents, in use by the caller and on no list: see
    /// [`Cache::load`].
    ///
    /// # Errors
    ///
    /// Those of [`Cache::load`].
    pub fn load(&self) -> Result<MemberInUse<'_, T, W, LINKS>, Error> {
        self.cache.load()
    }

    /// Returns the load that [`to_words`](Loaded::to_words) has named: see
    /// [`Cache::loaded_from_words`].
    pub fn loaded_from_words(
        &self,
        words: [u64; 2],
    ) -> Option<Loaded<'_, Member<T, LINKS>, Unlisting<W, LINKS>>> {
        self.cache.loaded_from_words(words)
    }

    /// Writes back every descriptor that is not in use, and returns how many: see
    /// [`Cache::write_back`].
    pub fn write_back(&self) -> usize {
        self.cache.write_back()
    }

    /// Makes descriptors available again that exited threads held: see [`Cache::audit`]. One whose
    /// uses it ends stays loaded, and on its lists. One that it frees has left them.
    ///
    /// # Safety
    ///
    /// That of [`Cache::audit`]. The operations of lists are operations of this cache.
    pub unsafe fn audit(&self, time: Duration) -> Audit {
        // SAFETY: the caller's promise. An operation of a list keeps a descriptor in use for no
        // longer than it lasts.
        unsafe { self.cache.audit(time) }
    }

    /// Returns a list of a link.
    ///
    /// # Panics
    ///
    /// If there is no such link, or it has no such list.
    #[track_caller]
    pub fn list(&self, link: usize, number: usize) -> CacheList<'_, T, W, LINKS> {
        assert!(link < LINKS, "there is no such link");
        assert!(
            number < self.lists(link).count(),
            "the link has no such list"
        );
        CacheList {
            cache: self,
            link,
            number,
        }
    }

    /// Takes a descriptor off the list of a link that it is on. Returns `false` if it was on none.
    ///
    /// Takes time in proportion to that list's members.
    ///
    /// # Panics
    ///
    /// If there is no such link, or the use is of another cache.
    #[track_caller]
    pub fn remove(&self, link: usize, member: &MemberInUse<'_, T, W, LINKS>) -> bool {
        assert!(link < LINKS, "there is no such link");
        self.lists(link).unlink(self.word(link, member))
    }

    fn lists(&self, link: usize) -> &Lists {
        &self.cache.owner().lists[link]
    }

    /// Returns the link of a descriptor in use.
    #[track_caller]
    fn word<'a>(&self, link: usize, member: &'a MemberInUse<'_, T, W, LINKS>) -> &'a StableWord {
        let is_own = std::ptr::eq(member.cache(), &self.cache);
        assert!(is_own, "a descriptor of another cache");
        &member.links[link]
    }

    /// Returns the descriptor that a link is in.
    fn member(&self, link: usize, word: &StableWord) -> &Member<T, LINKS> {
        let before = offset_of!(Member<T, LINKS>, links) + link * size_of::<StableWord>();
        let address = std::ptr::from_ref(word).addr() - before;
        // SAFETY: the word is that link of a descriptor of this cache, whose address was exposed
        // when it was allocated. It stays valid, free or not, as long as the cache, which is
        // borrowed here.
        unsafe { &*with_exposed_provenance(address) }
    }

    /// Starts a use of the descriptor that a link is in. `None` if it is not loaded.
    fn use_of(
        &self,
        link: usize,
        word: &StableWord,
    ) -> Option<Result<MemberInUse<'_, T, W, LINKS>, TooManyUses>> {
        // SAFETY: a descriptor of this cache.
        unsafe { self.cache.use_of(self.member(link, word)).transpose() }
    }
}

impl<T, W, const LINKS: usize> Drop for ListCache<T, W, LINKS>
where
    T: Descriptor,
    W: WriteBack<Member<T, LINKS>>,
{
    fn drop(&mut self) {
        for lists in &self.cache.owner().lists {
            // Rolls back or completes what an exited thread left unfinished, while the descriptors
            // that it may change are still there. No operation follows.
            lists.anchor.versioned.begin();
        }
    }
}

impl<T, W, const LINKS: usize> fmt::Debug for ListCache<T, W, LINKS>
where
    T: Descriptor,
    W: WriteBack<Member<T, LINKS>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListCache")
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

/// The owner of a [`ListCache`]'s descriptors, as its [`Cache`] sees it: takes each off its lists
/// before the caller's owner writes it back.
pub struct Unlisting<W, const LINKS: usize> {
    owner: W,
    lists: [Lists; LINKS],
}

impl<T, W, const LINKS: usize> WriteBack<Member<T, LINKS>> for Unlisting<W, LINKS>
where
    T: Descriptor,
    W: WriteBack<Member<T, LINKS>>,
{
    const COUNTS_USES: bool = W::COUNTS_USES;

    fn write_back(&self, victim: &Member<T, LINKS>) {
        self.owner.write_back(victim);
    }

    fn retire(&self, member: &Member<T, LINKS>) {
        for (lists, word) in self.lists.iter().zip(&member.links) {
            lists.unlink(word);
        }
        self.owner.retire(member);
    }

    fn choose<'a>(
        &self,
        candidates: impl Iterator<Item = Candidate<'a, Member<T, LINKS>>>,
    ) -> Option<Candidate<'a, Member<T, LINKS>>> {
        self.owner.choose(candidates)
    }
}

/// The lists of one link, and their version.
struct Lists {
    anchor: Box<Anchor>,
    /// The heads of all lists but the first one, whose head lies beside the version.
    others: Box<[StableWord]>,
}

impl Lists {
    fn new(count: usize, versioned: VersionedWords) -> Result<Lists, Error> {
        let others = count.checked_sub(1).ok_or(Error::Zero)?;
        // Chosen here, because the first operation may be in a handler.
        versioned.mechanism();
        Ok(Lists {
            anchor: Anchor::new(versioned)?,
            others: zeros(others).ok_or(Error::OutOfMemory)?,
        })
    }

    fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// Returns the head of a list: the address of its first member's link, or another value if it
    /// is empty.
    fn head(&self, number: usize) -> &StableWord {
        match number.checked_sub(1) {
            None => self.anchor.head(),
            Some(other) => &self.others[other],
        }
    }

    fn begin(&self) -> Version {
        self.anchor.versioned.begin()
    }

    fn load(&self, word: &StableWord) -> u64 {
        self.anchor.versioned.load(word)
    }

    /// Returns `Ok` if the version is unchanged, so that everything read since counts.
    fn check(&self, version: Version) -> Result<(), Changed> {
        match self.anchor.versioned.is_still(version) {
            true => Ok(()),
            false => Err(Changed::Seen),
        }
    }

    /// Stores to a link, or a head, and to a member's link if the version is unchanged.
    fn exchange(
        &self,
        version: Version,
        link: (&StableWord, u64),
        member: (&StableWord, u64),
    ) -> Result<(), Changed> {
        debug_assert!(!std::ptr::eq(link.0, member.0));
        // SAFETY: the words are different: no link leads to itself, and `insert` has compared them.
        // Only this version covers them. The descriptors' memory lives as long as the cache,
        // whose destructor finishes what exited threads have left.
        match unsafe { self.anchor.versioned.store_pair_if(version, link, member) } {
            true => Ok(()),
            false => {
                self.anchor.versioned.back_off();
                Err(Changed::Forestalled)
            }
        }
    }

    /// Returns the link of the next member, if a link or a head leads to one.
    fn next<'a>(&'a self, link: &StableWord) -> Option<&'a StableWord> {
        let value = self.load(link);
        if value == OUT || value % 2 == 1 {
            return None;
        }
        // SAFETY: an even value is the address of this link of a descriptor of the cache. Its
        // address was exposed when it was allocated, and it stays a descriptor, free or not, as
        // long as the cache, which owns this.
        Some(unsafe { &*with_exposed_provenance::<StableWord>(value as usize) })
    }

    /// Follows links from `link` to the first member that satisfies `found`, or to the end. Returns
    /// the link that leads there, and the member's.
    fn seek<'a>(
        &'a self,
        version: Version,
        mut link: &'a StableWord,
        mut found: impl FnMut(&'a StableWord) -> bool,
    ) -> Result<(&'a StableWord, Option<&'a StableWord>), Changed> {
        loop {
            for _ in 0..STEPS {
                let next = self.next(link);
                let Some(member) = next.filter(|member| !found(member)) else {
                    return Ok((link, next));
                };
                link = member;
            }
            // The path may be circular, over descriptors that were inserted again.
            self.check(version)?;
        }
    }

    /// Links a member, which is in use, before the first one that satisfies `found`, or at the end.
    /// Returns `false` if it is on a list.
    fn insert<'a>(
        &'a self,
        number: usize,
        member: &StableWord,
        mut found: impl FnMut(&'a StableWord) -> bool,
    ) -> bool {
        until_unchanged(|| {
            let version = self.begin();
            if self.load(member) != OUT {
                return self.check(version).map(|()| false);
            }
            let (link, _) = self.seek(version, self.head(number), &mut found)?;
            // Another thread, or `found`, has inserted it meanwhile.
            if std::ptr::eq(link, member) {
                return Err(Changed::Seen);
            }
            let behind = match self.load(link) {
                // A list that was never used.
                OUT => number as u64 * 2 + 1,
                behind => behind,
            };
            let address = std::ptr::from_ref(member).addr() as u64;
            self.exchange(version, (link, address), (member, behind))?;
            Ok(true)
        })
    }

    /// Unlinks a member from this list. Returns `false` if it is not on it.
    fn unlink_from(&self, number: usize, member: &StableWord) -> bool {
        until_unchanged(|| {
            let version = self.begin();
            self.unlink_at(version, number, member)
        })
    }

    /// Unlinks a member from the list that it is on. Returns `false` if it is on none.
    fn unlink(&self, member: &StableWord) -> bool {
        until_unchanged(|| {
            let version = self.begin();
            if self.load(member) == OUT {
                return self.check(version).map(|()| false);
            }
            let (last, _) = self.seek(version, member, |_| false)?;
            let number = self.load(last) as usize / 2;
            // Not one of the lists: the link has changed.
            if number >= self.count() {
                return Err(Changed::Seen);
            }
            self.unlink_at(version, number, member)
        })
    }

    fn unlink_at(
        &self,
        version: Version,
        number: usize,
        member: &StableWord,
    ) -> Result<bool, Changed> {
        let is_it = |other: &StableWord| std::ptr::eq(other, member);
        match self.seek(version, self.head(number), is_it)? {
            (link, Some(member)) => {
                let behind = self.load(member);
                self.exchange(version, (link, behind), (member, OUT))?;
                Ok(true)
            }
            _ => self.check(version).map(|()| false),
        }
    }
}
