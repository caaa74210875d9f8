//! The gate of a slot: closed, it keeps sequences out.
//!
//! ```text
//! close   block all signals; take the gate's lock; fence the slot's CPU; work
//! open    release the gate, wake a waiter; restore the signal mask
//! ```
//!
//! The fence aborts every section that began on that CPU before it saw the gate closed. Signals are
//! blocked first, or a handler on this thread could wait for the thread it interrupted. A gate
//! that is closed for good needs no fence: no section ever passed it; it is just a lock.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use super::area::Area;
use crate::platform;

/// Somebody holds the gate.
const LOCKED: u32 = 1;
/// Somebody waits for it.
const WAITERS: u32 = 2;
/// Sequences never pass: guards, and every slot where sections are off.
pub(super) const FOR_GOOD: u32 = 4;

/// How often a closer looks again before it parks.
const SPINS: usize = 100;

/// A slot whose gate this thread has closed; dropped, it opens.
///
/// All signals are blocked on this thread meanwhile, and forks wait. So hold one at a time,
/// briefly, and neither fork nor run code you do not know: two threads that each hold a gate and
/// want the other's wait forever, and so does a fork by a holder
/// ([why](crate::docs::limitations#hold-one-gate-at-a-time)).
///
/// M94 2.3.2 has gates for page faults; opening other CPUs' data with one is atomseq's.
pub struct Held<'a> {
    area: &'a Area,
    cpu: usize,
    // Dropped after the gate is open: see `Drop`.
    _quiet: platform::Quiet,
}

impl Held<'_> {
    /// The CPU whose slot it is.
    pub fn cpu(&self) -> usize {
        self.cpu
    }

    /// The address of the slot, its gate first; its words begin at [`Area::FIRST_WORD`].
    #[inline]
    pub fn address(&self) -> usize {
        self.area.slot_at(self.cpu as isize).as_ptr() as usize
    }

    /// The area the slot is in.
    pub fn area(&self) -> &Area {
        self.area
    }
}

impl Area {
    /// Closes the gate of a CPU's slot: until the guard is dropped, no sequence touches the slot.
    ///
    /// Blocks while another thread holds it. Costs, opening included, two system calls for the
    /// signal mask, four atomic instructions and, unless the gate is closed for good, the fence,
    /// which is a third system call. Allocates nothing, and may be called in a signal handler. The
    /// thread must hold no other gate: see [`Held`].
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    pub fn close(&self, cpu: usize) -> Held<'_> {
        assert!(
            cpu < self.cpus(),
            "CPU {cpu} has no slot: there are {}",
            self.cpus()
        );
        let quiet = platform::Quiet::enter();
        self.hold(cpu, quiet)
    }

    /// Closes the gate of the CPU this thread runs on as it asks.
    pub(super) fn close_here(&self) -> Held<'_> {
        let quiet = platform::Quiet::enter();
        self.hold(platform::current_cpu(), quiet)
    }

    fn hold(&self, cpu: usize, quiet: platform::Quiet) -> Held<'_> {
        let before = lock(self.gate_at(cpu as isize));
        if before & FOR_GOOD == 0 {
            // After the gate's store: the system call orders them.
            platform::fence(cpu);
        }
        Held {
            area: self,
            cpu,
            _quiet: quiet,
        }
    }
}

impl fmt::Debug for Held<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("cpu", &self.cpu).finish()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        unlock(self.area.gate_at(self.cpu as isize));
    }
}

/// Gives the lock in the gate up, and wakes a waiter.
pub(super) fn unlock(gate: &AtomicU32) {
    // Release: pairs with the acquire load of the gate in every section, and in `lock`.
    let before = gate.fetch_and(FOR_GOOD, Ordering::Release);
    if before & WAITERS != 0 {
        platform::wake_one(gate);
    }
}

/// Takes the lock in the gate and returns the word as it was.
pub(super) fn lock(gate: &AtomicU32) -> u32 {
    // Once parked, a closer cannot know whether others still wait: it says they do.
    let mut mark = LOCKED;
    let mut spins = 0;
    loop {
        // Relaxed: only the exchange counts.
        let word = gate.load(Ordering::Relaxed);
        if word & LOCKED == 0 {
            // Acquire: pairs with the release that opened the gate.
            let taken =
                gate.compare_exchange_weak(word, word | mark, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return word;
            }
        } else if spins < SPINS {
            spins += 1;
            std::hint::spin_loop();
        } else {
            // Relaxed: the wait re-reads the word.
            let waiting = word | WAITERS;
            let marked = word == waiting
                || gate
                    .compare_exchange(word, waiting, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if marked {
                platform::wait(gate, waiting);
                mark = LOCKED | WAITERS;
            }
        }
    }
}
