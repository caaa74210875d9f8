//! `atomseq bench`: what per-CPU structures are worth on this machine, measured beside what one would use without them.

pub mod beside;
pub mod crew;
pub mod crowd;
pub mod engine;
pub mod environment;
pub mod exchange;
pub mod experiments;
pub mod flow;
pub mod heap;
pub mod locking;
pub mod ordered;
pub mod peers;
pub mod record;
#[cfg(target_os = "linux")]
pub mod signals;
pub mod statistics;

use indicatif::{ProgressBar, ProgressStyle};

use self::engine::{Case, Effort};
use self::environment::Environment;
use self::experiments::{Experiment, Method, Threads, Workload};
use self::record::{Outcome, Series, subject};
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
    let environment = Environment::take(&plan.threads, plan.quick)?;
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
        let mut series = match experiment.method {
            Method::Timed(cases) => engine::measure(
                experiment.name,
                &possible(cases(threads), environment.gates),
                threads,
                &environment.cpus,
                effort,
                &advance,
            )?,
            Method::Placed { workloads, .. } => {
                let cpus = &environment.cpus;
                let gates = environment.gates;
                let (name, all) = (experiment.name, workloads);
                placed(name, all, threads, cpus, gates, effort, &advance)?
            }
            Method::Own { run, .. } => run(effort, &advance)?,
        };
        series.retain(|series| is_possible(series.case, environment.gates));
        let oversubscribed = threads > environment.cpus.len();
        let mut outcome = Outcome::of(experiment.name, threads, oversubscribed, &series);
        if let Method::Placed { workloads, .. } = experiment.method {
            let cpus = environment.cpus.len();
            let crowded = |placed: &&Workload| placed.cpus.min(cpus) < threads;
            for placed in workloads.iter().filter(crowded) {
                outcome.oversubscribe(placed.name);
            }
        }
        if let Some(beside) = experiment.beside {
            if let Some(baseline) = beside.baseline {
                outcome = outcome.over(baseline, &series);
            }
            for difference in beside.differences {
                outcome = outcome.difference(difference.of, difference.over, &series);
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

/// The numbers of threads that most experiments are measured with when none are asked for.
pub fn default_threads() -> Vec<usize> {
    Threads::Spread.numbers(machine::allowed_cpus().len())
}

/// Every experiment at every number of threads that was asked for, or at those that say most about it; but once, if it
/// has a number of its own.
fn steps(plan: &Plan) -> Vec<(&'static Experiment, usize)> {
    let cpus = machine::allowed_cpus().len();
    let of = |&experiment: &&'static Experiment| {
        let numbers = match experiment.method {
            Method::Own { threads, .. } | Method::Placed { threads, .. } => vec![threads],
            Method::Timed(_) if plan.asked => experiment.threads.asked(&plan.threads),
            Method::Timed(_) => experiment.threads.numbers(cpus),
        };
        numbers
            .into_iter()
            .map(move |threads| (experiment, threads))
    };
    plan.experiments.iter().flat_map(of).collect()
}

/// Measures one workload after the other, each on its own CPUs. They share the budget.
fn placed(
    experiment: &'static str,
    workloads: &[Workload],
    threads: usize,
    cpus: &[usize],
    gates: bool,
    effort: Effort,
    advance: &dyn Fn(f64),
) -> Result<Vec<Series>, Error> {
    let mut all = Vec::new();
    let shares = workloads.len() as f64;
    for (done, workload) in workloads.iter().enumerate() {
        let effort = Effort {
            run: effort.run * workload.length,
            budget: effort.budget.div_f64(shares),
            ..effort
        };
        let advance = |share: f64| advance((done as f64 + share) / shares);
        let cases = possible((workload.cases)(), gates);
        let cpus = &cpus[..workload.cpus.min(cpus.len())];
        all.extend(engine::measure(
            experiment, &cases, threads, cpus, effort, &advance,
        )?);
    }
    Ok(all)
}

/// Can a case be what its name says? Where no gate can be closed, OS-assisted DCAS would be k-CAS, and what the kernel restarts
/// for the threads of one CPU an interlocked instruction: figures under another's name.
pub fn is_possible(case: &'static str, gates: bool) -> bool {
    let is_cpus = ["cpu", "cpu-inlined", "cpu-branch"].contains(&subject(case));
    gates || !(is_cpus || case.starts_with("os-assisted"))
}

/// The cases that are what their names say.
fn possible(mut cases: Vec<Case>, gates: bool) -> Vec<Case> {
    cases.retain(|case| is_possible(case.name, gates));
    cases
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_case_is_measured_under_the_name_of_another() {
        let of = |gates| {
            let cases = experiments::ALL
                .iter()
                .flat_map(|experiment| experiment.cases);
            let possible = cases.filter(move |(case, _)| is_possible(case, gates));
            possible.map(|(case, _)| *case).collect::<Vec<_>>()
        };
        let (with, without) = (of(true), of(false));
        let all: usize = experiments::ALL
            .iter()
            .map(|experiment| experiment.cases.len())
            .sum();
        assert_eq!(with.len(), all);
        let left_out: Vec<_> = with.iter().filter(|case| !without.contains(case)).collect();
        let names = |part: &str| left_out.iter().any(|case| case.contains(part));
        assert!(names("os-assisted"), "{left_out:?}");
        // B91's tables are of sections.
        assert_eq!(names("cpu"), cfg!(atomseq_sections), "{left_out:?}");
        assert!(without.contains(&"k-cas") && without.contains(&"cas"));
    }
}
