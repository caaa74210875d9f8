//! The gate of a slot. While it is closed, no sequence accesses the slot.
//!
//! ```text
//! close   block all signals; wait for a fork in progress, a few milliseconds at most, and make
//!         later forks wait; take the gate's lock; fence the slot's CPU; work
//! open    release the gate, wake a waiter; let forks proceed; restore the signal mask
//! ```
//!
//! The fence is the rseq membarrier. It aborts every section on that CPU that started before the
//! gate was closed, and makes the stores of each section, finished or aborted, visible to this
//! thread. Signals are blocked first: otherwise a handler on this thread could wait for the gate
//! that its own thread holds. A permanently closed gate needs no fence, because no sequence ever
//! passed it; it is an ordinary lock.

use std::fmt;

use super::area::Area;
use super::lock::{FOR_GOOD, lock, unlock};
use crate::platform;

/// Exclusive access to a slot, whose gate this thread has closed. Dropping the guard opens the
/// gate.
///
/// While the guard lives, all signals are blocked on this thread, and forks in other threads wait
/// until it is dropped. (Closing the gate waits for a fork that is already in progress, but only a
/// few milliseconds. A fork that takes longer does not wait for the guard, and its child takes the
/// gate over.) Hold one guard at a time, briefly, and neither fork nor call unknown code. Two
/// threads that each hold a gate and want the other's
/// [deadlock](crate::docs::limitations#hold-one-gate-at-a-time). A fault ends the process, even if
/// a handler of `SIGSEGV` or `SIGBUS` could repair it elsewhere: its signal is blocked, and the
/// kernel does not let a thread continue past a fault whose signal it cannot deliver.
///
/// M94, section 2.3.2, uses gates for page faults. Closing them to access another CPU's data is an
/// addition of atomseq.
pub struct GateGuard<'a> {
    area: &'a Area,
    cpu: usize,
    // Dropped after `Drop::drop` has opened the gate: fields are dropped last.
    _signals: platform::SignalsBlocked,
}

impl GateGuard<'_> {
    /// Returns the number of the CPU whose slot this is.
    pub fn cpu(&self) -> usize {
        self.cpu
    }

    /// Returns the address of the slot. The gate comes first; the words start at
    /// [`Area::FIRST_WORD`].
    #[inline]
    pub fn address(&self) -> usize {
        self.area.slot_at(self.cpu as isize).as_ptr() as usize
    }

    /// Returns the area that the slot belongs to.
    pub fn area(&self) -> &Area {
        self.area
    }
}

#[cfg(test)]
thread_local! {
    /// How many times this thread has closed a gate.
    pub(crate) static CLOSED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Area {
    /// Closes the gate of a CPU's slot. Until the guard is dropped, no sequence accesses the slot.
    ///
    /// Blocks while another thread holds the gate, and a few milliseconds at most while one forks.
    /// Closing and opening together cost two system calls for the signal mask, and a third for the
    /// fence unless the gate is permanently closed. They cost four atomic instructions: to make
    /// forks wait, to take the lock, to release it, and to let forks proceed. Allocates nothing,
    /// and may be called in a signal handler. The thread must hold no other gate; see
    /// [`GateGuard`].
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    #[track_caller]
    pub fn close_gate(&self, cpu: usize) -> GateGuard<'_> {
        self.check(cpu);
        let signals = platform::SignalsBlocked::enter();
        self.hold(cpu, signals)
    }

    /// Closes the gate of the CPU that this thread runs on when it asks for the number. The thread
    /// may migrate afterwards.
    pub(super) fn close_here(&self) -> GateGuard<'_> {
        // This is a system call on some machines, and a sandbox may answer it with a signal:
        // signals must not be blocked yet.
        let cpu = platform::current_cpu();
        let signals = platform::SignalsBlocked::enter();
        self.hold(cpu, signals)
    }

    fn hold(&self, cpu: usize, signals: platform::SignalsBlocked) -> GateGuard<'_> {
        #[cfg(test)]
        CLOSED.with(|closed| closed.set(closed.get() + 1));
        let before = lock(self.gate_at(cpu as isize));
        if before & FOR_GOOD == 0 {
            // The system call orders the gate's store before the abort of running sections, and
            // their stores before what this thread loads next.
            platform::membarrier_rseq(cpu);
        }
        GateGuard {
            area: self,
            cpu,
            _signals: signals,
        }
    }
}

impl fmt::Debug for GateGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateGuard").field("cpu", &self.cpu).finish()
    }
}

impl Drop for GateGuard<'_> {
    fn drop(&mut self) {
        unlock(self.area.gate_at(self.cpu as isize));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    /// Returns whether this thread blocks a signal that no test blocks.
    #[cfg(all(unix, not(miri)))]
    fn is_blocked() -> bool {
        let mut mask = std::mem::MaybeUninit::uninit();
        // SAFETY: a null set only queries the mask, and the call initializes `mask` before it is
        // read.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
            libc::sigismember(mask.as_ptr(), libc::SIGUSR2) == 1
        }
    }

    #[cfg(all(unix, not(miri)))]
    #[test]
    fn signals_stay_blocked_until_every_gate_is_open() {
        let areas = [Area::try_new(0).unwrap(), Area::try_new(0).unwrap()];
        for first in [0, 1] {
            let mut held = [0, 1].map(|area| Some(areas[area].close_gate(0)));
            held[first] = None;
            assert!(is_blocked(), "only {first} is open");
            held[1 - first] = None;
            assert!(!is_blocked(), "{first} was opened first");
        }
    }

    /// The state that the child of a fork finds if another thread of the parent had closed a gate.
    #[test]
    fn a_gate_held_in_the_parent_of_a_fork_is_acquired() {
        let area = Area::try_new(0).unwrap();
        let gate = area.gate_at(0);
        let open = gate.load(Ordering::Relaxed);
        let (locked, waiters, of_another) = (1, 2, 77 << 8);
        gate.store(open | locked | waiters | of_another, Ordering::Relaxed);
        let held = area.close_gate(0);
        assert_ne!(gate.load(Ordering::Relaxed), open);
        drop(held);
        assert_eq!(gate.load(Ordering::Relaxed), open);
    }
}
