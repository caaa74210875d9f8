//! The index of a priority queue: hints that let a search skip most of the list.
//!
//! One node in two is on level 0, one in four of these on level 1, one in four of these on level 2,
//! and so on. Hints are stored without any check, so a level may lose a node, or lead to one that
//! has left the list:
//!
//! * when two threads store the same hint, or a thread is delayed or exits before it has stored its
//!   hints, or has stored that on level 0 alone. The level then lacks nodes, up to all that follow
//!   a place. A search finds them on the level below, sees by their height that they belong to this
//!   one, and stores the hint.
//! * when a node leaves. The search replaces a hint to a node that is not in the list by that
//!   node's own hint, a few times; then it goes down.
//!
//! A search starts at one of a few nodes that are spread over the list, the *stops*, whose
//! priorities lie side by side in an array. That takes the place of the upper levels, whose nodes
//! are in other cache lines each, and change. The stops are chosen anew after as many changes as
//! the list was long. They are hints too.
//!
//! Unless the list is long, most places lie a few nodes behind a stop. An insertion follows links
//! from there, at one version, and uses no level. It stores the hint on level 0 alone. A short list
//! has no level. An insertion close to its head does not show whether it is still short, so one
//! insertion in `NEAR` changes counts that many nodes.
//!
//! Heights are random, so a branch on them is often mispredicted, which takes longer than all else
//! that an operation does for the index. Insertion near a stop and popping store the hints of level
//! 0 without one: in half of the cases they store what was there.
//!
//! The place may also be far behind the stop: if the list is long or has grown, if many priorities
//! are equal, or if the node of the stop has left and is in the list again. Then a search goes up
//! from a stop before it goes down: as long as the next node on its highest level is before the
//! place, it goes on to the levels of that node. Its steps grow with the logarithm of the distance.

use super::{END, Node, PriorityQueue, REMOVED};
use crate::dcas::{Reader, StableWord, Version};
use crate::heap;
use crate::nonblocking::nodes::address;
use crate::nonblocking::plain::{Plain, Words};
use crate::platform;
use crate::sync::{AtomicU64, Ordering};
use crate::type_stable::Descriptor;

/// The number of levels: enough for two times four to the power of the levels above the lowest one,
/// half a million entries, at two or three steps a level. Beyond that, the highest level has more.
///
/// With it, a node of a priority and a value of 8 bytes each has 128 bytes.
pub(super) const LEVELS: usize = 10;

/// How many removed nodes in a row a search skips on one level.
const SKIPS: usize = 8;

/// How many stops a search tries that have left the list.
const TRIES: usize = 4;

/// The number of stops.
const STOPS: usize = 1024;

/// With fewer stops, searches start at the front.
const FEWEST_STOPS: usize = 4;

/// How many nodes behind a stop a search looks at before it uses the levels.
const NEAR: usize = 32;

/// How many entries lie from one stop to the next, at most, if searches are to use no level. Later
/// half of these stops have left, and places are further from the others.
const DENSE: u64 = 8;

/// How many nodes one choice of stops looks at, at most.
const LOOKS: usize = 3 * STOPS;

/// After fewer changes, stops are not chosen anew.
const FEWEST: u64 = 64;

/// Returns how many entries a level has one node for.
const fn entries_a_node(level: usize) -> u64 {
    2 << (2 * level)
}

/// Where the levels start. Relaxed throughout, here and for the hints of nodes: a hint proves
/// nothing, and what it leads to counts only at a version. What changes seldom comes first, away
/// from the hints to the first nodes.
#[repr(C, align(64))]
pub(super) struct Index<P> {
    /// The number of levels in use.
    levels: AtomicU64,
    /// The version from which on stops are chosen anew, how many there are, and how many entries
    /// lie from one to the next. While no level is in use: the version from which on an insertion
    /// looks whether the list is still short.
    renewal: AtomicU64,
    count: AtomicU64,
    spacing: AtomicU64,
    /// The priorities of the stops, and their nodes.
    priorities: [Words<P>; STOPS],
    stops: [AtomicU64; STOPS],
    /// The hints to the first node on each level.
    first: [AtomicU64; LEVELS],
}

