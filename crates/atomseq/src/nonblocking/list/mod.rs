//! A list that is searched by plain loads, and changed by one DCAS (GC96, figure 2).
//!
//! ```text
//! get          begin: version; search; the version is unchanged
//! try_insert   begin; search the place; { link = node, node.next = what the link held }    if the version is unchanged
//! remove       begin; search the node;  { link = node.next }                               if the version is unchanged
//! replace      begin; search the node;  { link = duplicate, duplicate.next = node.next }   if the version is unchanged
//! remove_to_change, reinsert    as remove and try_insert, of the same node
//! check_out    { node.changer = this thread };  the holder changes the value
//! check_in     { node.changer = 0 }
//! ```
//!
//! Invariants:
//!
//! 1. Links change only together with the version, and no version recurs. So a search after which
//!    the version is unchanged has seen one state of the list, and a change that succeeds at that
//!    version finds that state.
//! 2. A node's key is written only while the node's owner alone has it: before it is linked, and
//!    after it was unlinked. Its value is written at these times, and by the holder that `changer`
//!    names. Each of these periods starts with a change of the list, or with the allocation of a
//!    node that such a change unlinked, and with a release fence. So a thread that reads part of a
//!    later write finds another version afterwards.
//! 3. An unlinked node belongs to the thread that unlinked it: no other change at that version
//!    succeeds, and no valid search at a later version reaches it. So it is freed once. A node with
//!    a changer belongs to its changer; [`List::forget_checkout`], which unlinks such a node, sets
//!    its changer to GIVEN_UP and does not free it.
//! 4. The change that links a node also sets the node's own link. Under k-CAS, covered words may be
//!    changed in no other way, and the link of a free node is a covered word.

use std::fmt;
use std::marker::PhantomData;

use super::nodes::{self, Chain, Changed, Position, until_unchanged};
use super::plain::{Plain, Words};
use crate::dcas::{Mechanism, StableWord, Version, VersionedWords};
use crate::or_panic::OrPanic;
use crate::type_stable::{self, Descriptor};

mod arrangement;
mod audit;
mod checkout;
mod error;
mod iteration;
mod put;
mod removal;

use arrangement::sealed::Found;
pub use arrangement::{Arrangement, Ascending, Unordered};
pub use checkout::{Checkout, GivenUp};
pub use error::{CheckedOut, Refused};
pub use iteration::{IntoIter, Iter};
pub use removal::{NotReinserted, Removal};

/// The `changer` of a node that was unlinked while it was checked out.
const GIVEN_UP: u64 = 1;

/// A node.
#[repr(C)]
pub(super) struct Node<K, V> {
    next: StableWord,
    /// The holder that has checked the node out: 0 for none, GIVEN_UP, or a thread.
    changer: StableWord,
    pub(super) key: Words<K>,
    pub(super) value: Words<V>,
}

// SAFETY: all zeros is a valid instance, and may appear at any time: every field is read as atomic
// words, and has no destructor.
unsafe impl<K: Plain, V: Plain> Descriptor for Node<K, V> {}

impl<K: Plain, V: Plain> nodes::Node for Node<K, V> {
    #[inline(always)]
    fn next(&self) -> &StableWord {
        &self.next
    }
}

