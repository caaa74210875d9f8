//! The signal caches: each CPU keeps the guests that are signalled on the frames that it signals, so
//! that a signal on one of them need not access the lists that all CPUs share (GC96, section 3).
//!
//! ```text
//! a change of a frame's receivers:  change the frame's list;  then versions of the frame's line + 1, on each CPU
//! a CPU fills its line:             version;  then read the frame's list;  the line has that version
//! a CPU uses its line:              it is of that frame, and its version is still the line's
//! ```
//!
//! A cache is direct-mapped, as the paper's. Its lines are descriptors of which too few fit, so a
//! line is written back to make room for another: the number of signals that it has sent.
//!
//! Invariants, between operations:
//!
//! 1. A line whose version is current has the receivers that are on the list of its frame.
//! 2. Only the CPU's own thread fills a line, and not in its handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use atomseq::nonblocking::{Member, MemberInUse};
use atomseq::type_stable::{WriteBack, descriptor};

use crate::kernel::{Guest, Kernel, OF_FRAME, World};
use crate::options::Fault;

/// The number of lines of each CPU.
pub const LINES: u64 = 16;

/// The maximum number of guests that a signal reaches.
const RECEIVERS: usize = 4;

/// Returns the number of the line of a frame: the upper bits of the product depend on all bits.
fn line_of(frame: u64) -> u64 {
    frame.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - LINES.ilog2())
}

/// One more than each guest. 0: none.
pub type Receivers = [u64; RECEIVERS];

descriptor! {
    /// A loaded line.
    pub struct Line {
        /// Its index in [`Home::sent`](crate::kernel::Home::sent).
        index: AtomicU64,
        /// The signals sent so far, those that were written back included.
        sent: AtomicU64,
        /// 0: nothing to write back.
        dirty: AtomicU64,
        /// One more than the frame. 0: not filled.
        frame: AtomicU64,
        version: AtomicU64,
        receivers: [AtomicU64; RECEIVERS],
    }
}

impl Line {
    pub fn receivers(&self) -> Receivers {
        self.receivers.each_ref().map(|guest| guest.load(SeqCst))
    }

    /// Returns the frame of a line that is filled, if its version is this one.
    pub fn frame_at(&self, version: u64) -> Option<u64> {
        let frame = self.frame.load(SeqCst).checked_sub(1);
        frame.filter(|_| self.version.load(SeqCst) == version)
    }
}

/// Writes lines of one CPU back: how many signals they have sent.
pub struct Lines(pub Arc<World>);

impl WriteBack<Member<Line, 0>> for Lines {
    fn write_back(&self, victim: &Member<Line, 0>) {
        let world = &*self.0;
        if victim.dirty.load(SeqCst) == 0 {
            return;
        }
        let index = victim.index.load(SeqCst) as usize;
        world.home.sent[index].store(victim.sent.load(SeqCst), SeqCst);
        // A thread that loads it next may exit before it has filled it in.
        victim.dirty.store(0, SeqCst);
        world.counts.lines.increment();
    }
}

impl World {
    /// Returns the index of a worker's line in `versions` and in `Home::sent`.
    pub fn line_index(&self, worker: usize, line: u64) -> usize {
        worker * LINES as usize + line as usize
    }

    /// Makes the lines of a frame stale on each CPU, after a change of its receivers.
    pub fn make_stale(&self, frame: u64) {
        // The fault that the audit must find: a change of which the CPUs are not informed.
        if self.plan.fault == Some(Fault::Stale) && frame.is_multiple_of(4) {
            return;
        }
        for worker in 0..self.workers.len() {
            self.versions[self.line_index(worker, line_of(frame))].fetch_add(1, SeqCst);
        }
    }

    pub fn count_sent(&self, line: &Line) {
        self.count([&line.sent, &line.dirty], |worker| &worker.cached);
    }
}

impl Kernel {
    /// Returns the receivers of a frame, by its list.
    pub fn receivers(&self, frame: u64) -> Receivers {
        let collect = |(mut guests, count): (Receivers, usize), guest: &Guest| {
            if count < RECEIVERS {
                guests[count] = guest.id.load(SeqCst) + 1;
                return (guests, count + 1);
            }
            (guests, count)
        };
        let registered = self.guests.cache.list(OF_FRAME, frame as usize);
        registered.fold(([0; RECEIVERS], 0), collect).0
    }

    /// Returns a use of a frame's line of this worker, filled. `None` if no descriptor is free.
    pub fn line(&self, me: usize, frame: u64) -> Option<MemberInUse<'_, Line, Lines, 0>> {
        let world = &*self.world;
        let number = line_of(frame);
        let index = world.line_index(me, number);
        let line = self.lines[me].load(number, |line| {
            line.index.store(index as u64, SeqCst);
            line.dirty.store(0, SeqCst);
            line.sent.store(world.home.sent[index].load(SeqCst), SeqCst);
            line.frame.store(0, SeqCst);
        })?;
        // Before the list is read: a change after that makes the line stale.
        let version = world.versions[index].load(SeqCst);
        if line.frame_at(version) == Some(frame) {
            world.counts.hits.increment();
            return Some(line);
        }
        // Until it is filled, for a thread that exits here.
        line.frame.store(0, SeqCst);
        for (place, guest) in line.receivers.iter().zip(self.receivers(frame)) {
            place.store(guest, SeqCst);
        }
        line.version.store(version, SeqCst);
        line.frame.store(frame + 1, SeqCst);
        world.counts.fills.increment();
        Some(line)
    }
}
