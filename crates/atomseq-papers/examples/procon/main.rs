//! B91's procon-64 (section 4.3): a producer reads a large file into a buffer of 64 slots, a
//! consumer takes it out, and a mutex with two conditions guards the buffer; with the mutex's
//! mechanism chosen by option.
//!
//! ```text
//! cargo run --release --example procon -p atomseq-papers -- [FILE] [--mechanism NAME]… [--all] [--cpus 1|2] …
//! ```
//!
//! | module | what lives there |
//! |---|---|
//! | [`monitor`], [`buffer`] | the buffer, and a mutex and two conditions around it: read this first |
//! | [`locks`] | the mutexes: atomseq's by mechanism, those of others |
//! | [`mechanisms`] | which there are, by name, and which cannot guard the data of two threads |
//! | [`copying`] | producer and consumer, what they count |
//! | [`files`], [`threads`] | where input comes from and output goes; CPUs, and how often a thread blocked |
//! | [`options`], [`report`] | the command line; what is printed |

mod buffer;
pub(crate) mod copying;
pub(crate) mod files;
pub(crate) mod locks;
pub(crate) mod mechanisms;
mod monitor;
pub(crate) mod options;
mod report;
pub(crate) mod threads;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use copying::Job;
use files::Input;
use options::Options;

fn main() -> ExitCode {
    exit_code(run(
        std::env::args_os().skip(1),
        &mut io::stdout(),
        &mut io::stderr(),
    ))
}

/// The whole program but for the process around it: 0 if what came out is what went in, 1 if not or
/// if it could not be copied, 2 if the arguments make no sense.
pub fn run(
    arguments: impl Iterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    let arguments = std::iter::once(OsString::from("procon")).chain(arguments);
    let options = match Options::try_parse_from(arguments) {
        Ok(options) => options,
        Err(help) if !help.use_stderr() => return write!(out, "{help}").map(|()| 0),
        Err(error) => {
            let text = error.to_string();
            let sentence = text.lines().next().unwrap_or_default();
            return refuse(sentence.trim_start_matches("error: "), err);
        }
    };
    match options.plan() {
        Ok(plan) => copy(&plan, out, err),
        Err(sentence) => refuse(&sentence, err),
    }
}

fn refuse(sentence: &str, err: &mut dyn Write) -> io::Result<u8> {
    writeln!(err, "procon: {sentence} (--help says more)").map(|()| 2)
}

/// Copies with each mechanism, and prints what came of it.
pub(crate) fn copy(
    plan: &options::Plan,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    let passes = plan.mechanisms.len() as u64 * u64::from(plan.runs) + 1;
    let progress = bar(plan.input.bytes * passes);
    // This pass also brings the file into memory for those that are timed.
    progress.set_message("the checksum");
    let checksum = match plan.input.checksum(|bytes| progress.inc(bytes)) {
        Ok(checksum) => checksum,
        Err(error) => {
            progress.finish_and_clear();
            return writeln!(err, "procon: {}: {error}", plan.input.path.display()).map(|()| 1);
        }
    };
    let mut rows = Vec::new();
    for mechanism in &plan.mechanisms {
        progress.set_message(mechanism.name);
        let mut best = None;
        for _ in 0..plan.runs {
            let copied = (mechanism.copy)(&Job::of(plan, &progress))
                .map_err(|error| error.to_string())
                .and_then(|outcome| judge(plan, &outcome, checksum).map(|()| outcome));
            match copied {
                Ok(outcome) => report::keep_best(&mut best, outcome),
                Err(sentence) => {
                    progress.finish_and_clear();
                    return writeln!(err, "procon: {}: {sentence}", mechanism.name).map(|()| 1);
                }
            }
        }
        rows.extend(best.map(|outcome| (*mechanism, outcome)));
    }
    progress.finish_and_clear();
    report::print(plan, checksum, &rows, out)?;
    Ok(0)
}

/// Is what came out what went in?
fn judge(plan: &options::Plan, outcome: &copying::Outcome, checksum: u32) -> Result<(), String> {
    let Input { path, bytes, .. } = &plan.input;
    let differ = |what: &str, was: u64, expected: u64| {
        format!(
            "{what} {was:#x}, but {expected:#x} went in; unless {} changed meanwhile, that is a fault of the mutex",
            path.display()
        )
    };
    if outcome.bytes != *bytes {
        return Err(differ(
            "the number of bytes that came out is",
            outcome.bytes,
            *bytes,
        ));
    }
    let checksums = [
        ("the checksum of what came out is", Some(outcome.checksum)),
        ("the checksum of the written file is", outcome.written),
    ];
    for (what, found) in checksums {
        if let Some(found) = found.filter(|found| *found != checksum) {
            return Err(differ(what, found.into(), checksum.into()));
        }
    }
    Ok(())
}

/// The bar, on standard error and only on a terminal.
fn bar(bytes: u64) -> ProgressBar {
    let target = match io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(bytes), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    bar
}

/// A reader who has seen enough of the output (`procon | head`) is no failure.
pub fn exit_code(result: io::Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("procon: cannot write: {error}");
            ExitCode::FAILURE
        }
    }
}
