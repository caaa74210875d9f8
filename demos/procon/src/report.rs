//! The report, with the columns of B91's table 3 and those of section 4.3's text.

use std::io::{self, Write};

use atomseq_papers::{Value, paper};
use demo_common::report::{grouped, mean, times};

use super::copying::Outcome;
use super::mechanisms::{FOR_HANDLERS, Mechanism};
use super::options::Plan;

/// Prints the report of the runs with each mechanism, of which there is at least one.
pub fn print(
    plan: &Plan,
    checksum: u32,
    rows: &[(&Mechanism, Vec<Outcome>)],
    out: &mut dyn Write,
) -> io::Result<()> {
    head(plan, checksum, out)?;
    for names in HEAD {
        line(out, names)?;
    }
    for (mechanism, runs) in rows {
        let times = times(runs, |run| run.elapsed);
        let counts = [
            mean(runs, |run| run.interventions.emulations),
            mean(runs, |run| run.interventions.restarts),
            mean(runs, |run| Some(run.switches?.blocks)),
            mean(runs, |run| Some(run.switches?.preemptions)),
            mean(runs, |run| Some(run.tally.acquisitions)),
            mean(runs, |run| Some(run.tally.found_held)),
            mean(runs, |run| Some(run.tally.waits)),
        ];
        let [time, from, to] = times.each_ref().map(String::as_str);
        let [a, b, c, d, e, f, g] = counts.each_ref().map(String::as_str);
        line(out, [mechanism.name, time, from, to, a, b, c, d, e, f, g])?;
    }
    papers(out)?;
    explain(plan, rows, out)
}

/// The names of the columns, in two lines.
const HEAD: [[&str; 11]; 2] = [
    [
        "",
        "elapsed",
        "",
        "",
        "emulation",
        "sequence",
        "thread",
        "thread",
        "",
        "found",
        "waits for",
    ],
    [
        "mechanism",
        "mean s",
        "min",
        "max",
        "faults",
        "restarts",
        "blocks",
        "preempted",
        "acquisitions",
        "held",
        "condition",
    ],
];

fn head(plan: &Plan, checksum: u32, out: &mut dyn Write) -> io::Result<()> {
    let Plan {
        input,
        slots,
        block,
        ..
    } = plan;
    writeln!(out, "File      {}", input.path.display())?;
    if let Some(chosen) = input.chosen {
        writeln!(out, "          {chosen}")?;
    }
    writeln!(
        out,
        "          {} bytes, CRC-32 {checksum:08x}",
        grouped(input.bytes)
    )?;
    writeln!(out, "Buffer    {slots} slots of {block} bytes")?;
    let [producer, consumer] = plan.cpus;
    match producer == consumer {
        true => writeln!(out, "CPUs      both threads on CPU {producer}")?,
        false => writeln!(
            out,
            "CPUs      producer on {producer}, consumer on {consumer}"
        )?,
    }
    writeln!(out, "atomseq   {}\n", atomseq::status())
}

fn line(out: &mut dyn Write, cells: [&str; 11]) -> io::Result<()> {
    let [name, mean, min, max, counts @ ..] = cells;
    write!(out, "{name:<22}{mean:>8}{min:>8}{max:>8}")?;
    for cell in counts {
        write!(out, "{cell:>13}")?;
    }
    writeln!(out)
}

/// Prints procon-64's row of table 3, by mechanism.
fn papers(out: &mut dyn Write) -> io::Result<()> {
    let Some(b91) = paper("B91") else {
        return Ok(());
    };
    let cell = |technique| {
        let cell = b91.cell("3", technique, "procon-64", "DS5000");
        cell.map_or("-".to_string(), |cell| match (cell.unit, cell.value) {
            ("times", Value::Exactly(count)) => grouped(count as u64),
            (_, value) => value.to_string(),
        })
    };
    let none = "-".to_string();
    for (name, cells) in [
        (
            "B91: emulation",
            [
                cell("time, Emul."),
                cell("Emulation Faults"),
                none.clone(),
                cell("blocks, Emul."),
            ],
        ),
        (
            "B91: restartable",
            [
                cell("time, R.A.S."),
                none.clone(),
                cell("Restarts"),
                cell("blocks, R.A.S."),
            ],
        ),
    ] {
        let [elapsed, faults, restarts, blocks] = cells.each_ref().map(String::as_str);
        line(
            out,
            [
                name, elapsed, "", "", faults, restarts, blocks, "", "", "", "",
            ],
        )?;
    }
    Ok(())
}

fn explain(
    plan: &Plan,
    rows: &[(&Mechanism, Vec<Outcome>)],
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(
        out,
        "\nAll figures are means over the runs ({}), as in B91; beside the mean time stand the fastest and \
         the slowest. B91's rows are from a DS5000 with one CPU, and another file. Thread blocks are the kernel's \
         count of voluntary context switches, preemptions that of involuntary ones, which B91 does not give. Acquisitions include those after a wait for a condition.",
        plan.runs,
    )?;
    for sentence in &plan.left_out {
        writeln!(out, "Left out: {sentence}.")?;
    }
    writeln!(
        out,
        "Not applicable: {}. They exclude the handlers of one thread only (scope SameThread), and a mutex on \
         them around data of two threads does not compile.",
        FOR_HANDLERS.join(", ")
    )?;
    let names: Vec<_> = rows.iter().map(|(mechanism, _)| mechanism.name).collect();
    let status = atomseq::status();
    let reason = status.reason().map(|reason| reason.to_string());
    let unfenced =
        (!status.gates_active()).then_some(reason.as_deref().unwrap_or("the reason is not known"));
    if let Some(sentence) = fallbacks(&names, unfenced) {
        writeln!(out, "{sentence}")?;
    }
    let copies = match rows.len() {
        1 => "The copy is correct.",
        _ => "All copies are correct.",
    };
    match &plan.output {
        Some(output) => writeln!(out, "{copies} The last one is {}.", output.display()),
        None => writeln!(out, "{copies}"),
    }
}

/// Returns a sentence about the mechanisms that fall back to interlocked instructions, where
/// sections cannot be fenced.
pub fn fallbacks(mechanisms: &[&str], unfenced: Option<&str>) -> Option<String> {
    let has_home = |name: &&&str| ["on-cpu", "biased"].contains(*name);
    let named: Vec<_> = mechanisms.iter().filter(has_home).copied().collect();
    let reason = unfenced.filter(|_| !named.is_empty())?;
    Some(format!(
        "Interlocked here, because sections cannot be fenced: {}. The reason: {reason}.",
        named.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fallbacks_are_reported() {
        let all = ["interlocked", "on-cpu", "biased", "std"];
        assert_eq!(fallbacks(&all, None), None);
        assert_eq!(fallbacks(&["interlocked", "std"], Some("no fence")), None);
        let expected = "Interlocked here, because sections cannot be fenced: on-cpu, biased. \
                        The reason: no fence.";
        assert_eq!(fallbacks(&all, Some("no fence")).as_deref(), Some(expected));
    }
}
