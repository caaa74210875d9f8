//! An intrusive stack per CPU. The nodes belong to the user and contain the link.
//!
//! ```text
//! slot:   gate | first ──> link ──> link ──> 0        a list holds addresses of links;
//!                          node     node              a node is found at link - N::LINK
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;

use super::area::{Area, WORDS};
use super::error::Error;
use super::gate::GateGuard;
use super::remote::{self, Drain, Raw, Take};
use crate::drops;
use crate::or_panic::OrPanic;
use crate::word::Invariant;

const FIRST: usize = WORDS;

crate::sequence! {
    /// Pushes a link. Until the commit, no other thread or handler reads what it stores in the
    /// link.
    unsafe fn push(slot: Slot, link: Word) {
        let first = load(slot + FIRST);
        prepare(link, first);
        commit(slot + FIRST, link);
    }

    /// Pops the first link.
    unsafe fn pop(slot: Slot) -> Option<Word> {
        let first = load(slot + FIRST);
        if first == 0 { return None }
        let next = load(first);
        commit(slot + FIRST, next);
        Some(first)
    }
}

/// The sequences of this file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[&push::MODEL, &pop::MODEL];

/// The word in a node that links it into a [`List`]. A node needs one for each list that it may be
/// in at the same time.
#[derive(Default)]
pub struct Link(
    #[expect(dead_code, reason = "sequences read and write it by its address")] AtomicUsize,
);

impl Link {
    /// Creates the link of a node that is in no list.
    pub const fn new() -> Link {
        Link(AtomicUsize::new(0))
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}

/// A type whose values can be nodes of a [`List`].
///
/// # Safety
///
/// [`LINK`](Node::LINK) is the byte offset of a field of type [`Link`], computed with
/// [`offset_of!`](std::mem::offset_of). The field is aligned: neither the node nor what it lies in
/// is `repr(packed)`.
pub unsafe trait Node: Sized {
    /// The byte offset of the link in the node.
    const LINK: usize;
}

/// A pointer with exclusive ownership of its node, which a [`List`] can hold as a bare address.
///
/// # Safety
///
/// Between `into_node` and `from_node`, no other code accesses the node. `from_node(into_node(p))`
/// returns `p`.
pub unsafe trait Owner: Sized {
    /// The type of the node.
    type Node: Node;

    /// Converts the pointer to the address of its node, without dropping it.
    fn into_node(self) -> NonNull<Self::Node>;

    /// Converts the address of a node back to the pointer.
    ///
    /// # Safety
    ///
    /// `into_node` of this type returned the address, and each returned address is converted back
    /// once.
    unsafe fn from_node(node: NonNull<Self::Node>) -> Self;
}

// SAFETY: a box owns its node exclusively, and a leaked box is reached by no other code.
unsafe impl<N: Node> Owner for Box<N> {
    type Node = N;

    fn into_node(self) -> NonNull<N> {
        NonNull::from(Box::leak(self))
    }

    unsafe fn from_node(node: NonNull<N>) -> Box<N> {
        // SAFETY: the caller guarantees that `into_node` leaked this box and that it is converted
        // back once.
        unsafe { Box::from_raw(node.as_ptr()) }
    }
}

// SAFETY: an exclusive reference with lifetime `'static` is the only way to its node.
unsafe impl<N: Node> Owner for &'static mut N {
    type Node = N;

    fn into_node(self) -> NonNull<N> {
        NonNull::from(self)
    }

    unsafe fn from_node(mut node: NonNull<N>) -> &'static mut N {
        // SAFETY: the caller guarantees that `into_node` returned this address, of an exclusive
        // reference, and that it is converted back once.
        unsafe { node.as_mut() }
    }
}

/// A node by its address, for callers that track ownership themselves, such as an allocator.
#[derive(Debug, PartialEq, Eq)]
pub struct RawNode<N>(NonNull<N>);

impl<N: Node> RawNode<N> {
    /// Wraps the address of a node.
    ///
    /// # Safety
    ///
    /// No other code accesses the node from now until a list has returned it, and its memory stays
    /// valid until then.
    pub unsafe fn new(node: NonNull<N>) -> RawNode<N> {
        RawNode(node)
    }

    /// Returns the node's address.
    pub fn into_inner(self) -> NonNull<N> {
        self.0
    }
}

