//! The operations of one list.

use std::fmt;

use super::{ListCache, Member, MemberInUse, OUT};
use crate::nonblocking::nodes::until_unchanged;
use crate::or_panic::OrPanic;
use crate::type_stable::{Descriptor, WriteBack};

/// A list of a [`ListCache`]: see [`ListCache::list`].
pub struct CacheList<'a, T, W, const LINKS: usize>
where
    T: Descriptor,
    W: WriteBack<Member<T, LINKS>>,
{
    pub(super) cache: &'a ListCache<T, W, LINKS>,
    pub(super) link: usize,
    pub(super) number: usize,
}

impl<'a, T, W, const LINKS: usize> CacheList<'a, T, W, LINKS>
where
    T: Descriptor,
    W: WriteBack<Member<T, LINKS>>,
{
    /// Inserts a descriptor at the front. Returns `false` if it is on a list of this link already,
    /// this one or another. Constant time.
    ///
    /// # Panics
    ///
    /// If the use is of another cache.
    #[track_caller]
    pub fn push_front(&self, member: &MemberInUse<'_, T, W, LINKS>) -> bool {
        self.insert_before(member, |_| true)
    }

    /// Inserts a descriptor at the end, in the same way. Takes time in proportion to the members.
    ///
    /// # Panics
    ///
    /// As for [`push_front`](CacheList::push_front).
    #[track_caller]
    pub fn push_back(&self, member: &MemberInUse<'_, T, W, LINKS>) -> bool {
        self.insert_before(member, |_| false)
    }

    /// Inserts a descriptor before the first one that satisfies `is_behind`, or at the end, in the
    /// same way. So a delay queue is in order of time (GC96, section 5).
    ///
    /// `is_behind` is called with descriptors on the list, and may be called again. It may get one
    /// that has left the list and was loaded again; the outcome is discarded then. If it changes a
    /// list of this link on each call, this never returns.
    ///
    /// # Panics
    ///
    /// As for [`push_front`](CacheList::push_front).
    #[track_caller]
    pub fn insert_before(
        &self,
        member: &MemberInUse<'_, T, W, LINKS>,
        mut is_behind: impl FnMut(&T) -> bool,
    ) -> bool {
        let (cache, link) = (self.cache, self.link);
        let word = cache.word(link, member);
        let found = |other: &_| is_behind(cache.member(link, other));
        cache.lists(link).insert(self.number, word, found)
    }

    /// Takes the first descriptor off the list, and returns a use of it. `None` if the list is
    /// empty, apart from descriptors that are being written back.
    ///
    /// # Panics
    ///
    /// If the descriptor is in use 32,767 times already.
    #[track_caller]
    pub fn pop_front(&self) -> Option<MemberInUse<'a, T, W, LINKS>> {
        let (cache, link) = (self.cache, self.link);
        let lists = cache.lists(link);
        let taken = until_unchanged(|| {
            let version = lists.begin();
            let mut in_use = None;
            let found = lists.seek(version, lists.head(self.number), |member| {
                in_use = cache.use_of(link, member);
                in_use.is_some()
            })?;
            let (before, Some(member)) = found else {
                return lists.check(version).map(|()| None);
            };
            // The panic is the caller's: a closure would name its own line.
            if let Some(Err(_)) = in_use {
                return Ok(in_use);
            }
            let behind = lists.load(member);
            // If this fails, the use ends.
            lists.exchange(version, (before, behind), (member, OUT))?;
            Ok(in_use)
        });
        taken.transpose().or_panic()
    }

    /// Returns a use of the first descriptor that satisfies `is_it`, which stays on the list. Those
    /// that are being written back are skipped.
    ///
    /// `is_it` is called as that of [`insert_before`](CacheList::insert_before).
    ///
    /// # Panics
    ///
    /// As for [`pop_front`](CacheList::pop_front).
    #[track_caller]
    pub fn find(&self, mut is_it: impl FnMut(&T) -> bool) -> Option<MemberInUse<'a, T, W, LINKS>> {
        let (cache, link) = (self.cache, self.link);
        let lists = cache.lists(link);
        let found = until_unchanged(|| {
            let version = lists.begin();
            let mut in_use = None;
            lists.seek(version, lists.head(self.number), |member| {
                if is_it(cache.member(link, member)) {
                    in_use = cache.use_of(link, member);
                }
                in_use.is_some()
            })?;
            lists.check(version).map(|()| in_use)
        });
        found.transpose().or_panic()
    }

    /// Takes a descriptor off this list. Returns `false` if it is not on it. Takes time in
    /// proportion to the members before it.
    ///
    /// # Panics
    ///
    /// As for [`push_front`](CacheList::push_front).
    #[track_caller]
    pub fn remove(&self, member: &MemberInUse<'_, T, W, LINKS>) -> bool {
        let word = self.cache.word(self.link, member);
        self.cache.lists(self.link).unlink_from(self.number, word)
    }

    /// Folds the descriptors that are on the list at one time, from the front. If a list of this
    /// link changes meanwhile, this retries from `init`.
    ///
    /// The contents of a descriptor may change at any time. `fold` is called as the closure of
    /// [`insert_before`](CacheList::insert_before). Allocates nothing, and costs no atomic
    /// instruction.
    pub fn fold<B: Clone>(&self, init: B, mut fold: impl FnMut(B, &T) -> B) -> B {
        let (cache, link) = (self.cache, self.link);
        let lists = cache.lists(link);
        until_unchanged(|| {
            let version = lists.begin();
            let mut folded = Some(init.clone());
            lists.seek(version, lists.head(self.number), |member| {
                let before = folded.take();
                folded = before.map(|before| fold(before, cache.member(link, member)));
                false
            })?;
            lists.check(version)?;
            Ok(folded.expect("what each member left"))
        })
    }

    /// Returns the number of descriptors on the list, by counting them at one version.
    pub fn len(&self) -> usize {
        self.fold(0, |count, _| count + 1)
    }

    /// Returns whether the list was empty at some time during the call.
    pub fn is_empty(&self) -> bool {
        let lists = self.cache.lists(self.link);
        let head = lists.head(self.number);
        let ([first], _) = lists.anchor.versioned.snapshot([head]);
        first == OUT || first % 2 == 1
    }
}

impl<T, W, const LINKS: usize> Clone for CacheList<'_, T, W, LINKS>
where
    T: Descriptor,
    W: WriteBack<Member<T, LINKS>>,
{
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, W, const LINKS: usize> Copy for CacheList<'_, T, W, LINKS>
where
    T: Descriptor,
    W: WriteBack<Member<T, LINKS>>,
{
}

impl<T, W, const LINKS: usize> fmt::Debug for CacheList<'_, T, W, LINKS>
where
    T: Descriptor + fmt::Debug,
    W: WriteBack<Member<T, LINKS>>,
{
    /// Shows the number of members.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheList")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
