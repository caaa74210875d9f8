//! Entries that were removed for change, and come back (GC96 5.1).

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use super::{Arrangement, CheckedOut, GIVEN_UP, List, Node, Refused};
use crate::dcas::Version;
use crate::nonblocking::Plain;
use crate::nonblocking::nodes::{Changed, until_unchanged};
use crate::sync::this_thread;
use crate::sync::{Ordering, fence};
use crate::type_stable::Allocated;

impl<K: Plain, V: Plain, A: Arrangement<K>> List<K, V, A> {
    /// Removes an entry for change: its holder alone may change it, and puts it back (GC96 5.1's
    /// *removed, modified and reinserted*). `None`: the key is not there.
    ///
    /// Removing and reinserting are one exchange of one word each, and nothing is allocated or
    /// freed. Meanwhile the entry is in no [snapshot](List::snapshot), and its key keeps its place:
    /// who asks for it gets [`CheckedOut`] at once. Nothing in here ever waits for it to come back,
    /// and this is the rule of GC96 5.1: **a signal handler never retries on an entry that its own
    /// thread has removed for change.** Whoever wants to try again asks first whose it is:
    ///
    /// ```
    /// use atomseq::nonblocking::{CheckedOut, List};
    ///
    /// /// For threads and handlers alike.
    /// fn look(list: &List<u64, u64>, key: u64) -> Option<u64> {
    ///     loop {
    ///         match list.get(&key) {
    ///             Ok(found) => return found,
    ///             Err(changing) if changing.by_this_thread() => return None,
    ///             Err(_) => std::thread::yield_now(),
    ///         }
    ///     }
    /// }
    ///
    /// let list = List::new();
    /// list.try_insert(1, 10).unwrap();
    /// let removed = list.check_out(&1)?.unwrap();
    /// assert_eq!(look(&list, 1), None);
    /// let value = removed.value() + 5;
    /// removed.check_in(value).unwrap();
    /// assert_eq!(look(&list, 1), Some(15));
    /// # Ok::<(), CheckedOut>(())
    /// ```
    ///
    /// (A handler must not wait for other threads' either, if these may wait for its own thread.)
    ///
    /// Of a thread that ends with an entry in its hands, the key stays taken until somebody calls
    /// [`forget_checkout`](List::forget_checkout).
    ///
    /// Where keys may repeat, the newest entry of the key is the one that counts, here and for all
    /// others that look for a key. While it is removed for change they return [`CheckedOut`], also
    /// if older entries of the key are there.
    ///
    /// # Errors
    ///
    /// [`CheckedOut`]: somebody else has, or this thread.
    pub fn check_out(&self, key: &K) -> Result<Option<Checkout<'_, K, V, A>>, CheckedOut> {
        until_unchanged(|| {
            let version = self.chain.object.begin();
            let Some(node) = self.place(version, key)?.node else {
                self.chain.check(version)?;
                return Ok(Ok(None));
            };
            if let Err(checked_out) = self.checked_in(node) {
                self.chain.check(version)?;
                return Ok(Err(checked_out));
            }
            let (key, value) = (node.key.load(), node.value.load());
            self.chain
                .compare_exchange(version, (&node.changer, this_thread()))?;
            // Release: before what the holder stores; pairs with the acquire fence in
            // `VersionedWords::is_still`.
            fence(Ordering::Release);
            Ok(Ok(Some(Checkout {
                list: self,
                node,
                key,
                value,
                here: PhantomData,
            })))
        })
    }

    /// Deletes an entry of the key that somebody has removed for change, who finds out when trying
    /// to reinsert it: the newest such entry, where keys may repeat. `false`: there is none now.
    ///
    /// For what a thread had in its hands when it ended. Its node is lost until the list is
    /// dropped.
    pub fn forget_checkout(&self, key: &K) -> bool {
        until_unchanged(|| {
            let version = self.chain.object.begin();
            let is_removed = |node| self.checked_in(node).is_err();
            let place = self.place_of(version, key, is_removed)?;
            let Some(node) = place.node else {
                return self.chain.check(version).map(|()| false);
            };
            let behind = self.chain.load(&node.next);
            self.chain
                .exchange(version, (place.link, behind), (&node.changer, GIVEN_UP))?;
            Ok(true)
        })
    }
}

/// An entry that its holder has [removed for change](List::check_out). Dropped, it goes back as
/// it was.
///
/// It stays in its thread, for that is what others are told about it:
///
/// ```compile_fail,E0277
/// let list = atomseq::nonblocking::List::from_iter([(1, 10)]);
/// let removed = list.check_out(&1);
/// std::thread::scope(|scope| {
///     scope.spawn(move || drop(removed));
/// });
/// ```
#[must_use = "dropped, it goes back as it was"]
pub struct Checkout<'a, K: Plain, V: Plain, A: Arrangement<K>> {
    list: &'a List<K, V, A>,
    node: &'a Node<K, V>,
    key: K,
    value: V,
    /// Not `Send`: the thread that has it is the one that `changer` names.
    here: PhantomData<*const ()>,
}

/// The entry was deleted meanwhile: by [`forget_checkout`](List::forget_checkout), which took its
/// holder for ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp;

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the entry was given up while it was removed for change: insert it anew")
    }
}

impl std::error::Error for GivenUp {}

