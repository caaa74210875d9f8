//! The storm: as many signals as the machine can deliver, to threads that change the same words as
//! their handlers.
//!
//! [`sequences`] has what both run, [`arena`] the words and the records of each actor, `structures`
//! the structures of `atomseq::local`, [`senders`] what sends signals. [`trial`] runs a storm;
//! [`lives`] starts and ends threads and processes during one.
//!
//! It is not the engine's target `signals`: it runs without the engine's ledger and random numbers,
//! so that signals mostly interrupt sequences, and it also sends queued signals with values.

pub mod arena;
pub mod lives;
pub mod senders;
pub mod sequences;
mod structures;
pub mod trial;
