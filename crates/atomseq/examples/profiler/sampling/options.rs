//! The command line.

use std::path::PathBuf;

use clap::Parser;

use super::samples::Samples;
use super::tally::arguments::default_directory;

/// Counts words, as the example `tally` does, interrupted by a timer on every thread, and says
/// where the time went.
///
/// The same work is done with and without the timers in turn, so that what profiling costs is
/// known. Samples are of wall time: a thread that waits is seen waiting.
#[derive(Parser)]
#[command(
    name = "profiler",
    max_term_width = 100,
    after_help = "Exit status: 0 every handler entry is accounted for, 1 some are not or nothing could be \
                  profiled, 2 the arguments make no sense."
)]
pub struct Options {
    /// The directory whose files are read. [default: the Rust documentation that rustup installed,
    /// else `.`]
    pub directory: Option<PathBuf>,
    /// How many threads work, each with a timer of its own. [default: one a CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Ticks a second on each thread.
    #[arg(long, value_name = "HZ", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub frequency: u32,
    /// How long to work with timers, in seconds; the same again without them.
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub seconds: u32,
    /// How many functions to print.
    #[arg(long, value_name = "K", default_value_t = 15)]
    pub top: usize,
    /// For how many program counters each CPU's table has room, rounded up to a power of two.
    #[arg(long, value_name = "N", default_value_t = 1 << 14, value_parser = entries)]
    pub entries: usize,
}

impl Options {
    /// The directory, and why this one if nobody asked for it; or a sentence.
    pub fn directory(&self) -> Result<(PathBuf, Option<&'static str>), String> {
        match &self.directory {
            Some(directory) if !directory.exists() => {
                Err(format!("there is no {directory:?}, or no way to reach it"))
            }
            Some(directory) => Ok((directory.clone(), None)),
            None => Ok(default_directory()),
        }
    }

    /// How many threads work.
    pub fn threads(&self) -> usize {
        match self.threads {
            Some(threads) => usize::from(threads),
            None => std::thread::available_parallelism().map_or(1, |cpus| cpus.get().min(1024)),
        }
    }

    /// Nanoseconds from one tick to the next.
    pub fn interval(&self) -> u64 {
        1_000_000_000 / u64::from(self.frequency)
    }
}

fn entries(text: &str) -> Result<usize, String> {
    let (least, most) = (Samples::ENTRIES.start(), Samples::ENTRIES.end());
    text.parse()
        .ok()
        .filter(|entries| Samples::ENTRIES.contains(entries))
        .ok_or_else(|| format!("it takes a number from {least} to {most}"))
}