// SAFETY: all zeros is a valid instance, and may appear at any time: every field is read as atomic
// words.
unsafe impl<P: Plain> Descriptor for Index<P> {}

/// A place in the list that a search has reached by links from a stop, at a version.
pub(super) struct Place<'a, N> {
    pub(super) link: &'a StableWord,
    /// What the link holds.
    pub(super) behind: u64,
    /// The last node before the place that is on a level.
    indexed: Option<&'a N>,
}

/// The nodes that a search went by: the last one before the place in the list and on each level, or
/// `None` for the start.
pub(super) struct Route<'a, N> {
    pub(super) last: Option<&'a N>,
    above: [Option<&'a N>; LEVELS],
}

impl<P: Plain> Index<P> {
    /// Returns an empty one, or `None` if there is no memory.
    pub(super) fn new() -> Option<Box<[Index<P>]>> {
        heap::zeros(1)
    }

    fn levels(&self) -> usize {
        self.levels.load(Ordering::Relaxed) as usize
    }

    /// Returns whether most places lie close behind a stop.
    #[inline(always)]
    fn is_dense(&self) -> bool {
        self.spacing.load(Ordering::Relaxed) <= DENSE
    }

    /// Returns the number of stops.
    #[inline(always)]
    fn count(&self) -> usize {
        (self.count.load(Ordering::Relaxed) as usize).min(STOPS)
    }

    /// Chooses on how many levels the node is that is linked next: none for one in two, two or more
    /// for one in eight, and so on. At most one more than the levels in use.
    #[inline]
    pub(super) fn height_of_next(&self, version: Version) -> usize {
        // Versions differ, and the finalizer of MurmurHash3 spreads them over all bits.
        let mut bits = version.number();
        for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
            bits = (bits ^ bits >> 33).wrapping_mul(factor);
        }
        let height = (bits >> 32 | 1 << 32).trailing_zeros().div_ceil(2) as usize;
        height.min(self.levels() + 1).min(LEVELS)
    }
}

impl<P: Plain + Ord> Index<P> {
    /// Returns the number of the last stop whose priority is lower, or 0.
    #[inline(always)]
    fn last_below(&self, priority: P) -> usize {
        let mut size = self.count();
        let mut base = 0;
        // Without branches, which no processor could predict.
        let is_below = |stop: usize| usize::from(self.priorities[stop].load() < priority);
        // In quarters: the three comparisons do not wait for each other.
        while size >= 4 {
            let quarter = size / 4;
            let [first, second, third] = [1, 2, 3].map(|part| is_below(base + part * quarter));
            base += quarter * (first + second + third);
            size -= 3 * quarter;
        }
        while size > 1 {
            let half = size / 2;
            base += half * is_below(base + half);
            size -= half;
        }
        base
    }
}

impl<P: Plain, T: Send> PriorityQueue<P, T> {
    #[inline(always)]
    fn index(&self) -> &Index<P> {
        &self.index[0]
    }

    /// Returns the hints that follow a node, or the start.
    #[inline(always)]
    fn hints<'a>(&'a self, from: Option<&'a Node<P, T>>) -> &'a [AtomicU64; LEVELS] {
        from.map_or(&self.index().first, |node| &node.above)
    }

    /// Returns the node that a hint leads to.
    #[inline(always)]
    fn hinted(&self, hint: &AtomicU64) -> Option<&Node<P, T>> {
        self.chain.node(hint.load(Ordering::Relaxed))
    }

    /// Returns whether the node has a hint on this level. The last one has none, and a node that
    /// the level has lost may have none.
    fn leads_on(&self, node: &Node<P, T>, level: usize) -> bool {
        node.above[level].load(Ordering::Relaxed) != 0
    }

