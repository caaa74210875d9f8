//! `atomseq bench`: atomseq's structures and locks measured beside the alternatives, on this
//! machine.

pub mod beside;
pub mod crew;
pub mod crowd;
pub mod engine;
pub mod environment;
pub mod experiments;
pub mod fault;
pub mod heap;
pub mod peers;
pub mod record;
#[cfg(target_os = "linux")]
pub mod signals;
pub mod statistics;
pub mod workloads;

use indicatif::{ProgressBar, ProgressStyle};

use self::engine::{Case, Effort};
use self::environment::Environment;
use self::experiments::{Experiment, Method, Threads, Workload};
use self::fault::{Fault, Results};
use self::record::{Outcome, Wrong, subject, workload};
use crate::error::Error;
use crate::machine;

/// The experiments to measure, and how.
pub struct Plan {
    /// The experiments, each once.
    pub experiments: Vec<&'static Experiment>,
    /// The numbers of threads, each once.
    pub threads: Vec<usize>,
    /// Whether they were asked for, or are the default.
    pub asked: bool,
    /// Whether runs are few and short.
    pub quick: bool,
}

/// Receives results as soon as they are measured.
pub trait Listener {
    /// Where and with what the benchmark runs; comes first.
    fn environment(&mut self, environment: &Environment) -> Result<(), Error>;

    /// One experiment at one number of threads.
    fn outcome(&mut self, outcome: &Outcome) -> Result<(), Error>;

    /// All of them, at the end.
    fn end(&mut self, _outcomes: &[Outcome]) -> Result<(), Error> {
        Ok(())
    }
}

/// Carries out a plan and returns everything that it measured. Cases that are wrong have no
/// figures: [`verdict`] judges them.
///
/// # Errors
///
/// If the system refuses what is needed, or the listener fails; [`Error::Wrong`] if the listener
/// fails after a case of atomseq's own was wrong.
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
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(steps.len());
    for (step, &(experiment, threads)) in steps.iter().enumerate() {
        bar.set_message(format!("{} · {}", experiment.name, count(threads)));
        let advance =
            |share: f64| bar.set_position(STEP * step as u64 + (share * STEP as f64) as u64);
        let mut outcome = measure(
            experiment,
            threads,
            &environment,
            effort,
            &|_| true,
            &advance,
        )?;
        if let Some(beside) = experiment.beside {
            let is_same = |outcome: &Outcome| outcome.experiment == experiment.name;
            if !outcomes.iter().any(is_same) {
                outcome.published = beside.published(experiment);
            }
        }
        let written = bar.suspend(|| listener.outcome(&outcome));
        outcomes.push(outcome);
        if written.is_err() {
            // A reader that has left must not hide a wrong case.
            verdict(&outcomes)?;
        }
        written?;
    }
    bar.finish_and_clear();
    listener.end(&outcomes)?;
    Ok(outcomes)
}

