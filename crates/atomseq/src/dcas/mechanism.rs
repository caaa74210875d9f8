//! Which mechanism this process uses, chosen once.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use super::assisted::HIGHEST_CPU;
use crate::{percpu, platform};

/// How a domain's operations are made atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// OS-assisted (GC96 6.1): one atomic instruction; obstruction-free. A holder that is preempted
    /// or ended is thrown out and its operation undone.
    Assisted,
    /// k-CAS: lock-free; two atomic instructions for each word, and two for the version.
    Kcas,
}

impl Mechanism {
    /// Itself, or k-CAS if it does not work here.
    pub(crate) fn or_kcas(self) -> Mechanism {
        match self {
            Mechanism::Assisted if assisted_works() => Mechanism::Assisted,
            _ => Mechanism::Kcas,
        }
    }
}

/// 0 not chosen yet.
static CHOSEN: AtomicU8 = AtomicU8::new(0);
const ASSISTED: u8 = 1;
const KCAS: u8 = 2;

/// The mechanism of this process: [`Assisted`](Mechanism::Assisted) where [gates are
/// active](crate::status::Status::gates_active), else [`Kcas`](Mechanism::Kcas). Chosen with the
/// first domain, and then for good. A domain made inside atomseq's start-up uses k-CAS, and chooses
/// nothing.
pub fn mechanism() -> Mechanism {
    // Relaxed: a number on its own.
    match CHOSEN.load(Ordering::Relaxed) {
        ASSISTED => Mechanism::Assisted,
        KCAS => Mechanism::Kcas,
        _ if percpu::started().is_err() => Mechanism::Kcas,
        _ => choose(if assisted_works() { ASSISTED } else { KCAS }),
    }
}

/// Does the kernel do its part, and does an id hold the number of every CPU?
pub(super) fn assisted_works() -> bool {
    platform::start().gates_active() && platform::cpu_slots() <= HIGHEST_CPU + 1
}

/// Chooses k-CAS for this process, which is lock-free, although OS-assisted DCAS would work.
///
/// # Errors
///
/// [`AlreadyChosen`], if there has been a domain before, and it was the other one.
pub fn force_kcas() -> Result<(), AlreadyChosen> {
    match choose(KCAS) {
        Mechanism::Kcas => Ok(()),
        Mechanism::Assisted => Err(AlreadyChosen),
    }
}

fn choose(mechanism: u8) -> Mechanism {
    let before = CHOSEN.compare_exchange(0, mechanism, Ordering::Relaxed, Ordering::Relaxed);
    match before.map_or_else(|chosen| chosen, |_| mechanism) {
        ASSISTED => Mechanism::Assisted,
        _ => Mechanism::Kcas,
    }
}

/// The mechanism is chosen already: force it before the first domain is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyChosen;

impl fmt::Display for AlreadyChosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the mechanism is chosen already: force it before the first domain is made")
    }
}

impl std::error::Error for AlreadyChosen {}
