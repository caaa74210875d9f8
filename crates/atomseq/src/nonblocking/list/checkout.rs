//! Entries that are removed, modified and reinserted: checked out and in (GC96, section 5.1).

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
    /// Checks an entry out: its holder alone may change it, until it checks it in again (GC96,
    /// section 5.1, *removed, modified and reinserted*). Returns `None` if the key is not in the
    /// list.
    ///
    /// Checking out and in are one change of one word each: one atomic instruction under
    /// OS-assisted DCAS, four under k-CAS. They allocate and free nothing. While the entry is
    /// checked out, no [snapshot](List::snapshot) contains it, and its key keeps its place.
    /// Operations on the key return [`CheckedOut`] at once. None of them waits for the check-in.
    /// The caller must follow the rule of GC96, section 5.1: **a signal handler never retries on an
    /// entry that its own thread has checked out.** Before a retry, ask which thread holds the
    /// entry:
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
    /// (A handler must not wait for another thread's entry either, if that thread may wait for the
    /// handler's thread.)
    ///
    /// If a thread exits while it holds an entry, the key stays checked out until
    /// [`forget_checkout`](List::forget_checkout) is called.
    ///
    /// In an unordered list, the newest entry of the key is the one that is checked out. Until it
    /// is checked in, operations on the key return [`CheckedOut`], even if the list has older
    /// entries of the key.
    ///
    /// # Errors
    ///
    /// [`CheckedOut`]: the entry is already checked out, by another thread or this one.
    pub fn check_out(&self, key: &K) -> Result<Option<Checkout<'_, K, V, A>>, CheckedOut> {
        until_unchanged(|| {
            let version = self.chain.versioned.begin();
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
            // Release fence: ordered before the holder's stores to the value; pairs with the
            // acquire fence in `VersionedWords::is_still`.
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

    /// Removes an entry of the key that is checked out, the newest one if there are several. Its
    /// holder finds out when it checks the entry in. Returns `false` if there is no such entry.
    ///
    /// Use this for an entry whose holder has exited. Its node is lost until the list is dropped,
    /// or until an [audit](List::audit) frees it.
    pub fn forget_checkout(&self, key: &K) -> bool {
        until_unchanged(|| {
            let version = self.chain.versioned.begin();
            let is_removed = |node| self.checked_in(node).is_err();
            let place = self.place_of(version, key, is_removed)?;
            let Some(node) = place.node else {
                return self.chain.check(version).map(|()| false);
            };
            let behind = self.chain.load(&node.next);
            self.chain.claim(node);
            self.chain
                .exchange(version, (place.link, behind), (&node.changer, GIVEN_UP))?;
            Ok(true)
        })
    }
}

/// An entry that its holder has [checked out](List::check_out). Dropping it checks the entry in
/// unchanged.
///
/// It is not `Send`, because [`CheckedOut`] reports the thread that checked it out:
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
    /// Not `Send`: the thread that holds this is the one that `changer` names.
    here: PhantomData<*const ()>,
}

/// The error of a check-in after [`forget_checkout`](List::forget_checkout) has removed the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp;

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the entry was forgotten while it was checked out: insert it again")
    }
}

impl std::error::Error for GivenUp {}

impl<K: Plain, V: Plain, A: Arrangement<K>> Checkout<'_, K, V, A> {
    /// Returns the key.
    pub fn key(&self) -> K {
        self.key
    }

    /// Returns the value that the entry had when it was checked out.
    pub fn value(&self) -> V {
        self.value
    }

    /// Checks the entry in with this value.
    ///
    /// # Errors
    ///
    /// [`GivenUp`]: the entry was removed, and the value was not stored.
    pub fn check_in(self, value: V) -> Result<(), GivenUp> {
        // No other thread's copy of the value counts while the changer is set.
        self.node.value.store(value);
        ManuallyDrop::new(self).put_back()
    }

    /// Moves the entry to another key and its place. It stays checked out.
    ///
    /// A node for the new key replaces the old one; both are allocated for a moment. If the keys
    /// compare equal, the entry keeps its key.
    ///
    /// # Errors
    ///
    /// [`Refused::Present`] or [`Refused::CheckedOut`] if the new key is in the list and keys may
    /// not repeat; [`Refused::Memory`]; [`Refused::Absent`] if
    /// [`forget_checkout`](List::forget_checkout) has removed the entry. The entry keeps its old
    /// key then.
    pub fn set_key(&mut self, key: K) -> Result<(), Refused> {
        if A::compare(&self.key, &key).is_there() {
            return Ok(());
        }
        let (list, chain) = (self.list, &self.list.chain);
        let new = Marked::new(list, list.node_of(key, self.value)?);
        let linked = until_unchanged(|| {
            let version = chain.versioned.begin();
            let place = list.place(version, &key)?;
            let refused = match chain.load(&self.node.changer) {
                GIVEN_UP => Some(Refused::Absent),
                _ => list.refusal(place.node),
            };
            if let Some(refused) = refused {
                chain.check(version)?;
                return Ok(Err(refused));
            }
            let link = if A::NEW_ONES_FIRST {
                chain.head()
            } else {
                place.link
            };
            list.link(version, link, new.node()).map(Ok)
        });
        linked?;
        let old = std::mem::replace(&mut self.node, new.into_raw());
        self.key = key;
        // If the old node was given up meanwhile, the new one is still this call's.
        let _ = list.delete_removed(old);
        Ok(())
    }

    /// Removes the entry.
    ///
    /// # Errors
    ///
    /// [`GivenUp`]: the entry was already removed.
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

/// A node that is in no list yet, and whose changer is already this thread. Dropping it, also when
/// the caller's `Ord` panics, clears the changer and frees the node.
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
        // The word of a free node is still covered, so it is changed like any other.
        until_unchanged(|| {
            chain.compare_exchange(chain.versioned.begin(), (&node.changer, changer))
        });
    }

    /// Leaves the node to the list.
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
    /// Unlinks and frees a node that this thread has checked out.
    fn delete_removed(&self, node: &Node<K, V>) -> Result<(), GivenUp> {
        self.resolve(node, |version| {
            let is_it = |other: &Node<K, V>| std::ptr::eq(other, node);
            let link = self.chain.seek(version, self.chain.head(), is_it)?.link;
            let behind = self.chain.load(&node.next);
            self.chain.claim(node);
            self.chain
                .exchange(version, (link, behind), (&node.changer, 0))
        })?;
        // SAFETY: this call alone has just unlinked the node, so it owns it.
        unsafe { self.chain.free(node) };
        Ok(())
    }

    /// Ends a checkout by `exchange`, or, if the node was given up, by freeing it.
    fn resolve(
        &self,
        node: &Node<K, V>,
        mut exchange: impl FnMut(Version) -> Result<(), Changed>,
    ) -> Result<(), GivenUp> {
        let given_up = until_unchanged(|| {
            let version = self.chain.versioned.begin();
            if self.chain.load(&node.changer) != GIVEN_UP {
                return exchange(version).map(|()| false);
            }
            self.chain.check(version)?;
            self.chain.compare_exchange(version, (&node.changer, 0))?;
            Ok(true)
        });
        if given_up {
            // SAFETY: `forget_checkout` has unlinked the node and left it to its changer, which is
            // this thread and gives it up here.
            unsafe { self.chain.free(node) };
            return Err(GivenUp);
        }
        Ok(())
    }
}

impl<K: Plain, V: Plain, A: Arrangement<K>> Drop for Checkout<'_, K, V, A> {
    fn drop(&mut self) {
        // If the entry was given up, there is no caller to report it to.
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