    fn has_left(&self, node: &Node<P, T>) -> bool {
        self.chain.load(&node.next) == REMOVED
    }

    /// Returns whether any level is in use. Uses the first one if the list has become long.
    #[inline(always)]
    pub(super) fn has_levels(&self, version: Version) -> bool {
        let index = self.index();
        index.levels() > 0
            || version.number() >= index.renewal.load(Ordering::Relaxed)
                && self.needs_levels(version)
    }

    /// Looks whether the list has become long, and uses the first level then. Its nodes so far are
    /// on no level.
    #[cold]
    #[inline(never)]
    fn needs_levels(&self, version: Version) -> bool {
        let index = self.index();
        let next = version.number() + NEAR as u64;
        index.renewal.store(next, Ordering::Relaxed);
        // Without a check of the version: a wrong count takes time, and causes no error.
        let mut link = self.chain.head();
        for _ in 0..NEAR {
            match self.chain.node(self.chain.load(link)) {
                Some(node) => link = &node.next,
                None => return false,
            }
        }
        index.levels.store(1, Ordering::Relaxed);
        true
    }
}

impl<P: Plain + Ord, T: Send> PriorityQueue<P, T> {
    /// Stores hints everywhere, each of them the address of a node or 0, for tests.
    #[cfg(test)]
    pub(in crate::nonblocking) fn store_hints(&self, mut choose: impl FnMut() -> u64) {
        let index = self.index();
        index.renewal.store(0, Ordering::Relaxed);
        let stops = index.stops.iter();
        stops.for_each(|stop| stop.store(choose(), Ordering::Relaxed));
        let mut node = None;
        loop {
            let hints = self.hints(node).iter();
            hints.for_each(|hint| hint.store(choose(), Ordering::Relaxed));
            let link = node.map_or(self.chain.head(), |node| &node.next);
            node = self.chain.node(self.chain.load(link));
            if node.is_none() {
                break;
            }
        }
    }

