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

/// The chosen mechanism. 0 means none is chosen yet.
static CHOSEN: AtomicU8 = AtomicU8::new(0);
const ASSISTED: u8 = 1;
const KCAS: u8 = 2;

/// Returns the mechanism of this process: [`Assisted`](Mechanism::Assisted) if [gates are
/// active](crate::status::Status::gates_active), else [`Kcas`](Mechanism::Kcas).
///
/// The first domain, or the first call of this function, chooses it for the rest of the process. A
/// domain created inside atomseq's start-up uses k-CAS, and chooses nothing.
pub fn mechanism() -> Mechanism {
    // Relaxed: the value publishes nothing else.
    match CHOSEN.load(Ordering::Relaxed) {
        ASSISTED => Mechanism::Assisted,
        KCAS => Mechanism::Kcas,
        _ if percpu::started().is_err() => Mechanism::Kcas,
        _ => choose(if assisted_works() { ASSISTED } else { KCAS }),
    }
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
    match choose(KCAS) {
        Mechanism::Kcas => Ok(()),
        Mechanism::Assisted => Err(AlreadyChosen),
    }
}

fn choose(mechanism: u8) -> Mechanism {
    // Relaxed: the value publishes nothing else.
    let before = CHOSEN.compare_exchange(0, mechanism, Ordering::Relaxed, Ordering::Relaxed);
    match before.map_or_else(|chosen| chosen, |_| mechanism) {
        ASSISTED => Mechanism::Assisted,
        _ => Mechanism::Kcas,
    }
}

/// The error of [`force_kcas`]: the process already uses OS-assisted DCAS. Call it before the first
/// domain is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyChosen;

impl fmt::Display for AlreadyChosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "OS-assisted DCAS is already chosen: force k-CAS before the first domain is created",
        )
    }
}

impl std::error::Error for AlreadyChosen {}
