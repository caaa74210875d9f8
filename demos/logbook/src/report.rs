//! One run of the demo: runs every way in turn, judges it and prints the report.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};

use atomseq::dcas::Mechanism;
use demo_common::options::refuse;
use demo_common::progress::Progress;
use demo_common::report::grouped;

use super::books::{Crossbeam, Locked, Nonblocking};
use super::crew::{self, Outcome, Plan, Reads};
use super::options::Options;
use super::words;

const PROGRAM: &str = "logbook";

/// A name, and a run on one kind of book.
type Way = (&'static str, fn(&Options, &Plan) -> Result<Outcome, String>);

/// The kinds of book that are compared with a single thread.
const WAYS: [Way; 3] = [
    ("atomseq", |options, plan| {
        crew::run(Nonblocking::new(options.room(), plan.top, plan.bytes), plan)
    }),
    ("crossbeam", |options, plan| {
        crew::run(Crossbeam::new(options.room(), plan.top), plan)
    }),
    ("mutex", |options, plan| {
        crew::run(Locked::new(options.room(), plan.top), plan)
    }),
];

/// Why a kind of book has no row.
enum Failure {
    /// It could not run, for the reason in this sentence.
    Untried(String),
    /// Two of its runs gave different results.
    Unsteady,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untried(sentence) => f.write_str(sentence),
            Self::Unsteady => f.write_str("two runs gave different results"),
        }
    }
}

/// The verdict on all of them; the last that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// All agree with the single thread.
    Agree,
    /// All that ran agree, but one could not run.
    Untried,
    /// At least one disagrees.
    Differ,
}

/// Runs the demo. Returns 0 if all ways agree with the single thread, 1 if one does not or could
/// not run, 2 if the arguments make no sense or there is no text.
///
/// # Errors
///
/// Those of writing to `out` or `err`.
pub fn run(
    arguments: impl Iterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    demo_common::options::run(PROGRAM, arguments, out, err, compare)
}

fn compare(options: Options, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let (plan, found) = match options.plan() {
        Ok(planned) => planned,
        Err(sentence) => return refuse(PROGRAM, &sentence, err),
    };
    let progress = Progress::new(u64::from(options.runs) * (1 + WAYS.len() as u64));
    progress.stage("one thread");
    let alone = fastest(&options, &progress, || Ok(crew::alone(&plan)));
    let alone = match alone {
        Ok(alone) => alone,
        Err(failure) => return writeln!(err, "{PROGRAM}: {failure}").map(|()| 1),
    };
    for skipped in found.skipped.iter().chain(&alone.skipped) {
        writeln!(err, "{PROGRAM}: {skipped}")?;
    }
    if alone.counts.is_empty() {
        return refuse(PROGRAM, "that directory contains no text", err);
    }
    let mut verdict = Verdict::Agree;
    head(&plan, &alone, out)?;
    row("one thread", &alone, &alone, out)?;
    for (name, way) in WAYS {
        progress.stage(name);
        match fastest(&options, &progress, || way(&options, &plan)) {
            Ok(outcome) => {
                row(name, &outcome, &alone, out)?;
                for fault in faults(&outcome, &alone) {
                    writeln!(err, "{PROGRAM}: {name}: {fault}")?;
                    verdict = Verdict::Differ;
                }
            }
            Err(failure) => {
                writeln!(err, "{PROGRAM}: {name}: {failure}")?;
                verdict = verdict.max(match failure {
                    Failure::Untried(_) => Verdict::Untried,
                    Failure::Unsteady => Verdict::Differ,
                });
            }
        }
    }
    drop(progress);
    foot(&alone, verdict, out)?;
    Ok(u8::from(verdict != Verdict::Agree))
}

/// Returns the fastest run, with the reads of all runs.
fn fastest(
    options: &Options,
    progress: &Progress,
    mut once: impl FnMut() -> Result<Outcome, String>,
) -> Result<Outcome, Failure> {
    let mut once = || {
        let outcome = once().map_err(Failure::Untried);
        progress.add(1);
        outcome
    };
    let mut best = once()?;
    for _ in 1..options.runs {
        let other = once()?;
        if (&other.counts, &other.ranks, other.lines) != (&best.counts, &best.ranks, best.lines) {
            return Err(Failure::Unsteady);
        }
        let (reader, handlers) = (
            best.reader.and(other.reader),
            best.handlers.and(other.handlers),
        );
        if other.elapsed < best.elapsed {
            best = other;
        }
        (best.reader, best.handlers) = (reader, handlers);
    }
    Ok(best)
}

