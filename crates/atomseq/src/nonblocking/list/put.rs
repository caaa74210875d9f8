//! Inserting entries, and replacing them by duplicates.

use super::{Arrangement, Ascending, List, Node, Refused, Unordered};
use crate::dcas::{StableWord, Version, VersionedWords};
use crate::nonblocking::Plain;
use crate::nonblocking::nodes::{Changed, Position, address, until_unchanged};
use crate::nonblocking::plain;
use crate::type_stable::Allocated;

impl<K: Plain + Ord, V: Plain> List<K, V, Ascending> {
    /// Inserts an entry at its place. Takes a search, and one atomic instruction under OS-assisted
    /// DCAS.
    ///
    /// # Errors
    ///
    /// [`Refused::Present`] or [`Refused::CheckedOut`] if the key is in the list;
    /// [`Refused::Memory`].
    #[inline]
    pub fn try_insert(&self, key: K, value: V) -> Result<(), Refused> {
        self.try_insert_from(key, value, VersionedWords::begin)
    }

    /// Does the same, with `gap` between each read of the version and the change. `gap` may return
    /// an earlier version, at which the change fails.
    #[cfg(any(test, feature = "unstable-internals"))]
    #[inline]
    pub fn try_insert_between(
        &self,
        key: K,
        value: V,
        gap: impl FnMut(Version) -> Version,
    ) -> Result<(), Refused> {
        self.try_insert_from(key, value, crate::nonblocking::nodes::begin_with(gap))
    }

    #[inline]
    fn try_insert_from(
        &self,
        key: K,
        value: V,
        begin: impl FnMut(&VersionedWords) -> Version,
    ) -> Result<(), Refused> {
        let refuse = |found: Option<V>| match found {
            None => Ok(value),
            Some(_) => Err(Refused::Present),
        };
        self.insert_from(key, refuse, begin).map(|_| ())
    }
}

impl<K: Plain + PartialEq, V: Plain> List<K, V, Unordered> {
    /// Inserts an entry at the front, even if the key is in the list. Constant time; one atomic
    /// instruction under OS-assisted DCAS.
    ///
    /// # Errors
    ///
    /// [`Refused::Memory`].
    pub fn push_front(&self, key: K, value: V) -> Result<(), Refused> {
        let node = self.node_of(key, value)?;
        until_unchanged(|| self.link(self.chain.versioned.begin(), self.chain.head(), &node));
        node.into_raw();
        Ok(())
    }
}

impl<K: Plain, V: Plain, A: Arrangement<K>> List<K, V, A> {
    /// Replaces the value of a key, by a duplicate node (GC96, section 5.1). Returns the old value,
    /// or `None` if the key is not in the list.
    ///
    /// This and the other operations that replace a value store the given key too, which may differ
    /// from the old one if the comparison ignores a part of keys.
    ///
    /// # Errors
    ///
    /// [`Refused::CheckedOut`], [`Refused::Memory`].
    pub fn replace(&self, key: &K, value: V) -> Result<Option<V>, Refused> {
        self.update(key, |_| value)
    }

    /// Replaces the value of a key by the result of `change`. Returns the old value, or `None` if
    /// the key is not in the list.
    ///
    /// The node is replaced by a duplicate (GC96, section 5.1), so a concurrent search finds the
    /// old value or the new one. `change` is called again, with the current value, if another
    /// thread has changed the key's value; only the result of its last call is stored. `change` may
    /// use the list, and change other keys in it. A `change` that changes the value of this key on
    /// each call, to a different value, is called indefinitely.
    ///
    /// # Errors
    ///
    /// As for [`replace`](List::replace).
    pub fn update(&self, key: &K, mut change: impl FnMut(V) -> V) -> Result<Option<V>, Refused> {
        let only_if_there = |found: Option<V>| found.map(&mut change).ok_or(Refused::Absent);
        match self.insert_from(*key, only_if_there, VersionedWords::begin) {
            Err(Refused::Absent) => Ok(None),
            put => put,
        }
    }

    /// Inserts an entry, or replaces the value of the key by a duplicate. Returns the old value, if
    /// there was one.
    ///
    /// # Errors
    ///
    /// As for [`replace`](List::replace).
    pub fn insert(&self, key: K, value: V) -> Result<Option<V>, Refused> {
        self.insert_with(key, |_| value)
    }

