//! What `atomseq torture` prints: what it runs, what was done, and how to repeat a violation.

use std::fmt;

use atomseq_stress::engine::crew::Figures;
use atomseq_stress::engine::watch::End;
use atomseq_stress::engine::{Options, Target};
use comfy_table::{CellAlignment, Table, TableComponent, presets};

use super::Plan;
use crate::machine;

/// Returns the first lines, which start with the seed.
pub fn opening(plan: &Plan, options: &Options) -> String {
    let status = atomseq::status();
    let mut text = format!(
        "Seed {}. {} for {}, {} threads on {}. atomseq is {status}.\n",
        plan.seed,
        count(plan.targets.len() as u64, "target"),
        count(plan.length.as_secs(), "second"),
        options.workers,
        count(options.cpus.len() as u64, "CPU"),
    );
    if !status.is_active() {
        text += "Per-CPU sequences are off on this machine: the slow path is tested.\n";
    } else if !status.gates_active() {
        text += "Gates are off on this machine: the slow path is tested, except of counter and histogram.\n";
    }
    if !cfg!(target_os = "linux") {
        text += "Threads are moved, interrupted and forked only on Linux; here they only preempt each other.\n";
    } else if options.cpus.len() == 1 {
        text += "There is one CPU, so no thread is moved.\n";
    }
    if let Some(kind) = plan.sabotage {
        text += &format!(
            "This run injects a fault into itself ({}), so it must fail.\n",
            kind.name()
        );
    }
    text
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// What was done to each target, and its outcome.
pub struct Summary {
    table: Table,
    all_held: bool,
    workers: usize,
    /// What the system refused, and what was therefore not tested.
    refused: Vec<String>,
    /// Where signals were sent less often than intended.
    slowed: Vec<String>,
    /// Whether everything was tested that was to be.
    all_tested: bool,
}

impl Summary {
    /// Returns an empty summary.
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
            all_tested: true,
        }
    }

    /// Adds the outcome of a target.
    pub fn add(&mut self, target: &Target, end: &End) {
        let (End::Held(figures) | End::Violated { figures, .. } | End::Hung { figures, .. }) = end;
        // Fewer signals interrupt fewer operations, so some places may not have been interrupted.
        let all_tested = !figures.granted.lacks_any() && figures.slowness <= 1;
        let result = match end {
            End::Held(_) if all_tested => "held",
            End::Held(_) => "held in part",
            End::Violated { .. } => "violated",
            End::Hung { .. } => "hangs",
        };
        self.all_held &= matches!(end, End::Held(_));
        self.all_tested &= all_tested;
        self.refused.extend(figures.granted.sentences(target.name));
        if figures.slowness > 1 {
            self.slowed.push(format!(
                "{}: at the intended rate, threads made fewer operations than there were signals. So signals came up to {} \
                 times less often, and this was tested less often: interruptions.",
                target.name, figures.slowness
            ));
        }
        let Figures {
            rounds,
            operations,
            moves,
            signals,
            fences,
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
            moves.to_string(),
            signals.to_string(),
            fences.to_string(),
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
            "Each target had {} threads. Fences that close gates are not counted. Gates closed are a lower bound.",
            self.workers
        )?;
        for refused in &self.refused {
            writeln!(f, "{refused}")?;
        }
        if !self.refused.is_empty() {
            writeln!(
                f,
                "Such refusals come from limits (`ulimit -u` for threads and children, `ulimit -i` for timers, the \
                 container's) or from a sandbox."
            )?;
        }
        for slowed in &self.slowed {
            writeln!(f, "{slowed}")?;
        }
        match (self.all_held, self.all_tested) {
            (true, true) => writeln!(f, "All invariants held."),
            (true, false) => writeln!(f, "All invariants that were tested held."),
            (false, _) => Ok(()),
        }
    }
}