/// Returns a sentence for each difference from the single thread.
fn faults(outcome: &Outcome, alone: &Outcome) -> Vec<String> {
    let mut faults = Vec::new();
    if outcome.lines != alone.lines {
        faults.push(format!(
            "it counted {} lines instead of {}",
            outcome.lines, alone.lines
        ));
    }
    if outcome.counts != alone.counts {
        faults.push("its counts differ from those of one thread".to_string());
    }
    if outcome.ranks != alone.ranks {
        faults.push("its ranking differs from that of one thread".to_string());
    }
    for (reader, reads) in [
        ("the reader", outcome.reader),
        ("a signal handler", outcome.handlers),
    ] {
        if reads.wrong > 0 {
            faults.push(format!(
                "{reader} read a ranking out of order, or with a word twice, {} times",
                reads.wrong
            ));
        }
    }
    faults
}

fn head(plan: &Plan, alone: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "Text      {} files, {} lines, {} distinct words",
        grouped(plan.files.len() as u64 - alone.skipped.len() as u64),
        grouped(alone.lines as u64),
        grouped(alone.counts.len() as u64),
    )?;
    writeln!(
        out,
        "Threads   {} append, {} count, each interrupted {} times per second; 1 reads",
        plan.writers, plan.folders, plan.hertz
    )?;
    writeln!(out, "atomseq   {}", atomseq::status())?;
    let by = match atomseq::dcas::mechanism() {
        Mechanism::Assisted => "OS-assisted double compare-and-swap",
        Mechanism::Kcas => "k-CAS",
    };
    writeln!(out, "          queue and lists by {by}\n")?;
    writeln!(
        out,
        "{:<12}{:>9}{:>14}{:>14}{:>14}{:>16}{:>14}",
        "", "seconds", "lines/second", "speed ratio", "thread reads", "handler reads", "refused"
    )
}

fn row(name: &str, outcome: &Outcome, alone: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let seconds = outcome.elapsed.as_secs_f64().max(1e-9);
    let ratio = alone.elapsed.as_secs_f64() / seconds;
    writeln!(
        out,
        "{name:<12}{seconds:>9.3}{:>14}{ratio:>14.2}{:>14}{:>16}{:>14}",
        grouped((outcome.lines as f64 / seconds) as u64),
        grouped(outcome.reader.attempts),
        grouped(outcome.handlers.attempts),
        grouped(outcome.handlers.refused),
    )
}

fn foot(alone: &Outcome, verdict: Verdict, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\nThe speed ratio is to one thread. A read in a signal handler is refused where the handler \
         must not use\nwhat it interrupted: always with crossbeam's skip lists, with a mutex while it \
         is held. All but crossbeam,\nwhich has none, count in a hash table.\n"
    )?;
    for rank in &alone.ranks {
        writeln!(
            out,
            "{:>12}  {}",
            grouped(rank.count()),
            words::text(&rank.word)
        )?;
    }
    match verdict {
        Verdict::Agree => writeln!(out, "\nAll results agree with those of one thread."),
        Verdict::Untried => writeln!(out, "\nNot all structures could be tried."),
        Verdict::Differ => writeln!(out, "\nNot all results agree with those of one thread."),
    }
}

impl Reads {
    /// Returns the sums of two runs.
    fn and(self, other: Reads) -> Reads {
        Reads {
            attempts: self.attempts + other.attempts,
            refused: self.refused + other.refused,
            wrong: self.wrong + other.wrong,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::words::Rank;
    use super::*;

    fn outcome(lines: usize, words: &[(u8, u64)]) -> Outcome {
        let ranks = words.iter().map(|(letter, count)| {
            let mut word = [0; words::MAX_BYTES];
            word[0] = *letter;
            Rank::of(*count, &word)
        });
        let ranks: Vec<_> = ranks.collect();
        Outcome {
            elapsed: Duration::from_millis(1),
            lines,
            counts: ranks.iter().map(|rank| (rank.word, rank.count())).collect(),
            ranks,
            reader: Reads::default(),
            handlers: Reads::default(),
            skipped: Vec::new(),
        }
    }

    #[test]
    fn differences_are_reported() {
        let right = outcome(2, &[(b'a', 2), (b'b', 1)]);
        assert!(faults(&outcome(2, &[(b'a', 2), (b'b', 1)]), &right).is_empty());
        let other = outcome(1, &[(b'a', 1), (b'b', 1)]);
        assert_eq!(faults(&other, &right).len(), 3);
        let mut other = outcome(2, &[(b'a', 2), (b'b', 1)]);
        other.ranks.swap(0, 1);
        other.handlers.wrong = 3;
        let found = faults(&other, &right);
        assert_eq!(found[0], "its ranking differs from that of one thread");
        assert!(found[1].contains("handler") && found[1].contains("3 times"));
    }
}
