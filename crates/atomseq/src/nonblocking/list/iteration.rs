//! Traversing a list: all of it at one version, or entry by entry.

use std::fmt;

use super::{Arrangement, Ascending, List, Unordered};
use crate::dcas::{StableWord, Version};
use crate::nonblocking::Plain;
use crate::nonblocking::nodes::{Changed, until_unchanged};
use crate::or_panic::OrPanic;

impl<K: Plain, V: Plain, A: Arrangement<K>> List<K, V, A> {
    /// Folds all entries as of one time. If the list changes meanwhile, this retries from `init`.
    ///
    /// The closure is called in each attempt. If it changes the list itself, this never returns;
    /// use [`iter`](List::iter) or a [`snapshot`](List::snapshot) then.
    ///
    /// Allocates nothing. Entries that are [checked out](List::check_out) are skipped, here and in
    /// every other traversal.
    ///
    /// ```
    /// let list = atomseq::nonblocking::List::from_iter([(1, 10), (2, 20)]);
    /// assert_eq!(list.fold(0, |sum, _, value| sum + value), 30);
    /// ```
    pub fn fold<B: Clone>(&self, init: B, mut fold: impl FnMut(B, K, V) -> B) -> B {
        until_unchanged(|| {
            let mut folded = Some(init.clone());
            self.for_each_since(self.chain.versioned.begin(), |key, value| {
                folded = folded.take().map(|before| fold(before, key, value));
                true
            })?;
            Ok(folded.expect("what each entry left"))
        })
    }

    /// Returns a copy of all entries as of one time.
    pub fn snapshot(&self) -> Vec<(K, V)> {
        let mut entries = Vec::new();
        until_unchanged(|| {
            entries.clear();
            self.for_each_since(self.chain.versioned.begin(), |key, value| {
                entries.push((key, value));
                true
            })
        });
        entries
    }

    /// Copies the first entries as of one time, as many as there are and fit in `entries`. Returns
    /// how many.
    ///
    /// Allocates nothing.
    pub fn copy_first(&self, entries: &mut [(K, V)]) -> usize {
        until_unchanged(|| {
            let mut count = 0;
            self.for_each_since(self.chain.versioned.begin(), |key, value| {
                if let Some(entry) = entries.get_mut(count) {
                    *entry = (key, value);
                    count += 1;
                }
                count < entries.len()
            })?;
            Ok(count)
        })
    }

    /// Returns the first entry.
    pub fn first(&self) -> Option<(K, V)> {
        until_unchanged(|| {
            let mut first = None;
            self.for_each_since(self.chain.versioned.begin(), |key, value| {
                first = Some((key, value));
                false
            })?;
            Ok(first)
        })
    }

    /// Returns the number of entries as of one time, by counting them.
    pub fn len(&self) -> usize {
        self.fold(0, |count, _, _| count + 1)
    }

    /// Returns whether the list has no entry that is not checked out.
    pub fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    /// Calls `each` with every entry until it returns `false`. Each entry was valid at the version
    /// when it was passed to `each`; all of them together are if this returns `Ok`.
    fn for_each_since(
        &self,
        version: Version,
        mut each: impl FnMut(K, V) -> bool,
    ) -> Result<(), Changed> {
        let mut link = self.chain.head();
        while let Some((key, value, next)) = self.entry_from(version, link)? {
            if !each(key, value) {
                break;
            }
            link = next;
        }
        Ok(())
    }

    /// Returns the first entry behind a link that is not checked out, and the link of its node.
    fn entry_from<'a>(
        &'a self,
        version: Version,
        link: &'a StableWord,
    ) -> Result<Option<(K, V, &'a StableWord)>, Changed> {
        let is_in = |changer| self.chain.load(changer) == 0;
        let place = self
            .chain
            .seek(version, link, |node| is_in(&node.changer))?;
        let entry = place
            .node
            .map(|node| (node.key.load(), node.value.load(), &node.next));
        self.chain.check(version).map(|()| entry)
    }
}

impl<K: Plain + Ord, V: Plain> List<K, V, Ascending> {
    /// Returns an iterator over the entries in ascending order of their keys, each as of the time
    /// when it is returned.
    ///
    /// No key comes twice or out of order, and every entry that is in the list all the time comes,
    /// whatever other threads change meanwhile. While the list does not change, an entry costs no
    /// search.
    ///
    /// ```
    /// let list = atomseq::nonblocking::List::from_iter([(1, 'a' as u32), (2, 'b' as u32)]);
    /// for (key, _) in &list {
    ///     list.remove(&key)?;
    /// }
    /// assert!(list.is_empty());
    /// # Ok::<(), atomseq::nonblocking::CheckedOut>(())
    /// ```
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter {
            list: self,
            last: None,
            next: None,
        }
    }
}

/// An iterator over the entries of a list in ascending order of their keys: see [`List::iter`].
pub struct Iter<'a, K: Plain, V: Plain> {
    list: &'a List<K, V, Ascending>,
    /// The key that came last.
    last: Option<K>,
    /// The link to continue at, if the list is still at this version.
    next: Option<(Version, &'a StableWord)>,
}

impl<K: Plain + Ord, V: Plain> Iterator for Iter<'_, K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        until_unchanged(|| {
            let chain = &self.list.chain;
            let (version, link) = match self.next.take() {
                Some(next) => next,
                None => {
                    let version = chain.versioned.begin();
                    let comes_later = |key: K| self.last.is_none_or(|last| key > last);
                    let place =
                        chain.seek(version, chain.head(), |node| comes_later(node.key.load()))?;
                    (version, place.link)
                }
            };
            let Some((key, value, link)) = self.list.entry_from(version, link)? else {
                return Ok(None);
            };
            self.last = Some(key);
            self.next = Some((version, link));
            Ok(Some((key, value)))
        })
    }
}

impl<K: Plain + fmt::Debug, V: Plain> fmt::Debug for Iter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter")
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

impl<'a, K: Plain + Ord, V: Plain> IntoIterator for &'a List<K, V, Ascending> {
    type Item = (K, V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

/// An iterator that removes the entries of a list, from the first on.
pub struct IntoIter<K: Plain, V: Plain, A: Arrangement<K>>(List<K, V, A>);

impl<K: Plain, V: Plain, A: Arrangement<K>> Iterator for IntoIter<K, V, A> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        self.0.pop_first()
    }
}

impl<K: Plain, V: Plain, A: Arrangement<K>> IntoIterator for List<K, V, A> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V, A>;

    fn into_iter(self) -> IntoIter<K, V, A> {
        IntoIter(self)
    }
}

impl<K: Plain + Ord, V: Plain> Extend<(K, V)> for List<K, V, Ascending> {
    /// Inserts entries, or replaces the values of keys that are in the list.
    ///
    /// # Panics
    ///
    /// If [`insert`](List::insert) returns an error.
    #[track_caller]
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            // Panics, as other collections do that cannot grow.
            self.insert(key, value).or_panic();
        }
    }
}

impl<K: Plain + PartialEq, V: Plain> Extend<(K, V)> for List<K, V, Unordered> {
    /// Inserts each entry at the front.
    ///
    /// # Panics
    ///
    /// If [`push_front`](List::push_front) returns an error.
    #[track_caller]
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            // Panics, as other collections do that cannot grow.
            self.push_front(key, value).or_panic();
        }
    }
}

impl<K: Plain + Ord, V: Plain> FromIterator<(K, V)> for List<K, V, Ascending> {
    /// # Panics
    ///
    /// If [`new`](List::new) does, or [`insert`](List::insert) returns an error.
    #[track_caller]
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut list = List::new();
        list.extend(entries);
        list
    }
}