impl<K: Plain, V: Plain, A: Arrangement<K>> Checkout<'_, K, V, A> {
    /// The key.
    pub fn key(&self) -> K {
        self.key
    }

    /// The value that it had.
    pub fn value(&self) -> V {
        self.value
    }

    /// Puts it back with this value.
    ///
    /// # Errors
    ///
    /// [`GivenUp`].
    pub fn check_in(self, value: V) -> Result<(), GivenUp> {
        // Nobody's look at it counts while the changer is set.
        self.node.value.store(value);
        ManuallyDrop::new(self).put_back()
    }

    /// Gives it another key, and the place of that; it stays removed until it is reinserted.
    ///
    /// A node for the new key takes the place of the old one, both are taken for a moment. If the
    /// keys compare equal, it keeps the one that it has.
    ///
    /// # Errors
    ///
    /// [`Refused::Present`] and [`Refused::CheckedOut`]: the new key is there, where keys may not
    /// repeat. [`Refused::Memory`]. [`Refused::Absent`]: the entry was given up. It has its old key
    /// then.
    pub fn set_key(&mut self, key: K) -> Result<(), Refused> {
        if A::compare(&self.key, &key).is_there() {
            return Ok(());
        }
        let (list, chain) = (self.list, &self.list.chain);
        let new = Marked::new(list, list.node_of(key, self.value)?);
        let linked = until_unchanged(|| {
            let version = chain.object.begin();
            let place = list.place(version, &key)?;
            let refused = match place.node {
                _ if chain.load(&self.node.changer) == GIVEN_UP => Some(Refused::Absent),
                Some(_) if A::NEW_ONES_FIRST => None,
                Some(node) => Some(
                    list.checked_in(node)
                        .map_or_else(Refused::from, |()| Refused::Present),
                ),
                None => None,
            };
            if let Some(refused) = refused {
                chain.check(version)?;
                return Ok(Err(refused));
            }
            let link = if A::NEW_ONES_FIRST {
                &chain.head
            } else {
                place.link
            };
            list.link(version, link, new.node()).map(Ok)
        });
        linked?;
        let old = std::mem::replace(&mut self.node, new.into_raw());
        self.key = key;
        // Had it been given up meanwhile, the new one would still be this call's.
        let _ = list.delete_removed(old);
        Ok(())
    }

    /// Deletes it.
    ///
    /// # Errors
    ///
    /// [`GivenUp`]: it is deleted already.
    pub fn remove(self) -> Result<(), GivenUp> {
        let removed = ManuallyDrop::new(self);
        removed.list.delete_removed(removed.node)
    }

    fn put_back(&self) -> Result<(), GivenUp> {
        self.list.resolve(self.node, |version| {
            self.list
                .chain
                .compare_exchange(version, (&self.node.changer, 0))
        })
    }
}

/// A node that is in no list yet, but says already that this thread has removed it for change.
/// Dropped, also by a panic of the caller's `Ord`, it says so no more, and is free.
struct Marked<'a, K: Plain, V: Plain, A> {
    list: &'a List<K, V, A>,
    node: Option<Allocated<'a, Node<K, V>>>,
}

impl<'a, K: Plain, V: Plain, A> Marked<'a, K, V, A> {
    fn new(list: &'a List<K, V, A>, node: Allocated<'a, Node<K, V>>) -> Self {
        let marked = Marked {
            list,
            node: Some(node),
        };
        marked.mark(this_thread());
        marked
    }

    fn node(&self) -> &Node<K, V> {
        self.node.as_ref().expect("until it is linked")
    }

    fn mark(&self, changer: u64) {
        let (chain, node) = (&self.list.chain, self.node());
        // A free node's word, but covered, and so changed like any other.
        until_unchanged(|| chain.compare_exchange(chain.object.begin(), (&node.changer, changer)));
    }

    /// Leaves it to the list.
    fn into_raw(mut self) -> &'a Node<K, V> {
        let node = self.node.take().expect("until it is linked");
        node.into_raw()
    }
}

impl<K: Plain, V: Plain, A> Drop for Marked<'_, K, V, A> {
    fn drop(&mut self) {
        if self.node.is_some() {
            self.mark(0);
        }
    }
}

impl<K: Plain, V: Plain, A: Arrangement<K>> List<K, V, A> {
    /// Unlinks a node that this thread has removed for change, and frees it.
    fn delete_removed(&self, node: &Node<K, V>) -> Result<(), GivenUp> {
        self.resolve(node, |version| {
            let is_it = |other: &Node<K, V>| std::ptr::eq(other, node);
            let link = self.chain.seek(version, &self.chain.head, is_it)?.link;
            let behind = self.chain.load(&node.next);
            self.chain
                .exchange(version, (link, behind), (&node.changer, 0))
        })?;
        // SAFETY: this call has just unlinked it.
        unsafe { self.chain.free(node) };
        Ok(())
    }

    /// Ends what a removal for change began, by an exchange; if the node was given up, by freeing
    /// it.
    fn resolve(
        &self,
        node: &Node<K, V>,
        mut exchange: impl FnMut(Version) -> Result<(), Changed>,
    ) -> Result<(), GivenUp> {
        let given_up = until_unchanged(|| {
            let version = self.chain.object.begin();
            if self.chain.load(&node.changer) != GIVEN_UP {
                return exchange(version).map(|()| false);
            }
            self.chain.check(version)?;
            self.chain.compare_exchange(version, (&node.changer, 0))?;
            Ok(true)
        });
        if given_up {
            // SAFETY: whoever gave it up has unlinked it, and has left it to its changer, which
            // ends here.
            unsafe { self.chain.free(node) };
            return Err(GivenUp);
        }
        Ok(())
    }
}

impl<K: Plain, V: Plain, A: Arrangement<K>> Drop for Checkout<'_, K, V, A> {
    fn drop(&mut self) {
        // Given up or not: there is nobody to tell.
        let _ = self.put_back();
    }
}

impl<K: Plain + fmt::Debug, V: Plain + fmt::Debug, A: Arrangement<K>> fmt::Debug
    for Checkout<'_, K, V, A>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkout")
            .field("key", &self.key)
            .field("value", &self.value)
            .finish_non_exhaustive()
    }
}
