//! The page BENCHMARKS.md: the machine, how it was measured, a table for each experiment, and at
//! the end every comparison that atomseq loses.

use std::io::Write;

use super::{figure, groups, left_out, list, remarks, spread, threads};
use crate::bench::Listener;
use crate::bench::environment::Environment;
use crate::bench::experiments::{self, Experiment};
use crate::bench::record::{Outcome, Ratio, Verdict, subject};
use crate::error::Error;

/// A page of Markdown.
pub struct Markdown<W> {
    to: W,
    /// The experiment that was written last.
    last: &'static str,
}

impl<W: Write> Markdown<W> {
    /// An empty page.
    pub fn new(to: W) -> Self {
        Self { to, last: "" }
    }
}

const METHOD: [&str; 2] = [
    "All cases of an experiment run in one process, on threads that are pinned to CPUs in turn. A round runs each case once, \
     in an order that is shuffled anew each round, so that a disturbance of the machine meets all cases alike. One ns/op is \
     the wall time of a run, all threads running, divided by the operations of one thread; by those of all, where the threads \
     share one CPU and the operations. In the flow experiments it is divided by the elements that passed from producers to \
     consumers.",
    "A time is the median of the rounds. A ratio divides the case's time by that of the first case of its table, round by \
     round: above 1, the case takes longer than the first. It is the median of the rounds, with the 10th to the 90th \
     percentile in brackets. Every case checks in the end that its operations are accounted for; one that fails has no \
     figures.",
];

const LOSSES: &str = "Every comparison with an alternative in which the whole spread is on the other's side: the ratio is \
    atomseq's time, or bytes, divided by the other's. Code without any protection (`loop`, `none`, `unsynchronized`) is no \
    alternative; the tables above show what protection costs.";

impl<W: Write> Listener for Markdown<W> {
    fn environment(&mut self, environment: &Environment) -> Result<(), Error> {
        let quick = if environment.quick { " --quick" } else { "" };
        writeln!(
            self.to,
            "# Benchmarks\n\nWritten by `atomseq bench{quick} --markdown`, not by hand.\n"
        )?;
        let unknown = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".into());
        let modified = match environment.modified {
            Some(true) => ", with changes",
            _ => "",
        };
        let commit = environment.commit.map_or(String::new(), |commit| {
            format!(", commit {}{modified}", &commit[..commit.len().min(12)])
        });
        let cpus = environment.cpus.len();
        let sections = match (&environment.rseq.registered_by, environment.rseq.active) {
            (Some(by), true) => format!("active, threads registered by {by}"),
            (None, true) => "active".to_string(),
            (_, false) => "off".to_string(),
        };
        let facts = [
            ("atomseq", format!("{}{commit}", environment.atomseq)),
            ("date", environment.date.clone()),
            (
                "processor",
                format!("{}, {cpus} CPUs", unknown(&environment.cpu)),
            ),
            (
                "frequency governor",
                environment.governor.clone().unwrap_or("none".into()),
            ),
            ("kernel", unknown(&environment.kernel)),
            ("C library", unknown(&environment.libc)),
            (
                "compiler",
                environment.rustc.unwrap_or("unknown").to_string(),
            ),
            ("per-CPU sequences", sections),
        ];
        writeln!(self.to, "| | |\n|---|---|")?;
        for (name, fact) in facts {
            writeln!(self.to, "| {name} | {fact} |")?;
        }
        for remark in remarks(environment) {
            writeln!(self.to, "\n{}", paragraph(&remark))?;
        }
        writeln!(self.to, "\n## How it was measured")?;
        for part in METHOD {
            writeln!(self.to, "\n{}", paragraph(part))?;
        }
        Ok(self.to.flush()?)
    }

    fn outcome(&mut self, outcome: &Outcome) -> Result<(), Error> {
        let experiment = experiments::find(outcome.experiment);
        if self.last != outcome.experiment {
            self.last = outcome.experiment;
            writeln!(self.to, "\n## {}", outcome.experiment)?;
            if let Some(experiment) = experiment {
                let about = format!("{}.", sentence_case(experiment.about));
                writeln!(self.to, "\n{}", paragraph(&about))?;
            }
        }
        let about = |case: &str| experiment.map_or("", |experiment| experiment.about(case));
        writeln!(self.to, "\n{}:", sentence_case(&threads(outcome)))?;
        for group in groups(outcome) {
            let (first, unit) = (group[0].case, group[0].unit);
            writeln!(
                self.to,
                "\n| case | what it is | {unit} | ratio to `{first}` |\n|---|---|---:|---|"
            )?;
            for measure in group {
                let ratio = outcome.ratio(measure.case, first);
                writeln!(
                    self.to,
                    "| `{}` | {} | {} | {} |",
                    measure.case,
                    plain(about(measure.case)),
                    figure(measure.median),
                    ratio.map_or("1".to_string(), spread),
                )?;
            }
        }
        for wrong in &outcome.wrong {
            writeln!(self.to, "\n{}", paragraph(&left_out(wrong)))?;
        }
        Ok(self.to.flush()?)
    }

