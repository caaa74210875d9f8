//! What follows from a benchmark, in sentences. Each is computed from the figures just measured, so it may turn out
//! against atomseq; nothing here knows in advance who wins.

mod lock_free;
mod locks;
mod nonblocking;
mod signals;

use crate::bench::experiments::{self, Experiment};
use crate::bench::record::{Measure, Outcome, Ratio, subject, workload};
use crate::report::figure;

/// The subject that is atomseq's.
const OURS: &str = "rseq";

/// The subject that only its own thread can read: cheaper, but no replacement where others must read it.
const PRIVATE: &str = "thread-local";

/// A ratio this near to one is a tie: neither a gain nor a loss to speak of.
const TIE: f64 = 0.03;

/// Whether atomseq's sections run on this machine.
pub struct Sections {
    /// They run, all of them or only those that need no gate.
    pub active: bool,
    /// The gate can be trusted too, so that every structure uses them.
    pub gates: bool,
    /// Why not, as a sentence without its full stop.
    pub reason: Option<String>,
}

impl Sections {
    /// How it is on this machine.
    pub fn here() -> Self {
        let status = atomseq::status();
        let reason = status.reason().map(|reason| reason.to_string());
        Self {
            active: status.is_active(),
            gates: status.gates_active(),
            reason,
        }
    }
}

/// About five sentences: what to use here, what it gains, where atomseq loses and to what.
pub fn sentences(sections: &Sections, outcomes: &[Outcome]) -> Vec<String> {
    let mut sentences = Vec::new();
    let per_cpu = |outcome: &Outcome| outcome.measures.iter().any(|m| subject(m.case) == OURS);
    // Whoever asked for signals or locks only wants to hear of them only.
    if outcomes.is_empty() || outcomes.iter().any(per_cpu) {
        let decisive = decisive(outcomes);
        sentences.push(standing(sections));
        sentences.extend(advice(&decisive));
        sentences.extend(gains(&decisive));
        sentences.push(losses(outcomes));
        sentences.extend(footprint(outcomes));
    }
    sentences.extend(signals::sentences(outcomes));
    sentences.extend(locks::sentences(outcomes));
    sentences.extend(nonblocking::sentences(outcomes));
    sentences.extend(lock_free::sentences(outcomes));
    sentences
}

fn standing(sections: &Sections) -> String {
    let reason = sections
        .reason
        .as_deref()
        .unwrap_or("for a reason this system does not tell");
    match (sections.active, sections.gates) {
        (true, true) => {
            "Per-CPU sections run on this machine, so what was measured as rseq used no atomic instruction.".to_string()
        }
        (true, false) => format!(
            "Per-CPU sections run on this machine for counters and histograms only; the other structures took a lock for \
             every operation: {reason}."
        ),
        (false, _) => format!(
            "Per-CPU sections do not run on this machine, so what was measured as rseq is atomseq's slow path: {reason}."
        ),
    }
}

/// Every timed experiment with the outcome at its largest number of threads, and how atomseq fared in it.
fn decisive(outcomes: &[Outcome]) -> Vec<Standing<'_>> {
    let timed = experiments::ALL
        .iter()
        .filter(|experiment| !is_footprint(experiment));
    timed
        .filter_map(|experiment| {
            let of_experiment = outcomes
                .iter()
                .filter(|outcome| outcome.experiment == experiment.name);
            let outcome = of_experiment.max_by_key(|outcome| outcome.threads)?;
            let ours = outcome.measure(OURS)?;
            let rivals = outcome
                .measures
                .iter()
                .filter(|m| subject(m.case) != OURS && !m.case.starts_with(OURS));
            let best = rivals
                .filter(|measure| subject(measure.case) != PRIVATE)
                .min_by(|a, b| a.median.total_cmp(&b.median))?;
            let ratio = outcome.ratio(OURS, best.case)?;
            Some(Standing {
                experiment,
                ours,
                best,
                ratio,
            })
        })
        .collect()
}

/// How atomseq fared against the best rival that does the same.
struct Standing<'a> {
    experiment: &'static Experiment,
    ours: &'a Measure,
    best: &'a Measure,
    ratio: &'a Ratio,
}

fn advice(decisive: &[Standing]) -> Option<String> {
    let (won, lost): (Vec<_>, Vec<_>) = decisive
        .iter()
        .partition(|standing| standing.ratio.median <= 1.0 + TIE);
    let ours: Vec<_> = won
        .iter()
        .map(|standing| standing.experiment.structure.to_string())
        .collect();
    let theirs: Vec<_> = lost
        .iter()
        .map(|standing| {
            format!(
                "{} instead of {}",
                standing.best.case, standing.experiment.structure
            )
        })
        .collect();
    match (ours.is_empty(), theirs.is_empty()) {
        (true, true) => None,
        (false, true) => Some(format!("Use {} here.", list(&ours))),
        (false, false) => Some(format!("Use {} here, but {}.", list(&ours), list(&theirs))),
        (true, false) => Some(format!("Here use {}.", list(&theirs))),
    }
}