/// A list of keys and values that all threads may search and change at the same time. A thread that
/// is preempted, interrupted or has exited inside an operation does not block the others (GC96,
/// figure 2 and section 5.1).
///
/// [`new`](List::new) creates a list in ascending order of its keys, each of which occurs once.
/// [`unordered`](List::unordered) creates one in which the newest entry comes first. Keys and
/// values are [`Plain`]: they are copied in and out, word by word.
///
/// The scope is `Machine`. Progress is that of the [mechanism](super#progress); an operation is
/// retried if another one has changed the list meanwhile, anywhere in it. A search takes time in
/// proportion to the nodes before the place, and no atomic instruction. A change also costs one
/// change of two words: one atomic instruction under OS-assisted DCAS, at most six under k-CAS.
/// Memory: one node per entry, reused at once; it does not wait for readers. The memory of nodes is
/// not returned before the list is dropped; a [limit](List::try_with_limit) bounds it.
///
/// Closures, and the comparison of keys (`Ord` or `PartialEq`), run while the operation holds
/// nothing. If one panics, the operation panics and has changed nothing. A comparison may get bit
/// patterns that no thread stored ([`Plain`]), so one that panics for some patterns makes
/// operations panic even if no key has them. Comparisons, and the closure of [`fold`](List::fold),
/// are repeated if the list has changed since the operation started. So an operation whose
/// comparison changes the same list never returns.
///
/// Every operation may be called in a signal handler that interrupted any other one, except those
/// that return a `Vec`, allocate for the caller, or panic. [`check_out`](List::check_out) states
/// the one rule for handlers (GC96, section 5.1).
///
/// ```
/// use atomseq::nonblocking::{List, Refused};
///
/// let sessions = List::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| sessions.try_insert(20, 1));
///     scope.spawn(|| sessions.try_insert(10, 2));
/// });
/// assert!(matches!(sessions.try_insert(10, 3), Err(Refused::Present)));
/// assert_eq!(sessions.get(&10), Ok(Some(2)));
///
/// sessions.update(&10, |requests| requests + 1)?;
/// assert_eq!(sessions.snapshot(), [(10, 3), (20, 1)]);
/// assert_eq!(sessions.remove(&10), Ok(Some(3)));
/// assert_eq!(sessions.remove(&10), Ok(None));
/// # Ok::<(), Refused>(())
/// ```
pub struct List<K: Plain, V: Plain = (), A = Ascending> {
    pub(super) chain: Chain<Node<K, V>>,
    arrangement: PhantomData<fn() -> A>,
}

impl<K: Plain + Ord, V: Plain> List<K, V, Ascending> {
    /// Creates an empty list in ascending order of its keys, without a limit.
    ///
    /// # Panics
    ///
    /// If there is no memory, or a key and a value are too large for a page of nodes.
    #[track_caller]
    pub fn new() -> List<K, V> {
        List::made(VersionedWords::new(), None).or_panic()
    }

    /// Creates an empty list of up to `entries` entries, including those that are being inserted:
    /// see [`Options::limit`](type_stable::Options::limit).
    ///
    /// # Errors
    ///
    /// [`type_stable::Error::Zero`], [`TooLarge`](type_stable::Error::TooLarge),
    /// [`OutOfMemory`](type_stable::Error::OutOfMemory).
    pub fn try_with_limit(entries: usize) -> Result<List<K, V>, type_stable::Error> {
        List::made(VersionedWords::new(), Some(entries))
    }

    /// Creates a list that uses this mechanism whatever the process has chosen, for tests and
    /// comparisons.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(mechanism: Mechanism) -> List<K, V> {
        List::made(VersionedWords::with_mechanism(mechanism), None).or_panic()
    }
}

impl<K: Plain + PartialEq, V: Plain> List<K, V, Unordered> {
    /// Creates an empty list in which the newest entry comes first, without a limit. A key may
    /// occur several times. Operations on a key then use its newest entry alone, even while that is
    /// [checked out](List::check_out).
    ///
    /// ```
    /// let list = atomseq::nonblocking::List::unordered();
    /// list.push_front(1.5, 'a' as u32)?;
    /// list.push_front(-0.5, 'b' as u32)?;
    /// assert_eq!(list.pop_first(), Some((-0.5, 'b' as u32)));
    /// # Ok::<(), atomseq::nonblocking::Refused>(())
    /// ```
    ///
    /// # Panics
    ///
    /// As for [`new`](List::new).
    #[track_caller]
    pub fn unordered() -> List<K, V, Unordered> {
        List::made(VersionedWords::new(), None).or_panic()
    }

    /// Creates an empty unordered list of up to `entries` entries: see
    /// [`try_with_limit`](List::try_with_limit).
    ///
    /// # Errors
    ///
    /// As for [`try_with_limit`](List::try_with_limit).
    pub fn try_unordered_with_limit(
        entries: usize,
    ) -> Result<List<K, V, Unordered>, type_stable::Error> {
        List::made(VersionedWords::new(), Some(entries))
    }

