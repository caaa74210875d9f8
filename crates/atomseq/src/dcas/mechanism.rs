//! The mechanism of this process, chosen once.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use super::assisted::HIGHEST_CPU;
use crate::{percpu, platform};

/// A mechanism by which a domain's operations are atomic. [The module](super#mechanisms) compares
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// OS-assisted DCAS (GC96, section 6.1): obstruction-free, one atomic instruction per change. A
    /// holder that is preempted or has exited is revoked, and its changes are rolled back.
    Assisted,
    /// k-CAS: lock-free, 2k + 2 atomic instructions for k words.
    Kcas,
}

impl Mechanism {
    /// Returns this mechanism, or k-CAS if this one does not work here.
    pub(crate) fn or_kcas(self) -> Mechanism {
        match self {
            Mechanism::Assisted if assisted_works() => Mechanism::Assisted,
            _ => Mechanism::Kcas,
        }
    }
}

/// A mechanism that is chosen once.
#[derive(Debug)]
pub(super) struct Choice(AtomicU8);

const NONE: u8 = 0;
const ASSISTED: u8 = 1;
const KCAS: u8 = 2;

impl Choice {
    /// Leaves the choice open.
    pub(super) const fn open() -> Choice {
        Choice(AtomicU8::new(NONE))
    }

    pub(super) const fn made(mechanism: Mechanism) -> Choice {
        Choice(AtomicU8::new(number(mechanism)))
    }

    /// Returns the choice, if it is made.
    #[inline(always)]
    pub(super) fn get(&self) -> Option<Mechanism> {
        // Relaxed: the value publishes nothing else.
        match self.0.load(Ordering::Relaxed) {
            ASSISTED => Some(Mechanism::Assisted),
            KCAS => Some(Mechanism::Kcas),
            _ => None,
        }
    }

    /// Makes the choice unless it is made, and returns it.
    pub(super) fn choose(&self, mechanism: Mechanism) -> Mechanism {
        // Relaxed: the value publishes nothing else.
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let choice = number(mechanism);
        _ = self.0.compare_exchange(NONE, choice, success, failure);
        self.get().unwrap_or(mechanism)
    }
}

const fn number(mechanism: Mechanism) -> u8 {
    match mechanism {
        Mechanism::Assisted => ASSISTED,
        Mechanism::Kcas => KCAS,
    }
}

/// The mechanism of this process.
static CHOSEN: Choice = Choice::open();

/// Returns the mechanism of this process: [`Assisted`](Mechanism::Assisted) if the rseq membarrier
/// works ([`gates_active`](crate::status::Status::gates_active)), else [`Kcas`](Mechanism::Kcas).
///
/// The first operation of a domain, the first structure of [`nonblocking`](crate::nonblocking), or
/// the first call of this function, chooses it for the rest of the process. A domain whose first
/// operation runs inside atomseq's start-up uses k-CAS, and chooses nothing for others.
pub fn mechanism() -> Mechanism {
    CHOSEN.get().unwrap_or_else(|| {
        if percpu::started().is_err() {
            return Mechanism::Kcas;
        }
        CHOSEN.choose(Mechanism::Assisted.or_kcas())
    })
}

/// Returns whether the kernel has what OS-assisted DCAS needs, and every CPU number fits the lock
/// word.
pub(super) fn assisted_works() -> bool {
    platform::start().gates_active() && platform::cpu_slots() <= HIGHEST_CPU + 1
}

/// Chooses k-CAS, which is lock-free, for this process, even if OS-assisted DCAS would work.
///
/// # Errors
///
/// [`AlreadyChosen`] if the process has already chosen [`Mechanism::Assisted`].
pub fn force_kcas() -> Result<(), AlreadyChosen> {
    match CHOSEN.choose(Mechanism::Kcas) {
        Mechanism::Kcas => Ok(()),
        Mechanism::Assisted => Err(AlreadyChosen),
    }
}

/// The error of [`force_kcas`]: the process already uses OS-assisted DCAS. Call it before the first
/// domain is used and before the first structure of [`nonblocking`](crate::nonblocking) is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyChosen;

impl fmt::Display for AlreadyChosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "OS-assisted DCAS is already chosen: force k-CAS before the first domain is used",
        )
    }
}

impl std::error::Error for AlreadyChosen {}