fn gains(decisive: &[Standing]) -> Option<String> {
    let mut won: Vec<_> = decisive
        .iter()
        .filter(|standing| standing.ratio.median < 1.0 - TIE)
        .collect();
    won.sort_by(|a, b| a.ratio.median.total_cmp(&b.ratio.median));
    let phrases: Vec<_> = won
        .iter()
        .map(|s| {
            format!(
                "{} {} takes {} ns, {} ({} ns) {} times as long",
                s.experiment.operation,
                s.experiment.structure,
                figure(s.ours.median),
                s.best.case,
                figure(s.best.median),
                figure(1.0 / s.ratio.median),
            )
        })
        .collect();
    let threads = won.first()?.ours.threads;
    Some(format!(
        "Beside the best rival, with {}: {}.",
        count(threads),
        phrases.join("; ")
    ))
}

/// Every case that was faster than atomseq's, by workload, with how many times over at least and at most.
fn losses(outcomes: &[Outcome]) -> String {
    let mut workloads: Vec<(String, Vec<Loss>)> = Vec::new();
    for outcome in outcomes {
        for ratio in outcome.ratios.iter().filter(|ratio| is_loss(ratio)) {
            let name = match workload(ratio.numerator) {
                "" => outcome.experiment.to_string(),
                workload => format!("{} ({workload})", outcome.experiment),
            };
            let known = workloads.iter().position(|(workload, _)| *workload == name);
            let index = known.unwrap_or_else(|| {
                workloads.push((name, Vec::new()));
                workloads.len() - 1
            });
            let losses = &mut workloads[index].1;
            let rival = subject(ratio.denominator);
            match losses.iter_mut().find(|loss| loss.rival == rival) {
                Some(loss) => loss.add(outcome.threads, ratio.median),
                None => losses.push(Loss::new(rival, outcome.threads, ratio.median)),
            }
        }
    }
    if workloads.is_empty() {
        return "atomseq lost to nothing that was measured.".to_string();
    }
    let private = workloads
        .iter()
        .flat_map(|(_, losses)| losses)
        .any(|loss| loss.rival == PRIVATE);
    let phrases: Vec<_> = workloads
        .iter()
        .map(|(workload, losses)| {
            let losses: Vec<_> = losses.iter().map(Loss::phrase).collect();
            format!("in {workload} to {}", list(&losses))
        })
        .collect();
    let mut sentence = format!("atomseq loses {}.", phrases.join("; "));
    if private {
        sentence += " Where nobody has to read a count before its thread hands it in, keep it thread-local.";
    }
    sentence
}

/// A rival that was faster, at one number of threads or several.
struct Loss {
    rival: &'static str,
    threads: Vec<String>,
    least: f64,
    most: f64,
}

impl Loss {
    fn new(rival: &'static str, threads: usize, ratio: f64) -> Self {
        Self {
            rival,
            threads: vec![threads.to_string()],
            least: ratio,
            most: ratio,
        }
    }

    fn add(&mut self, threads: usize, ratio: f64) {
        self.threads.push(threads.to_string());
        self.least = self.least.min(ratio);
        self.most = self.most.max(ratio);
    }

    fn phrase(&self) -> String {
        let (least, most) = (figure(self.least), figure(self.most));
        let times = if least == most {
            most
        } else {
            format!("{least} to {most}")
        };
        let unit = if self.threads == ["1"] {
            "thread"
        } else {
            "threads"
        };
        format!(
            "{} ({times} times as much, {} {unit})",
            self.rival,
            list(&self.threads)
        )
    }
}

fn is_loss(ratio: &Ratio) -> bool {
    subject(ratio.numerator) == OURS
        && !subject(ratio.denominator).starts_with(OURS)
        && ratio.median > 1.0 + TIE
}

fn footprint(outcomes: &[Outcome]) -> Option<String> {
    let outcome = outcomes
        .iter()
        .find(|outcome| outcome.measure("bytes:rseq").is_some())?;
    let median = |case: &str| outcome.measure(case).map(|measure| figure(measure.median));
    Some(format!(
        "With {} alive, a {} holds {} bytes and is read in {} ns; a count a thread that others can read holds {} bytes \
         and is read in {} ns.",
        count(outcome.threads),
        experiments::find(outcome.experiment)?.structure,
        median("bytes:rseq")?,
        median("read:rseq")?,
        median("bytes:thread-local")?,
        median("read:thread-local")?,
    ))
}

fn is_footprint(experiment: &Experiment) -> bool {
    experiment
        .cases
        .iter()
        .any(|(case, _)| !workload(case).is_empty())
}

/// `1 thread`, `2 threads`.
fn count(threads: usize) -> String {
    format!(
        "{threads} {}",
        if threads == 1 { "thread" } else { "threads" }
    )
}

/// `a`, `a and b`, `a, b and c`.
pub fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests;
