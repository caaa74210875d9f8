//! The index of a priority queue: hints that let a search skip most of the list.
//!
//! One node in four is on level 0, one in four of these on level 1, and so on. Hints are stored
//! without any check, so a level may lose a node, or lead to one that has left the list:
//!
//! * when two threads store the same hint, or a thread is delayed or exits before it has stored its
//!   hints. The level then lacks nodes, up to all that follow a place. A search finds them on the
//!   level below, sees by their height that they belong to this one, and stores the hint.
//! * when a node leaves. The search replaces a hint to a node that is not in the list by that
//!   node's own hint, a few times; then it goes down.

use super::{Node, PriorityQueue, REMOVED};
use crate::dcas::Version;
use crate::nonblocking::nodes::address;
use crate::nonblocking::plain::Plain;
use crate::sync::{AtomicU64, Ordering};

/// The number of levels: enough for four to the power of it, a million entries, at two or three
/// steps a level. Beyond that, the highest level has more.
///
/// With it, a node of a priority and a value of 8 bytes each has 128 bytes.
pub(super) const LEVELS: usize = 10;

/// How many removed nodes in a row a search skips on one level.
const SKIPS: usize = 8;

/// Where the levels start. Relaxed throughout, here and for the hints of nodes: a hint proves
/// nothing, and what it leads to counts only at a version.
pub(super) struct Index {
    /// The number of levels in use.
    levels: AtomicU64,
    first: [AtomicU64; LEVELS],
}

/// The nodes that a search went by: the last one before the place in the list and on each level, or
/// `None` for the start.
pub(super) struct Route<'a, N> {
    pub(super) last: Option<&'a N>,
    above: [Option<&'a N>; LEVELS],
}

impl<N> Route<'_, N> {
    /// Returns the way to the front of the list.
    #[inline(always)]
    pub(super) fn to_the_front() -> Self {
        Route {
            last: None,
            above: [None; LEVELS],
        }
    }
}

impl Index {
    pub(super) fn new() -> Index {
        Index {
            levels: AtomicU64::new(0),
            first: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    fn levels(&self) -> usize {
        self.levels.load(Ordering::Relaxed) as usize
    }

    /// Chooses on how many levels the node is that is linked next: none for three in four, and so
    /// on. At most one more than the levels in use.
    #[inline]
    pub(super) fn height_of_next(&self, version: Version) -> usize {
        // Versions differ, and the finalizer of MurmurHash3 spreads them over all bits.
        let mut bits = version.number();
        for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
            bits = (bits ^ bits >> 33).wrapping_mul(factor);
        }
        let height = (bits >> 32 | 1 << 32).trailing_zeros() as usize / 2;
        height.min(self.levels() + 1).min(LEVELS)
    }
}

impl<P: Plain, T: Send> PriorityQueue<P, T> {
    /// Returns the hints that follow a node, or the start.
    #[inline(always)]
    fn hints<'a>(&'a self, from: Option<&'a Node<P, T>>) -> &'a [AtomicU64; LEVELS] {
        from.map_or(&self.index.first, |node| &node.above)
    }

    /// Returns the node that a hint leads to.
    #[inline(always)]
    fn hinted(&self, hint: &AtomicU64) -> Option<&Node<P, T>> {
        self.chain.node(hint.load(Ordering::Relaxed))
    }

    fn has_left(&self, node: &Node<P, T>) -> bool {
        self.chain.load(&node.next) == REMOVED
    }
}

impl<P: Plain + Ord, T: Send> PriorityQueue<P, T> {
    /// Stores hints everywhere, each of them the address of a node or 0, for tests.
    #[cfg(test)]
    pub(in crate::nonblocking) fn store_hints(&self, mut choose: impl FnMut(usize) -> u64) {
        let mut node = None;
        loop {
            for (level, hint) in self.hints(node).iter().enumerate() {
                hint.store(choose(level), Ordering::Relaxed);
            }
            let link = node.map_or(&self.chain.head, |node| &node.next);
            node = self.chain.node(self.chain.load(link));
            if node.is_none() {
                break;
            }
        }
    }

