//! The report: the columns of B91's table 3 for each program, by mechanism, beside the paper's
//! cells.

use std::io::{self, Write};

use atomseq_papers::{Value, paper};
use demo_common::report::{grouped, mean, times};

use super::mechanisms::Mechanism;
use super::options::Plan;
use super::package::Outcome;

/// The runs of a program with one mechanism.
pub struct Row {
    pub mechanism: &'static Mechanism,
    pub runs: Vec<Outcome>,
}

impl Row {
    pub fn new(mechanism: &'static Mechanism) -> Row {
        let runs = Vec::new();
        Row { mechanism, runs }
    }
}

/// The names of the columns, in two lines.
const HEAD: [[&str; 10]; 2] = [
    [
        "",
        "elapsed",
        "",
        "",
        "emulation",
        "",
        "thread",
        "found",
        "",
        "page",
    ],
    [
        "mechanism",
        "mean s",
        "min",
        "max",
        "faults",
        "restarts",
        "blocks",
        "held",
        "acquisitions",
        "faults",
    ],
];

fn line(out: &mut dyn Write, cells: [&str; 10]) -> io::Result<()> {
    let [name, mean, min, max, counts @ ..] = cells;
    write!(out, "{name:<22}{mean:>9}{min:>9}{max:>9}")?;
    for cell in counts {
        write!(out, "{cell:>13}")?;
    }
    writeln!(out)
}

/// Prints a program's table.
pub fn print(program: &str, rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{program}\n")?;
    for names in HEAD {
        line(out, names)?;
    }
    for row in rows {
        let runs = &row.runs[..];
        let [time, min, max] = times(runs, |run| run.elapsed);
        let is_kernel = row.mechanism.is_kernel;
        let counts = [
            mean(runs, |run| run.interventions.emulations),
            mean(runs, |run| {
                let done = run.interventions;
                done.restarts.or(done.rollforwards).or(done.deferrals)
            }),
            mean(runs, |run| run.blocks(is_kernel)),
            mean(runs, |run| Some(run.tally.found_held)),
            mean(runs, |run| Some(run.tally.acquisitions)),
            mean(runs, |run| Some(run.switches?.page_faults)),
        ];
        let [a, b, c, d, e, f] = counts.each_ref().map(String::as_str);
        line(
            out,
            [row.mechanism.name, &time, &min, &max, a, b, c, d, e, f],
        )?;
    }
    papers(program, out)?;
    if let Some(run) = rows.first().and_then(|row| row.runs.last()) {
        writeln!(out, "\n{}\n", run.result)?;
    }
    Ok(())
}

/// Prints the program's row of table 3, by mechanism, if it has one.
fn papers(program: &str, out: &mut dyn Write) -> io::Result<()> {
    let Some(b91) = paper("B91") else {
        return Ok(());
    };
    let cell = |technique| {
        let cell = b91.cell("3", technique, program, "DS5000");
        cell.map(|cell| match (cell.unit, cell.value) {
            ("times", Value::Exactly(count)) => grouped(count as u64),
            (_, value) => value.to_string(),
        })
    };
    // For parthenon-10, the text of section 4.3 says how often a lock was found held.
    let held = |technique| {
        let figures = b91.figures.iter();
        let mut held = figures.filter(|figure| figure.quantity.ends_with("found a lock held"));
        let figure = held.find(|figure| figure.technique == Some(technique));
        figure
            .filter(|_| program == "parthenon-10")
            .map(|figure| figure.value.to_string())
    };
    for (name, cells) in [
        (
            "B91: emulation",
            [
                cell("time, Emul."),
                cell("Emulation Faults"),
                None,
                cell("blocks, Emul."),
                held("Kernel Emulation"),
            ],
        ),
        (
            "B91: restartable",
            [
                cell("time, R.A.S."),
                None,
                cell("Restarts"),
                cell("blocks, R.A.S."),
                held("Restartable Atomic Sequences"),
            ],
        ),
    ] {
        if cells[0].is_none() {
            continue;
        }
        let [time, a, b, c, d] = cells.each_ref().map(|cell| cell.as_deref().unwrap_or("-"));
        line(out, [name, time, "", "", a, b, c, d, "", ""])?;
    }
    Ok(())
}

/// Explains the columns, and names the mechanisms that were left out.
pub fn explain(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "All figures are means over the runs ({}), as in B91; beside the mean time stand the shortest and the \
         longest. Mechanisms took turns. B91's rows are from a DS5000 with one CPU, with other inputs. Restarts are \
         rollforwards with rolling, and deferred signals with masked. Thread blocks of kernel threads are voluntary \
         context switches; of coroutines, waits for a lock or a condition. B91 does not give page faults. atomseq: {}.",
        plan.runs,
        atomseq::status()
    )?;
    for sentence in &plan.left_out {
        writeln!(out, "Left out: {sentence}.")?;
    }
    writeln!(out, "All results are right.")
}
