//! An intrusive stack a CPU: the nodes are the user's, and carry the link themselves.
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
use crate::word::Invariant;

const FIRST: usize = WORDS;

crate::sequence! {
    /// Puts a link first; nobody sees what it points to before.
    unsafe fn push(slot: Slot, link: Word) {
        let first = load(slot + FIRST);
        prepare(link, first);
        commit(slot + FIRST, link);
    }

    /// Takes the first link.
    unsafe fn pop(slot: Slot) -> Option<Word> {
        let first = load(slot + FIRST);
        if first == 0 { return None }
        let next = load(first);
        commit(slot + FIRST, next);
        Some(first)
    }
}

/// For the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[&push::MODEL, &pop::MODEL];

/// The word in a node through which a [`List`] strings it; a node needs one for each list it may be
/// in at the same time.
#[derive(Default)]
pub struct Link(
    #[expect(dead_code, reason = "sequences read and write it by its address")] AtomicUsize,
);

impl Link {
    /// A link of a node that is in no list.
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
/// [`LINK`](Node::LINK) is the byte offset of a field of type [`Link`], made with
/// [`offset_of!`](std::mem::offset_of).
pub unsafe trait Node: Sized {
    /// Where the link lies in the node.
    const LINK: usize;
}

/// A pointer that owns its node alone, so that the node can be in a list without an owner.
///
/// # Safety
///
/// While the pointer is given up, nobody else reaches the node; `from_node(into_node(p))` gives the
/// pointer back.
pub unsafe trait Owner: Sized {
    /// What it owns.
    type Node: Node;

    /// Gives the node up.
    fn into_node(self) -> NonNull<Self::Node>;

    /// Takes the node back.
    ///
    /// # Safety
    ///
    /// The node was given up by `into_node` of this type, and is taken back once.
    unsafe fn from_node(node: NonNull<Self::Node>) -> Self;
}

// SAFETY: a box owns its node alone.
unsafe impl<N: Node> Owner for Box<N> {
    type Node = N;

    fn into_node(self) -> NonNull<N> {
        NonNull::from(Box::leak(self))
    }

    unsafe fn from_node(node: NonNull<N>) -> Box<N> {
        // SAFETY: the caller's promise: the node was a box.
        unsafe { Box::from_raw(node.as_ptr()) }
    }
}

// SAFETY: an exclusive reference that lives for ever is the only way to its node.
unsafe impl<N: Node> Owner for &'static mut N {
    type Node = N;

    fn into_node(self) -> NonNull<N> {
        NonNull::from(self)
    }

    unsafe fn from_node(mut node: NonNull<N>) -> &'static mut N {
        // SAFETY: the caller's promise: the node was an exclusive reference.
        unsafe { node.as_mut() }
    }
}

/// A node by address, for those who keep track of ownership themselves: in an allocator, say.
#[derive(Debug, PartialEq, Eq)]
pub struct RawNode<N>(NonNull<N>);

impl<N: Node> RawNode<N> {
    /// A node that may go into a list.
    ///
    /// # Safety
    ///
    /// Nobody else uses the node until it is out of the list again, and its memory lives as long.
    pub unsafe fn new(node: NonNull<N>) -> RawNode<N> {
        RawNode(node)
    }

    /// The node's address.
    pub fn into_inner(self) -> NonNull<N> {
        self.0
    }
}

// SAFETY: whoever made the raw node vouched for it.
unsafe impl<N: Send> Send for RawNode<N> {}

// SAFETY: whoever made the raw node vouched for it.
unsafe impl<N: Node> Owner for RawNode<N> {
    type Node = N;

    fn into_node(self) -> NonNull<N> {
        self.0
    }

    unsafe fn from_node(node: NonNull<N>) -> RawNode<N> {
        RawNode(node)
    }
}

/// An unbounded last-in-first-out list with a part a CPU, of nodes the user owns.
///
/// Scope `SameCpu`; [`push`](List::push) and [`pop`](List::pop) cost no atomic instruction and wait
/// only while another thread holds this CPU's gate. No operation ever allocates; every one may be
/// used in signal handlers. Order holds on each CPU alone. Takes a slot a CPU, and one word in each
/// node; [the module](super) tells the rest.
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

// SAFETY: nodes move between threads with their owners, never by reference.
unsafe impl<P: Owner + Send> Send for List<P> {}
// SAFETY: as above; the sequences and the gates make concurrent use atomic.
unsafe impl<P: Owner + Send> Sync for List<P> {}

impl<P: Owner> List<P> {
    /// An empty list.
    ///
    /// # Panics
    ///
    /// If [`try_new`](List::try_new) fails.
    pub fn new() -> List<P> {
        List::try_new().unwrap_or_else(|error| panic!("{error}"))
    }

