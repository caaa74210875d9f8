//! The command line.

use std::ffi::OsStr;
use std::time::Duration;

use atomseq_stress::engine::{Sabotage, Target};
use atomseq_stress::targets;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand};

use crate::bench::experiments::Entry;
use crate::bench::{self, experiments};
use crate::process;
use crate::torture;

/// The maximum number of threads of a benchmark. More would measure the scheduler.
pub const MAX_THREADS: usize = 1_024;

/// Atomic sequences, and the structures and locks made of them: what works on this machine, and
/// what they are worth here.
///
/// Without a command, prints what works here and one table of what it is worth, in less than a
/// minute.
#[derive(Parser)]
#[command(name = "atomseq", version, max_term_width = 100)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

impl Arguments {
    /// Returns those of this process. Bad ones, and requests for help, end it.
    pub fn here() -> Arguments {
        Arguments::try_parse().unwrap_or_else(|error| refuse(&error))
    }
}

/// Prints help or what is wrong with the arguments, and ends the process.
fn refuse(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        // Help, or the version: a result like others.
        let written = process::output().and_then(|_| Ok(error.print()?));
        process::end(written)
    }
    // Where nothing can be written, the exit code is all that is left to say.
    let _ = error.print();
    process::exit(error.exit_code().try_into().unwrap_or(2))
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Reports what this machine offers, and what atomseq therefore uses.
    Doctor(Doctor),
    /// Measures atomseq beside the alternatives, and beside what the papers published.
    ///
    /// Cases run in turns within one process, on pinned threads, and are compared round by round.
    /// One ns/op is the wall time of a run, all threads running, divided by the operations of one
    /// thread: how long a thread waits for an operation. In the flow experiments half of the
    /// threads produce and half consume: one ns/op is the wall time of a run divided by the
    /// elements that passed, and an odd number of threads is rounded up.
    ///
    /// A ratio divides a case's time by that of the first case of its table; in brackets stand the
    /// 10th and the 90th percentile of the rounds. The comparison with a paper's table is printed
    /// where its experiment is named.
    #[command(after_long_help = catalogue(), after_help = "`--help` lists the experiments and their cases.")]
    Bench(Bench),
    /// Stresses each structure and lock on this machine, and checks its invariants.
    ///
    /// More threads than CPUs use each structure. Meanwhile they are preempted, moved between CPUs,
    /// and interrupted by signals whose handlers use the same structure. Each value must be taken
    /// out once, whole and in order, and sums must be exact. Exits with code 1 at the first
    /// violation, or when no thread makes progress for 10 seconds, and prints how to repeat it.
    #[command(after_long_help = targets_catalogue(), after_help = "`--help` lists the groups and targets.")]
    Torture(Torture),
    /// Runs a program with a signal mask that needs no system calls.
    ///
    /// The program is unmodified: a library that LD_PRELOAD names takes the place of the C
    /// library's functions for masks, handlers and contexts. A program that it cannot help (static,
    /// set-user-id, Go's, with another C library, with a sanitizer that must be the first library,
    /// or with system calls of its own for masks) runs unchanged, and a line on standard error says
    /// why. The exit code is the program's; 127 if it is not found, 126 if it cannot be executed.
    #[cfg(unix)]
    Run(Run),
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
    /// How many threads to run at once; several numbers are measured one after the other. [default:
    /// 1 and the number of CPUs; for locks and shared structures also four times that; for flows 2,
    /// the number of CPUs and twice that; 1 where threads share nothing]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = threads, action = ArgAction::Append,
          allow_hyphen_values = true)]
    pub threads: Vec<usize>,
    /// Fewer and shorter runs: seconds instead of minutes an experiment, with as many threads as
    /// there are CPUs or a few times as many. Hundreds of threads take minutes even so.
    #[arg(long)]
    pub quick: bool,
    /// Prints all columns: minima, percentiles and maxima, the extremes of the ratios, and the
    /// number of runs; and all that papers published of the same.
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    pub verbose: bool,
    /// Prints the page BENCHMARKS.md instead: the machine, the method, a table for each experiment,
    /// and every comparison that atomseq loses.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Prints JSON Lines instead: an `environment` record, then a `measure` for each case and a
    /// `ratio` for each ordered pair of cases. Where a paper published the same, there are an
    /// `overhead` for each case and a `published` record for each figure. A case whose operations
    /// are not accounted for has a `wrong` record instead, with `expected` and `found` counts, the
    /// `fault` in words, and whether the case is a `peer`'s. A wrong case of atomseq's own makes
    /// the command exit with code 1, after all others were measured. Where there are no counts,
    /// `expected` is null and `found` is empty. If `untried` is true as well, the case could not be
    /// measured, which does not change the exit code.
    #[arg(long)]
    pub json: bool,
}

/// `atomseq run`.
#[cfg(unix)]
#[derive(Args)]
pub struct Run {
    /// Prints at the exit, on the standard error of the start, how many masks the main thread set,
    /// how many system calls that saved (less than 0 if handlers and deferred signals took more),
    /// and how many signals were deferred. Prints nothing if a signal ends the program or if it
    /// executes another one that cannot be helped, and only the last program's counts otherwise
    #[arg(long)]
    pub stats: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub command: Vec<std::ffi::OsString>,
}

