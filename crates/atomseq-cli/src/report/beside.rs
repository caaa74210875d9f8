//! A paper's figures printed beside the measured ones.

use std::io::{self, Write};

use comfy_table::Table;

use super::{align_right, figure, list, plain_table};
use crate::bench::beside::{Argument, Beside, Cost, Difference, Shown};
use crate::bench::record::{Outcome, Overhead, subject, workload};

/// Prints the paper's figures, the ratios it argues from, where the order of its rows differs, and
/// what its text says.
pub fn print(to: &mut impl Write, beside: &Beside, outcome: &Outcome) -> io::Result<()> {
    let mut workloads: Vec<_> = outcome.measures.iter().map(|m| workload(m.case)).collect();
    workloads.dedup();
    if let Some(number) = beside.table {
        let mut tables = beside.paper().tables.iter();
        let table_of = tables.find(|table| table.number == number);
        let (title, unit) = table_of.map_or(("", ""), |table| (table.title, table.unit));
        writeln!(to, "\n{}, Table {number}: {title} ({unit})", beside.paper)?;
        let table = match beside.machines()[..] {
            [machine] if beside.programs.len() > WIDEST => by_program(beside, outcome, machine),
            _ => table(beside, outcome, &workloads),
        };
        writeln!(to, "{table}")?;
    }
    for of in workloads {
        for argument in beside.arguments(outcome, of) {
            writeln!(to, "  {}", argued(beside, of, &argument))?;
        }
        for reversal in beside.reversals(outcome, of) {
            let (here, there) = (reversal.here, reversal.there);
            writeln!(
                to,
                "  {}another order than in {}: here {} costs more than {}, there {} cost more than {}; {}.",
                prefix(of),
                beside.paper,
                here.0,
                here.1,
                there.0,
                there.1,
                reversal.reason,
            )?;
        }
    }
    for (paper, figure) in beside.figures() {
        let technique = figure
            .technique
            .map_or(String::new(), |technique| format!("{technique}, "));
        writeln!(
            to,
            "  {paper} {}: {technique}{}: {} {} ({})",
            figure.section, figure.quantity, figure.value, figure.unit, figure.machine
        )?;
    }
    if beside.table.is_none() && !beside.differences.is_empty() {
        writeln!(to, "{}", differences(beside, outcome))?;
    }
    if !beside.note.is_empty() {
        writeln!(to, "  {}", beside.note)?;
    }
    Ok(())
}

/// `lifo: `, or nothing where there is only one workload.
fn prefix(workload: &str) -> String {
    match workload {
        "" => String::new(),
        _ => format!("{workload}: "),
    }
}

