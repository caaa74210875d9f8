//! The command line.

use std::path::PathBuf;

use clap::Parser;

use super::crew::Plan;
use super::files::{self, Found};
use super::ranking::LONGEST;

/// Finds the most frequent words in all text files under a directory, with threads that nobody can
/// block.
///
/// Writers append the lines of the files to a bounded queue, folders count their words and keep a
/// ranking, a reader asks for it all the time, and timers interrupt writers and folders with a
/// signal handler that asks as well. That is done on atomseq's structures, on crossbeam's and on
/// mutexes in turn, and compared with one thread that does it all.
#[derive(Parser)]
#[command(
    name = "logbook",
    max_term_width = 100,
    after_help = "A word is a run of what Unicode calls alphanumeric, with small ASCII letters; of a longer one than 32 bytes, \
                  the beginning counts. Symbolic links are followed, and each directory is entered once. What is not a regular file, \
                  cannot be read or is not UTF-8 is reported and left out.\n\n\
                  Exit status: 0 all ways agree with the one thread, 1 they do not or could not run, 2 the arguments make no sense \
                  or there is no text."
)]
pub struct Options {
    /// Where the files are.
    directory: PathBuf,
    /// How many threads append lines. [default: one for every two CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    writers: Option<u16>,
    /// How many threads fold them. [default: one for every two CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    folders: Option<u16>,
    /// How many words the ranking has.
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=LONGEST as i64))]
    top: u16,
    /// How many lines the queue holds.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    lines: u32,
    /// How often a second each writer and folder is interrupted; 0 is never.
    #[arg(long, value_name = "HZ", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=5_000))]
    hertz: u32,
    /// How often each way runs, in turn; the fastest run counts.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: u16,
}

impl Options {
    /// Looks for files; an error is a sentence.
    pub fn plan(&self) -> Result<(Plan, Found), String> {
        let directory = &self.directory;
        if !directory.exists() {
            return Err(format!("there is no {directory:?}, or no way to reach it"));
        }
        if !directory.is_dir() {
            return Err(format!(
                "{directory:?} is no directory; give the one it is in"
            ));
        }
        let mut found = files::find(directory);
        // In the same order each time.
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

    /// How many lines the queue holds.
    pub fn room(&self) -> usize {
        self.lines as usize
    }
}
