//! What the benchmark reports, one record a line with `--json`. Fields are only ever added: other
//! programs read them.

use std::fmt;

use serde::{Serialize, Serializer};

use super::engine::Effort;
use super::environment::Environment;
use super::fault::Fault;
use super::statistics::{Summary, pairwise};

/// A line of `bench --json`.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Record<'a> {
    /// Where and with what the figures were taken; always the first line.
    Environment(&'a Environment),
    /// One case at one number of threads.
    Measure(&'a Measure),
    /// Two cases of one workload, compared round by round.
    Ratio(&'a Ratio),
    /// What a case takes longer than another of its workload: the bare form, or one that it is made
    /// of.
    Overhead(&'a Overhead),
    /// What a paper published of the same.
    Published(&'a Published),
    /// A case that has no figures, and why.
    Wrong(&'a Wrong),
}

/// One case of an experiment at one number of threads.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The case's name: `subject`, or `workload:subject` where an experiment has several workloads.
    pub case: &'static str,
    /// How many threads ran it at once.
    pub threads: usize,
    /// `ns/op`, `ns` or `bytes`.
    pub unit: &'static str,
    /// How many runs the statistics are over.
    pub runs: usize,
    /// The smallest run.
    #[serde(serialize_with = "rounded")]
    pub min: f64,
    /// The 10th percentile of the runs.
    #[serde(serialize_with = "rounded")]
    pub p10: f64,
    /// The median run.
    #[serde(serialize_with = "rounded")]
    pub median: f64,
    /// The 90th percentile of the runs.
    #[serde(serialize_with = "rounded")]
    pub p90: f64,
    /// The 99th percentile of the runs.
    #[serde(serialize_with = "rounded")]
    pub p99: f64,
    /// The largest run.
    #[serde(serialize_with = "rounded")]
    pub max: f64,
    /// Whether there were more threads than CPUs for them, so that some shared one.
    pub oversubscribed: bool,
}

/// How two cases of one workload compare: the per-round ratios of interleaved runs.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The case divided.
    pub numerator: &'static str,
    /// The case it is divided by.
    pub denominator: &'static str,
    /// How many threads ran each at once.
    pub threads: usize,
    /// How many rounds there were.
    pub runs: usize,
    /// In how many rounds the case divided took longer than the other.
    pub above: usize,
    /// In how many rounds it took less time.
    pub below: usize,
    /// In how many rounds one of the two took [`Ratio::FAR`] times as long as the other, or longer.
    pub far: usize,
    /// The median of the per-round ratios.
    #[serde(serialize_with = "rounded")]
    pub median: f64,
    /// The smallest per-round ratio.
    #[serde(serialize_with = "rounded")]
    pub min: f64,
    /// The 10th percentile of the per-round ratios.
    #[serde(serialize_with = "rounded")]
    pub p10: f64,
    /// The 90th percentile of the per-round ratios.
    #[serde(serialize_with = "rounded")]
    pub p90: f64,
    /// The largest per-round ratio.
    #[serde(serialize_with = "rounded")]
    pub max: f64,
}

impl Ratio {
    /// The bound of [`Ratio::far`], either way.
    pub const FAR: f64 = 1.25;

    /// What the rounds say about the case divided.
    ///
    /// A conclusion is drawn only where the whole quoted spread, from the 10th to the 90th
    /// percentile, lies on one side of 1. Fewer rounds than [`Effort::MIN_ROUNDS`] decide nothing.
    pub fn verdict(&self) -> Verdict {
        match self.runs >= Effort::MIN_ROUNDS {
            true if self.p10 > 1.0 => Verdict::Longer,
            true if self.p90 < 1.0 => Verdict::Shorter,
            _ => Verdict::Tie,
        }
    }
}

/// What a ratio says about the case divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It takes longer, or more, than the other.
    Longer,
    /// It takes less.
    Shorter,
    /// The rounds do not decide.
    Tie,
}

/// What a case takes longer than another of its workload: the per-round differences of interleaved
/// runs.
#[derive(Clone, Debug, Serialize)]
pub struct Overhead {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The case.
    pub case: &'static str,
    /// The other one.
    pub over: &'static str,
    /// How many threads ran each at once.
    pub threads: usize,
    /// The measures' unit.
    pub unit: &'static str,
    /// The median of the per-round differences; below zero where the case is the faster one.
    #[serde(serialize_with = "rounded")]
    pub median: f64,
    /// The smallest difference.
    #[serde(serialize_with = "rounded")]
    pub min: f64,
    /// The 10th percentile of the differences.
    #[serde(serialize_with = "rounded")]
    pub p10: f64,
    /// The 90th percentile of the differences.
    #[serde(serialize_with = "rounded")]
    pub p90: f64,
    /// The largest difference.
    #[serde(serialize_with = "rounded")]
    pub max: f64,
}

/// A published figure, with what measures the same here.
#[derive(Clone, Debug, Serialize)]
pub struct Published {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The paper's key.
    pub paper: &'static str,
    /// The table's number; `null` for a figure in the text.
    pub table: Option<&'static str>,
    /// The section.
    pub section: &'static str,
    /// The technique; `null` where the figure is about all of them.
    pub technique: Option<&'static str>,
    /// The program of a table's cell, the quantity of a figure in the text.
    pub program: &'static str,
    /// The machine.
    pub machine: &'static str,
    /// The unit.
    pub unit: &'static str,
    /// The number, or the bound that the paper gives; `null` where it gives none.
    pub value: Option<f64>,
    /// The value as printed.
    pub printed: String,
    /// The cases here that it stands beside.
    pub cases: Vec<&'static str>,
    /// Whether those are only the nearest to what the paper measured.
    pub nearest: bool,
}

/// A case without figures: its operations are not accounted for, so figures would be worthless; or
/// it was not measured.
#[derive(Clone, Debug, Serialize)]
pub struct Wrong {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The case's name.
    pub case: &'static str,
    /// How many threads ran it at once.
    pub threads: usize,
    /// Whether it is a peer's. A fault of atomseq's own makes the benchmark fail in the end.
    pub peer: bool,
    /// Whether it was not measured, for a reason of the machine's. That is no fault.
    pub untried: bool,
    /// What each count was to be; `null` where the fault is not a count.
    pub expected: Option<u64>,
    /// The counts that were found.
    pub found: Vec<u64>,
    /// The fault in words.
    pub fault: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            experiment,
            case,
            threads,
            fault,
            ..
        } = self;
        let unit = if *threads == 1 { "thread" } else { "threads" };
        write!(
            f,
            "{experiment}, case {case}, with {threads} {unit}: {fault}"
        )
    }
}

