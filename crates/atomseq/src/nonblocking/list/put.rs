//! Putting entries into a list, and replacing them by duplicates.

use super::{Arrangement, Ascending, List, Node, Refused, Unordered};
use crate::dcas::{StableWord, Version, VersionedWords};
use crate::nonblocking::Plain;
use crate::nonblocking::nodes::{Changed, Position, address, until_unchanged};
use crate::nonblocking::plain;
use crate::type_stable::Allocated;

impl<K: Plain + Ord, V: Plain> List<K, V, Ascending> {
    /// Inserts an entry at its place.
    ///
    /// # Errors
    ///
    /// [`Refused::Present`], [`Refused::CheckedOut`]: the key is there. [`Refused::Memory`].
    #[inline]
    pub fn try_insert(&self, key: K, value: V) -> Result<(), Refused> {
        self.try_insert_from(key, value, VersionedWords::begin)
    }

    /// The same, with `gap` between its first look and its exchange, each time: it may hand an
    /// earlier version on.
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
    /// Inserts an entry at the front, whatever else is there. Constant time.
    ///
    /// # Errors
    ///
    /// [`Refused::Memory`].
    pub fn push_front(&self, key: K, value: V) -> Result<(), Refused> {
        let node = self.node_of(key, value)?;
        until_unchanged(|| self.link(self.chain.object.begin(), &self.chain.head, &node));
        node.into_raw();
        Ok(())
    }
}

impl<K: Plain, V: Plain, A: Arrangement<K>> List<K, V, A> {
    /// Replaces a key's value by a duplicate that has the new one (GC96 5.1); returns the old one.
    /// `None`: the key is not there.
    ///
    /// # Errors
    ///
    /// [`Refused::CheckedOut`], [`Refused::Memory`].
    pub fn replace(&self, key: &K, value: V) -> Result<Option<V>, Refused> {
        self.update(key, |_| value)
    }

    /// Replaces a key's value by what `change` makes of it, and returns the old one. `None`: the
    /// key is not there.
    ///
    /// By a duplicate (GC96 5.1): who searches at the same time finds the one or the other.
    /// `change` is called again, with the new value, if the key's value has changed meanwhile; only
    /// what its last call returned is stored. It may use the list, and change it at other keys. One
    /// that changes the value of this very key, to another one each time, is called without end.
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

    /// Inserts an entry, or replaces a key's value by a duplicate; returns the old value.
    ///
    /// # Errors
    ///
    /// As for [`replace`](List::replace).
    pub fn insert(&self, key: K, value: V) -> Result<Option<V>, Refused> {
        self.insert_with(key, |_| value)
    }

    /// The same with what `make` makes of the value that is there, if one is.
    ///
    /// `make` may be called as often as [`update`](List::update)'s closure, and do what that may.
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
        // Only when something is to be linked, and kept for the next attempt.
        let mut new: Option<Allocated<'_, Node<K, V>>> = None;
        // What `make` got when the new node's value was made, if it is to be linked in a further
        // attempt. `make` is not called again for the same value, so it may change the list, at
        // other keys.
        let mut made_of = None;
        let put = until_unchanged(|| {
            let version = begin(&self.chain.object);
            let Position { link, node } = self.place(version, &key)?;
            let value = match node.map_or(Ok(()), |node| self.checked_in(node)) {
                Err(checked_out) => Err(Refused::from(checked_out)),
                Ok(()) => Ok(node.map(|node| node.value.load())),
            };
            // `make` gets no value that nobody stored, and no answer is given that does not count.
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
                    let exchange = ((link, address::<Node<K, V>>(new)), (&new.next, behind));
                    self.chain.exchange(version, exchange.0, exchange.1)
                }
            };
            if let Err(changed) = linked {
                made_of = Some(old);
                return Err(changed);
            }
            if let Some(node) = node {
                // SAFETY: this call has just unlinked it.
                unsafe { self.chain.free(node) };
            }
            Ok(Ok(old))
        });
        if put.is_ok() {
            new.map(Allocated::into_raw);
        }
        put
    }

    /// A node for the caller alone.
    pub(super) fn node_of(&self, key: K, value: V) -> Result<Allocated<'_, Node<K, V>>, Refused> {
        let node = self.chain.allocate()?;
        node.key.store(key);
        node.value.store(value);
        Ok(node)
    }

    /// Links a node of this call's where a link leads by now.
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

/// Are both the same to the last bit?
fn is_same<V: Plain>(one: Option<V>, other: Option<V>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => plain::bytes(&one) == plain::bytes(&other),
        (one, other) => one.is_none() && other.is_none(),
    }
}
