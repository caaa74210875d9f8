//! How results are printed: as tables, as JSON Lines, and as the page BENCHMARKS.md.

mod beside;
mod markdown;

use std::io::Write;

use comfy_table::{CellAlignment, Table, TableComponent, presets};

pub use self::markdown::Markdown;
use crate::bench::environment::Environment;
use crate::bench::experiments;
use crate::bench::record::{Measure, Outcome, Ratio, Record, Wrong, workload};
use crate::bench::{Listener, count};
use crate::error::Error;

/// JSON Lines.
pub struct Lines<W>(pub W);

impl<W: Write> Lines<W> {
    fn line(&mut self, record: &Record) -> Result<(), Error> {
        let line = serde_json::to_string(record).map_err(std::io::Error::from)?;
        Ok(writeln!(self.0, "{line}")?)
    }
}

impl<W: Write> Listener for Lines<W> {
    fn environment(&mut self, environment: &Environment) -> Result<(), Error> {
        self.line(&Record::Environment(environment))?;
        Ok(self.0.flush()?)
    }

    fn outcome(&mut self, outcome: &Outcome) -> Result<(), Error> {
        for measure in &outcome.measures {
            self.line(&Record::Measure(measure))?;
        }
        for ratio in &outcome.ratios {
            self.line(&Record::Ratio(ratio))?;
        }
        for overhead in &outcome.overheads {
            self.line(&Record::Overhead(overhead))?;
        }
        for published in &outcome.published {
            self.line(&Record::Published(published))?;
        }
        for wrong in &outcome.wrong {
            self.line(&Record::Wrong(wrong))?;
        }
        Ok(self.0.flush()?)
    }
}

/// What a debug build says of itself.
pub const DEBUG_BUILD: &str =
    "This is a debug build: its figures mean nothing. Use `cargo run --release`.";

/// Tables.
pub struct Tables<W> {
    /// Where they go.
    pub to: W,
    /// Whether they have all columns, and everything that papers published.
    pub verbose: bool,
    /// Whether the experiments were named. Then a paper's table is printed beside what was
    /// measured.
    pub named: bool,
}

impl<W: Write> Listener for Tables<W> {
    fn environment(&mut self, environment: &Environment) -> Result<(), Error> {
        let unknown = || "unknown".to_string();
        writeln!(
            self.to,
            "{} · {} · {} · {}",
            environment.cpu.clone().unwrap_or_else(unknown),
            match environment.cpus.len() {
                1 => "1 CPU".to_string(),
                cpus => format!("{cpus} CPUs"),
            },
            environment.kernel.clone().unwrap_or_else(unknown),
            environment.rustc.unwrap_or("unknown compiler"),
        )?;
        for remark in remarks(environment) {
            writeln!(self.to, "{remark}")?;
        }
        Ok(self.to.flush()?)
    }

    fn outcome(&mut self, outcome: &Outcome) -> Result<(), Error> {
        writeln!(self.to, "\n{}", title(outcome))?;
        for group in groups(outcome) {
            writeln!(self.to, "{}", table(outcome, group, self.verbose))?;
        }
        if let Some(beside) = experiments::find(outcome.experiment).and_then(|found| found.beside)
            && (self.verbose || self.named && beside.has_rows())
        {
            beside::print(&mut self.to, beside, outcome)?;
        }
        for wrong in &outcome.wrong {
            writeln!(self.to, "{}", left_out(wrong))?;
        }
        Ok(self.to.flush()?)
    }
}

/// What a reader of the figures must know about the machine and the build, a sentence or two each.
fn remarks(environment: &Environment) -> Vec<String> {
    let mut remarks = Vec::new();
    if environment.profile == "debug" {
        remarks.push(DEBUG_BUILD.to_string());
    }
    let reason = environment.rseq.reason.as_deref();
    let reason = reason.unwrap_or("the system gives no reason");
    if !environment.rseq.active {
        remarks.push(format!(
            "Per-CPU sections do not run on this machine: {reason}. What is called rseq is atomseq's slow path; cases that \
             need sections (os-assisted, cpu) are left out."
        ));
    } else if !environment.gates {
        remarks.push(format!(
            "No gate can be closed on this machine: {reason}. Structures other than counters and histograms take a lock for \
             every operation, or k-CAS; cases that need a gate (os-assisted, cpu) are left out."
        ));
    }
    if environment.pinned.is_none() {
        remarks.push(
            "This system does not let a thread be pinned to a CPU: expect more spread.".to_string(),
        );
    }
    remarks
}

/// The measures of each workload.
fn groups(outcome: &Outcome) -> impl Iterator<Item = &[Measure]> {
    outcome
        .measures
        .chunk_by(|a, b| workload(a.case) == workload(b.case))
}

