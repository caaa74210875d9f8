//! A list that is searched by plain loads and changed by one exchange (GC96 figure 2).
//!
//! ```text
//! find     begin: version; walk; still that version
//! insert   begin; walk to the place; { link = node, node.next = what the link held } if still that version
//! delete   begin; walk to the node;  { link = node.next }                            if still that version
//! replace  begin; walk to the node;  { link = duplicate, duplicate.next = node.next } if still that version
//! remove for change    { node.changer = this thread };  the owner changes it;  { node.changer = 0 }
//! ```
//!
//! Why it holds:
//!
//! 1. Links change only by exchanges, each of which changes the version, and no version comes back.
//!    So a walk after which the version is still the first saw one state of the list; and an
//!    exchange since the version finds that state.
//! 2. A node's key changes only while nobody but its owner has it: before it is linked, after it
//!    was unlinked. Its value changes also while `changer` says so. Either begins with an exchange,
//!    or with an allocation of what an exchange had unlinked, and a release fence; so who has read
//!    a part of what came later finds another version.
//! 3. A node that somebody has unlinked is theirs alone: no other exchange since that version
//!    succeeds, and later walks that count do not reach it. So it is freed once. One whose
//!    `changer` is set is its changer's: who unlinks that one ([`List::forget_checkout`]) leaves
//!    GIVEN_UP there and does not free it.
//! 4. The new node's link is set by the same exchange that links it, for under k-CAS nothing else
//!    may change a covered word, and a free node's link is one.

use std::fmt;
use std::marker::PhantomData;

use super::nodes::{self, Chain, Changed, Position, until_unchanged};
use super::plain::{Plain, Words};
use crate::dcas::{Mechanism, StableWord, Version, VersionedWords};
use crate::type_stable::{self, Descriptor};

mod arrangement;
mod checkout;
mod error;
mod iteration;
mod put;

use arrangement::sealed::Found;
pub use arrangement::{Arrangement, Ascending, Unordered};
pub use checkout::{Checkout, GivenUp};
pub use error::{CheckedOut, Refused};
pub use iteration::{IntoIter, Iter};

/// `changer` of a node that was unlinked while somebody had removed it for change.
const GIVEN_UP: u64 = 1;

/// A node.
#[repr(C)]
pub(super) struct Node<K, V> {
    next: StableWord,
    /// Who has removed it for change: 0, GIVEN_UP, or a thread.
    changer: StableWord,
    pub(super) key: Words<K>,
    pub(super) value: Words<V>,
}

// SAFETY: zeros are an instance, and may appear at any time: words that nobody has to drop, read as
// atomics.
unsafe impl<K: Plain, V: Plain> Descriptor for Node<K, V> {}

impl<K: Plain, V: Plain> nodes::Node for Node<K, V> {
    #[inline(always)]
    fn next(&self) -> &StableWord {
        &self.next
    }
}

