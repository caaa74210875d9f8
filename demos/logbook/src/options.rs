//! The command line.

use std::path::PathBuf;

use clap::Parser;

use demo_common::files::{self, Found};

use super::crew::Plan;
use super::ranking::MAX_RANKS;

/// Finds the most frequent words in all text files under a directory, with threads that no stopped
/// thread can block.
///
/// Writers append the lines of the files to a bounded queue. Folders count their words and maintain
/// a ranking. A reader reads the ranking continually, and so does a signal handler that timers run
/// on writers and folders. The same is done on atomseq's structures, on crossbeam's and on mutexes,
/// and the results are compared with those of a single thread.
#[derive(Parser)]
#[command(
    name = "logbook",
    max_term_width = 100,
    after_help = "A word is a run of characters that Unicode calls alphanumeric. ASCII letters are \
                  converted to lower case, and a word is cut to 32 bytes. Symbolic links are followed, \
                  and each directory is entered once. Files that are not regular, cannot be read or are \
                  not UTF-8 are reported and skipped.\n\n\
                  Exit status: 0 if all ways agree with the single thread, 1 if one does not or could \
                  not run, 2 if the arguments make no sense or there is no text."
)]
pub struct Options {
    /// The directory that contains the files.
    directory: PathBuf,
    /// The number of threads that append lines. [default: one for every two CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    writers: Option<u16>,
    /// The number of threads that count their words. [default: one for every two CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    folders: Option<u16>,
    /// The number of words in the ranking.
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=MAX_RANKS as i64))]
    top: u16,
    /// The capacity of the queue, in lines.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    lines: u32,
    /// Interrupts per second on each writer and folder; 0 for none.
    #[arg(long, value_name = "HZ", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=5_000))]
    hertz: u32,
    /// Runs of each way; the fastest one is reported.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: u16,
}

impl Options {
    /// Finds the files. An error is a sentence.
    pub fn plan(&self) -> Result<(Plan, Found), String> {
        let directory = &self.directory;
        if !directory.exists() {
            return Err(format!(
                "{directory:?} does not exist, or it cannot be reached"
            ));
        }
        if !directory.is_dir() {
            return Err(format!(
                "{directory:?} is not a directory; give the directory that contains it"
            ));
        }
        let mut found = files::find(directory);
        // The same order in every run.
        found.files.sort();
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get().min(512));
        let threads = |asked: Option<u16>| asked.map_or(cpus.div_ceil(2), usize::from);
        let plan = Plan {
            files: std::mem::take(&mut found.files),
            bytes: found.bytes,
            writers: threads(self.writers),
            folders: threads(self.folders),
            top: self.top.into(),
            hertz: self.hertz,
        };
        Ok((plan, found))
    }

    /// Returns the capacity of the queue, in lines.
    pub fn room(&self) -> usize {
        self.lines as usize
    }
}