/// The paper's rows and columns, then the subject that is nearest to each row and what it costs in
/// each workload.
fn table(beside: &Beside, outcome: &Outcome, workloads: &[&'static str]) -> Table {
    let paper = beside.paper();
    let mut programs: Vec<_> = beside
        .programs
        .iter()
        .map(|(_, program)| *program)
        .collect();
    programs.dedup();
    let cost = match beside.baseline {
        Some(baseline) => format!("ns over {baseline}"),
        None => "ns".to_string(),
    };
    let mut head = vec!["technique".to_string()];
    let machines = beside.machines();
    for machine in &machines {
        if programs.len() == 1 {
            head.push(machine.to_string());
            continue;
        }
        head.extend(programs.iter().enumerate().map(|(index, program)| {
            format!("{}\n{program}", if index == 0 { machine } else { "" })
        }));
    }
    head.push("here".to_string());
    head.extend(
        workloads.iter().enumerate().map(|(index, workload)| {
            format!("{}\n{workload}", if index == 0 { &cost } else { "" })
        }),
    );
    let columns = head.len();
    let mut table = plain_table();
    table.set_header(head);
    for technique in &paper.techniques {
        if Some(technique.table) != beside.table {
            continue;
        }
        let mut row = vec![technique.name.to_string()];
        for machine in &machines {
            row.extend(programs.iter().map(|program| {
                let cell = paper.cell(technique.table, technique.name, program, machine);
                cell.map_or(String::new(), |cell| cell.value.to_string())
            }));
        }
        let subjects = beside.subjects(outcome, technique.name);
        if subjects.is_empty() {
            row.push(beside.absence(technique.name).unwrap_or("–").to_string());
            table.add_row(row);
            continue;
        }
        for shown in subjects {
            row.push(label(shown));
            row.extend(workloads.iter().map(|workload| {
                let cost = beside.cost(outcome, workload, shown.subject);
                cost.map_or(String::new(), two_lines)
            }));
            table.add_row(row);
            // The paper's figures stand beside the first.
            row = vec![String::new(); columns - workloads.len() - 1];
        }
    }
    align_right(&mut table, 1..columns - workloads.len() - 1);
    align_right(&mut table, columns - workloads.len()..columns);
    table
}

/// A subject, and whether it is only the nearest.
fn label(shown: Shown) -> String {
    match shown.nearest {
        true => format!("{} (nearest)", shown.subject),
        false => shown.subject.to_string(),
    }
}

/// The median, and below it the spread.
fn two_lines(cost: Cost) -> String {
    let [median, from, to] = [cost.median, cost.p10, cost.p90].map(figure);
    format!("{median}\n{from} to {to}")
}

/// What each difference is in each workload, with its spread.
fn differences(beside: &Beside, outcome: &Outcome) -> Table {
    let mut table = plain_table();
    table.set_header(["difference", "", "unit", "median", "p10", "p90"]);
    for Difference { name, of, over } in beside.differences {
        let overheads = outcome.overheads.iter();
        let of_it = |found: &&Overhead| (subject(found.case), subject(found.over)) == (of, over);
        for found in overheads.filter(of_it) {
            let [median, p10, p90] = [found.median, found.p10, found.p90].map(figure);
            let of_both = format!("{} less {over}", found.case);
            let unit = found.unit.to_string();
            table.add_row([name.to_string(), of_both, unit, median, p10, p90]);
        }
    }
    align_right(&mut table, 3..6);
    table
}

/// More programs than these make a table too wide to read, so that they are its rows.
const WIDEST: usize = 5;

/// The paper's programs, what each technique takes there, then the workload that it is and what the
/// subjects take.
fn by_program(beside: &Beside, outcome: &Outcome, machine: &'static str) -> Table {
    let paper = beside.paper();
    let techniques = paper.techniques.iter();
    let techniques: Vec<_> = techniques
        .filter(|technique| Some(technique.table) == beside.table)
        .collect();
    let subjects = techniques.iter();
    let subjects = subjects.flat_map(|technique| beside.subjects(outcome, technique.name));
    let subjects: Vec<_> = subjects.collect();
    let under = |group: &str, index: usize, name: &str| match index {
        0 => format!("{group}\n{name}"),
        _ => format!("\n{name}"),
    };
    let mut head = vec!["program".to_string()];
    let names = techniques.iter().enumerate();
    head.extend(names.map(|(index, technique)| under(machine, index, technique.name)));
    head.push("here".to_string());
    let names = subjects.iter().enumerate();
    head.extend(names.map(|(index, shown)| under("ns", index, &label(*shown))));
    let columns = head.len();
    let mut table = plain_table();
    table.set_header(head);
    for (workload, program) in beside.programs {
        let mut row = vec![program.to_string()];
        row.extend(techniques.iter().map(|technique| {
            let cell = paper.cell(technique.table, technique.name, program, machine);
            cell.map_or(String::new(), |cell| cell.value.to_string())
        }));
        row.push(workload.to_string());
        row.extend(subjects.iter().map(|shown| {
            let cost = beside.cost(outcome, workload, shown.subject);
            cost.map_or(String::new(), two_lines)
        }));
        table.add_row(row);
    }
    align_right(&mut table, 1..techniques.len() + 1);
    align_right(&mut table, columns - subjects.len()..columns);
    table
}

fn argued(beside: &Beside, workload: &str, argument: &Argument) -> String {
    let there: Vec<_> = argument
        .published
        .iter()
        .map(|(ratio, machine)| format!("{ratio} ({machine})"))
        .collect();
    let (dividend, divisor) = argument.subjects;
    let here = match argument.measured {
        Some(ratio) => {
            let [median, from, to] = [ratio.median, ratio.p10, ratio.p90].map(figure);
            let to = match ratio.p90.is_finite() {
                true => format!("to {to}"),
                false => "or more".to_string(),
            };
            format!("{dividend} / {divisor} is {median} here ({from} {to})")
        }
        None => {
            format!("here {divisor} adds nothing measurable, so there is no such ratio")
        }
    };
    format!(
        "{}{} / {} is {} in {}; {here}.",
        prefix(workload),
        argument.techniques.0,
        argument.techniques.1,
        list(&there),
        beside.paper,
    )
}