/// The values one case took, a value a round.
#[derive(Clone, Debug)]
pub struct Series {
    /// The case's name.
    pub case: &'static str,
    /// The values' unit.
    pub unit: &'static str,
    /// The values, in the order of the rounds.
    pub values: Vec<f64>,
}

/// One experiment at one number of threads.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The experiment's name.
    pub experiment: &'static str,
    /// How many threads there were.
    pub threads: usize,
    /// A measure a case.
    pub measures: Vec<Measure>,
    /// A ratio an ordered pair of cases of one workload.
    pub ratios: Vec<Ratio>,
    /// An overhead a case of a workload with a bare form, but that form; and the differences that a
    /// paper has figures of.
    pub overheads: Vec<Overhead>,
    /// What a paper published of the same; reported once for each experiment.
    pub published: Vec<Published>,
    /// The cases that have no figures.
    pub wrong: Vec<Wrong>,
}

impl Outcome {
    /// Sums up series that were taken in the same rounds.
    pub fn of(
        experiment: &'static str,
        threads: usize,
        oversubscribed: bool,
        series: &[Series],
    ) -> Self {
        let measures = series.iter().filter_map(|series| {
            let s = Summary::of(&series.values)?;
            Some(Measure {
                experiment,
                case: series.case,
                threads,
                unit: series.unit,
                runs: s.runs,
                min: s.min,
                p10: s.p10,
                median: s.median,
                p90: s.p90,
                p99: s.p99,
                max: s.max,
                oversubscribed,
            })
        });
        let pairs = series
            .iter()
            .flat_map(|n| series.iter().map(move |d| (n, d)))
            .filter(|(n, d)| n.case != d.case && workload(n.case) == workload(d.case));
        let ratios = pairs.filter_map(|(n, d)| {
            let rounds = pairwise(&n.values, &d.values);
            let s = Summary::of(&rounds)?;
            let count = |is: fn(f64) -> bool| rounds.iter().filter(|&&ratio| is(ratio)).count();
            Some(Ratio {
                experiment,
                numerator: n.case,
                denominator: d.case,
                threads,
                runs: s.runs,
                above: count(|ratio| ratio > 1.0),
                below: count(|ratio| ratio < 1.0),
                far: count(|ratio| ratio.max(1.0 / ratio) >= Ratio::FAR),
                median: s.median,
                min: s.min,
                p10: s.p10,
                p90: s.p90,
                max: s.max,
            })
        });
        Self {
            experiment,
            threads,
            measures: measures.collect(),
            ratios: ratios.collect(),
            overheads: Vec::new(),
            published: Vec::new(),
            wrong: Vec::new(),
        }
    }

