//! The applications of B91's table 3, beside procon: a theorem prover, a file server under a
//! script, and a text formatter. They are written over a thread package, and run with locks by each
//! mechanism of mutual exclusion.
//!
//! ```text
//! cargo run --release -p demo-applications -- parthenon [FILE]… [--threads N] [--proof]
//! cargo run --release -p demo-applications -- fs-bench [SCRIPT]
//! cargo run --release -p demo-applications -- text-format [FILE]
//! cargo run --release -p demo-applications -- table3 [--all]
//! ```
//!
//! | module | what lives there |
//! |---|---|
//! | `package`, `coroutines` | applications, and the two packages that run them: read this first |
//! | `parthenon`, `search`, `problem`, `proof` | the prover: threads, search, clauses, check |
//! | `fs_bench`, `script`, `server`, `disk` | clients and their model; messages; the file system |
//! | `text_format` | the formatter, a client of the server |
//! | `mechanisms` | the mechanisms by name, each with its package |
//! | `options`, `report` | the command line; the report |

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod coroutines;
mod disk;
mod fs_bench;
mod mechanisms;
mod options;
mod package;
mod parthenon;
mod problem;
mod proof;
mod report;
mod script;
mod search;
mod server;
mod text_format;

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;

use atomseq_papers::statistics;
use demo_common::options::refuse;
use demo_common::progress::Progress;

use fs_bench::FsBench;
use options::{Options, Plan};
use package::Outcome;
use parthenon::Parthenon;
use report::Row;
use text_format::TextFormat;

pub use mechanisms::{Mechanism, all};

const PROGRAM: &str = "applications";

/// An application with its input.
enum Program {
    /// Problems, one after the other.
    Parthenon(Vec<Arc<Parthenon>>),
    FsBench(Arc<FsBench>),
    TextFormat(Arc<TextFormat>),
}

impl Program {
    /// Returns its name in B91. That of the prover contains the number of its threads.
    fn name(&self) -> String {
        match self {
            Program::Parthenon(problems) => format!("parthenon-{}", problems[0].threads),
            Program::FsBench(_) => "fs-bench".to_string(),
            Program::TextFormat(_) => "text-format".to_string(),
        }
    }

    /// Runs it, and checks the result. An error is a sentence.
    fn run(&self, mechanism: &Mechanism) -> Result<Outcome, String> {
        match self {
            Program::Parthenon(problems) => {
                let run = |problem| (mechanism.parthenon)(problem, mechanism.interventions);
                let mut outcomes = problems.iter().map(run);
                let first = outcomes
                    .next()
                    .unwrap_or_else(|| Err("there is no problem".into()))?;
                outcomes.try_fold(first, |sum, one| Ok(sum.and(one?)))
            }
            Program::FsBench(bench) => (mechanism.fs_bench)(bench, mechanism.interventions),
            Program::TextFormat(text) => (mechanism.text_format)(text, mechanism.interventions),
        }
    }
}

/// Runs the demo. Returns 0 if every result is right, 1 if one is not or a run failed, 2 if the
/// arguments or files make no sense.
///
/// # Errors
///
/// Those of writing to `out` or `err`.
pub fn run(
    arguments: impl Iterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    let work = |options: Options, out: &mut dyn Write, err: &mut dyn Write| match options.plan() {
        Ok(plan) => measure(&plan, out, err),
        Err(sentence) => refuse(PROGRAM, &sentence, err),
    };
    demo_common::options::run(PROGRAM, arguments, out, err, work)
}

/// Runs each program with each mechanism, in turns, and prints the reports.
fn measure(plan: &Plan, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    // The mechanisms count interventions next to a system call, where the count costs little.
    statistics::count(true);
    let passes = plan.programs.len() * plan.mechanisms.len() * usize::from(plan.runs);
    let progress = Progress::new(passes as u64);
    for program in &plan.programs {
        let mut rows: Vec<Row> = plan
            .mechanisms
            .iter()
            .map(|mechanism| Row::new(mechanism))
            .collect();
        for _ in 0..plan.runs {
            for row in &mut rows {
                progress.stage(&format!("{} {}", program.name(), row.mechanism.name));
                match program.run(row.mechanism) {
                    Ok(outcome) => row.runs.push(outcome),
                    Err(sentence) => {
                        drop(progress);
                        let (name, by) = (program.name(), row.mechanism.name);
                        return writeln!(err, "{PROGRAM}: {name} by {by}: {sentence}").map(|()| 1);
                    }
                }
                progress.add(1);
            }
        }
        report::print(&program.name(), &rows, out)?;
    }
    drop(progress);
    report::explain(plan, out)?;
    Ok(0)
}
