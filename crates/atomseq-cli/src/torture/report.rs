//! What the torture says: how it begins, what was done, and what is needed to repeat a broken law.

use std::fmt;

use comfy_table::{CellAlignment, Table, TableComponent, presets};

use super::Plan;
use super::harness::Target;
use super::harness::crew::Orders;
use super::harness::shared::Figures;
use super::harness::watch::End;
use crate::machine;

/// The first lines: the seed before all.
pub fn opening(plan: &Plan, orders: &Orders) -> String {
    let status = atomseq::status();
    let mut text = format!(
        "Seed {}. {} for {}, {} threads on {}. atomseq is {status}.\n",
        plan.seed,
        count(plan.targets.len() as u64, "target"),
        count(plan.length.as_secs(), "second"),
        orders.workers,
        count(orders.cpus.len() as u64, "CPU"),
    );
    if !status.is_active() {
        text += "Sections are off on this machine, so the slow path is what is tortured.\n";
    } else if !status.gates_active() {
        text += "Gates are off on this machine: but for counter and histogram, the slow path is what is tortured.\n";
    }
    if !cfg!(target_os = "linux") {
        text += "Only on Linux are threads moved, interrupted and forked; here they only preempt each other.\n";
    } else if orders.cpus.len() == 1 {
        text += "There is one CPU to run on, so no thread is moved.\n";
    }
    if let Some(kind) = plan.sabotage {
        text += &format!(
            "The torture sabotages itself ({}), so it must fail.\n",
            sabotage(kind)
        );
    }
    text
}

fn sabotage(kind: super::Sabotage) -> String {
    use clap::ValueEnum;
    kind.to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_string())
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// What was done to each target, and what came of it.
pub struct Summary {
    table: Table,
    all_held: bool,
    workers: usize,
    /// What the system refused, and what was therefore not tried.
    refused: Vec<String>,
    /// Which signals came more rarely than they were to.
    slowed: Vec<String>,
    /// Was everything tried that was to be?
    all_tried: bool,
}

impl Summary {
    /// Nothing was done yet.
    pub fn new(workers: usize) -> Summary {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table
            .set_style(TableComponent::HeaderLines, '─')
            .set_style(TableComponent::MiddleHeaderIntersections, '─');
        table.set_header([
            "target",
            "rounds",
            "operations",
            "moves",
            "signals",
            "fences",
            "gates closed",
            "result",
            "also",
        ]);
        Summary {
            table,
            all_held: true,
            workers,
            refused: Vec::new(),
            slowed: Vec::new(),
            all_tried: true,
        }
    }

    /// A target has come to its end.
    pub fn add(&mut self, target: &Target, end: &End) {
        let (End::Held(figures) | End::Violated { figures, .. } | End::Hung { figures, .. }) = end;
        // Rarer signals interrupt in fewer places, so some may not have been tried.
        let all_tried = !figures.granted.lacks_any() && figures.slowness <= 1;
        let result = match end {
            End::Held(_) if all_tried => "held",
            End::Held(_) => "held in part",
            End::Violated { .. } => "broken",
            End::Hung { .. } => "hangs",
        };
        self.all_held &= matches!(end, End::Held(_));
        self.all_tried &= all_tried;
        self.refused.extend(figures.granted.sentences(target.name));
        if figures.slowness > 1 {
            self.slowed.push(format!(
                "{}: threads got no further between two signals at the intended rate, so signals came up to {} times more \
                 rarely, and this was tried less often: interruptions.",
                target.name, figures.slowness
            ));
        }
        let Figures {
            rounds,
            operations,
            torments,
            signals,
            closings,
            counted,
            ..
        } = *figures;
        let also = match target.counts {
            "" => String::new(),
            what => format!("{counted} {what}"),
        };
        self.table.add_row([
            target.name.to_string(),
            rounds.to_string(),
            operations.to_string(),
            torments.migrations.to_string(),
            signals.to_string(),
            torments.fences.to_string(),
            closings.to_string(),
            result.to_string(),
            also,
        ]);
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = self.table.clone();
        for column in table.column_iter_mut().skip(1).take(6) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{table}")?;
        writeln!(
            f,
            "Each target had {} threads. Fences are those beside gates; gates closed are counted by what came through them, \
             so there were more.",
            self.workers
        )?;
        for refused in &self.refused {
            writeln!(f, "{refused}")?;
        }
        if !self.refused.is_empty() {
            writeln!(
                f,
                "Such refusals come from limits (`ulimit -u` for threads and children, `ulimit -i` for timers, the container's) or from a \
                 sandbox."
            )?;
        }
        for slowed in &self.slowed {
            writeln!(f, "{slowed}")?;
        }
        match (self.all_held, self.all_tried) {
            (true, true) => writeln!(f, "Every law held."),
            (true, false) => writeln!(f, "Every law that was tried held."),
            (false, _) => Ok(()),
        }
    }
}