/// Measures those cases of an experiment that `keep` names, with that many threads.
///
/// # Errors
///
/// If the system refuses what is needed.
pub fn measure(
    experiment: &'static Experiment,
    threads: usize,
    environment: &Environment,
    effort: Effort,
    keep: &dyn Fn(&'static str) -> bool,
    advance: &dyn Fn(f64),
) -> Result<Outcome, Error> {
    let (cpus, gates) = (&environment.cpus, environment.gates);
    let keep = |case: &'static str| is_possible(case, gates) && keep(case);
    let mut measured = match experiment.method {
        Method::Timed => {
            let cases = experiment.make(threads, keep);
            engine::measure(&cases, threads, cpus, effort, advance)?
        }
        Method::Placed { workloads, .. } => {
            let make = |placed: &Workload| {
                experiment.make(threads, |case| workload(case) == placed.name && keep(case))
            };
            placed(workloads, &make, threads, cpus, effort, advance)?
        }
        Method::Own { run, .. } => run(effort, advance)?,
    };
    measured.retain(keep);
    let Results { series, faults } = measured;
    let oversubscribed = threads > cpus.len();
    let mut outcome = Outcome::of(experiment.name, threads, oversubscribed, &series)
        .without(faults, experiment.peers);
    if let Method::Placed { workloads, .. } = experiment.method {
        let crowded = |placed: &&Workload| placed.cpus < threads;
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
    }
    Ok(outcome)
}

/// Whether atomseq's own cases are right. A peer that is wrong loses its figures, no more; so does
/// a case that was not measured.
///
/// # Errors
///
/// [`Error::Wrong`] with those that are not.
pub fn verdict(outcomes: &[Outcome]) -> Result<(), Error> {
    let wrong = outcomes.iter().flat_map(|outcome| &outcome.wrong);
    let own: Vec<_> = wrong
        .filter(|wrong| !wrong.peer && !wrong.untried)
        .map(Wrong::to_string)
        .collect();
    match own.is_empty() {
        true => Ok(()),
        false => Err(Error::Wrong(own.join("; "))),
    }
}

/// The numbers of threads that most experiments are measured with when none are asked for.
pub fn default_threads() -> Vec<usize> {
    Threads::Spread.numbers(machine::allowed_cpus().len())
}

/// Every experiment at every number of threads that was asked for, or at those that say most about
/// it; but once, if it has a number of its own.
fn steps(plan: &Plan) -> Vec<(&'static Experiment, usize)> {
    let cpus = machine::allowed_cpus().len();
    let of = |&experiment: &&'static Experiment| {
        let numbers = match experiment.method {
            Method::Own { threads, .. } | Method::Placed { threads, .. } => vec![threads],
            Method::Timed if plan.asked => experiment.threads.asked(&plan.threads),
            Method::Timed => experiment.threads.numbers(cpus),
        };
        numbers
            .into_iter()
            .map(move |threads| (experiment, threads))
    };
    plan.experiments.iter().flat_map(of).collect()
}

/// Measures the cases that `make` returns, one workload after the other, each on its own CPUs. The
/// workloads share the budget.
///
/// A workload that needs more CPUs than there are is not measured: on fewer, its figures would
/// stand under another's name.
fn placed(
    workloads: &[Workload],
    make: &dyn Fn(&Workload) -> Vec<Case>,
    threads: usize,
    cpus: &[usize],
    effort: Effort,
    advance: &dyn Fn(f64),
) -> Result<Results, Error> {
    let mut all = Results::default();
    let made = workloads.iter().map(|workload| (workload, make(workload)));
    let kept: Vec<_> = made.filter(|(_, cases)| !cases.is_empty()).collect();
    let shares = kept.len() as f64;
    for (done, (workload, cases)) in kept.into_iter().enumerate() {
        let effort = Effort {
            run: effort.run * workload.length,
            budget: effort.budget.div_f64(shares),
            ..effort
        };
        let advance = |share: f64| advance((done as f64 + share) / shares);
        match cpus.get(..workload.cpus) {
            Some(cpus) => all.append(engine::measure(&cases, threads, cpus, effort, &advance)?),
            None => {
                let (needed, there) = (workload.cpus, cpus.len());
                let sentence =
                    format!("it needs {needed} CPUs, and this process may run on {there}");
                let untried = |case: &Case| (case.name, Fault::untried(&sentence));
                all.faults.extend(cases.iter().map(untried));
            }
        }
    }
    Ok(all)
}

/// Whether a case can be what its name says. Where no gate can be closed, OS-assisted DCAS would be
/// k-CAS, and what the kernel restarts for the threads of one CPU an interlocked instruction:
/// figures under another's name.
pub fn is_possible(case: &'static str, gates: bool) -> bool {
    let is_cpus = ["cpu", "cpu-inlined", "cpu-branch"].contains(&subject(case));
    gates || !(is_cpus || case.starts_with("os-assisted"))
}

/// `1 thread`, `2 threads`.
pub fn count(threads: usize) -> String {
    let unit = if threads == 1 { "thread" } else { "threads" };
    format!("{threads} {unit}")
}

/// How finely the bar shows an experiment.
pub const STEP: u64 = 100;

