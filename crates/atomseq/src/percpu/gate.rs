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

use super::area::Area;
use super::lock::{FOR_GOOD, lock, unlock};
use crate::platform;

/// A slot whose gate this thread has closed; dropped, it opens.
///
/// All signals are blocked on this thread meanwhile, and forks in other threads wait. So hold one
/// at a time, briefly, and neither fork nor run code you do not know: two threads that each hold a
/// gate and want the other's wait forever
/// ([why](crate::docs::limitations#hold-one-gate-at-a-time)). A fault, which a handler of `SIGSEGV`
/// or `SIGBUS` may mend elsewhere, ends the process.
///
/// M94 2.3.2 has gates for page faults; opening other CPUs' data with one is atomseq's.
pub struct GateGuard<'a> {
    area: &'a Area,
    cpu: usize,
    // Dropped after the gate is open: see `Drop`.
    _quiet: platform::SignalsBlocked,
}

impl GateGuard<'_> {
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

#[cfg(test)]
thread_local! {
    /// How many gates this thread has closed.
    pub(crate) static CLOSED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Area {
    /// Closes the gate of a CPU's slot: until the guard is dropped, no sequence touches the slot.
    ///
    /// Blocks while another thread holds it. Costs, opening included, two system calls for the
    /// signal mask, four atomic instructions and, unless the gate is closed for good, the fence,
    /// which is a third system call. Allocates nothing, and may be called in a signal handler. The
    /// thread must hold no other gate: see [`GateGuard`].
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    pub fn close_gate(&self, cpu: usize) -> GateGuard<'_> {
        assert!(
            cpu < self.cpus(),
            "CPU {cpu} has no slot: there are {}",
            self.cpus()
        );
        let quiet = platform::SignalsBlocked::enter();
        self.hold(cpu, quiet)
    }

    /// Closes the gate of the CPU this thread runs on as it asks.
    pub(super) fn close_here(&self) -> GateGuard<'_> {
        // A system call on some machines, which a sandbox may answer by a signal.
        let cpu = platform::current_cpu();
        let quiet = platform::SignalsBlocked::enter();
        self.hold(cpu, quiet)
    }

    fn hold(&self, cpu: usize, quiet: platform::SignalsBlocked) -> GateGuard<'_> {
        #[cfg(test)]
        CLOSED.with(|closed| closed.set(closed.get() + 1));
        let before = lock(self.gate_at(cpu as isize));
        if before & FOR_GOOD == 0 {
            // After the gate's store: the system call orders them.
            platform::membarrier_rseq(cpu);
        }
        GateGuard {
            area: self,
            cpu,
            _quiet: quiet,
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

    /// Does this thread block a signal that the tests never do?
    #[cfg(unix)]
    fn is_blocked() -> bool {
        let mut mask = std::mem::MaybeUninit::uninit();
        // SAFETY: a question: the first argument is ignored, and the answer initialises the mask.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
            libc::sigismember(mask.as_ptr(), libc::SIGUSR2) == 1
        }
    }

    #[cfg(unix)]
    #[test]
    fn signals_stay_blocked_until_the_last_gate_is_open_whichever_it_is() {
        let areas = [Area::try_new(0).unwrap(), Area::try_new(0).unwrap()];
        for first in [0, 1] {
            let mut held = [0, 1].map(|area| Some(areas[area].close_gate(0)));
            held[first] = None;
            assert!(is_blocked(), "only {first} is open");
            held[1 - first] = None;
            assert!(!is_blocked(), "{first} was opened first");
        }
    }

    /// What a child of a fork finds where another thread of its parent had closed a gate.
    #[test]
    fn a_gate_closed_by_an_earlier_generation_is_taken_over() {
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
