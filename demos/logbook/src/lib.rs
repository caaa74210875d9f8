//! Finds the most frequent words of a directory of text files on structures that no preempted,
//! stopped or exited thread can block, and does the same on crossbeam's structures and on mutexes.
//!
//! ```text
//! cargo run --release -p demo-logbook -- DIRECTORY [--writers N] [--folders N] [--top K] …
//! ```
//!
//! | module | what lives there |
//! |---|---|
//! | `books` | what all threads share, in each of the ways: read `books::Nonblocking` first |
//! | `ranking` | keeps the most frequent words in order without a lock |
//! | `handler` | the signal handler that reads the ranking, and its timer |
//! | `crew`, `patience` | the threads, and how they wait |
//! | `words`, `texts` | what a word is; the files' texts |
//! | `report`, `options` | the report; the command line |
//!
//! Only Linux has timers that interrupt one thread.
#![cfg(target_os = "linux")]

mod books;
mod crew;
mod handler;
mod options;
mod patience;
mod ranking;
mod report;
mod texts;
mod words;

pub use report::run;
