//! The command line.

use std::path::PathBuf;

use clap::Parser;

use super::samples::Samples;

/// Counts the words of all files under a directory, interrupted by a timer on every thread, and
/// reports where the time went.
///
/// The same work is done with and without the timers in turn, so that the cost of profiling is
/// known. Samples are of wall time: a thread that waits is sampled waiting.
#[derive(Parser)]
#[command(
    name = "profiler",
    max_term_width = 100,
    after_help = "Exit status: 0 if every handler entry is accounted for, 1 if not or if nothing could \
                  be profiled, 2 if the arguments make no sense."
)]
pub struct Options {
    /// The directory whose files are read. [default: the Rust documentation that rustup installed,
    /// else `.`]
    pub directory: Option<PathBuf>,
    /// The number of threads, each with a timer of its own. [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Ticks per second on each thread.
    #[arg(long, value_name = "HZ", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub frequency: u32,
    /// Seconds of work with timers; the same work is then done without them.
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub seconds: u32,
    /// The number of functions to print.
    #[arg(long, value_name = "K", default_value_t = 15)]
    pub top: usize,
    /// The number of program counters for which each CPU's table has room, rounded up to a power of
    /// two.
    #[arg(long, value_name = "N", default_value_t = 1 << 14, value_parser = entries)]
    pub entries: usize,
}

impl Options {
    /// Returns the directory, and a sentence about it if it is the default one.
    pub fn directory(&self) -> Result<(PathBuf, Option<&'static str>), String> {
        demo_common::options::directory(self.directory.as_deref())
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        demo_common::options::threads(self.threads)
    }

    /// Returns the nanoseconds between two ticks.
    pub fn interval(&self) -> u64 {
        1_000_000_000 / u64::from(self.frequency)
    }
}

fn entries(text: &str) -> Result<usize, String> {
    let (least, max) = (Samples::ENTRIES.start(), Samples::ENTRIES.end());
    text.parse()
        .ok()
        .filter(|entries| Samples::ENTRIES.contains(entries))
        .ok_or_else(|| format!("expected a number from {least} to {max}"))
}
