//! `atomseq bench`: what per-CPU structures are worth on this machine, measured beside what one would use without them.

pub mod beside;
pub mod crew;
pub mod crowd;
pub mod engine;
pub mod environment;
pub mod exchange;
pub mod experiments;
pub mod heap;
pub mod peers;
pub mod record;
#[cfg(target_os = "linux")]
pub mod signals;
pub mod statistics;

use indicatif::{ProgressBar, ProgressStyle};

use self::engine::Effort;
use self::environment::Environment;
use self::experiments::{Experiment, Method};
use self::record::Outcome;
use crate::error::Error;
use crate::machine;

/// What is to be measured.
pub struct Plan {
    /// The experiments, each once.
    pub experiments: Vec<&'static Experiment>,
    /// The numbers of threads, each once.
    pub threads: Vec<usize>,
    /// Whether somebody asked for them, or they are the default.
    pub asked: bool,
    /// Whether few and short runs are enough.
    pub quick: bool,
}

/// Who is told what was measured, as soon as it was.
pub trait Listener {
    /// Where and with what; comes first.
    fn environment(&mut self, environment: &Environment) -> Result<(), Error>;

    /// One experiment at one number of threads.
    fn outcome(&mut self, outcome: &Outcome) -> Result<(), Error>;
}

/// Carries out a plan; everything it measured.
pub fn run(plan: &Plan, listener: &mut dyn Listener) -> Result<Vec<Outcome>, Error> {
    let environment = Environment::take(&plan.threads, plan.quick);
    listener.environment(&environment)?;
    let effort = if plan.quick {
        Effort::QUICK
    } else {
        Effort::FULL
    };
    let steps = steps(plan);
    let bar = bar(steps.len());
    let mut outcomes = Vec::with_capacity(steps.len());
    for (step, &(experiment, threads)) in steps.iter().enumerate() {
        bar.set_message(format!(
            "{} · {threads} {}",
            experiment.name,
            if threads == 1 { "thread" } else { "threads" }
        ));
        let advance =
            |share: f64| bar.set_position(STEP * step as u64 + (share * STEP as f64) as u64);
        let series = match experiment.method {
            Method::Timed(cases) => engine::measure(
                experiment.name,
                &cases(threads),
                threads,
                &environment.cpus,
                effort,
                &advance,
            )?,
            Method::Own { run, .. } => run(effort, &advance)?,
        };
        let oversubscribed = threads > environment.cpus.len();
        let mut outcome = Outcome::of(experiment.name, threads, oversubscribed, &series);
        if let Some(beside) = experiment.beside {
            if let Some(baseline) = beside.baseline {
                outcome = outcome.over(baseline, &series);
            }
            let told = |outcome: &Outcome| outcome.experiment == experiment.name;
            if !outcomes.iter().any(told) {
                outcome.published = beside.published(experiment);
            }
        }
        bar.suspend(|| listener.outcome(&outcome))?;
        outcomes.push(outcome);
    }
    bar.finish_and_clear();
    Ok(outcomes)
}

/// The numbers of threads when none are asked for: one, and one a CPU.
pub fn default_threads() -> Vec<usize> {
    let mut threads = vec![1, machine::allowed_cpus().len()];
    threads.dedup();
    threads
}

/// Every experiment at every number of threads, but those once that have a number of their own, or of which one thread
/// says all when nobody asked for more.
fn steps(plan: &Plan) -> Vec<(&'static Experiment, usize)> {
    let of = |&experiment: &&'static Experiment| match experiment.method {
        Method::Own { threads, .. } => vec![(experiment, threads)],
        _ if experiment.alone && !plan.asked => vec![(experiment, 1)],
        _ => plan
            .threads
            .iter()
            .map(|&threads| (experiment, threads))
            .collect(),
    };
    plan.experiments.iter().flat_map(of).collect()
}

/// How finely the bar shows an experiment.
const STEP: u64 = 100;

/// The bar, on standard error and only on a terminal. It draws between runs: a thread that drew during one would be
/// measured too.
fn bar(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(STEP * steps as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    bar
}
