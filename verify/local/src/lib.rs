//! Tests of `atomseq::local` with real signals, and of what must not compile. Here: what they
//! share.
#![cfg(target_os = "linux")]

pub mod ledger;
pub mod loaded;
pub mod trials;
