//! One run of the program: every way in turn, judged and printed.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use atomseq::dcas::Mechanism;
use clap::Parser;

use super::books::{Crossbeam, Locked, Nonblocking};
use super::crew::{self, Answers, Outcome, Plan};
use super::options::Options;
use super::words;

/// A way to keep the book.
type Way = (&'static str, fn(&Options, &Plan) -> Result<Outcome, String>);

/// All that are compared with one thread.
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

/// Why a way has no row.
enum Failure {
    /// It could not run: a sentence.
    Untried(String),
    /// Its runs differ from each other.
    Unsteady,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untried(sentence) => f.write_str(sentence),
            Self::Unsteady => f.write_str("two runs counted differently"),
        }
    }
}

/// What is known of all ways together. Of several, the last is the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// All agree with one thread.
    Agree,
    /// None that ran differs, but some could not run.
    Untried,
    /// At least one differs.
    Differ,
}

/// The whole program but for the process around it: 0 if all ways agree with one thread, 1 if not
/// or if they could not run, 2 if the arguments make no sense or there is no text.
pub fn run(
    arguments: impl Iterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    let arguments = std::iter::once(OsString::from("logbook")).chain(arguments);
    let options = match Options::try_parse_from(arguments) {
        Ok(options) => options,
        Err(help) if !help.use_stderr() => return write!(out, "{help}").map(|()| 0),
        Err(error) => {
            // What is missing stands on a line of its own.
            let text = error.to_string();
            let lines = text.lines().take_while(|line| !line.is_empty());
            let sentence = lines.map(str::trim).collect::<Vec<_>>().join(" ");
            return refuse(sentence.trim_start_matches("error: "), err);
        }
    };
    let (plan, found) = match options.plan() {
        Ok(planned) => planned,
        Err(sentence) => return refuse(&sentence, err),
    };
    let alone = fastest(&options, || Ok(crew::alone(&plan)));
    let alone = match alone {
        Ok(alone) => alone,
        Err(failure) => return writeln!(err, "logbook: {failure}").map(|()| 1),
    };
    for skipped in found.skipped.iter().chain(&alone.skipped) {
        writeln!(err, "logbook: {skipped}")?;
    }
    if alone.counts.is_empty() {
        return refuse("there is no text under that directory", err);
    }
    let mut verdict = Verdict::Agree;
    head(&plan, &alone, out)?;
    row("one thread", &alone, &alone, out)?;
    for (name, way) in WAYS {
        match fastest(&options, || way(&options, &plan)) {
            Ok(outcome) => {
                row(name, &outcome, &alone, out)?;
                for fault in faults(&outcome, &alone) {
                    writeln!(err, "logbook: {name}: {fault}")?;
                    verdict = Verdict::Differ;
                }
            }
            Err(failure) => {
                writeln!(err, "logbook: {name}: {failure}")?;
                verdict = verdict.max(match failure {
                    Failure::Untried(_) => Verdict::Untried,
                    Failure::Unsteady => Verdict::Differ,
                });
            }
        }
    }
    foot(&alone, verdict, out)?;
    Ok(u8::from(verdict != Verdict::Agree))
}

fn refuse(sentence: &str, err: &mut dyn Write) -> io::Result<u8> {
    writeln!(err, "logbook: {sentence} (--help says more)").map(|()| 2)
}

/// A reader who has seen enough of the output (`logbook | head`) is no failure.
pub fn exit_code(result: io::Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("logbook: cannot write: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The fastest of the runs, with what was asked in all of them.
fn fastest(
    options: &Options,
    mut once: impl FnMut() -> Result<Outcome, String>,
) -> Result<Outcome, Failure> {
    let mut once = || once().map_err(Failure::Untried);
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

/// In what a way differs from one thread.
fn faults(outcome: &Outcome, alone: &Outcome) -> Vec<String> {
    let mut faults = Vec::new();
    if outcome.lines != alone.lines {
        faults.push(format!(
            "it counted {} lines where there are {}",
            outcome.lines, alone.lines
        ));
    }
    if outcome.counts != alone.counts {
        faults.push("its counts are not those of one thread".to_string());
    }
    if outcome.ranks != alone.ranks {
        faults.push("its ranking is not that of its counts".to_string());
    }
    for (who, answers) in [
        ("the reader", outcome.reader),
        ("handlers", outcome.handlers),
    ] {
        if answers.wrong > 0 {
            faults.push(format!(
                "{who} saw a ranking out of order, or with a word twice, {} times",
                answers.wrong
            ));
        }
    }
    faults
}

fn head(plan: &Plan, alone: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "Text      {} files, {} lines, {} different words",
        grouped(plan.files.len() as u64 - alone.skipped.len() as u64),
        grouped(alone.lines as u64),
        grouped(alone.counts.len() as u64),
    )?;
    writeln!(
        out,
        "Threads   {} append, {} fold, each interrupted {} times a second; 1 reads",
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
        "", "seconds", "lines/second", "of one thread", "reader asked", "handlers asked", "in vain"
    )
}

fn row(name: &str, outcome: &Outcome, alone: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let seconds = outcome.elapsed.as_secs_f64().max(1e-9);
    let ratio = alone.elapsed.as_secs_f64() / seconds;
    writeln!(
        out,
        "{name:<12}{seconds:>9.3}{:>14}{ratio:>14.2}{:>14}{:>16}{:>14}",
        grouped((outcome.lines as f64 / seconds) as u64),
        grouped(outcome.reader.asked),
        grouped(outcome.handlers.asked),
        grouped(outcome.handlers.refused),
    )
}

fn foot(alone: &Outcome, verdict: Verdict, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\nA handler asks in vain where it must not touch what it has interrupted: crossbeam's skip lists never, a mutex not while \
         it is held.\nAll but crossbeam, which has none, keep counts in a hash table; its skip list takes a search for each.\n"
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
        Verdict::Agree => writeln!(out, "\nAll ways agree with the one thread."),
        Verdict::Untried => writeln!(out, "\nNot all ways could be tried."),
        Verdict::Differ => writeln!(out, "\nNot all ways agree with the one thread."),
    }
}

/// A number with its digits in threes.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl Answers {
    /// Those of two runs.
    fn and(self, other: Answers) -> Answers {
        Answers {
            asked: self.asked + other.asked,
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
            let mut word = [0; words::LONGEST];
            word[0] = *letter;
            Rank::of(*count, &word)
        });
        let ranks: Vec<_> = ranks.collect();
        Outcome {
            elapsed: Duration::from_millis(1),
            lines,
            counts: ranks.iter().map(|rank| (rank.word, rank.count())).collect(),
            ranks,
            reader: Answers::default(),
            handlers: Answers::default(),
            skipped: Vec::new(),
        }
    }

    #[test]
    fn what_differs_is_told() {
        let right = outcome(2, &[(b'a', 2), (b'b', 1)]);
        assert!(faults(&outcome(2, &[(b'a', 2), (b'b', 1)]), &right).is_empty());
        let other = outcome(1, &[(b'a', 1), (b'b', 1)]);
        assert_eq!(faults(&other, &right).len(), 3);
        let mut other = outcome(2, &[(b'a', 2), (b'b', 1)]);
        other.ranks.swap(0, 1);
        other.handlers.wrong = 3;
        let told = faults(&other, &right);
        assert_eq!(told[0], "its ranking is not that of its counts");
        assert!(told[1].contains("handlers") && told[1].contains("3 times"));
    }
}
