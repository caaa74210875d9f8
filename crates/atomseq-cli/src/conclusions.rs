//! What follows from a benchmark, in sentences. Each is computed from the figures just measured, so
//! it may turn out against atomseq; nothing here knows in advance who wins.

mod lock_free;
mod locks;
mod nonblocking;
mod signals;

use crate::bench::experiments::{self, Experiment};
use crate::bench::record::{Measure, Outcome, Ratio, subject, workload};
use crate::report::figure;

/// The subject that is atomseq's.
const OURS: &str = "rseq";

/// The subject that only its own thread can read: cheaper, but no replacement where others must
/// read it.
const PRIVATE: &str = "thread-local";

/// A ratio this near to one is a tie: neither a gain nor a loss to speak of.
const TIE: f64 = 0.03;

/// What a ratio of atomseq's says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Faster.
    Gain,
    /// Neither.
    Tie,
    /// Slower.
    Loss,
    /// Nothing: there were too few rounds, or too many that disagree.
    Open,
}

impl Verdict {
    /// Returns the verdict on a case of atomseq's beside a rival's.
    ///
    /// Rounds that went the other way contradict a gain or a loss; rounds far from one, a tie.
    fn of(ratio: &Ratio) -> Self {
        let (verdict, against) = match ratio.median {
            median if median > 1.0 + TIE => (Self::Loss, ratio.below),
            median if median < 1.0 - TIE => (Self::Gain, ratio.above),
            _ => (Self::Tie, ratio.far),
        };
        match ratio.holds(against) {
            true => verdict,
            false => Self::Open,
        }
    }

    /// Returns the verdict on several cases: the worst that holds, if all are decided or one is
    /// lost.
    fn of_all(ratios: &[&Ratio]) -> Self {
        let verdicts = || ratios.iter().map(|ratio| Self::of(ratio));
        let order = [Self::Loss, Self::Open, Self::Tie];
        let worst = order
            .into_iter()
            .find(|worst| verdicts().any(|verdict| verdict == *worst));
        worst.unwrap_or(Self::Gain)
    }
}

/// `3 times`, or `3 to 4 times`, and whether the rounds decide that it is more or less than once.
fn times(ratios: &[&Ratio]) -> Option<String> {
    let medians = || ratios.iter().map(|ratio| ratio.median);
    let least = figure(medians().reduce(f64::min)?);
    let most = figure(medians().reduce(f64::max)?);
    let range = match least == most {
        true => most,
        false => format!("{least} to {most}"),
    };
    let is_open = ratios
        .iter()
        .any(|ratio| Verdict::of(ratio) == Verdict::Open);
    let doubt = if is_open {
        " (which the rounds do not decide)"
    } else {
        ""
    };
    Some(format!("{range} times{doubt}"))
}

/// That nothing follows for something.
fn undecided(what: &str) -> String {
    format!(
        "Nothing follows for {what}: the rounds are too few or differ too much, as on a busy machine."
    )
}

/// How the rounds of a ratio disagree.
fn disagreement(ratio: &Ratio) -> String {
    format!(
        "slower in {} and faster in {} of {} rounds",
        ratio.above, ratio.below, ratio.runs
    )
}

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
        sentences.extend(open(&decisive));
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

/// Every timed experiment with the outcome at its largest number of threads, and how atomseq fared
/// in it.
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
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for standing in decisive {
        let structure = standing.experiment.structure;
        match Verdict::of(standing.ratio) {
            Verdict::Gain | Verdict::Tie => ours.push(structure.to_string()),
            Verdict::Loss => theirs.push(format!("{} instead of {structure}", standing.best.case)),
            Verdict::Open => {}
        }
    }
    match (ours.is_empty(), theirs.is_empty()) {
        (true, true) => None,
        (false, true) => Some(format!("Use {} here.", list(&ours))),
        (false, false) => Some(format!("Use {} here, but {}.", list(&ours), list(&theirs))),
        (true, false) => Some(format!("Here use {}.", list(&theirs))),
    }
}

/// What nothing follows for.
fn open(decisive: &[Standing]) -> Option<String> {
    let open = decisive
        .iter()
        .filter(|standing| Verdict::of(standing.ratio) == Verdict::Open);
    let phrases: Vec<_> = open
        .map(|standing| {
            format!(
                "{} beside {} ({})",
                standing.experiment.structure,
                standing.best.case,
                disagreement(standing.ratio),
            )
        })
        .collect();
    (!phrases.is_empty()).then(|| undecided(&list(&phrases)))
}

fn gains(decisive: &[Standing]) -> Option<String> {
    let mut won: Vec<_> = decisive
        .iter()
        .filter(|standing| Verdict::of(standing.ratio) == Verdict::Gain)
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

/// Every case that was faster than atomseq's, by workload, with how many times over at least and at
/// most.
fn losses(outcomes: &[Outcome]) -> String {
    let mut workloads: Vec<(String, Vec<Loss>)> = Vec::new();
    for outcome in outcomes {
        for ratio in with_rivals(outcome, Verdict::Loss) {
            let name = place(ratio);
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
        return no_loss(outcomes);
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

/// What follows where no ratio is a loss of atomseq's.
fn no_loss(outcomes: &[Outcome]) -> String {
    let open = outcomes
        .iter()
        .flat_map(|outcome| with_rivals(outcome, Verdict::Open));
    let mut undecided: Vec<_> = open
        .map(|ratio| format!("{} beside {}", place(ratio), subject(ratio.denominator)))
        .collect();
    // Once for all numbers of threads.
    undecided.sort();
    undecided.dedup();
    match undecided.is_empty() {
        true => "atomseq lost to nothing that was measured.".to_string(),
        false => format!(
            "atomseq lost nowhere for certain, but the rounds do not decide {}.",
            list(&undecided)
        ),
    }
}

/// The ratios of atomseq's cases to rivals' with this verdict.
fn with_rivals(outcome: &Outcome, verdict: Verdict) -> impl Iterator<Item = &Ratio> {
    outcome.ratios.iter().filter(move |ratio| {
        subject(ratio.numerator) == OURS
            && !subject(ratio.denominator).starts_with(OURS)
            && Verdict::of(ratio) == verdict
    })
}

/// The experiment, and its workload where it has several.
fn place(ratio: &Ratio) -> String {
    match workload(ratio.numerator) {
        "" => ratio.experiment.to_string(),
        workload => format!("{} ({workload})", ratio.experiment),
    }
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
    enumeration(items, "and")
}

/// The same with another word before the last item.
fn enumeration(items: &[String], word: &str) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} {word} {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests;