/// A list of keys and values that all threads may search and change at the same time, on which none
/// that is preempted, ended or interrupted keeps the others waiting (GC96 figure 2 and 5.1).
///
/// [`new`](List::new) makes one in the order of its keys, of which each is there once;
/// [`unordered`](List::unordered) one in which the newest comes first. Keys and values are
/// [`Plain`]: they are copied in and out, word by word.
///
/// Scope `Machine`; progress as the [mechanism](crate::dcas)'s: lock-free with k-CAS,
/// obstruction-free with OS-assisted DCAS; each operation begins again if another one has changed
/// the list meanwhile, wherever. Searches take time in proportion to the nodes before the place,
/// and no atomic instruction; a change takes one exchange of two words (1 atomic instruction
/// OS-assisted, up to 6 by k-CAS). Memory is a node an entry, whose memory is used again at once:
/// nothing waits for readers. What is allocated is never given back before the list is dropped; a
/// [limit](List::try_with_limit) bounds it.
///
/// Closures and the comparison of keys (`Ord` or `PartialEq`) run while nothing is held. If one
/// panics, the operation panics, and has changed nothing. A comparison may be asked about bits that
/// nobody stored ([`Plain`]): one that panics for some bits makes operations panic though no key
/// has them. Comparisons, and [`fold`](List::fold)'s closure, are repeated whenever the list has
/// changed since the operation began, so an operation whose comparison changes the same list never
/// returns.
///
/// Every operation may be called in a signal handler that interrupted any other one, but for those
/// that return a `Vec`, allocate for the caller, or panic. See [`check_out`](List::check_out) for
/// the one rule (GC96 5.1).
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
    /// An empty list in the order of its keys, without a limit.
    ///
    /// # Panics
    ///
    /// If there is no memory, or keys and values are so large that no page holds them.
    pub fn new() -> List<K, V> {
        List::made(VersionedWords::new(), None).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same, of up to so many entries, and those that are on their way in: see
    /// [`Pool::limit`](type_stable::Options::limit).
    ///
    /// # Errors
    ///
    /// [`type_stable::Error::Zero`], [`TooLarge`](type_stable::Error::TooLarge),
    /// [`OutOfMemory`](type_stable::Error::OutOfMemory).
    pub fn try_with_limit(entries: usize) -> Result<List<K, V>, type_stable::Error> {
        List::made(VersionedWords::new(), Some(entries))
    }

    /// By this mechanism whatever was chosen, to test and to compare.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(mechanism: Mechanism) -> List<K, V> {
        List::made(VersionedWords::with_mechanism(mechanism), None)
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

impl<K: Plain + PartialEq, V: Plain> List<K, V, Unordered> {
    /// An empty list in which the newest entry comes first, without a limit. A key may be there
    /// several times; then the newest is found, and what looks for the key goes by that one alone,
    /// also while it is [removed for change](List::check_out).
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
    pub fn unordered() -> List<K, V, Unordered> {
        List::made(VersionedWords::new(), None).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same, of up to so many entries: see [`try_with_limit`](List::try_with_limit).
    ///
    /// # Errors
    ///
    /// As for [`try_with_limit`](List::try_with_limit).
    pub fn try_unordered_with_limit(
        entries: usize,
    ) -> Result<List<K, V, Unordered>, type_stable::Error> {
        List::made(VersionedWords::new(), Some(entries))
    }

    /// By this mechanism whatever was chosen, to test and to compare.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn unordered_forced(mechanism: Mechanism) -> List<K, V, Unordered> {
        List::made(VersionedWords::with_mechanism(mechanism), None)
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

impl<K: Plain, V: Plain, A: Arrangement<K>> List<K, V, A> {
    pub(super) fn made(
        object: VersionedWords,
        limit: Option<usize>,
    ) -> Result<List<K, V, A>, type_stable::Error> {
        Ok(List {
            chain: Chain::new(object, limit)?,
            arrangement: PhantomData,
        })
    }

    /// An empty list of the same kind that shares this one's memory, and so its limit: for the
    /// buckets of a hash table, say. It has a version of its own.
    ///
    /// # Panics
    ///
    /// If there is no memory for it.
    pub fn sibling(&self) -> List<K, V, A> {
        let chain = self.chain.sibling();
        List {
            chain: chain.unwrap_or_else(|error| panic!("{error}")),
            arrangement: PhantomData,
        }
    }

    /// One more than the changes that there were, a useful and sometimes necessary statistic (GC96
    /// 5.3): a new list is at version 1. Interrupted attempts may count as well, as for
    /// [`Domain::version`](crate::dcas::Domain::version).
    pub fn version(&self) -> Version {
        self.chain.object.version()
    }

    /// Which mechanism it uses.
    pub fn mechanism(&self) -> Mechanism {
        self.chain.object.mechanism()
    }

    /// How many entries there can be, in this list and those that share its memory.
    pub fn limit(&self) -> usize {
        self.chain.limit()
    }

    /// The value of a key.
    ///
    /// # Errors
    ///
    /// [`CheckedOut`]: somebody has removed it for change.
    #[inline]
    pub fn get(&self, key: &K) -> Result<Option<V>, CheckedOut> {
        self.get_from(key, VersionedWords::begin)
    }

    /// The same with `gap` after its first look: see
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
            let version = begin(&self.chain.object);
            let found = match self.place(version, key)?.node {
                None => Ok(None),
                Some(node) => self.checked_in(node).map(|()| Some(node.value.load())),
            };
            self.chain.check(version)?;
            Ok(found)
        })
    }

    /// Is the key there? It is also while somebody has removed it for change.
    pub fn contains(&self, key: &K) -> bool {
        !matches!(self.get(key), Ok(None))
    }

    /// Takes a key's entry out and returns its value.
    ///
    /// # Errors
    ///
    /// [`CheckedOut`]: somebody has removed it for change.
    #[inline]
    pub fn remove(&self, key: &K) -> Result<Option<V>, CheckedOut> {
        self.remove_from(key, VersionedWords::begin)
    }

    /// The same with `gap` after its first look: see
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
            let version = begin(&self.chain.object);
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

    /// Takes out the first entry that nobody has removed for change.
    pub fn pop_first(&self) -> Option<(K, V)> {
        self.pop_first_from(VersionedWords::begin)
    }

    /// The same with `gap` after its first look: see
    /// [`try_insert_between`](List::try_insert_between).
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn pop_first_between(&self, gap: impl FnMut(Version) -> Version) -> Option<(K, V)> {
        self.pop_first_from(nodes::begin_with(gap))
    }

    fn pop_first_from(&self, mut begin: impl FnMut(&VersionedWords) -> Version) -> Option<(K, V)> {
        until_unchanged(|| {
            let version = begin(&self.chain.object);
            let place = self.chain.seek(version, &self.chain.head, |node| {
                self.chain.load(&node.changer) == 0
            })?;
            match place.node {
                Some(node) => self.unlink(version, place.link, node).map(Some),
                None => self.chain.check(version).map(|()| None),
            }
        })
    }

    /// Where the key is, or would be.
    #[inline]
    fn place(&self, version: Version, key: &K) -> Result<Position<'_, Node<K, V>>, Changed> {
        self.place_of(version, key, |_| true)
    }

    /// Where the first entry of the key is that `counts`, or where the key would be.
    #[inline]
    fn place_of<'a>(
        &'a self,
        version: Version,
        key: &K,
        counts: impl Fn(&'a Node<K, V>) -> bool,
    ) -> Result<Position<'a, Node<K, V>>, Changed> {
        let mut is_there = false;
        let head = &self.chain.head;
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

    /// Unlinks a node that nobody has removed for change.
    #[inline]
    fn unlink(
        &self,
        version: Version,
        link: &StableWord,
        node: &Node<K, V>,
    ) -> Result<(K, V), Changed> {
        let behind = self.chain.load(&node.next);
        let entry = (node.key.load(), node.value.load());
        self.chain.compare_exchange(version, (link, behind))?;
        // SAFETY: this call has just unlinked it.
        unsafe { self.chain.free(node) };
        Ok(entry)
    }

    /// Has nobody removed it for change?
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
            // Of a holder that has ended. In a sibling, nobody would be changing it.
            if chain.load(&node.changer) != 0 {
                until_unchanged(|| {
                    chain.compare_exchange(chain.object.begin(), (&node.changer, 0))
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
    /// What was in it at one time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.snapshot()).finish()
    }
}
