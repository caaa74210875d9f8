//! `atomseq` without a command: what works on this machine, and in one table what it is worth here.
//!
//! Each row of the table is a quick experiment, whose cases are interleaved round by round. A ratio
//! is quoted with its spread, the 10th to the 90th percentile of the rounds. A gain or a loss is
//! concluded only where the whole spread lies on one side of 1; anything else is a tie. Which rows
//! stand under "loses" is decided by the measurement: all measured pairs are candidates.

mod rows;
mod table;

use std::io::Write;
use std::time::{Duration, Instant};

use self::rows::{ROWS, Row};
use self::table::Line;
use crate::bench::engine::Effort;
use crate::bench::environment::Environment;
use crate::bench::experiments::{self, Method, Threads};
use crate::bench::record::{Measure, Outcome, Ratio, Verdict, subject, workload};
use crate::bench::{self, STEP};
use crate::doctor::Diagnosis;
use crate::error::Error;
use crate::report::left_out;
use crate::terminal::{Colour, Terminal};
use crate::{machine, process};

/// How long all rows may take together.
const BUDGET: Duration = Duration::from_secs(40);

/// How many lost and how many undecided pairs are listed.
const LOSSES: usize = 8;
const UNDECIDED: usize = 5;

/// Diagnoses, measures and prints.
///
/// # Errors
///
/// If the system refuses what is needed, or standard output takes nothing; [`Error::Wrong`] if a
/// case of atomseq's own was wrong.
pub fn run() -> Result<(), Error> {
    let mut output = process::output()?;
    let terminal = Terminal::here();
    let diagnosis = Diagnosis::take();
    writeln!(
        output,
        "{}",
        terminal.paint(Colour::Bold, &heading(&diagnosis))
    )?;
    for (name, state) in works(&diagnosis) {
        writeln!(output, "  {name:20} {state}")?;
    }
    if cfg!(debug_assertions) {
        writeln!(output, "{}", crate::report::DEBUG_BUILD)?;
    }
    writeln!(output)?;
    output.flush()?;
    process::check()?;
    let measured = measure()?;
    let written = print(&measured, terminal, &mut output);
    // The verdict comes first: a reader that has left must not hide a wrong case.
    let outcomes: Vec<_> = measured.into_iter().filter_map(|row| row.outcome).collect();
    bench::verdict(&outcomes)?;
    written
}

/// The version, the machine and the system.
fn heading(diagnosis: &Diagnosis) -> String {
    let cpus = match diagnosis.cpus.len() {
        1 => "1 CPU".to_string(),
        cpus => format!("{cpus} CPUs"),
    };
    let model = diagnosis.cpu.as_deref().map(machine::short_model);
    let clock = machine::gigahertz(diagnosis.cpu.as_deref().unwrap_or_default());
    let clock = clock.map(|gigahertz| format!("{gigahertz:.1} GHz"));
    let processor: Vec<_> = model.into_iter().chain(clock).collect();
    let cpus = match processor.is_empty() {
        true => cpus,
        false => format!("{cpus} ({})", processor.join(", ")),
    };
    let kernel = diagnosis.kernel.as_deref().map(|kernel| {
        let short = kernel.split(['-', '+']).next();
        short.unwrap_or(kernel).to_string()
    });
    let parts = [Some(cpus), kernel, diagnosis.libc.clone()];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    format!("atomseq {} · {}", diagnosis.atomseq, parts.join(" · "))
}