    /// Creates a list that uses this mechanism whatever the process has chosen, for tests and
    /// comparisons.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn unordered_forced(mechanism: Mechanism) -> List<K, V, Unordered> {
        List::made(VersionedWords::with_mechanism(mechanism), None).or_panic()
    }
}

impl<K: Plain, V: Plain, A: Arrangement<K>> List<K, V, A> {
    pub(super) fn made(
        versioned: VersionedWords,
        limit: Option<usize>,
    ) -> Result<List<K, V, A>, type_stable::Error> {
        Ok(List {
            chain: Chain::new(versioned, limit)?,
            arrangement: PhantomData,
        })
    }

    /// Creates an empty list of the same kind that shares this one's memory and limit, for example
    /// for the buckets of a hash table. It has a version of its own.
    ///
    /// # Panics
    ///
    /// If there is no memory for it.
    #[track_caller]
    pub fn sibling(&self) -> List<K, V, A> {
        let chain = self.chain.sibling();
        List {
            chain: chain.or_panic(),
            arrangement: PhantomData,
        }
    }

    /// Returns the number of modifications plus 1 (GC96, section 5.3). A new list is at version 1.
    /// Interrupted attempts may count too, as for
    /// [`Domain::version`](crate::dcas::Domain::version).
    pub fn version(&self) -> Version {
        self.chain.versioned.version()
    }

    /// Returns the mechanism that this list uses.
    pub fn mechanism(&self) -> Mechanism {
        self.chain.versioned.mechanism()
    }

    /// Returns the maximum number of entries, in this list and those that share its memory.
    pub fn limit(&self) -> usize {
        self.chain.limit()
    }

    /// Returns the value of a key, or `None` if the key is not in the list. No atomic instruction.
    ///
    /// # Errors
    ///
    /// [`CheckedOut`]: the entry is checked out.
    #[inline]
    pub fn get(&self, key: &K) -> Result<Option<V>, CheckedOut> {
        self.get_from(key, VersionedWords::begin)
    }

    /// Does the same, with `gap` right after each read of the version: see
    /// [`try_insert_between`](List::try_insert_between).
    #[cfg(any(test, feature = "unstable-internals"))]
    #[inline]
    pub fn get_between(
        &self,
        key: &K,
        gap: impl FnMut(Version) -> Version,
    ) -> Result<Option<V>, CheckedOut> {
        self.get_from(key, nodes::begin_with(gap))
    }

    #[inline]
    fn get_from(
        &self,
        key: &K,
        mut begin: impl FnMut(&VersionedWords) -> Version,
    ) -> Result<Option<V>, CheckedOut> {
        until_unchanged(|| {
            let version = begin(&self.chain.versioned);
            let found = match self.place(version, key)?.node {
                None => Ok(None),
                Some(node) => self.checked_in(node).map(|()| Some(node.value.load())),
            };
            self.chain.check(version)?;
            Ok(found)
        })
    }

    /// Returns whether the key is in the list. Entries that are checked out count.
    pub fn contains(&self, key: &K) -> bool {
        !matches!(self.get(key), Ok(None))
    }

    /// Removes the entry of a key and returns its value, or `None` if the key is not in the list.
    /// One atomic instruction under OS-assisted DCAS.
    ///
    /// # Errors
    ///
    /// [`CheckedOut`]: the entry is checked out, and was not removed.
    #[inline]
    pub fn remove(&self, key: &K) -> Result<Option<V>, CheckedOut> {
        self.remove_from(key, VersionedWords::begin)
    }

    /// Does the same, with `gap` right after each read of the version: see
    /// [`try_insert_between`](List::try_insert_between).
    #[cfg(any(test, feature = "unstable-internals"))]
    #[inline]
    pub fn remove_between(
        &self,
        key: &K,
        gap: impl FnMut(Version) -> Version,
    ) -> Result<Option<V>, CheckedOut> {
        self.remove_from(key, nodes::begin_with(gap))
    }

