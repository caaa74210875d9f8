//! How results are put before a person, and before a program.

mod beside;

use std::io::Write;

use comfy_table::{CellAlignment, Table, TableComponent, presets};

use crate::bench::Listener;
use crate::bench::environment::Environment;
use crate::bench::experiments;
use crate::bench::record::{Measure, Outcome, Record, Wrong, workload};
use crate::conclusions::list;
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

/// Tables.
pub struct Tables<W>(pub W);

impl<W: Write> Listener for Tables<W> {
    fn environment(&mut self, environment: &Environment) -> Result<(), Error> {
        let unknown = || "unknown".to_string();
        writeln!(
            self.0,
            "{} · {} · {} · {}",
            environment.cpu.clone().unwrap_or_else(unknown),
            match environment.cpus.len() {
                1 => "1 CPU".to_string(),
                cpus => format!("{cpus} CPUs"),
            },
            environment.kernel.clone().unwrap_or_else(unknown),
            environment.rustc.unwrap_or("unknown compiler"),
        )?;
        if environment.profile == "debug" {
            writeln!(
                self.0,
                "This is a debug build: its figures mean nothing. Use `cargo run --release`."
            )?;
        }
        if !environment.gates {
            let reason = environment.rseq.reason.as_deref();
            writeln!(
                self.0,
                "No gate can be closed here: {}. So atomseq's structures take their slow paths or k-CAS, and cases that need one \
                 (os-assisted, cpu) are left out.",
                reason.unwrap_or("for a reason this system does not tell")
            )?;
        }
        if environment.pinned.is_none() {
            writeln!(
                self.0,
                "This system does not let a thread be pinned to a CPU: expect more spread."
            )?;
        }
        Ok(self.0.flush()?)
    }

    fn outcome(&mut self, outcome: &Outcome) -> Result<(), Error> {
        writeln!(self.0, "\n{}", title(outcome))?;
        let mut start = 0;
        while start < outcome.measures.len() {
            let group = workload(outcome.measures[start].case);
            let length = outcome.measures[start..]
                .iter()
                .take_while(|m| workload(m.case) == group)
                .count();
            writeln!(
                self.0,
                "{}",
                table(outcome, &outcome.measures[start..start + length])
            )?;
            start += length;
        }
        if let Some(beside) = experiments::find(outcome.experiment).and_then(|found| found.beside) {
            beside::print(&mut self.0, beside, outcome)?;
        }
        for wrong in &outcome.wrong {
            writeln!(self.0, "{}", left_out(wrong))?;
        }
        Ok(self.0.flush()?)
    }
}

/// Why a case is in no table, in one sentence.
fn left_out(wrong: &Wrong) -> String {
    let Wrong { case, fault, .. } = wrong;
    if wrong.untried {
        return format!("{case} was not measured: {fault}.");
    }
    let whose = if wrong.peer {
        "a fault of the peer's"
    } else {
        "a fault of atomseq's"
    };
    let counts = wrong.expected.map_or(String::new(), |expected| {
        let found: Vec<_> = wrong.found.iter().map(u64::to_string).collect();
        format!(" (expected {expected}, found {})", list(&found))
    });
    format!("{case} is left out, for {whose}: {fault}{counts}.")
}

fn title(outcome: &Outcome) -> String {
    let threads = if outcome.threads == 1 {
        "thread"
    } else {
        "threads"
    };
    let all = |measures: &[Measure]| measures.iter().all(|measure| measure.oversubscribed);
    let crowded = if !outcome.measures.is_empty() && all(&outcome.measures) {
        ", more than they have CPUs"
    } else {
        ""
    };
    format!(
        "{} · {} {threads}{crowded}",
        outcome.experiment, outcome.threads
    )
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

/// One workload: its cases, and each beside the first: atomseq's, or what does the same without
/// protection.
fn table(outcome: &Outcome, measures: &[Measure]) -> Table {
    let mut table = plain_table();
    let (first, unit) = (measures[0].case, measures[0].unit);
    table.set_header([
        "case",
        unit,
        "min",
        "p10",
        "p99",
        "max",
        &format!("beside {first}"),
        "from",
        "to",
        "runs",
    ]);
    for measure in measures {
        let ratio = outcome.ratio(measure.case, first);
        let times = |of: fn(&crate::bench::record::Ratio) -> f64| {
            ratio.map_or("1".to_string(), |r| figure(of(r)) + " x")
        };
        table.add_row([
            measure.case.to_string(),
            figure(measure.median),
            figure(measure.min),
            figure(measure.p10),
            figure(measure.p99),
            figure(measure.max),
            times(|r| r.median),
            ratio.map_or(String::new(), |r| figure(r.min)),
            ratio.map_or(String::new(), |r| figure(r.max)),
            measure.runs.to_string(),
        ]);
    }
    align_right(&mut table, 1..10);
    table
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
    use super::figure;

    #[test]
    fn figures() {
        let figures = [0.01234, 0.1, 3.21159, 9.999, 31.4159, 99.96, 264_000.4].map(figure);
        assert_eq!(
            figures,
            ["0.0123", "0.10", "3.21", "10.0", "31.4", "100", "264000"]
        );
    }
}