    /// Inserts the result of `make`, or replaces the value of the key by it. `make` gets the old
    /// value, if there is one. Returns the old value.
    ///
    /// `make` may be called more than once and may use the list, in the way that the closure of
    /// [`update`](List::update) may.
    ///
    /// ```
    /// let counts = atomseq::nonblocking::List::new();
    /// for byte in *b"abracadabra" {
    ///     counts.insert_with(byte, |count| count.unwrap_or(0) + 1)?;
    /// }
    /// assert_eq!(counts.get(&b'a'), Ok(Some(5)));
    /// # Ok::<(), atomseq::nonblocking::Refused>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`replace`](List::replace).
    pub fn insert_with(
        &self,
        key: K,
        mut make: impl FnMut(Option<V>) -> V,
    ) -> Result<Option<V>, Refused> {
        self.insert_from(key, |found| Ok(make(found)), VersionedWords::begin)
    }

    fn insert_from(
        &self,
        key: K,
        mut make: impl FnMut(Option<V>) -> Result<V, Refused>,
        mut begin: impl FnMut(&VersionedWords) -> Version,
    ) -> Result<Option<V>, Refused> {
        // Allocated only when there is something to link, and kept for the next attempt.
        let mut new: Option<Allocated<'_, Node<K, V>>> = None;
        // The old value that `make` got for the value in `new`. If the next attempt finds the same
        // old value, `make` is not called again. So it may change the list, at other keys, without
        // causing itself to be called again without end.
        let mut made_of = None;
        let put = until_unchanged(|| {
            let version = begin(&self.chain.versioned);
            let Position { link, node } = self.place(version, &key)?;
            let value = match node.map_or(Ok(()), |node| self.checked_in(node)) {
                Err(checked_out) => Err(Refused::from(checked_out)),
                Ok(()) => Ok(node.map(|node| node.value.load())),
            };
            // Without this check, `make` could get a value that no thread stored, or this call
            // could return an outcome that does not count.
            self.chain.check(version)?;
            let prepared = value.and_then(|old| {
                if !made_of.is_some_and(|of| is_same(of, old)) {
                    let made = make(old)?;
                    match &new {
                        Some(new) => new.value.store(made),
                        None => new = Some(self.node_of(key, made)?),
                    }
                }
                Ok(old)
            });
            let (old, new) = match (prepared, &new) {
                (Ok(old), Some(new)) => (old, new),
                (Ok(_), None) => {
                    unreachable!("a node was allocated just now, or for an earlier attempt")
                }
                (Err(refused), _) => return Ok(Err(refused)),
            };
            let linked = match node {
                None => self.link(version, link, new),
                Some(node) => {
                    let behind = self.chain.load(&node.next);
                    self.chain.claim(node);
                    let exchange = ((link, address::<Node<K, V>>(new)), (&new.next, behind));
                    self.chain.exchange(version, exchange.0, exchange.1)
                }
            };
            if let Err(changed) = linked {
                made_of = Some(old);
                return Err(changed);
            }
            if let Some(node) = node {
                // SAFETY: this call alone has just unlinked the node, so it owns it.
                unsafe { self.chain.free(node) };
            }
            Ok(Ok(old))
        });
        if put.is_ok() {
            new.map(Allocated::into_raw);
        }
        put
    }

    /// Allocates a node with this entry, which the caller alone owns.
    pub(super) fn node_of(&self, key: K, value: V) -> Result<Allocated<'_, Node<K, V>>, Refused> {
        let node = self.chain.allocate()?;
        node.key.store(key);
        node.value.store(value);
        Ok(node)
    }

    /// Links a node, which the caller alone owns, before the node that a link leads to.
    #[inline]
    pub(super) fn link(
        &self,
        version: Version,
        link: &StableWord,
        node: &Node<K, V>,
    ) -> Result<(), Changed> {
        let behind = self.chain.load(link);
        self.chain
            .exchange(version, (link, address(node)), (&node.next, behind))
    }
}

/// Returns whether both values have the same bits.
fn is_same<V: Plain>(one: Option<V>, other: Option<V>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => plain::bytes(&one) == plain::bytes(&other),
        (one, other) => one.is_none() && other.is_none(),
    }
}