    /// The same with the cases that have no figures; those of the subjects `peers` are not
    /// atomseq's.
    pub fn without(mut self, faults: Vec<(&'static str, Fault)>, peers: &[&str]) -> Self {
        let wrong = faults.into_iter().map(|(case, fault)| Wrong {
            experiment: self.experiment,
            case,
            threads: self.threads,
            peer: peers.contains(&case) || peers.contains(&subject(case)),
            untried: fault.untried,
            expected: fault.expected,
            found: fault.found,
            fault: fault.sentence,
        });
        self.wrong = wrong.collect();
        self
    }

    /// The same with what each case takes longer than the subject `baseline` of its workload. The
    /// series are those it was made of.
    pub fn over(mut self, baseline: &'static str, series: &[Series]) -> Self {
        let bare = |case| {
            let mut others = series.iter();
            others.find(|other| {
                subject(other.case) == baseline && workload(other.case) == workload(case)
            })
        };
        for series in series
            .iter()
            .filter(|series| subject(series.case) != baseline)
        {
            let Some(bare) = bare(series.case) else {
                continue;
            };
            self.overheads.extend(self.overhead_of(series, bare));
        }
        self
    }

    /// The same with what the subject `of` takes longer than the subject `over`, in every workload
    /// that has both.
    pub fn difference(mut self, of: &'static str, over: &'static str, series: &[Series]) -> Self {
        for more in series.iter().filter(|series| subject(series.case) == of) {
            let less = series.iter().find(|other| {
                subject(other.case) == over && workload(other.case) == workload(more.case)
            });
            self.overheads
                .extend(less.and_then(|less| self.overhead_of(more, less)));
        }
        self
    }

    /// What one series takes longer than another, round by round.
    fn overhead_of(&self, more: &Series, less: &Series) -> Option<Overhead> {
        let differences = more.values.iter().zip(&less.values);
        let differences: Vec<_> = differences.map(|(more, less)| more - less).collect();
        let s = Summary::of(&differences)?;
        Some(Overhead {
            experiment: self.experiment,
            case: more.case,
            over: less.case,
            threads: self.threads,
            unit: more.unit,
            median: s.median,
            min: s.min,
            p10: s.p10,
            p90: s.p90,
            max: s.max,
        })
    }

    /// Notes that the threads of a workload had fewer CPUs.
    pub fn oversubscribe(&mut self, of: &str) {
        let measures = self.measures.iter_mut();
        for measure in measures.filter(|measure| workload(measure.case) == of) {
            measure.oversubscribed = true;
        }
    }

    /// The case of a subject in a workload.
    pub fn case(&self, of: &str, who: &str) -> Option<&'static str> {
        let mut cases = self.measures.iter().map(|measure| measure.case);
        cases.find(|case| workload(case) == of && subject(case) == who)
    }