    /// An empty list, or why there is none.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    pub fn try_new() -> Result<List<P>, Error> {
        Ok(List {
            area: Area::try_new(0)?,
            nodes: PhantomData,
        })
    }

    /// How many CPUs have a part.
    pub fn cpus(&self) -> usize {
        self.area.cpus()
    }

    /// Is there no node on any CPU? Looks at one after the other, so it may miss a node that goes
    /// from CPU to CPU meanwhile. Already history when it returns.
    pub fn is_empty(&self) -> bool {
        (0..self.cpus()).all(|cpu| self.is_empty_on(cpu))
    }

    /// Is there no node on a CPU? Already history when it returns.
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    pub fn is_empty_on(&self, cpu: usize) -> bool {
        self.area.peek(cpu, 0) == 0
    }

    /// Puts a node on this CPU's list.
    #[inline]
    pub fn push(&self, node: P) {
        let link = link_of(node.into_node());
        // SAFETY: the node was given up, so nobody else sees its link.
        if unsafe { push::on_cpu(self.area.slots(), link) }.is_err() {
            self.push_slowly(link);
        }
    }

    #[cold]
    fn push_slowly(&self, link: usize) {
        // Under the gate every signal is blocked, and a fault in the node's memory would end the
        // process. Here its handler runs. SAFETY: the node was given up, so nobody else uses its
        // link.
        unsafe { crate::generated::gated::store(link, 0) };
        // SAFETY: as in `push`.
        self.area
            .on_slow_path(|held| unsafe { push::gated(held, link) });
    }

    /// Takes the last node pushed on this CPU.
    #[inline]
    pub fn pop(&self) -> Option<P> {
        // SAFETY: the links in the list are of nodes given up to it.
        let link = match unsafe { pop::on_cpu(self.area.slots()) } {
            Ok(link) => link,
            Err(_) => self.pop_slowly(),
        }?;
        // SAFETY: `push` gave the node up, and it left the list just now.
        Some(unsafe { P::from_node(node_of(link)) })
    }

    #[cold]
    fn pop_slowly(&self) -> Option<usize> {
        // SAFETY: as in `pop`.
        self.area.on_slow_path(|held| unsafe { pop::gated(held) })
    }

    /// Takes the last node pushed on a CPU, through its gate.
    ///
    /// Costs one load if there seems to be none, else as much as [`Area::close_gate`]; waits while
    /// another thread holds that gate.
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    pub fn steal_from(&self, cpu: usize) -> Option<P>
    where
        P: Send,
    {
        remote::steal_from(self, cpu)
    }

    /// Takes a node from any CPU, the next ones first and this one last, by
    /// [`steal_from`](List::steal_from). Like [`is_empty`](List::is_empty), it may miss a node that
    /// goes from CPU to CPU meanwhile.
    pub fn steal(&self) -> Option<P>
    where
        P: Send,
    {
        remote::steal(self)
    }

    /// Takes every node out, CPU by CPU, the last pushed first: sixteen at a time, each time at the
    /// cost of [`Area::close_gate`].
    ///
    /// A list does not know how long it is: the iterator leaves a CPU when it has found nothing
    /// there. While another thread pushes as fast as this one takes, it does not end.
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
        // SAFETY: as in `pop`, and the gate is held.
        let word = unsafe { pop::gated(held) }?;
        Some(Raw { word })
    }

    unsafe fn element(&self, raw: Raw<P>) -> P {
        // SAFETY: the caller's promise: `take` wrote the link, of a node that was given up and has
        // left the list.
        unsafe { P::from_node(node_of(raw.word)) }
    }

    fn seems_occupied(&self, cpu: usize) -> bool {
        !self.is_empty_on(cpu)
    }

    fn count(&self, _held: &GateGuard<'_>) -> usize {
        // To count them would take a walk along all links, while signals are blocked.
        usize::MAX
    }
}

impl<P: Owner> Drop for List<P> {
    fn drop(&mut self) {
        let next = |link: &usize| {
            // SAFETY: the links in the list are of nodes given up to it; nobody else has the list
            // now. `successors` reads the next link before it returns this one, whose node then
            // goes.
            let next = unsafe { crate::generated::gated::load(*link) };
            (next != 0).then_some(next)
        };
        let mut links = (0..self.area.cpus()).flat_map(|cpu| {
            let first = self.area.peek(cpu, 0);
            std::iter::successors((first != 0).then_some(first), next)
        });
        drops::each(|| {
            // SAFETY: as above, and each node is reached once.
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
