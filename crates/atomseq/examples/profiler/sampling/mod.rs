//! The profiler: what it is made of, and one run of it.
//!
//! | module | what lives there |
//! |---|---|
//! | [`watch`] | the signal handler, what it keeps a thread, and a thread's timer on and off: read this first |
//! | [`samples`] | the per-CPU table that all handlers record into, built with `sequence!` |
//! | [`pace`] | what a thread and its own handler share: rollforward and restartable sequences |
//! | [`timer`] | a POSIX timer of one thread |
//! | [`passes`], [`tally`] | the work, with timers and without in turn |
//! | [`profile`], [`names`], [`image`], [`maps`] | from program counters to functions and lines |
//! | [`books`] | what is counted; is every handler entry accounted for? |
//! | [`report`], [`format`], [`options`] | what is printed; the command line |

mod books;
mod format;
mod image;
mod maps;
mod names;
mod options;
mod pace;
mod passes;
mod profile;
mod report;
mod samples;
#[allow(dead_code, reason = "`tally` itself does more with them")]
mod tally;
mod timer;
mod watch;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use books::Accounts;
use names::Names;
use options::Options;
use passes::{Error, Plan};
use profile::Profile;
use report::Findings;
use watch::Shared;

/// The whole program but for the process around it: 0 if every handler entry is accounted for, 1 if
/// not or if nothing could be profiled, 2 if the arguments make no sense.
pub fn run(
    arguments: impl Iterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    let arguments = std::iter::once(OsString::from("profiler")).chain(arguments);
    let options = match Options::try_parse_from(arguments) {
        Ok(options) => options,
        Err(help) if !help.use_stderr() => return write!(out, "{help}").map(|()| 0),
        Err(error) => {
            let text = error.to_string();
            let sentence = text.lines().next().unwrap_or_default();
            return refuse(sentence.trim_start_matches("error: "), err);
        }
    };
    let (directory, chosen) = match options.directory() {
        Ok(directory) => directory,
        Err(sentence) => return refuse(&sentence, err),
    };
    let plan = match Plan::new(&directory, options.threads()) {
        Ok(plan) => plan,
        Err(error @ Error::NoFiles(_)) => return refuse(&error.to_string(), err),
        Err(error) => return writeln!(err, "profiler: {error}").map(|()| 1),
    };
    for skipped in &plan.skipped {
        writeln!(err, "profiler: {skipped}")?;
    }
    match measure(&options, &plan) {
        Ok(measured) => {
            let findings = Findings {
                options: &options,
                directory: &directory,
                chosen,
                plan: &plan,
                measured: &measured,
            };
            report::print(&findings, out)?;
            judge(&measured, out, err)
        }
        Err(error) => writeln!(err, "profiler: {error}").map(|()| 1),
    }
}

fn refuse(sentence: &str, err: &mut dyn Write) -> io::Result<u8> {
    writeln!(err, "profiler: {sentence} (--help says more)").map(|()| 2)
}

/// What a run found out.
pub struct Measured {
    pub outcome: passes::Outcome,
    pub accounts: Accounts,
    pub profile: Profile,
    /// Words from tick to tick: at most so many half of the time, and nine times in ten.
    pub words_a_tick: (u64, u64),
    /// Entries used on the CPU that uses most, and how many it has.
    pub fullest: (usize, usize),
    /// Sentences about files that could not be asked for names.
    pub unreadable: Vec<String>,
}

fn measure(options: &Options, plan: &Plan) -> Result<Measured, Error> {
    let mut shared = Shared::new(options.interval(), options.entries)?;
    watch::install()?;
    let outcome = plan.run(&shared, Duration::from_secs(options.seconds.into()));
    watch::uninstall()?;
    let (outcome, astray) = (outcome?, watch::take_astray());

    let samples = shared.samples.merged();
    let recorded = samples.values().sum();
    let mut names = Names::new();
    let words = shared.words_a_tick.snapshot();
    let at = |part| words.quantile(part).unwrap_or(0);
    Ok(Measured {
        accounts: Accounts::new(&outcome, recorded, shared.no_room.sum(), astray),
        profile: Profile::new(&samples, &mut names, options.top),
        words_a_tick: (at(0.5), at(0.9)),
        fullest: shared.samples.fullest(),
        unreadable: names.into_unreadable(),
        outcome,
    })
}

/// Says whether the books balance.
fn judge(measured: &Measured, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    for sentence in &measured.unreadable {
        writeln!(err, "profiler: {sentence}")?;
    }
    let faults = measured.accounts.faults();
    for fault in &faults {
        writeln!(err, "profiler: {fault}")?;
    }
    if measured.outcome.books.timers == 0 {
        writeln!(err, "profiler: no thread could have a timer")?;
        return Ok(1);
    }
    if !faults.is_empty() {
        return Ok(1);
    }
    writeln!(out, "Every handler entry is accounted for.").map(|()| 0)
}

/// A reader who has seen enough of the output (`profiler | head`) is no failure.
pub fn exit_code(result: io::Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("profiler: cannot write: {error}");
            ExitCode::FAILURE
        }
    }
}