/// The doctor's verdict: what works, a line each.
fn works(diagnosis: &Diagnosis) -> [(&'static str, String); 3] {
    let unknown = "the system gives no reason";
    let rseq = &diagnosis.rseq;
    let sequences = match (rseq.active, diagnosis.gates.active) {
        (true, true) => {
            let by = rseq.registered_by.as_deref().unwrap_or("the process");
            format!("active, threads registered by {by}")
        }
        (true, false) => format!(
            "active for counters and histograms; a lock a CPU for the rest: {}",
            diagnosis.gates.reason.as_deref().unwrap_or(unknown)
        ),
        (false, _) => format!(
            "off, figures are of the slow path: {}",
            rseq.reason.as_deref().unwrap_or(unknown)
        ),
    };
    let signals = &diagnosis.signals;
    let signals = match (signals.sequences, &signals.untried) {
        (None, _) => "off: each blocks all signals by system calls (portable)".to_string(),
        (Some(_), _) if signals.are_free() => {
            "active; restart, rollforward and mask verified".to_string()
        }
        (Some(_), _) if signals.have_failed() => {
            "FAILED: an interrupted sequence was not repaired; see atomseq doctor".to_string()
        }
        (Some(_), reason) => format!(
            "active, not verified: {}",
            reason.as_deref().unwrap_or(unknown)
        ),
    };
    let cas = match atomseq::dcas::mechanism() {
        atomseq::dcas::Mechanism::Assisted => "OS-assisted, 1 atomic instruction",
        atomseq::dcas::Mechanism::Kcas => "k-CAS, several atomic instructions; lock-free",
    };
    [
        ("per-CPU sequences", sequences),
        ("signal sequences", signals),
        ("two-word CAS", cas.to_string()),
    ]
}

/// A row and what was measured for it.
struct Measured {
    row: &'static Row,
    threads: usize,
    /// `None` where the experiment does not exist on this system.
    outcome: Option<Outcome>,
    /// Why there was nothing to measure.
    reason: Option<String>,
}

/// Measures every row. The rows share the time.
fn measure() -> Result<Vec<Measured>, Error> {
    let environment = Environment::take(&[], true)?;
    let bar = bench::bar(ROWS.len());
    let start = Instant::now();
    let mut all = Vec::with_capacity(ROWS.len());
    for (step, row) in ROWS.iter().enumerate() {
        let left = BUDGET.saturating_sub(start.elapsed());
        let share = left / (ROWS.len() - step) as u32;
        let effort = Effort {
            budget: Effort::QUICK.budget.min(share),
            ..Effort::QUICK
        };
        bar.set_message(format!("{}: {}", row.what, row.operation));
        let advance =
            |share: f64| bar.set_position(STEP * step as u64 + (share * STEP as f64) as u64);
        all.push(row.measure(&environment, effort, &advance)?);
    }
    bar.finish_and_clear();
    Ok(all)
}

impl Row {
    fn measure(
        &'static self,
        environment: &Environment,
        effort: Effort,
        advance: &dyn Fn(f64),
    ) -> Result<Measured, Error> {
        let none = |threads, reason: String| Measured {
            row: self,
            threads,
            outcome: None,
            reason: Some(reason),
        };
        let Some(experiment) = experiments::find(self.experiment) else {
            return Ok(none(1, "not on this system, or not in this build".into()));
        };
        let cpus = environment.cpus.len();
        let threads = match (&experiment.method, experiment.threads) {
            (Method::Own { threads, .. } | Method::Placed { threads, .. }, _) => *threads,
            (_, Threads::Alone) => 1,
            // From one CPU to another.
            (_, Threads::Flow) => 2,
            (_, Threads::Spread | Threads::Crowded) => cpus,
        };
        if experiment.threads == Threads::Flow && cpus < threads {
            let reason = format!("it needs {threads} CPUs, and this process may run on {cpus}");
            return Ok(none(threads, reason));
        }
        let keep = |case| workload(case) == self.workload && self.names(subject(case));
        let outcome = bench::measure(experiment, threads, environment, effort, &keep, advance)?;
        Ok(Measured {
            row: self,
            threads,
            outcome: Some(outcome),
            reason: None,
        })
    }

    /// Whether a subject is part of the row.
    fn names(&self, subject: &str) -> bool {
        let others = self.alternatives.iter().chain(self.bounds);
        self.ours.contains(&subject) || others.map(|(name, _)| *name).any(|name| name == subject)
    }
}

/// atomseq's case beside another one of the same row.
#[derive(Clone, Copy)]
struct Pair<'a> {
    row: &'static Row,
    name: &'static str,
    /// Whether the other can do the same, or does less.
    is_alternative: bool,
    ours: &'a Measure,
    theirs: &'a Measure,
    /// Theirs divided by ours.
    ratio: &'a Ratio,
}

impl Measured {
    fn pairs(&self) -> Vec<Pair<'_>> {
        let Some(outcome) = &self.outcome else {
            return Vec::new();
        };
        let case = |subject: &str| outcome.case(self.row.workload, subject);
        let mut ours = self.row.ours.iter();
        let Some(ours) = ours.find_map(|subject| outcome.measure(case(subject)?)) else {
            return Vec::new();
        };
        let alternatives = self.row.alternatives.iter().map(|other| (other, true));
        let bounds = self.row.bounds.iter().map(|other| (other, false));
        let pairs = alternatives.chain(bounds);
        let pairs = pairs.filter_map(|((subject, name), is_alternative)| {
            let theirs = outcome.measure(case(subject)?)?;
            Some(Pair {
                row: self.row,
                name,
                is_alternative,
                ours,
                theirs,
                ratio: outcome.ratio(theirs.case, ours.case)?,
            })
        });
        pairs.collect()
    }

    /// The fastest alternative.
    fn best(&self) -> Option<Pair<'_>> {
        let pairs = self.pairs().into_iter().filter(|pair| pair.is_alternative);
        pairs.min_by(|a, b| a.theirs.median.total_cmp(&b.theirs.median))
    }

    /// Why there is no pair.
    fn reason(&self) -> String {
        let wrong = self.outcome.iter().flat_map(|outcome| &outcome.wrong);
        let wrong = wrong.map(|wrong| wrong.fault.clone()).next();
        let reason = self.reason.clone().or(wrong);
        reason.unwrap_or_else(|| "it needs sequences that do not run here".to_string())
    }
}

