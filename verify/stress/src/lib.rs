//! Real threads on the real library, under everything that interrupts a section: threads are moved
//! from CPU to CPU, signal handlers use the same structures, gates are closed for drains and
//! steals, processes fork.
//!
//! What goes in must come out, once and whole. [`books`] and [`ledger`] keep count, [`structures`]
//! has every structure of the library, [`torment`] interrupts, [`trial`] runs it all. [`exclusion`]
//! counts what locks keep out.
#![cfg(target_os = "linux")]

pub mod books;
#[cfg(atomseq_sections)]
pub mod exclusion;
pub mod ledger;
#[cfg(atomseq_sections)]
pub mod storm;
pub mod structures;
pub mod torment;
pub mod trial;

use std::time::Duration;

/// How long something that usually takes so long should take, under `ATOMSEQ_STRESS_FACTOR`.
pub fn lengthened(usual: Duration) -> Duration {
    let factor = std::env::var("ATOMSEQ_STRESS_FACTOR").ok();
    usual * factor.and_then(|factor| factor.parse().ok()).unwrap_or(1)
}
