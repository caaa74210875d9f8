//! Counts the words in every file under a directory, with several threads and per-CPU structures,
//! and puts the same program beside it on a locked map and on thread-local maps.
//!
//! ```text
//! cargo run --release --example tally -p atomseq -- [DIRECTORY] [--threads N] [--top K] [--runs N]
//! ```
//!
//! | module | what lives there |
//! |---|---|
//! | [`counts`], [`table`] | the per-CPU hash of counters, built from nothing with `sequence!`: read this first |
//! | [`work`] | threads, the per-CPU queue of files that they share, the per-CPU statistics |
//! | [`ways`] | the ways to count: per-CPU tables, one thread, a locked map, locked shards, thread-local maps |
//! | [`words`], [`text`] | what a word is; interned words and their hash |
//! | [`files`], [`arguments`], [`progress`], [`report`] | finding files, the command line, what is printed |

mod arguments;
mod counts;
mod files;
mod progress;
mod report;
mod table;
mod text;
mod ways;
mod words;
mod work;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use arguments::Request;

fn main() -> ExitCode {
    exit_code(run(
        std::env::args_os().skip(1),
        &mut io::stdout(),
        &mut io::stderr(),
    ))
}

/// The whole program but for the process around it: 0 if all counts agree, 1 if not, 2 if the
/// arguments make no sense.
pub fn run(
    arguments: impl Iterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    match arguments::parse(arguments) {
        Ok(Request::Help) => write!(out, "{}", arguments::HELP).map(|()| 0),
        Ok(Request::Tally(options)) => {
            let show_progress = io::stderr().is_terminal();
            match report::tally(&options, show_progress, out, err)? {
                true => Ok(0),
                false => Ok(1),
            }
        }
        Err(sentence) => writeln!(err, "tally: {sentence} (--help says more)").map(|()| 2),
    }
}

/// A reader who has seen enough of the output (`tally | head`) is no failure.
pub fn exit_code(result: io::Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tally: cannot write: {error}");
            ExitCode::FAILURE
        }
    }
}
