//! B91's procon-64 (section 4.3). A producer reads a large file into a buffer of 64 slots, a
//! consumer takes it out, and a mutex with two conditions guards the buffer. An option selects the
//! mechanism of the mutex.
//!
//! ```text
//! cargo run --release -p demo-procon -- [FILE] [--mechanism NAME]… [--all] [--cpus 1|2] …
//! ```
//!
//! | module | what lives there |
//! |---|---|
//! | `monitor`, `buffer` | the buffer, its mutex and its two conditions: read this first |
//! | `locks` | the mutexes: atomseq's by mechanism, and those of others |
//! | `mechanisms` | the mechanisms by name, and those that cannot guard data of two threads |
//! | `copying` | producer and consumer, and what they count |
//! | `files` | input and output |
//! | `options`, `report` | the command line; the report |

mod buffer;
mod copying;
mod files;
mod locks;
mod mechanisms;
mod monitor;
mod options;
mod report;

use std::ffi::OsString;
use std::io::{self, Write};

use demo_common::options::refuse;
use demo_common::progress::Progress;

use copying::Job;
use files::Input;
use options::Options;

pub use mechanisms::{ALL, FOR_HANDLERS, Mechanism};

const PROGRAM: &str = "procon";

/// Runs the demo. Returns 0 if every copy is correct, 1 if one is not or could not be made, 2 if
/// the arguments make no sense.
///
/// # Errors
///
/// Those of writing to `out` or `err`.
pub fn run(
    arguments: impl Iterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    let copy = |options: Options, out: &mut dyn Write, err: &mut dyn Write| match options.plan() {
        Ok(plan) => copy(&plan, out, err),
        Err(sentence) => refuse(PROGRAM, &sentence, err),
    };
    demo_common::options::run(PROGRAM, arguments, out, err, copy)
}

/// Copies with each mechanism, and prints the report.
fn copy(plan: &options::Plan, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let passes = plan.mechanisms.len() as u64 * u64::from(plan.runs) + 1;
    let progress = Progress::new(plan.input.bytes * passes);
    // This pass also brings the file into the page cache for the timed ones.
    progress.stage("the checksum");
    let checksum = match plan.input.checksum(|bytes| progress.add(bytes)) {
        Ok(checksum) => checksum,
        Err(error) => {
            drop(progress);
            return writeln!(err, "{PROGRAM}: {}: {error}", plan.input.path.display()).map(|()| 1);
        }
    };
    let mut rows = Vec::new();
    for mechanism in &plan.mechanisms {
        progress.stage(mechanism.name);
        let mut outcomes = Vec::new();
        for _ in 0..plan.runs {
            let copied = (mechanism.copy)(&Job::of(plan, &progress))
                .map_err(|error| error.to_string())
                .and_then(|outcome| judge(plan, &outcome, checksum).map(|()| outcome));
            match copied {
                Ok(outcome) => outcomes.push(outcome),
                Err(sentence) => {
                    drop(progress);
                    return writeln!(err, "{PROGRAM}: {}: {sentence}", mechanism.name).map(|()| 1);
                }
            }
        }
        rows.push((*mechanism, outcomes));
    }
    drop(progress);
    report::print(plan, checksum, &rows, out)?;
    Ok(0)
}

/// Compares the copy with the input.
fn judge(plan: &options::Plan, outcome: &copying::Outcome, checksum: u32) -> Result<(), String> {
    let Input { path, bytes, .. } = &plan.input;
    let differ = |what: &str, was: u64, expected: u64| {
        format!(
            "{what} {was:#x}, that of the input {expected:#x}; unless {} changed meanwhile, the mutex is faulty",
            path.display()
        )
    };
    if outcome.bytes != *bytes {
        return Err(differ("the length of the copy is", outcome.bytes, *bytes));
    }
    let checksums = [
        ("the checksum of the copy is", Some(outcome.checksum)),
        ("the checksum of the written file is", outcome.written),
    ];
    for (what, found) in checksums {
        if let Some(found) = found.filter(|found| *found != checksum) {
            return Err(differ(what, found.into(), checksum.into()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