    #[inline]
    fn remove_from(
        &self,
        key: &K,
        mut begin: impl FnMut(&VersionedWords) -> Version,
    ) -> Result<Option<V>, CheckedOut> {
        until_unchanged(|| {
            let version = begin(&self.chain.versioned);
            let place = self.place(version, key)?;
            let Some(node) = place.node else {
                self.chain.check(version)?;
                return Ok(Ok(None));
            };
            if let Err(checked_out) = self.checked_in(node) {
                self.chain.check(version)?;
                return Ok(Err(checked_out));
            }
            let value = self.unlink(version, place.link, node)?.1;
            Ok(Ok(Some(value)))
        })
    }

    /// Removes the first entry that is not checked out, and returns it.
    pub fn pop_first(&self) -> Option<(K, V)> {
        self.pop_first_from(VersionedWords::begin)
    }

    /// Does the same, with `gap` right after each read of the version: see
    /// [`try_insert_between`](List::try_insert_between).
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn pop_first_between(&self, gap: impl FnMut(Version) -> Version) -> Option<(K, V)> {
        self.pop_first_from(nodes::begin_with(gap))
    }

    fn pop_first_from(&self, mut begin: impl FnMut(&VersionedWords) -> Version) -> Option<(K, V)> {
        until_unchanged(|| {
            let version = begin(&self.chain.versioned);
            let place = self.chain.seek(version, self.chain.head(), |node| {
                self.chain.load(&node.changer) == 0
            })?;
            match place.node {
                Some(node) => self.unlink(version, place.link, node).map(Some),
                None => self.chain.check(version).map(|()| None),
            }
        })
    }

    /// Returns where the key is, or where it would be inserted.
    #[inline]
    fn place(&self, version: Version, key: &K) -> Result<Position<'_, Node<K, V>>, Changed> {
        self.place_of(version, key, |_| true)
    }

    /// Returns where the first entry of the key is that satisfies `counts`, or where the key would
    /// be inserted.
    #[inline]
    fn place_of<'a>(
        &'a self,
        version: Version,
        key: &K,
        counts: impl Fn(&'a Node<K, V>) -> bool,
    ) -> Result<Position<'a, Node<K, V>>, Changed> {
        let mut is_there = false;
        let head = self.chain.head();
        let mut place = self.chain.seek(version, head, |node| {
            let found = A::compare(&node.key.load(), key);
            is_there = found.is_there() && counts(node);
            is_there || found == Found::ItsPlace
        })?;
        if !is_there {
            place.node = None;
            if A::NEW_ONES_FIRST {
                place.link = head;
            }
        }
        Ok(place)
    }

    /// Unlinks a node that is not checked out, frees it, and returns its entry.
    #[inline]
    fn unlink(
        &self,
        version: Version,
        link: &StableWord,
        node: &Node<K, V>,
    ) -> Result<(K, V), Changed> {
        let behind = self.chain.load(&node.next);
        let entry = (node.key.load(), node.value.load());
        self.chain.claim(node);
        self.chain.compare_exchange(version, (link, behind))?;
        // SAFETY: this call alone has just unlinked the node, so it owns it.
        unsafe { self.chain.free(node) };
        Ok(entry)
    }

    /// Returns an error if the node is checked out.
    #[inline(always)]
    fn checked_in(&self, node: &Node<K, V>) -> Result<(), CheckedOut> {
        match self.chain.load(&node.changer) {
            0 => Ok(()),
            changer => Err(CheckedOut::by(changer)),
        }
    }
}

impl<K: Plain, V: Plain, A> Drop for List<K, V, A> {
    fn drop(&mut self) {
        self.chain.clear(|chain, node| {
            // Its holder has exited. If a list that shares the memory reused the node, its entry
            // would be checked out, with no holder to check it in.
            if chain.load(&node.changer) != 0 {
                until_unchanged(|| {
                    chain.compare_exchange(chain.versioned.begin(), (&node.changer, 0))
                });
            }
        });
    }
}

impl<K: Plain + Ord, V: Plain> Default for List<K, V, Ascending> {
    fn default() -> Self {
        List::new()
    }
}

impl<K, V, A> fmt::Debug for List<K, V, A>
where
    K: Plain + fmt::Debug,
    V: Plain + fmt::Debug,
    A: Arrangement<K>,
{
    /// Shows the entries as of one time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.snapshot()).finish()
    }
}