    /// What a case takes longer than the subject `over` of its workload.
    pub fn overhead(&self, case: &str, over: &str) -> Option<&Overhead> {
        let mut overheads = self.overheads.iter();
        overheads.find(|overhead| overhead.case == case && subject(overhead.over) == over)
    }

    /// The measure of a case.
    pub fn measure(&self, case: &str) -> Option<&Measure> {
        self.measures.iter().find(|m| m.case == case)
    }

    /// The ratio of two cases.
    pub fn ratio(&self, numerator: &str, denominator: &str) -> Option<&Ratio> {
        self.ratios
            .iter()
            .find(|r| r.numerator == numerator && r.denominator == denominator)
    }
}

/// The workload in a case's name; empty when the experiment has only one.
pub fn workload(case: &'static str) -> &'static str {
    case.split_once(':').map_or("", |(workload, _)| workload)
}

/// The subject in a case's name.
pub fn subject(case: &'static str) -> &'static str {
    case.split_once(':').map_or(case, |(_, subject)| subject)
}

/// Six decimals: a picosecond would be noise already, a small ratio still keeps its digits.
fn rounded<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((value * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(case: &'static str, values: &[f64]) -> Series {
        Series {
            case,
            unit: "ns",
            values: values.to_vec(),
        }
    }

    #[test]
    fn every_ordered_pair_of_a_workload_has_a_ratio_and_no_other() {
        let all = [
            series("a:x", &[1.0, 2.0]),
            series("a:y", &[2.0, 4.0]),
            series("b:x", &[5.0, 5.0]),
            series("b:y", &[5.0, 10.0]),
        ];
        let outcome = Outcome::of("e", 3, false, &all);
        let pairs: Vec<_> = outcome
            .ratios
            .iter()
            .map(|r| (r.numerator, r.denominator))
            .collect();
        assert_eq!(
            pairs,
            [
                ("a:x", "a:y"),
                ("a:y", "a:x"),
                ("b:x", "b:y"),
                ("b:y", "b:x")
            ]
        );
        assert_eq!(outcome.ratio("a:x", "a:y").unwrap().median, 0.5);
        let counts = |n, d| {
            let ratio = outcome.ratio(n, d).unwrap();
            (ratio.runs, ratio.above, ratio.below, ratio.far)
        };
        assert_eq!(counts("b:x", "b:y"), (2, 0, 1, 1));
        assert_eq!(counts("b:y", "b:x"), (2, 1, 0, 1));
        assert_eq!(outcome.measure("b:y").unwrap().median, 7.5);
    }

    #[test]
    fn an_overhead_is_taken_within_a_round_and_over_the_own_workload() {
        let all = [
            series("a:none", &[1.0, 2.0, 4.0]),
            series("a:x", &[3.0, 4.0, 5.0]),
            series("b:none", &[7.0, 7.0, 7.0]),
            series("c:x", &[9.0, 9.0, 9.0]),
        ];
        let outcome = Outcome::of("e", 1, false, &all).over("none", &all);
        let cases: Vec<_> = outcome.overheads.iter().map(|o| (o.case, o.over)).collect();
        assert_eq!(cases, [("a:x", "a:none")]);
        let overhead = outcome.overhead("a:x", "none").unwrap();
        assert_eq!(
            (overhead.min, overhead.median, overhead.max),
            (1.0, 2.0, 2.0)
        );
    }

    #[test]
    fn a_record_names_its_kind() {
        let outcome = Outcome::of("e", 1, false, &[series("x", &[0.123_456_789])]);
        let line = serde_json::to_value(Record::Measure(&outcome.measures[0])).unwrap();
        assert_eq!(line["kind"], "measure");
        assert_eq!(line["median"], 0.123_457);
    }
}