/// The bar, on standard error and only on a terminal. It draws between runs: a thread that drew
/// during one would be measured too.
pub fn bar(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(STEP * steps as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::engine::Subject;
    use super::experiments::{Entry, cases};
    use super::*;
    use crate::report::{Lines, Tables};

    /// Counts one operation of its last run too few, if its field says so.
    #[derive(Default)]
    struct Careless(AtomicU64, bool);

    impl Subject for Careless {
        fn run(&self, _thread: usize, operations: u64) {
            for _ in 0..operations {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }

        fn check(&self, operations: u64) -> Result<(), Fault> {
            let found = self.0.load(Ordering::Relaxed) - u64::from(self.1);
            match found == operations {
                true => Ok(()),
                false => Err(Fault::count(operations, [found], "one is missing")),
            }
        }
    }

    fn right(_threads: usize) -> Box<dyn Subject> {
        Box::new(Careless::default())
    }

    fn wrong(_threads: usize) -> Box<dyn Subject> {
        Box::new(Careless(AtomicU64::new(0), true))
    }

    /// An experiment with a case of each kind.
    const fn careless(name: &'static str, cases: &'static [Entry]) -> Experiment {
        Experiment {
            name,
            about: "a control",
            cases,
            peers: &["peer"],
            method: Method::Timed,
            threads: Threads::Alone,
            beside: None,
        }
    }

    static RIGHT: Experiment = careless("right", cases! { "own", "", right; "peer", "", right; });
    static PEER: Experiment = careless(
        "peers-fault",
        cases! { "own", "", right; "peer", "", wrong; },
    );
    static OWN: Experiment = careless("own-fault", cases! { "own", "", wrong; "peer", "", right; });
    static BOTH: Experiment = careless(
        "both-faults",
        cases! { "own", "", wrong; "peer", "", wrong; },
    );

    fn tables_to(to: &mut Vec<u8>) -> Tables<&mut Vec<u8>> {
        Tables {
            to,
            verbose: false,
            named: false,
        }
    }

    /// What a benchmark of these prints, as lines and as tables, and how it ends.
    fn printed(experiments: &[&'static Experiment]) -> (String, String, Result<(), Error>) {
        let plan = Plan {
            experiments: experiments.to_vec(),
            threads: vec![2],
            asked: true,
            quick: true,
        };
        let (mut lines, mut tables) = (Vec::new(), Vec::new());
        let outcomes = run(&plan, &mut Lines(&mut lines)).unwrap();
        for outcome in &outcomes {
            tables_to(&mut tables).outcome(outcome).unwrap();
        }
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(lines), text(tables), verdict(&outcomes))
    }

    #[test]
    fn a_peer_that_counts_wrong_has_a_record_and_the_benchmark_goes_on() {
        let (lines, tables, end) = printed(&[&PEER, &RIGHT]);
        assert!(end.is_ok(), "{end:?}");
        let records = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let records: Vec<serde_json::Value> = records.collect();
        let cases = |kind: &str, experiment: &str| {
            let of = records
                .iter()
                .filter(|record| record["kind"] == kind && record["experiment"] == experiment);
            let cases = of.map(|record| record["case"].as_str().unwrap().to_string());
            cases.collect::<Vec<_>>()
        };
        assert_eq!(cases("measure", "peers-fault"), ["own"]);
        assert_eq!(cases("wrong", "peers-fault"), ["peer"]);
        assert_eq!(cases("measure", "right"), ["own", "peer"]);
        assert_eq!(cases("wrong", "right"), [""; 0]);
        let mut wrong = records.iter().filter(|record| record["kind"] == "wrong");
        let wrong = wrong.next().unwrap();
        assert_eq!(
            (&wrong["threads"], &wrong["peer"]),
            (&2.into(), &true.into())
        );
        let expected = wrong["expected"].as_u64().unwrap();
        assert_eq!(wrong["found"], serde_json::json!([expected - 1]));
        let sentence = format!(
            "peer is left out because of a fault in the peer: one is missing (expected {expected}, found {}).",
            expected - 1
        );
        assert!(tables.contains(&sentence), "{tables}");
        let (first, second) = tables.split_once("right · ").unwrap();
        let has_row = |table: &str| table.contains("\n peer ");
        assert_eq!((has_row(first), has_row(second)), (false, true), "{tables}");
    }

    #[test]
    fn a_wrong_count_of_atomseqs_own_is_an_error_after_all_others() {
        let (lines, tables, end) = printed(&[&OWN, &RIGHT]);
        let error = end.unwrap_err().to_string();
        let expected =
            "own-fault, case own, with 2 threads: one is missing; its figures would be worthless";
        assert!(error.starts_with(expected), "{error}");
        assert!(lines.contains("\"peer\":false"), "{lines}");
        assert!(lines.contains("\"experiment\":\"right\""), "{lines}");
        assert!(
            tables.contains("own is left out because of a fault in atomseq: "),
            "{tables}"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_case_that_was_not_measured_is_reported_and_is_no_fault() {
        let faults = vec![("own", Fault::untried("only 2 of 9 stops were inside"))];
        let outcome = Outcome::of("right", 2, false, &[]).without(faults, &[]);
        let (mut lines, mut tables) = (Vec::new(), Vec::new());
        Lines(&mut lines).outcome(&outcome).unwrap();
        tables_to(&mut tables).outcome(&outcome).unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (lines, tables) = (text(lines), text(tables));
        let sentence = "own was not measured: only 2 of 9 stops were inside.";
        assert!(tables.contains(sentence), "{tables}");
        assert!(lines.contains("\"untried\":true"), "{lines}");
        assert!(verdict(&[outcome]).is_ok());
    }

    #[test]
    fn a_workload_of_more_cpus_than_there_are_is_not_measured() {
        let workloads = [("one", 1), ("two", 2)].map(|(name, cpus)| Workload {
            name,
            cpus,
            length: 1,
        });
        let make = |workload: &Workload| {
            let name = match workload.name {
                "one" => "one:own",
                _ => "two:own",
            };
            vec![Case::new(name, Careless::default())]
        };
        let measured = |cpus: &[usize]| {
            let results = placed(&workloads, &make, 2, cpus, Effort::QUICK, &|_| ()).unwrap();
            let cases: Vec<_> = results.series.iter().map(|series| series.case).collect();
            (cases, results.faults)
        };
        let cpu = machine::allowed_cpus()[0];
        let fault = Fault::untried("it needs 2 CPUs, and this process may run on 1");
        assert_eq!(
            measured(&[cpu]),
            (vec!["one:own"], vec![("two:own", fault)])
        );
        // The control. Both are the same CPU, which makes no difference here.
        assert_eq!(measured(&[cpu; 2]), (vec!["one:own", "two:own"], vec![]));
    }

    /// Its reader has left.
    struct Unread;

    impl Listener for Unread {
        fn environment(&mut self, _environment: &Environment) -> Result<(), Error> {
            Ok(())
        }

        fn outcome(&mut self, _outcome: &Outcome) -> Result<(), Error> {
            Err(io::Error::from(io::ErrorKind::BrokenPipe).into())
        }
    }

    #[test]
    fn a_reader_that_leaves_does_not_hide_a_wrong_case() {
        let end = |experiment| {
            let plan = Plan {
                experiments: vec![experiment],
                threads: vec![1],
                asked: true,
                quick: true,
            };
            run(&plan, &mut Unread).unwrap_err()
        };
        let wrong = end(&OWN);
        assert!(matches!(wrong, Error::Wrong(_)), "{wrong}");
        // The control.
        let right = end(&RIGHT);
        assert!(right.is_broken_pipe(), "{right}");
    }

    #[test]
    fn where_all_are_wrong_nothing_is_said_of_crowds() {
        let (lines, tables, end) = printed(&[&BOTH]);
        assert!(end.is_err() && !lines.contains("\"measure\""), "{lines}");
        assert!(
            tables.starts_with("\nboth-faults · 2 threads\n"),
            "{tables}"
        );
    }

    #[test]
    fn no_case_is_measured_under_the_name_of_another() {
        let of = |gates| {
            let cases = experiments::ALL
                .iter()
                .flat_map(|experiment| experiment.cases);
            let possible = cases.filter(move |entry| is_possible(entry.name, gates));
            possible.map(|entry| entry.name).collect::<Vec<_>>()
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