impl Pair<'_> {
    fn line(&self) -> Line {
        Line {
            what: self.row.what,
            operation: self.row.operation,
            threads: self.ours.threads,
            result: Ok(table::Result {
                ours: self.ours.median,
                name: self.name,
                theirs: self.theirs.median,
                ratio: self.ratio.median,
                spread: (self.ratio.p10, self.ratio.p90),
                verdict: self.ratio.verdict(),
            }),
        }
    }

    /// Whether atomseq loses; `None` where the rounds do not decide what the median says.
    fn is_loss(&self) -> Option<bool> {
        match self.ratio.verdict() {
            Verdict::Shorter => Some(true),
            // What is printed as 1.00 is no loss to speak of.
            Verdict::Tie if self.ratio.median < 0.995 => None,
            Verdict::Tie | Verdict::Longer => Some(false),
        }
    }
}

fn print(measured: &[Measured], terminal: Terminal, to: &mut impl Write) -> Result<(), Error> {
    let line = |measured: &Measured| match measured.best() {
        Some(pair) => pair.line(),
        None => Line {
            what: measured.row.what,
            operation: measured.row.operation,
            threads: measured.threads,
            result: Err(measured.reason()),
        },
    };
    let lines: Vec<_> = measured.iter().map(line).collect();
    let mut pairs: Vec<_> = measured.iter().flat_map(Measured::pairs).collect();
    pairs.sort_by(|a, b| a.ratio.median.total_cmp(&b.ratio.median));
    let of = |loss: Option<bool>| {
        let pairs = pairs.iter().filter(|pair| pair.is_loss() == loss);
        pairs.map(Pair::line).collect::<Vec<_>>()
    };
    let (lost, undecided) = (of(Some(true)), of(None));
    let shown = |lines: &[Line], limit: usize| lines.len().min(limit);
    let all = lines
        .iter()
        .chain(&lost[..shown(&lost, LOSSES)])
        .chain(&undecided[..shown(&undecided, UNDECIDED)]);
    let layout = table::Layout::of(all, terminal);
    writeln!(to, "{}", layout.heading())?;
    for line in &lines {
        writeln!(to, "{}", layout.show(line))?;
    }
    writeln!(to, "{}", layout.legend())?;
    let losses = match lost.is_empty() {
        true => "atomseq loses to nothing that was measured here",
        false => "atomseq loses here",
    };
    for (title, lines, limit) in [
        (losses, &lost, LOSSES),
        (
            "not decided: 1 lies within the spread",
            &undecided,
            UNDECIDED,
        ),
    ] {
        if lines.is_empty() && title != losses {
            continue;
        }
        writeln!(to, "\n{}", layout.title(title))?;
        for line in &lines[..shown(lines, limit)] {
            writeln!(to, "{}", layout.show(line))?;
        }
        let more = lines.len().saturating_sub(limit);
        if more > 0 {
            writeln!(to, "  and {more} more: atomseq bench --quick")?;
        }
    }
    let outcomes = measured.iter().filter_map(|row| row.outcome.as_ref());
    let wrong = outcomes.flat_map(|outcome| &outcome.wrong);
    // A fault that a row shows is not repeated.
    let wrong = wrong.filter(|wrong| {
        let is_shown = |line: &Line| line.result.as_ref().err() == Some(&wrong.fault);
        !lines.iter().any(is_shown)
    });
    for wrong in wrong.take(3) {
        let place = format!("{}: {}", wrong.experiment, left_out(wrong));
        writeln!(to, "{}", layout.note(&place))?;
    }
    let next = "Next: atomseq doctor, atomseq bench percpu-stack, atomseq torture --seconds 60";
    writeln!(to, "\n{}", layout.note(next))?;
    Ok(to.flush()?)
}

#[cfg(test)]
mod tests;