/// A target that failed.
pub struct Incident {
    head: String,
    lines: Vec<(&'static str, String)>,
}

impl Incident {
    /// Returns what happened; `None` if all invariants held.
    pub fn of(end: &End, target: &Target, plan: &Plan, options: &Options) -> Option<Incident> {
        let (head, round, mut lines) = match end {
            End::Held(_) => return None,
            End::Violated {
                violation,
                round,
                stuck,
                ..
            } => {
                let mut lines = vec![
                    ("violation", violation.what().to_string()),
                    ("values", violation.facts()),
                ];
                if let Some(stuck) = stuck {
                    lines.push(("stuck", stuck.clone()));
                }
                ("an invariant was violated", *round, lines)
            }
            End::Hung {
                place,
                round,
                cause,
                ..
            } => {
                let lines = vec![
                    ("stuck", place.clone()),
                    ("perhaps", cause.clone().unwrap_or_default()),
                ];
                (
                    "no thread has made progress for 10 seconds, in the last 5 of which no signal was sent",
                    *round,
                    lines,
                )
            }
        };
        lines.insert(
            0,
            (
                "target",
                format!(
                    "{}, round {round}, {} threads",
                    target.name, options.workers
                ),
            ),
        );
        lines.extend(circumstances(target, plan, options));
        lines.retain(|(_, value)| !value.is_empty());
        let head = format!("torture: {head}");
        Some(Incident { head, lines })
    }
}

/// Returns where it happened, and how to repeat it.
fn circumstances(target: &Target, plan: &Plan, options: &Options) -> Vec<(&'static str, String)> {
    let memory = machine::address_space();
    let limit = memory.map(|kibibytes| format!("ulimit -v {kibibytes}; "));
    let mut repeat = format!(
        "{}atomseq torture {} --seed {} --seconds {}",
        limit.unwrap_or_default(),
        target.name,
        plan.seed,
        plan.length.as_secs()
    );
    if let Some(kind) = plan.sabotage {
        repeat += &format!(" --sabotage {}", kind.name());
    }
    let cpus: Vec<String> = options.cpus.iter().map(usize::to_string).collect();
    vec![
        ("lanes", "three a thread: 3n is thread n itself, 3n + 1 and 3n + 2 are its signal handlers".to_string()),
        ("seed", plan.seed.to_string()),
        ("status", atomseq::status().to_string()),
        ("CPUs", cpus.join(",")),
        ("kernel", machine::kernel().unwrap_or_default()),
        ("memory", memory.map_or_else(String::new, |kibibytes| format!("{kibibytes} KiB of address space"))),
        ("C library", machine::libc_version().unwrap_or_default()),
        ("atomseq", env!("CARGO_PKG_VERSION").to_string()),
        ("repeat", repeat),
        ("", "The seed determines each thread's operations, not how threads interleave: it may take more seconds.".to_string()),
    ]
}

/// Returns what is printed if the process crashes while a target runs.
pub fn last_words(target: &Target, plan: &Plan, options: &Options) -> String {
    let mut lines = vec![(
        "target",
        format!("{}, {} threads", target.name, options.workers),
    )];
    lines.extend(circumstances(target, plan, options));
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
    use atomseq_stress::targets;

    /// Returns the summary of a target that held while signals came so many times less often.
    fn summary_at(slowness: u32) -> String {
        let mut summary = Summary::new(3);
        let figures = Figures {
            slowness,
            ..Figures::default()
        };
        summary.add(&targets::ALL[0], &End::Held(figures));
        summary.to_string()
    }

    #[test]
    fn a_target_that_was_slowed_down_held_in_part() {
        let slowed = summary_at(16);
        for expected in [
            " held in part ",
            "So signals came up to 16 times less often",
        ] {
            assert!(slowed.contains(expected), "{slowed}");
        }
        assert!(
            slowed.ends_with("All invariants that were tested held.\n"),
            "{slowed}"
        );
        // The control: signals at the intended rate.
        let held = summary_at(1);
        assert!(
            !held.contains("in part") && !held.contains("less often"),
            "{held}"
        );
        assert!(held.ends_with("All invariants held.\n"), "{held}");
    }
}