/// `atomseq torture`.
#[derive(Args)]
pub struct Torture {
    /// Targets or groups of targets, which share the time [default: all]
    #[arg(value_name = "TARGET", value_parser = target)]
    pub targets: Vec<String>,
    /// The time for all targets together
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = seconds, allow_hyphen_values = true)]
    pub seconds: u64,
    /// Determines each thread's operations, but not how threads interleave [default: from the
    /// clock]
    #[arg(long, value_name = "S", value_parser = seed, allow_hyphen_values = true)]
    pub seed: Option<u64>,
    /// A self-check: injects a fault, so that the command must fail
    #[arg(long, value_name = "KIND", value_parser = SabotageParser)]
    pub sabotage: Option<Sabotage>,
}

impl Torture {
    /// What was asked for, with defaults filled in and everything once.
    pub fn plan(&self) -> torture::Plan {
        if let Some(sentence) = self.contradiction() {
            let kind = clap::error::ErrorKind::ArgumentConflict;
            refuse(&Arguments::command().error(kind, sentence));
        }
        torture::Plan {
            targets: self.chosen(),
            length: Duration::from_secs(self.seconds),
            seed: self.seed.unwrap_or_else(torture::any_seed),
            sabotage: self.sabotage,
        }
    }
}

impl Torture {
    /// Returns the targets that were named, each once; all if none was.
    fn chosen(&self) -> Vec<&'static Target> {
        let is_named = |target: &&Target| {
            let mut names = self.targets.iter();
            names.any(|name| [target.name, target.group].contains(&name.as_str()))
        };
        let all = targets::ALL.iter();
        all.filter(|target| self.targets.is_empty() || is_named(target))
            .collect()
    }

    /// Returns why the arguments contradict each other, as a sentence.
    fn contradiction(&self) -> Option<&'static str> {
        let needs_locks = self.sabotage.is_some_and(Sabotage::needs_locks);
        let has_locks = self.chosen().iter().any(|target| target.name == "mutex");
        (needs_locks && !has_locks)
            .then_some("only the target mutex has locks; name it, or no target")
    }
}

fn target(name: &str) -> Result<String, String> {
    if targets::named(name).next().is_some() {
        return Ok(name.to_string());
    }
    let groups: Vec<_> = targets::groups().map(|(group, _)| group).collect();
    let targets: Vec<_> = targets::ALL.iter().map(|target| target.name).collect();
    Err(format!(
        "there is no such target; the groups are {}; the targets are {}",
        groups.join(", "),
        targets.join(", ")
    ))
}

fn seconds(number: &str) -> Result<u64, String> {
    /// A year.
    const MAX: u64 = 366 * 24 * 60 * 60;
    match number.trim().parse() {
        Ok(0) => Err("nothing can be tested in 0 seconds; give whole seconds from 1".to_string()),
        Ok(seconds @ 1..=MAX) => Ok(seconds),
        Ok(_) => Err(format!(
            "longer than a year; give whole seconds up to {MAX}"
        )),
        Err(_) => Err(format!(
            "not a number of seconds; give whole seconds from 1 to {MAX}"
        )),
    }
}

fn seed(number: &str) -> Result<u64, String> {
    let seed = number.trim().parse();
    seed.map_err(|_| format!("not a seed; give a whole number from 0 to {}", u64::MAX))
}

/// Parses a kind of sabotage, and lists the kinds in `--help`.
#[derive(Clone)]
struct SabotageParser;

impl TypedValueParser for SabotageParser {
    type Value = Sabotage;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Sabotage, clap::Error> {
        let names = PossibleValuesParser::new(Sabotage::ALL.map(|(_, name, _)| name));
        let name = names.parse_ref(command, argument, value)?;
        let mut kinds = Sabotage::ALL.iter();
        let kind = kinds.find(|(_, known, _)| *known == name);
        Ok(kind.expect("one of the possible values").0)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue>>> {
        let values = Sabotage::ALL.map(|(_, name, about)| PossibleValue::new(name).help(about));
        Some(Box::new(values.into_iter()))
    }
}

/// Returns the groups and their targets, for `torture --help`.
fn targets_catalogue() -> String {
    let width = targets::ALL.iter().map(|target| target.name.len()).max();
    let width = width.unwrap_or(0);
    let mut text = "Groups and their targets:".to_string();
    for (group, targets) in targets::groups() {
        text += &format!("\n\n  {group}");
        for target in targets {
            text += &format!("\n    {:width$}  {}", target.name, target.about);
        }
    }
    text
}

impl Bench {
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
        let asked = !threads.is_empty();
        if !asked {
            threads = bench::default_threads();
        }
        bench::Plan {
            experiments,
            threads,
            asked,
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
        Ok(threads @ 1..=MAX_THREADS) => Ok(threads),
        Ok(0) => Err("nothing can be measured without a thread; give numbers from 1".to_string()),
        Ok(_) => Err(format!(
            "that many threads would measure the scheduler; give numbers up to {MAX_THREADS}"
        )),
        Err(_) => Err(format!(
            "not a number of threads; give whole numbers from 1 to {MAX_THREADS}, such as 1,2"
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
            .map(|entry| entry.name.len())
            .max()
            .unwrap_or(0);
        for Entry { name, about, .. } in experiment.cases {
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
            verbose: false,
            markdown: false,
            json: false,
        };
        let plan = bench.plan();
        assert!(plan.asked);
        let names: Vec<_> = plan
            .experiments
            .iter()
            .map(|experiment| experiment.name)
            .collect();
        assert_eq!(names, ["percpu-stack", "percpu-counter"]);
        assert_eq!(plan.threads, [2, 1]);
    }
}
