//! The command line.

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::bench::{self, experiments};

/// The most threads a benchmark runs; beyond it a machine measures its own scheduler.
const MOST_THREADS: usize = 1_024;

/// Per-CPU data at the price of a plain store: what this machine offers for it, and what it is worth here.
///
/// Without a command: `doctor`, then `bench --quick`, then what follows from both, in under a minute.
#[derive(Parser)]
#[command(name = "atomseq", version, max_term_width = 100)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Says what this machine offers and what atomseq will therefore use.
    Doctor(Doctor),
    /// Measures per-CPU structures beside what one would use without them.
    ///
    /// Cases are run in turns within one process, on pinned threads, and compared round by round. One ns/op is the wall
    /// time of a run, all threads running, divided by the operations of one thread: what a thread waits for an operation.
    #[command(after_long_help = catalogue(), after_help = "`--help` lists the experiments and their cases.")]
    Bench(Bench),
}

/// `atomseq doctor`.
#[derive(Args)]
pub struct Doctor {
    /// Prints one JSON object instead.
    #[arg(long)]
    pub json: bool,
}

/// `atomseq bench`.
#[derive(Args)]
pub struct Bench {
    /// The experiments to run; all when none is named.
    #[arg(value_name = "EXPERIMENT", value_parser = experiment)]
    pub experiments: Vec<String>,
    /// How many threads to run at once; several numbers are measured one after the other. [default: 1 and the number of
    /// CPUs]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = threads, action = ArgAction::Append,
          allow_hyphen_values = true)]
    pub threads: Vec<usize>,
    /// Takes seconds instead of minutes: fewer and shorter runs.
    #[arg(long)]
    pub quick: bool,
    /// Prints JSON Lines instead: an `environment` record, then a `measure` a case and a `ratio` an ordered pair of cases.
    #[arg(long)]
    pub json: bool,
}

impl Bench {
    /// What `atomseq` without a command measures.
    pub fn quick() -> Self {
        Self {
            experiments: Vec::new(),
            threads: Vec::new(),
            quick: true,
            json: false,
        }
    }

    /// What was asked for, with defaults filled in and everything once.
    pub fn plan(&self) -> bench::Plan {
        let mut experiments = Vec::new();
        for experiment in self
            .experiments
            .iter()
            .filter_map(|name| experiments::find(name))
        {
            if !experiments
                .iter()
                .any(|known: &&experiments::Experiment| known.name == experiment.name)
            {
                experiments.push(experiment);
            }
        }
        if experiments.is_empty() {
            experiments = experiments::ALL.to_vec();
        }
        let mut threads = Vec::new();
        for &number in &self.threads {
            if !threads.contains(&number) {
                threads.push(number);
            }
        }
        if threads.is_empty() {
            threads = bench::default_threads();
        }
        bench::Plan {
            experiments,
            threads,
            quick: self.quick,
        }
    }
}

fn experiment(name: &str) -> Result<String, String> {
    if experiments::find(name).is_some() {
        return Ok(name.to_string());
    }
    let known: Vec<_> = experiments::ALL
        .iter()
        .map(|experiment| experiment.name)
        .collect();
    Err(format!(
        "there is no such experiment; there are {}",
        known.join(", ")
    ))
}

fn threads(number: &str) -> Result<usize, String> {
    match number.trim().parse() {
        Ok(threads @ 1..=MOST_THREADS) => Ok(threads),
        Ok(0) => Err("without a thread nothing can be measured; give numbers from 1".to_string()),
        Ok(_) => Err(format!(
            "that many threads would measure the scheduler; give numbers up to {MOST_THREADS}"
        )),
        Err(_) => Err(format!(
            "not a number of threads; give whole numbers from 1 to {MOST_THREADS}, such as 1,2"
        )),
    }
}

/// The experiments and their cases, for `bench --help`.
fn catalogue() -> String {
    let mut text = "Experiments and their cases:".to_string();
    for experiment in experiments::ALL {
        text += &format!("\n\n  {}: {}", experiment.name, experiment.about);
        let width = experiment
            .cases
            .iter()
            .map(|(name, _)| name.len())
            .max()
            .unwrap_or(0);
        for (name, about) in experiment.cases {
            text += &format!("\n    {name:width$}  {about}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn everything_is_measured_once() {
        let bench = Bench {
            experiments: vec![
                "percpu-stack".into(),
                "percpu-counter".into(),
                "percpu-stack".into(),
            ],
            threads: vec![2, 1, 2],
            quick: true,
            json: false,
        };
        let plan = bench.plan();
        let names: Vec<_> = plan
            .experiments
            .iter()
            .map(|experiment| experiment.name)
            .collect();
        assert_eq!(names, ["percpu-stack", "percpu-counter"]);
        assert_eq!(plan.threads, [2, 1]);
    }
}