    fn end(&mut self, outcomes: &[Outcome]) -> Result<(), Error> {
        writeln!(
            self.to,
            "\n## Where atomseq loses\n\n{}\n",
            paragraph(LOSSES)
        )?;
        let mut lost = false;
        for outcome in outcomes {
            let Some(experiment) = experiments::find(outcome.experiment) else {
                continue;
            };
            for measure in &outcome.measures {
                let losses = outcome.ratios.iter();
                let losses = losses
                    .filter(|ratio| ratio.numerator == measure.case && is_loss(experiment, ratio));
                let losses: Vec<_> = losses
                    .map(|ratio| format!("`{}` {}", subject(ratio.denominator), spread(ratio)))
                    .collect();
                if losses.is_empty() {
                    continue;
                }
                if !lost {
                    writeln!(
                        self.to,
                        "| experiment | threads | case | loses to |\n|---|---:|---|---|"
                    )?;
                }
                lost = true;
                writeln!(
                    self.to,
                    "| {} | {} | `{}` | {} |",
                    outcome.experiment,
                    outcome.threads,
                    measure.case,
                    list(&losses)
                )?;
            }
        }
        if !lost {
            writeln!(self.to, "None.")?;
        }
        Ok(self.to.flush()?)
    }
}

/// Subjects that do the same without any protection, or nothing at all.
const BARE: [&str; 3] = ["loop", "none", "unsynchronized"];

/// Whether the rounds decide that a case of atomseq's takes longer than a peer's.
fn is_loss(experiment: &Experiment, ratio: &Ratio) -> bool {
    let is_peer = |case| {
        let is = |name: &&str| [case, subject(case)].contains(name);
        experiment.peers.iter().any(is)
    };
    let is_bare = |case| BARE.contains(&subject(case));
    let pair = [ratio.numerator, ratio.denominator];
    let is_beside_peer = !is_peer(pair[0]) && is_peer(pair[1]);
    is_beside_peer && !pair.into_iter().any(is_bare) && ratio.verdict() == Verdict::Longer
}

/// A paragraph whose lines end by column 100.
fn paragraph(text: &str) -> String {
    const WIDTH: usize = 100;
    let mut paragraph = String::new();
    let mut column = 0;
    for word in plain(text).split_whitespace() {
        let length = word.chars().count();
        let (gap, after) = match column {
            0 => ("", length),
            _ if column + 1 + length <= WIDTH => (" ", column + 1 + length),
            _ => ("\n", length),
        };
        paragraph += gap;
        paragraph += word;
        column = after;
    }
    paragraph
}

/// A text in which Markdown sees no HTML.
fn plain(text: &str) -> String {
    text.replace('<', "\\<")
}

fn sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next();
    first
        .into_iter()
        .flat_map(char::to_uppercase)
        .chain(letters)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::Effort;
    use crate::bench::record::Series;

    /// The part of the page that names losses, of rounds that were made up.
    fn losses(cases: &[(&'static str, f64)]) -> String {
        let series: Vec<_> = cases
            .iter()
            .map(|&(case, value)| Series {
                case,
                unit: "ns/op",
                values: vec![value; Effort::MIN_ROUNDS],
            })
            .collect();
        let outcome = Outcome::of("percpu-counter", 2, false, &series);
        let mut page = Vec::new();
        Markdown::new(&mut page).end(&[outcome]).unwrap();
        String::from_utf8(page).unwrap()
    }

    #[test]
    fn every_loss_to_a_peer_is_named() {
        let text = losses(&[("rseq", 3.0), ("mutex", 9.0), ("thread-local", 1.0)]);
        let row = "| percpu-counter | 2 | `rseq` | `thread-local` 3.00 × (3.00 to 3.00) |";
        assert!(text.contains(row), "{text}");
        assert!(!text.contains("`mutex`"), "{text}");
        let none = losses(&[("rseq", 3.0), ("mutex", 9.0)]);
        assert!(none.ends_with("\nNone.\n"), "{none}");
    }

    #[test]
    fn lines_of_prose_end_by_column_100() {
        let widest = |text: &str| text.lines().map(|line| line.chars().count()).max();
        for text in METHOD.into_iter().chain([LOSSES]) {
            let wrapped = paragraph(text);
            assert!(widest(&wrapped) <= Some(100), "{wrapped}");
            assert_eq!(wrapped.replace('\n', " "), text);
        }
        assert_eq!(paragraph(&"x".repeat(101)), "x".repeat(101));
    }

    #[test]
    fn markdown_sees_no_html() {
        assert_eq!(plain("Mutex<u64>"), "Mutex\\<u64>");
    }
}