/// A target that did not end well.
pub struct Incident {
    head: String,
    lines: Vec<(&'static str, String)>,
}

impl Incident {
    /// What happened; `None` if all is well.
    pub fn of(end: &End, target: &Target, plan: &Plan, orders: &Orders) -> Option<Incident> {
        let (head, round, mut lines) = match end {
            End::Held(_) => return None,
            End::Violated {
                broken,
                round,
                stuck,
                ..
            } => {
                let mut lines = vec![
                    ("law", broken.law().to_string()),
                    ("values", broken.facts()),
                ];
                if let Some(stuck) = stuck {
                    lines.push(("stuck", stuck.clone()));
                }
                ("a law was broken", *round, lines)
            }
            End::Hung { place, round, .. } => {
                let lines = vec![
                    (
                        "law",
                        "something goes on at least every 10 seconds".to_string(),
                    ),
                    ("stuck", place.clone()),
                ];
                ("nothing goes on any more", *round, lines)
            }
        };
        lines.insert(
            0,
            (
                "target",
                format!("{}, round {round}, {} threads", target.name, orders.workers),
            ),
        );
        lines.extend(circumstances(target, plan, orders));
        lines.retain(|(_, value)| !value.is_empty());
        let head = format!("torture: {head}");
        Some(Incident { head, lines })
    }
}

/// Where it happened, and how to make it happen again.
fn circumstances(target: &Target, plan: &Plan, orders: &Orders) -> Vec<(&'static str, String)> {
    let memory = machine::address_space();
    let limited = memory.map(|kibibytes| format!("ulimit -v {kibibytes}; "));
    let mut repeat = format!(
        "{}atomseq torture {} --seed {} --seconds {}",
        limited.unwrap_or_default(),
        target.name,
        plan.seed,
        plan.length.as_secs()
    );
    if let Some(kind) = plan.sabotage {
        repeat += &format!(" --sabotage {}", sabotage(kind));
    }
    let cpus: Vec<String> = orders.cpus.iter().map(usize::to_string).collect();
    vec![
        ("lanes", "three a thread: 3 n is thread n itself, 3 n + 1 and 3 n + 2 its signal handlers".to_string()),
        ("seed", plan.seed.to_string()),
        ("status", atomseq::status().to_string()),
        ("CPUs", cpus.join(",")),
        ("kernel", machine::kernel().unwrap_or_default()),
        ("memory", memory.map_or_else(String::new, |kibibytes| format!("{kibibytes} KiB of addresses"))),
        ("C library", machine::libc_version().unwrap_or_default()),
        ("atomseq", env!("CARGO_PKG_VERSION").to_string()),
        ("repeat", repeat),
        ("", "The seed repeats each thread's operations, not how threads interleave: it may take more seconds.".to_string()),
    ]
}

/// What is printed when the process crashes in the middle of a target.
pub fn last_words(target: &Target, plan: &Plan, orders: &Orders) -> String {
    let mut lines = vec![(
        "target",
        format!("{}, {} threads", target.name, orders.workers),
    )];
    lines.extend(circumstances(target, plan, orders));
    lines.retain(|(_, value)| !value.is_empty());
    let head =
        "atomseq: torture: the process crashed (a bad memory access, or an abort)".to_string();
    Incident { head, lines }.to_string() + "\n"
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head)?;
        for (name, value) in &self.lines {
            write!(f, "\n  {name:<10}{value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::targets::signals::TARGET;

    /// What is said of a target that held while its signals came so many times more rarely.
    fn told(slowness: u32) -> String {
        let mut summary = Summary::new(3);
        let figures = Figures {
            slowness,
            ..Figures::default()
        };
        summary.add(&TARGET, &End::Held(figures));
        summary.to_string()
    }

    #[test]
    fn what_was_slowed_down_held_in_part() {
        let slowed = told(16);
        for expected in [
            " held in part ",
            "at the intended rate, so signals came up to 16 times more rarely",
        ] {
            assert!(slowed.contains(expected), "{slowed}");
        }
        assert!(
            slowed.ends_with("Every law that was tried held.\n"),
            "{slowed}"
        );
        // The control: signals at the intended rate.
        let held = told(1);
        assert!(
            !held.contains("in part") && !held.contains("rarely"),
            "{held}"
        );
        assert!(held.ends_with("Every law held.\n"), "{held}");
    }
}
