//! The report, with the columns of B91's table 3 and those of section 4.3's text.

use std::io::{self, Write};

use atomseq_papers::{Value, paper};
use demo_common::report::grouped;

use super::copying::Outcome;
use super::mechanisms::{FOR_HANDLERS, Mechanism};
use super::options::Plan;

/// Keeps the faster of two runs.
pub fn keep_best(best: &mut Option<Outcome>, outcome: Outcome) {
    if best
        .as_ref()
        .is_none_or(|best| outcome.elapsed < best.elapsed)
    {
        *best = Some(outcome);
    }
}

/// Prints the report.
pub fn print(
    plan: &Plan,
    checksum: u32,
    rows: &[(&Mechanism, Outcome)],
    out: &mut dyn Write,
) -> io::Result<()> {
    head(plan, checksum, out)?;
    line(
        out,
        [
            "",
            "elapsed",
            "emulation",
            "sequence",
            "thread",
            "",
            "found",
            "waits for",
        ],
    )?;
    line(
        out,
        [
            "mechanism",
            "seconds",
            "faults",
            "restarts",
            "blocks",
            "acquisitions",
            "held",
            "condition",
        ],
    )?;
    for (mechanism, outcome) in rows {
        let count = |count: Option<u64>| count.map_or("-".to_string(), grouped);
        let cells = [
            mechanism.name.to_string(),
            format!("{:.3}", outcome.elapsed.as_secs_f64()),
            count(outcome.interventions.emulations),
            count(outcome.interventions.restarts),
            count(outcome.blocks),
            grouped(outcome.tally.acquisitions),
            grouped(outcome.tally.found_held),
            grouped(outcome.tally.waits),
        ];
        line(out, cells.each_ref().map(String::as_str))?;
    }
    papers(out)?;
    explain(plan, rows, out)
}

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

fn line(out: &mut dyn Write, cells: [&str; 8]) -> io::Result<()> {
    let [name, elapsed, rest @ ..] = cells;
    write!(out, "{name:<24}{elapsed:>9}")?;
    for cell in rest {
        write!(out, "{cell:>14}")?;
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
        line(out, [name, elapsed, faults, restarts, blocks, "", "", ""])?;
    }
    Ok(())
}

fn explain(plan: &Plan, rows: &[(&Mechanism, Outcome)], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\nB91's rows are from a DS5000 with one CPU, and another file. Thread blocks are the kernel's count \
         of voluntary context switches. Acquisitions include those after a wait for a condition."
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