// SAFETY: `new` requires that no other code accesses the node, so it may change threads if `N` may.
unsafe impl<N: Send> Send for RawNode<N> {}

// SAFETY: `new` requires that no other code accesses the node, and the address converts back to
// itself.
unsafe impl<N: Node> Owner for RawNode<N> {
    type Node = N;

    fn into_node(self) -> NonNull<N> {
        self.0
    }

    unsafe fn from_node(node: NonNull<N>) -> RawNode<N> {
        RawNode(node)
    }
}

/// An unbounded last-in-first-out list of the user's own nodes, with one part per CPU.
///
/// Scope `SameCpu`. [`push`](List::push) and [`pop`](List::pop) cost no atomic instruction on the
/// fast path, and block only while another thread holds this CPU's gate or [forks](super#progress).
/// No operation allocates. Every operation may be called in a signal handler. Elements are ordered
/// per CPU only. A list takes one slot (128 bytes) per CPU and one word in each node. See [the
/// module](super) for what all per-CPU structures share.
///
/// ```
/// use atomseq::percpu::{Link, List, Node};
///
/// struct Buffer {
///     link: Link,
///     bytes: [u8; 56],
/// }
///
/// // SAFETY: the offset of the link.
/// unsafe impl Node for Buffer {
///     const LINK: usize = std::mem::offset_of!(Buffer, link);
/// }
///
/// let free: List<Box<Buffer>> = List::new();
/// free.push(Box::new(Buffer { link: Link::new(), bytes: [7; 56] }));
/// let buffer = free.pop().or_else(|| free.steal()).unwrap();
/// assert_eq!(buffer.bytes[0], 7);
/// ```
pub struct List<P: Owner> {
    area: Area,
    nodes: Invariant<P>,
}

// SAFETY: a list owns its nodes and returns each to one caller, by value. `P: Send` lets them
// change threads.
unsafe impl<P: Owner + Send> Send for List<P> {}
// SAFETY: shared access moves nodes by value only, which `P: Send` permits. Sequences and gates
// make concurrent operations on a slot atomic.
unsafe impl<P: Owner + Send> Sync for List<P> {}

impl<P: Owner> List<P> {
    /// Creates an empty list.
    ///
    /// # Panics
    ///
    /// If [`try_new`](List::try_new) fails.
    #[track_caller]
    pub fn new() -> List<P> {
        List::try_new().or_panic()
    }

    /// Creates an empty list.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if the operating system refuses the memory, [`Error::StartingUp`]
    /// during start-up.
    pub fn try_new() -> Result<List<P>, Error> {
        Ok(List {
            area: Area::try_new(0)?,
            nodes: PhantomData,
        })
    }

    /// Returns the number of CPUs that have a part.
    pub fn cpus(&self) -> usize {
        self.area.cpus()
    }

    /// Returns whether every CPU's part is empty. Reads one part after the other, so it may miss a
    /// node that changes CPU during the call. The result may be out of date when the call returns.
    pub fn is_empty(&self) -> bool {
        (0..self.cpus()).all(|cpu| self.is_empty_on(cpu))
    }

    /// Returns whether a CPU's part is empty. The result may be out of date when the call returns.
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    #[track_caller]
    pub fn is_empty_on(&self, cpu: usize) -> bool {
        self.area.peek(cpu, FIRST) == 0
    }

    /// Pushes a node onto this CPU's list.
    #[inline]
    pub fn push(&self, node: P) {
        let link = link_of(node.into_node());
        // SAFETY: `into_node` gave up the node, so no other code accesses its link before the
        // commit.
        if unsafe { push::on_cpu(self.area.slots(), link) }.is_err() {
            self.push_slowly(link);
        }
    }

    #[cold]
    fn push_slowly(&self, link: usize) {
        // Touches the node before the gate is closed. Under the gate all signals are blocked, and a
        // fault in the node's memory would end the process; here its handler runs.
        // SAFETY: `into_node` gave up the node, so no other code accesses its link.
        unsafe { crate::generated::gated::store(link, 0) };
        // SAFETY: `into_node` gave up the node, so no other code accesses its link before the
        // commit. `held` closes this slot.
        self.area
            .on_slow_path(move |held| unsafe { push::gated(held, link) });
    }

