//! Finds the most frequent words of a directory of text files on structures that no preempted,
//! ended or interrupted thread can block, and the same beside it on crossbeam's and on mutexes.
//!
//! ```text
//! cargo run --release --example logbook -p atomseq -- DIRECTORY [--writers N] [--folders N] [--top K] …
//! ```
//!
//! | module | what lives there |
//! |---|---|
//! | [`books`] | what all threads share, in each of the ways: read [`books::Nonblocking`] first |
//! | [`ranking`] | keeping the most frequent words in order without a lock |
//! | [`handler`], [`timer`] | the signal handler that asks, and what calls it |
//! | [`crew`], [`patience`] | the threads |
//! | [`words`], [`texts`], [`files`] | what a word is; reading files, and finding them |
//! | [`report`], [`options`] | what is printed; the command line |
//!
//! Timers that interrupt one thread are Linux's.

#[cfg(target_os = "linux")]
mod books;
#[cfg(target_os = "linux")]
mod crew;
#[cfg(target_os = "linux")]
#[path = "../tally/files.rs"]
mod files;
#[cfg(target_os = "linux")]
mod handler;
#[cfg(target_os = "linux")]
mod options;
#[cfg(target_os = "linux")]
mod patience;
#[cfg(target_os = "linux")]
mod ranking;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod texts;
#[cfg(target_os = "linux")]
#[path = "../profiler/sampling/timer.rs"]
#[allow(dead_code, reason = "`profiler` does more with it")]
mod timer;
#[cfg(target_os = "linux")]
mod words;

#[cfg(target_os = "linux")]
pub use report::{exit_code, run};

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    exit_code(run(
        std::env::args_os().skip(1),
        &mut std::io::stdout(),
        &mut std::io::stderr(),
    ))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("logbook: this system has no timers that interrupt one thread; Linux has");
    std::process::exit(2);
}