    /// Searches the last node before a place. The result counts only after a check at a version.
    #[inline]
    pub(super) fn route(
        &self,
        is_before: impl Fn(&Node<P, T>, P) -> bool,
    ) -> Route<'_, Node<P, T>> {
        let mut route = Route::to_the_front();
        let levels = self.index.levels().min(LEVELS);
        let mut here: Option<(&Node<P, T>, P)> = None;
        for level in (0..levels).rev() {
            let mut skips = SKIPS;
            loop {
                let hint = &self.hints(here.map(|(node, _)| node))[level];
                let Some(next) = self.hinted(hint) else {
                    break;
                };
                let priority = next.priority.load();
                if !is_before(next, priority) || !is_forward(here, next, priority) {
                    break;
                }
                if self.has_left(next) {
                    let behind = next.above[level].load(Ordering::Relaxed);
                    if skips == 0 || behind == address(next) {
                        break;
                    }
                    skips -= 1;
                    hint.store(behind, Ordering::Relaxed);
                    continue;
                }
                here = Some((next, priority));
                self.restore(&mut route, level + 1, levels, next);
            }
            route.above[level] = here.map(|(node, _)| node);
        }
        loop {
            let link = here.map_or(&self.chain.head, |(node, _)| &node.next);
            let Some(next) = self.chain.node(self.chain.load(link)) else {
                break;
            };
            let priority = next.priority.load();
            if !is_before(next, priority) || !is_forward(here, next, priority) {
                break;
            }
            here = Some((next, priority));
            self.restore(&mut route, 0, levels, next);
        }
        route.last = here.map(|(node, _)| node);
        route
    }

    /// Stores the hint to a node on a level, if the node belongs to it. The search came to it on the
    /// level below, so the level has lost it.
    #[inline(always)]
    fn restore<'a>(
        &'a self,
        route: &mut Route<'a, Node<P, T>>,
        level: usize,
        levels: usize,
        node: &'a Node<P, T>,
    ) {
        if node.height() > level && level < levels {
            self.insert_hint(route.above[level], level, node);
            route.above[level] = Some(node);
        }
    }

    #[cold]
    fn insert_hint(&self, before: Option<&Node<P, T>>, level: usize, node: &Node<P, T>) {
        let hint = &self.hints(before)[level];
        let own = &node.above[level];
        let behind = hint.load(Ordering::Relaxed);
        if own.load(Ordering::Relaxed) == 0 && behind != address(node) {
            own.store(behind, Ordering::Relaxed);
        }
        hint.store(address(node), Ordering::Relaxed);
    }

    /// Moves the route on by nodes that other threads have inserted since the search.
    #[cold]
    pub(super) fn advance<'a>(
        &'a self,
        route: &mut Route<'a, Node<P, T>>,
        is_before: impl Fn(&Node<P, T>, P) -> bool,
    ) {
        for (level, before) in route.above.iter_mut().enumerate() {
            for _ in 0..SKIPS {
                match self.hinted(&self.hints(*before)[level]) {
                    Some(next) if is_before(next, next.priority.load()) && !self.has_left(next) => {
                        *before = Some(next);
                    }
                    _ => break,
                }
            }
        }
    }

    /// Stores the hints of a node that was just linked. Compares no priorities: a comparison that
    /// panics would do so after the change.
    #[inline]
    pub(super) fn enter_index(
        &self,
        node: &Node<P, T>,
        height: usize,
        route: &Route<'_, Node<P, T>>,
    ) {
        for level in 0..height {
            let hint = &self.hints(route.above[level])[level];
            let behind = hint.load(Ordering::Relaxed);
            let behind = if behind == address(node) { 0 } else { behind };
            node.above[level].store(behind, Ordering::Relaxed);
            hint.store(address(node), Ordering::Relaxed);
        }
        if height > self.index.levels() {
            self.index.levels.store(height as u64, Ordering::Relaxed);
        }
    }

    /// Replaces the hints to a node that was just unlinked, by its own.
    #[inline]
    pub(super) fn leave_index(&self, node: &Node<P, T>, route: &Route<'_, Node<P, T>>) {
        for level in 0..node.height().min(LEVELS) {
            let hint = &self.hints(route.above[level])[level];
            if hint.load(Ordering::Relaxed) == address(node) {
                let behind = node.above[level].load(Ordering::Relaxed);
                let behind = if behind == address(node) { 0 } else { behind };
                hint.store(behind, Ordering::Relaxed);
            }
            let levels = self.index.levels();
            if level + 1 == levels && self.index.first[level].load(Ordering::Relaxed) == 0 {
                self.index.levels.store(level as u64, Ordering::Relaxed);
            }
        }
    }
}

/// Returns whether a node lies further on than the last one.
#[inline(always)]
fn is_forward<P: Plain + Ord, T: Send>(
    here: Option<(&Node<P, T>, P)>,
    next: &Node<P, T>,
    priority: P,
) -> bool {
    here.is_none_or(|(here, least)| {
        let stamp = |node: &Node<P, T>| node.stamp.load(Ordering::Relaxed);
        least < priority || least == priority && stamp(here) < stamp(next)
    })
}