/// Why a case is in no table, in one sentence.
pub fn left_out(wrong: &Wrong) -> String {
    let Wrong { case, fault, .. } = wrong;
    if wrong.untried {
        return format!("{case} was not measured: {fault}.");
    }
    let whose = if wrong.peer { "the peer" } else { "atomseq" };
    let counts = wrong.expected.map_or(String::new(), |expected| {
        let found: Vec<_> = wrong.found.iter().map(u64::to_string).collect();
        format!(" (expected {expected}, found {})", list(&found))
    });
    format!("{case} is left out because of a fault in {whose}: {fault}{counts}.")
}

fn title(outcome: &Outcome) -> String {
    format!("{} · {}", outcome.experiment, threads(outcome))
}

/// The number of threads, and whether some shared a CPU.
fn threads(outcome: &Outcome) -> String {
    let all = |measures: &[Measure]| measures.iter().all(|measure| measure.oversubscribed);
    let crowded = match !outcome.measures.is_empty() && all(&outcome.measures) {
        true => ", more than they have CPUs",
        false => "",
    };
    format!("{}{crowded}", count(outcome.threads))
}

/// A table with a line under its heading and no other.
fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table
        .set_style(TableComponent::HeaderLines, '─')
        .set_style(TableComponent::MiddleHeaderIntersections, '─');
    table
}

/// Sets columns of numbers.
fn align_right(table: &mut Table, columns: std::ops::Range<usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// One workload: its cases, and the ratio of each to the first, which is atomseq's or what does the
/// same without protection.
fn table(outcome: &Outcome, measures: &[Measure], verbose: bool) -> Table {
    let mut table = plain_table();
    let (first, unit) = (measures[0].case, measures[0].unit);
    let ratio_to = format!("ratio to {first}");
    let mut head = vec!["case", unit];
    match verbose {
        true => head.extend(["min", "p10", "p99", "max", &ratio_to, "from", "to", "runs"]),
        false => head.push(&ratio_to),
    }
    let columns = head.len();
    table.set_header(head);
    for measure in measures {
        let ratio = outcome.ratio(measure.case, first);
        let mut row = vec![measure.case.to_string(), figure(measure.median)];
        if verbose {
            row.extend([measure.min, measure.p10, measure.p99, measure.max].map(figure));
            let of = |value: fn(&Ratio) -> f64| ratio.map(|ratio| figure(value(ratio)));
            row.push(of(|ratio| ratio.median).map_or("1".to_string(), |ratio| ratio + " ×"));
            row.push(of(|ratio| ratio.min).unwrap_or_default());
            row.push(of(|ratio| ratio.max).unwrap_or_default());
            row.push(measure.runs.to_string());
        } else {
            row.push(ratio.map_or("1".to_string(), spread));
        }
        table.add_row(row);
    }
    align_right(&mut table, 1..if verbose { columns } else { 2 });
    table
}

/// A ratio with its spread, the 10th to the 90th percentile of the rounds.
fn spread(ratio: &Ratio) -> String {
    let [median, from, to] = [ratio.median, ratio.p10, ratio.p90].map(figure);
    format!("{median} × ({from} to {to})")
}

/// `a`, `a and b`, `a, b and c`.
pub fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A number with about three digits that mean something.
pub fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.0995 => 2,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::Effort;
    use crate::bench::record::Series;

    /// What is printed of rounds that were made up.
    fn printed(experiment: &'static str, cases: [&'static str; 2], named: bool) -> String {
        let series = cases.map(|case| Series {
            case,
            unit: "ns/op",
            values: vec![1.0; Effort::MIN_ROUNDS],
        });
        let mut to = Vec::new();
        let mut tables = Tables {
            to: &mut to,
            verbose: false,
            named,
        };
        let outcome = Outcome::of(experiment, 1, false, &series);
        tables.outcome(&outcome).unwrap();
        String::from_utf8(to).unwrap()
    }

    // Elsewhere there are no such experiments.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_papers_table_needs_its_experiment_named() {
        let mask = ["mask", "sigprocmask"];
        assert!(printed("signal-mask", mask, true).contains("M94, Table 1"));
        assert!(!printed("signal-mask", mask, false).contains("M94"));
        // GC96 counts instructions of another operation.
        let dcas = printed("dcas", ["os-assisted", "cas"], true);
        assert!(!dcas.contains("GC96"), "{dcas}");
    }

    #[test]
    fn tables_have_a_ratio_with_its_spread_and_no_line_at_their_end() {
        let text = printed("percpu-counter", ["rseq", "mutex"], false);
        assert!(text.contains("1.00 × (1.00 to 1.00)"), "{text}");
        assert!(!text.ends_with("\n\n"), "{text}");
    }

    #[test]
    fn lists() {
        let items = ["a", "b", "c"].map(String::from);
        let lists = [0, 1, 2, 3].map(|length| list(&items[..length]));
        assert_eq!(lists, ["", "a", "a and b", "a, b and c"]);
    }

    #[test]
    fn figures() {
        let figures = [0.01234, 0.1, 3.21159, 9.999, 31.4159, 99.96, 264_000.4].map(figure);
        assert_eq!(
            figures,
            ["0.0123", "0.10", "3.21", "10.0", "31.4", "100", "264000"]
        );
    }
}
