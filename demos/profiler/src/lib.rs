//! A sampling profiler. A timer on every thread interrupts a word count a thousand times a second,
//! the signal handler records the program counter, and the report names the hottest functions.
//!
//! ```text
//! cargo run --release -p demo-profiler -- [DIRECTORY] [--threads N] [--seconds S] …
//! ```
//!
//! With `--seconds 60` it runs for two minutes: the same work is done without timers too, to
//! compare.
//!
//! | module | what lives there |
//! |---|---|
//! | `watch` | the signal handler, and each thread's state and timer: read this first |
//! | `samples` | the per-CPU table that all handlers record into, built with `sequence!` |
//! | `pace` | what a thread and its own handler share: rollforward and restartable sequences |
//! | `counting` | the work: a per-CPU hash table that grows, built with `sequence!` |
//! | `passes` | the work with timers and without, in turn |
//! | `profile`, `names`, `image`, `maps` | from program counters to functions and lines |
//! | `books` | the counters of a run, and the check that every handler entry is accounted for |
//! | `report`, `format`, `options` | the report; the command line |
//!
//! The report states the cost, as CPU time with timers and without. Nearly all of it is the timer's
//! interrupt. On a virtual machine with 2 CPUs (Linux 6.18), a tick at 5 kHz cost 29 µs, of which
//! the handler took 0.7 µs. A tick with an empty handler, written in C, cost 24 to 30 µs in six
//! runs.
//!
//! Only Linux has timers that interrupt one thread.
#![cfg(target_os = "linux")]

mod books;
mod counting;
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
mod watch;

use std::ffi::OsString;
use std::io::{self, Write};
use std::time::Duration;

use atomseq::percpu::Quantile;
use demo_common::options::refuse;
use demo_common::progress::Progress;

use books::Accounts;
use names::Names;
use options::Options;
use passes::{Error, Plan};
use profile::Profile;
use report::Findings;
use watch::Shared;

const PROGRAM: &str = "profiler";

/// Runs the profiler. Returns 0 if every handler entry is accounted for, 1 if not or if nothing
/// could be profiled, 2 if the arguments make no sense.
///
/// # Errors
///
/// Those of writing to `out` or `err`.
pub fn run(
    arguments: impl Iterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    demo_common::options::run(PROGRAM, arguments, out, err, profile_work)
}

fn profile_work(options: Options, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let (directory, chosen) = match options.directory() {
        Ok(directory) => directory,
        Err(sentence) => return refuse(PROGRAM, &sentence, err),
    };
    let plan = match Plan::new(&directory, options.threads()) {
        Ok(plan) => plan,
        Err(error @ Error::NoFiles(_)) => return refuse(PROGRAM, &error.to_string(), err),
        Err(error) => return writeln!(err, "{PROGRAM}: {error}").map(|()| 1),
    };
    for skipped in &plan.skipped {
        writeln!(err, "{PROGRAM}: {skipped}")?;
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
        Err(error) => writeln!(err, "{PROGRAM}: {error}").map(|()| 1),
    }
}

/// The results of a run.
struct Measured {
    outcome: passes::Outcome,
    accounts: Accounts,
    profile: Profile,
    /// Words counted between two ticks: the median and the ninth decile.
    words_a_tick: (u64, u64),
    /// Entries in use on the CPU with the fullest table, and the entries that each table has.
    fullest: (usize, usize),
    /// Sentences about files from which no names could be read.
    unreadable: Vec<String>,
}

fn measure(options: &Options, plan: &Plan) -> Result<Measured, Error> {
    let mut shared = Shared::new(options.interval(), options.entries)?;
    watch::install()?;
    let seconds = options.seconds;
    let progress = Progress::new(u64::from(seconds) * 1000);
    progress.stage("with timers and without, in turn");
    let outcome = plan.run(&shared, Duration::from_secs(seconds.into()), &progress);
    drop(progress);
    watch::uninstall()?;
    let (outcome, astray) = (outcome?, watch::take_astray());

    let samples = shared.samples.merged();
    let recorded = samples.values().sum();
    let mut names = Names::new();
    let words = shared.words_a_tick.snapshot();
    let at = |part| match words.quantile(part) {
        Some(Quantile::AtMost(words) | Quantile::Above(words)) => words,
        None => 0,
    };
    Ok(Measured {
        accounts: Accounts::new(&outcome, recorded, shared.no_room.sum(), astray),
        profile: Profile::new(&samples, &mut names, options.top),
        words_a_tick: (at(0.5), at(0.9)),
        fullest: shared.samples.fullest(),
        unreadable: names.into_unreadable(),
        outcome,
    })
}

/// Reports whether the books balance, and returns the exit status.
fn judge(measured: &Measured, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    for sentence in &measured.unreadable {
        writeln!(err, "{PROGRAM}: {sentence}")?;
    }
    let faults = measured.accounts.faults();
    for fault in &faults {
        writeln!(err, "{PROGRAM}: {fault}")?;
    }
    if measured.outcome.books.timers == 0 {
        writeln!(err, "{PROGRAM}: the kernel refused a timer to every thread")?;
        return Ok(1);
    }
    if !faults.is_empty() {
        return Ok(1);
    }
    writeln!(out, "Every handler entry is accounted for.").map(|()| 0)
}