    /// Searches the last node before a place, and on so many levels at least. `is_before` returns
    /// whether a node is before the place, which all nodes of lower priorities than the given one
    /// are. The result counts only after a check at a version.
    #[inline]
    pub(super) fn route(
        &self,
        priority: P,
        height: usize,
        is_before: impl Fn(&Node<P, T>, P) -> bool + Copy,
    ) -> Route<'_, Node<P, T>> {
        let mut route = Route {
            last: None,
            above: [None; LEVELS],
        };
        let max = self.index().levels().min(LEVELS);
        let (mut levels, mut climbs) = (max, false);
        let mut here: Option<(&Node<P, T>, P)> = None;
        if max > 1 {
            let version = self.version().number();
            if version >= self.index().renewal.load(Ordering::Relaxed) {
                self.choose_stops(version, max);
            }
            if let Some((stop, of_stop)) = self.stop_before(priority, is_before) {
                let of_stops_levels = stop.height().min(max);
                if of_stops_levels >= height {
                    (levels, climbs) = (of_stops_levels, true);
                    here = Some((stop, of_stop));
                    if height == 0 && self.index().is_dense() {
                        if let Some(last) = self.near(stop, of_stop, is_before) {
                            route.last = Some(last);
                            return route;
                        }
                    }
                }
            }
        }
        let mut level = levels;
        while level > 0 {
            level -= 1;
            let mut skips = SKIPS;
            loop {
                let hints = self.hints(here.map(|(node, _)| node));
                let hint = &hints[level];
                // The node that comes next if the one on this level is behind the place.
                let below = match (level, here) {
                    (1.., _) => hints[level - 1].load(Ordering::Relaxed),
                    (0, Some((node, _))) => self.chain.load(&node.next),
                    (0, None) => 0,
                };
                platform::prefetch(below as usize);
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
                while climbs && levels < next.height().min(max) && self.leads_on(next, levels) {
                    levels += 1;
                    level = levels - 1;
                }
                self.restore(&mut route, level + 1, levels, next);
            }
            climbs = false;
            route.above[level] = here.map(|(node, _)| node);
        }
        loop {
            let link = here.map_or(self.chain.head(), |(node, _)| &node.next);
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

    /// Returns the last node before a place if it follows a node closely. Most places lie close to
    /// a stop, and a search for them needs no level.
    #[inline(always)]
    fn near<'a>(
        &'a self,
        from: &'a Node<P, T>,
        priority: P,
        is_before: impl Fn(&Node<P, T>, P) -> bool,
    ) -> Option<&'a Node<P, T>> {
        let mut here = (from, priority);
        for _ in 0..NEAR {
            let Some(next) = self.chain.node(self.chain.load(&here.0.next)) else {
                return Some(here.0);
            };
            let priority = next.priority.load();
            if !is_before(next, priority) || !is_forward(Some(here), next, priority) {
                return Some(here.0);
            }
            here = (next, priority);
        }
        None
    }

    /// Returns where a search near a stop starts: at a node, which may have left, or at the head.
    /// `None`: most places are far from a stop.
    #[inline(always)]
    pub(super) fn start_near(&self, version: Version, priority: P) -> Option<Option<&Node<P, T>>> {
        let index = self.index();
        let levels = index.levels().min(LEVELS);
        if levels == 0 {
            return Some(None);
        }
        if version.number() >= index.renewal.load(Ordering::Relaxed) {
            self.choose_stops(version.number(), levels);
        }
        if !index.is_dense() {
            return None;
        }
        if index.count() < FEWEST_STOPS {
            return Some(None);
        }
        let stop = index.last_below(priority);
        match index.priorities[stop].load() < priority {
            true => self.hinted(&index.stops[stop]).map(Some),
            false => Some(None),
        }
    }

    /// Searches a place by links from a node, or from the head. Returns `None` if that node is not
    /// in the list, or on no level, or not before the place, or if the place is too far behind it.
    /// The result counts if the version is that from before the call.
    #[inline(always)]
    pub(super) fn place_near<'a>(
        &'a self,
        reader: Reader<'_>,
        start: Option<&'a Node<P, T>>,
        is_before: impl Fn(&Node<P, T>, P) -> bool,
    ) -> Option<Place<'a, Node<P, T>>> {
        let mut indexed = start;
        let mut link = self.chain.head();
        if let Some(stop) = start {
            link = &stop.next;
            if stop.height() == 0
                || reader.load(link) == REMOVED
                || !is_before(stop, stop.priority.load())
            {
                return None;
            }
        }
        for _ in 0..NEAR {
            let behind = reader.load(link);
            let Some(next) = self.chain.node(behind) else {
                let behind = END;
                return Some(Place {
                    link,
                    behind,
                    indexed,
                });
            };
            if !is_before(next, next.priority.load()) {
                return Some(Place {
                    link,
                    behind,
                    indexed,
                });
            }
            if next.height() > 0 {
                indexed = Some(next);
            }
            link = &next.next;
        }
        None
    }

    /// Returns the last stop before a place that is in the list.
    #[inline]
    fn stop_before(
        &self,
        priority: P,
        is_before: impl Fn(&Node<P, T>, P) -> bool,
    ) -> Option<(&Node<P, T>, P)> {
        let index = self.index();
        let base = index.last_below(priority);
        // Those before the front of the list have left. Then the search starts there.
        for stop in index.stops[..=base].iter().rev().take(TRIES) {
            let node = self.hinted(stop)?;
            let of_node = node.priority.load();
            // A node on no level was used again since it became a stop. From there, a search would
            // follow links alone.
            if node.height() > 0 && is_before(node, of_node) && !self.has_left(node) {
                return Some((node, of_node));
            }
        }
        None
    }

    /// Chooses stops among the nodes of a level that has enough of them.
    #[cold]
    #[inline(never)]
    fn choose_stops(&self, version: u64, levels: usize) {
        let index = self.index();
        // Other threads do not choose them meanwhile, in most cases. If they do, the stops of both
        // are mixed.
        index.renewal.store(version + FEWEST, Ordering::Relaxed);
        let mut level = levels - 1;
        let mut nodes = self.on_level(level).take(LOOKS).count();
        // A level has a quarter of the nodes of the one below, or less. The lowest one that is not
        // too long is not counted before it is traversed.
        while level > 0 && 4 * nodes < LOOKS {
            level -= 1;
            nodes *= 4;
            if level > 0 && 4 * nodes < LOOKS {
                nodes = self.on_level(level).take(LOOKS).count();
            }
        }
        let (mut is_all, mut step, mut count) = self.choose_on(level);
        // The level above has lost many of its nodes.
        while !is_all && level + 1 < levels {
            level += 1;
            (is_all, step, count) = self.choose_on(level);
        }
        index.count.store(count as u64, Ordering::Relaxed);
        let spacing = step as u64 * entries_a_node(level);
        index.spacing.store(spacing, Ordering::Relaxed);
        let entries = count as u64 * spacing;
        let renewal = version + FEWEST.max(entries);
        index.renewal.store(renewal, Ordering::Relaxed);
    }

    /// Chooses stops among the first nodes of a level, evenly spaced. Returns whether these were
    /// all, how many nodes lie from one stop to the next, and the number of stops.
    fn choose_on(&self, level: usize) -> (bool, usize, usize) {
        let index = self.index();
        let (mut step, mut count) = (1, 0);
        for (number, (node, priority)) in self.on_level(level).enumerate() {
            if number == LOOKS {
                return (false, step, count);
            }
            if number % step != step / 2 {
                continue;
            }
            if count == STOPS {
                // Every second one stays.
                for stop in 0..STOPS / 2 {
                    let kept = index.stops[2 * stop + 1].load(Ordering::Relaxed);
                    index.stops[stop].store(kept, Ordering::Relaxed);
                    index.priorities[stop].store(index.priorities[2 * stop + 1].load());
                }
                (step, count) = (2 * step, STOPS / 2);
                continue;
            }
            index.stops[count].store(address(node), Ordering::Relaxed);
            index.priorities[count].store(priority);
            count += 1;
        }
        (true, step, count)
    }

    /// Returns the nodes of a level with their priorities, as far as its hints lead.
    fn on_level(&self, level: usize) -> impl Iterator<Item = (&Node<P, T>, P)> {
        let mut here: Option<(&Node<P, T>, P)> = None;
        std::iter::from_fn(move || {
            let mut next = self.hinted(&self.hints(here.map(|(node, _)| node))[level])?;
            for _ in 0..SKIPS {
                if !self.has_left(next) {
                    break;
                }
                next = self.hinted(&next.above[level])?;
            }
            let priority = next.priority.load();
            if self.has_left(next) || !is_forward(here, next, priority) {
                return None;
            }
            here = Some((next, priority));
            here
        })
    }

    /// Stores the hint to a node on a level, if the node belongs to it. The search came to it on
    /// the level below, so the level has lost it.
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
    pub(super) fn enter_index(
        &self,
        node: &Node<P, T>,
        height: usize,
        route: &Route<'_, Node<P, T>>,
    ) {
        for level in 0..height {
            let hint = &self.hints(route.above[level])[level];
            self.enter_level(node, level, hint);
        }
        if height > self.index().levels() {
            self.index().levels.store(height as u64, Ordering::Relaxed);
        }
    }

    /// Stores the hint of such a node on the lowest level, if any is in use. A search that uses the
    /// others stores theirs when it comes by.
    #[inline(always)]
    pub(super) fn enter_lowest_level(
        &self,
        node: &Node<P, T>,
        height: usize,
        place: &Place<'_, Node<P, T>>,
    ) {
        if self.index().levels() == 0 {
            return;
        }
        let hint = &self.hints(place.indexed)[0];
        let old = hint.load(Ordering::Relaxed);
        let behind = behind(node, old);
        node.above[0].store(behind, Ordering::Relaxed);
        // Without a branch on the height.
        let change = (old ^ address(node)) & u64::from(height > 0).wrapping_neg();
        hint.store(old ^ change, Ordering::Relaxed);
        if behind == 0 {
            self.append_stop(node, height);
        }
        if height > 1 {
            // Not those of the node's last time in the list.
            let others = node.above[1..].iter().take(height - 1);
            others.for_each(|hint| hint.store(0, Ordering::Relaxed));
            if height > self.index().levels() {
                self.index().levels.store(height as u64, Ordering::Relaxed);
            }
        }
    }

    /// Stores the hint to a node on a level, in place of another one.
    #[inline(always)]
    fn enter_level(&self, node: &Node<P, T>, level: usize, hint: &AtomicU64) {
        let behind = behind(node, hint.load(Ordering::Relaxed));
        node.above[level].store(behind, Ordering::Relaxed);
        hint.store(address(node), Ordering::Relaxed);
    }

    /// Makes the last node of the lowest level the last stop, if its height says that it is on that
    /// level. So places behind all stops stay close to one while priorities ascend, as times do.
    #[cold]
    #[inline(never)]
    fn append_stop(&self, node: &Node<P, T>, height: usize) {
        let index = self.index();
        let count = index.count();
        if height > 0 && (1..STOPS).contains(&count) && index.is_dense() {
            index.stops[count].store(address(node), Ordering::Relaxed);
            index.priorities[count].store(node.priority.load());
            index.count.store(count as u64 + 1, Ordering::Relaxed);
        }
    }

    /// Replaces the hints to a node that was just popped, by its own.
    #[inline(always)]
    pub(super) fn leave_front(&self, node: &Node<P, T>) {
        let index = self.index();
        if index.levels() == 0 {
            return;
        }
        // Without a branch on the height.
        let first = index.first[0].load(Ordering::Relaxed);
        let own = behind(node, node.above[0].load(Ordering::Relaxed));
        let behind = if first == address(node) { own } else { first };
        index.first[0].store(behind, Ordering::Relaxed);
        let height = node.height().min(LEVELS);
        if height > 1 {
            for (first, own) in index.first.iter().zip(&node.above).take(height).skip(1) {
                replace(first, node, own);
            }
        }
        self.lower(height);
    }

    /// Uses one level less if the highest one was among so many, and is empty.
    #[inline(always)]
    fn lower(&self, height: usize) {
        let index = self.index();
        let levels = index.levels();
        if (1..=height).contains(&levels) && index.first[levels - 1].load(Ordering::Relaxed) == 0 {
            index.levels.store(levels as u64 - 1, Ordering::Relaxed);
            if levels == 1 {
                // The next insertion looks whether the list is short.
                index.renewal.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Replaces the hints to a node that was just unlinked, by its own.
    pub(super) fn leave_index(&self, node: &Node<P, T>, route: &Route<'_, Node<P, T>>) {
        let height = node.height().min(LEVELS);
        for level in 0..height {
            replace(
                &self.hints(route.above[level])[level],
                node,
                &node.above[level],
            );
        }
        self.lower(height);
    }
}

/// Returns a hint as the one behind a node: none if it leads to the node itself.
#[inline(always)]
fn behind<N>(node: &N, hint: u64) -> u64 {
    if hint == address(node) { 0 } else { hint }
}

/// Replaces a hint to a node that has left by the node's own.
#[inline(always)]
fn replace<N>(hint: &AtomicU64, node: &N, own: &AtomicU64) {
    if hint.load(Ordering::Relaxed) == address(node) {
        hint.store(behind(node, own.load(Ordering::Relaxed)), Ordering::Relaxed);
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
