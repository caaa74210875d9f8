//! The storm: signals as many as the machine can send, to threads that change the same words as
//! their handlers.
//!
//! [`sequences`] has what both run, [`arena`] the words and the books, `structures` those of
//! `atomseq::local`, [`senders`] whoever interrupts, [`trial`] runs it all, [`lives`] starts and
//! ends threads and processes in the middle of it.

pub mod arena;
pub mod lives;
pub mod senders;
pub mod sequences;
mod structures;
pub mod trial;