    /// Pops the node pushed last on this CPU.
    #[inline]
    pub fn pop(&self) -> Option<P> {
        // SAFETY: the links in the list belong to nodes that `push` was given and that no caller
        // has got back.
        let link = match unsafe { pop::on_cpu(self.area.slots()) } {
            Ok(link) => link,
            Err(_) => self.pop_slowly(),
        }?;
        // SAFETY: `push` got the node from `into_node`, and the sequence has just removed it from
        // the list.
        Some(unsafe { P::from_node(node_of(link)) })
    }

    #[cold]
    fn pop_slowly(&self) -> Option<usize> {
        // SAFETY: the links in the list belong to nodes that `push` was given and that no caller
        // has got back. `held` closes this slot.
        self.area.on_slow_path(|held| unsafe { pop::gated(held) })
    }

    /// Pops the node pushed last on a CPU, under its gate.
    ///
    /// Costs one load if the part seems empty, and otherwise as much as [`Area::close_gate`].
    /// Blocks while another thread holds that gate.
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    #[track_caller]
    pub fn steal_from(&self, cpu: usize) -> Option<P>
    where
        P: Send,
    {
        remote::steal_from(self, cpu)
    }

    /// Pops a node from any CPU with [`steal_from`](List::steal_from). Tries the following CPU
    /// numbers first and the current CPU last. Like [`is_empty`](List::is_empty), it may miss a
    /// node that changes CPU during the call.
    pub fn steal(&self) -> Option<P>
    where
        P: Send,
    {
        remote::steal(self)
    }

    /// Returns an iterator that removes every node, CPU by CPU, the one pushed last first. It
    /// closes a gate for up to sixteen nodes at a time, at the cost of [`Area::close_gate`].
    ///
    /// A list does not know its length: the iterator leaves a CPU when it finds no node there. It
    /// does not end while another thread pushes as fast as it removes.
    pub fn drain(&self) -> Drain<'_, P>
    where
        P: Send,
    {
        Drain::new(self)
    }
}

fn link_of<N: Node>(node: NonNull<N>) -> usize {
    node.as_ptr().expose_provenance() + N::LINK
}

fn node_of<N: Node>(link: usize) -> NonNull<N> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(link - N::LINK))
        .expect("no node lies at address zero")
}

impl<P: Owner + Send> Take<P> for List<P> {
    fn area(&self) -> &Area {
        &self.area
    }

    fn take(&self, held: &GateGuard<'_>) -> Option<Raw<P>> {
        // SAFETY: the links in the list belong to nodes that `push` was given and that no caller
        // has got back. `held` closes this slot.
        let word = unsafe { pop::gated(held) }?;
        Some(Raw { word })
    }

    unsafe fn element(&self, raw: Raw<P>) -> P {
        // SAFETY: the caller guarantees that `take` returned `raw`, once. Its word is the link of a
        // node that `push` got from `into_node` and that has left the list.
        unsafe { P::from_node(node_of(raw.word)) }
    }

    fn seems_occupied(&self, cpu: usize) -> bool {
        !self.is_empty_on(cpu)
    }

    fn count(&self, _held: &GateGuard<'_>) -> usize {
        // Counting would walk all links while signals are blocked.
        usize::MAX
    }
}

impl<P: Owner> Drop for List<P> {
    fn drop(&mut self) {
        let next = |link: &usize| {
            // SAFETY: the links in the list belong to nodes that `push` was given, and `&mut self`
            // excludes other threads. `successors` reads the next link before it returns this one,
            // so the node is still there.
            let next = unsafe { crate::generated::gated::load(*link) };
            (next != 0).then_some(next)
        };
        let mut links = (0..self.area.cpus()).flat_map(|cpu| {
            let first = self.area.peek(cpu, FIRST);
            std::iter::successors((first != 0).then_some(first), next)
        });
        drops::each(|| {
            // SAFETY: `push` got the node from `into_node`, `&mut self` excludes other threads, and
            // the walk reaches each node once.
            let owner = links
                .next()
                .map(|link| unsafe { P::from_node(node_of(link)) });
            owner.is_some()
        });
    }
}

impl<P: Owner> Default for List<P> {
    fn default() -> List<P> {
        List::new()
    }
}

impl<P: Owner> fmt::Debug for List<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List")
            .field("is_empty", &self.is_empty())
            .finish()
    }
}

#[cfg(test)]
mod tests;
