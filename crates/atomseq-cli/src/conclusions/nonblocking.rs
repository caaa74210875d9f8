//! What follows for structures that nobody blocks, and for what they are made of.

use super::{count, list, times};
use crate::bench::experiments;
use crate::bench::record::{Measure, Outcome};
use crate::report::figure;

/// The subjects that are atomseq's, in the experiments of structures.
const OURS: &str = "atomseq";

/// A sentence for each of these experiments that was measured.
pub fn sentences(outcomes: &[Outcome]) -> Vec<String> {
    let of = |name: &'static str| {
        outcomes
            .iter()
            .filter(move |outcome| outcome.experiment == name)
    };
    let mut sentences = Vec::new();
    sentences.extend(of("dcas").next().and_then(words));
    for structure in ["nonblocking-stack", "nonblocking-queue", "nonblocking-list"] {
        sentences.extend(beside(
            of(structure).filter_map(standing).collect(),
            structure,
        ));
    }
    sentences.extend(of("stall").find_map(stalls));
    sentences.extend(of("oversubscription").find_map(crowds));
    sentences
}

/// What changing two words takes, beside one.
fn words(outcome: &Outcome) -> Option<String> {
    let median = |case: &str| Some(figure(outcome.measure(case)?.median));
    let ways = [
        ("os-assisted", "by OS-assisted DCAS"),
        ("k-cas", "by k-CAS"),
        ("crate-kcas", "by the crate kcas"),
        ("crate-mwcas", "by the crate mwcas"),
        ("parking_lot", "under a lock"),
    ];
    let ways: Vec<_> = ways
        .into_iter()
        .filter_map(|(case, how)| Some(format!("{} ns {how}", median(case)?)))
        .collect();
    let one = median("cas")?;
    (!ways.is_empty()).then(|| {
        format!(
            "With {}, a change of two words takes {}; one of a single word takes {one} ns.",
            count(outcome.threads),
            list(&ways),
        )
    })
}

/// How a structure fared against its best rival, at one number of threads.
fn standing(outcome: &Outcome) -> Option<String> {
    let ours = outcome.measure(OURS)?;
    let rivals = outcome.measures.iter();
    let best = rivals
        .filter(|measure| !measure.case.starts_with(OURS))
        .min_by(|a, b| a.median.total_cmp(&b.median))?;
    Some(format!(
        "{} ns with {}, {} the best rival's ({})",
        figure(ours.median),
        count(outcome.threads),
        times(&[outcome.ratio(OURS, best.case)?])?,
        best.case,
    ))
}

fn beside(standings: Vec<String>, experiment: &str) -> Option<String> {
    let experiment = experiments::find(experiment)?;
    (!standings.is_empty()).then(|| {
        format!(
            "What {} {} takes: {}.",
            experiment.operation,
            experiment.structure,
            standings.join("; ")
        )
    })
}

/// How long others wait for a thread that is stopped inside an operation.
fn stalls(outcome: &Outcome) -> Option<String> {
    let measures = outcome.measures.iter();
    let measures = measures.filter(|measure| !measure.case.starts_with("watched:"));
    let measures: Vec<_> = measures.collect();
    // Of fewer values, one of a hundred is none.
    let (until, most): (_, fn(&Measure) -> f64) =
        match measures.iter().all(|measure| measure.runs >= 100) {
            true => ("in 99 of 100 cases", |measure| measure.p99),
            false => ("at most", |measure| measure.max),
        };
    let of: Vec<_> = measures
        .into_iter()
        .map(|measure| {
            let [median, most] = [measure.median, most(measure)].map(|ns| figure(ns / 1e3));
            format!("{} {median} µs ({most})", measure.case)
        })
        .collect();
    let mutex = outcome.measure("watched:mutex").map(|mutex| {
        format!(
            "; a mutex is kept for ever, which was watched for {} ms at a time",
            figure(mutex.median / 1e6)
        )
    });
    (!of.is_empty()).then(|| {
        format!(
            "While a thread is stopped inside an operation, another's takes, in the median and {until}: {}{}.",
            list(&of),
            mutex.unwrap_or_default()
        )
    })
}

/// What more threads than CPUs cost.
fn crowds(outcome: &Outcome) -> Option<String> {
    let ways = [
        ("os-assisted", "by OS-assisted DCAS"),
        ("k-cas", "by k-CAS"),
        ("spin", "under a lock whose waiters only spin"),
        ("parking_lot", "under parking_lot's"),
    ];
    let ways: Vec<_> = ways
        .into_iter()
        .filter_map(|(way, how)| {
            let crowded = outcome.case(way, "crowded")?;
            let ratio = outcome.ratio(crowded, outcome.case(way, "alone")?)?;
            Some(format!("{} {how}", times(&[ratio])?))
        })
        .collect();
    (!ways.is_empty()).then(|| {
        format!(
            "The CPU time of a change that {} share, beside one thread's: {}.",
            count(outcome.threads),
            list(&ways)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::Effort;
    use crate::bench::record::Series;

    fn outcome(experiment: &'static str, threads: usize, cases: &[(&'static str, f64)]) -> Outcome {
        let series: Vec<_> = cases
            .iter()
            .map(|&(case, value)| Series {
                case,
                unit: "ns",
                values: vec![value; Effort::FEWEST],
            })
            .collect();
        Outcome::of(experiment, threads, false, &series)
    }

    #[test]
    fn what_was_not_measured_is_not_told() {
        assert_eq!(sentences(&[outcome("mutex", 1, &[("x", 1.0)])]), [""; 0]);
    }

    #[test]
    fn two_words_are_told_beside_one() {
        let cases = [("os-assisted", 12.0), ("k-cas", 60.0), ("cas", 10.0)];
        assert_eq!(
            sentences(&[outcome("dcas", 1, &cases), outcome("dcas", 2, &cases)]),
            [
                "With 1 thread, a change of two words takes 12.0 ns by OS-assisted DCAS and 60.0 ns by k-CAS; one of a single word \
                 takes 10.0 ns."
            ]
        );
    }

    #[test]
    fn a_structure_is_told_beside_its_best_rival_whoever_wins() {
        let alone = [
            ("atomseq", 20.0),
            ("atomseq-kcas", 5.0),
            ("treiber", 40.0),
            ("mutex", 50.0),
        ];
        let both = [("atomseq", 90.0), ("treiber", 120.0), ("mutex", 60.0)];
        let told = sentences(&[
            outcome("nonblocking-stack", 1, &alone),
            outcome("nonblocking-stack", 2, &both),
        ]);
        assert_eq!(
            told,
            [
                "What a push and a pop on nonblocking::Stack takes: 20.0 ns with 1 thread, 0.50 times the best rival's (treiber); \
                 90.0 ns with 2 threads, 1.50 times the best rival's (mutex)."
            ]
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_mutex_is_no_result() {
        let cases = [
            ("os-assisted", 4_000.0),
            ("k-cas", 900.0),
            ("watched:mutex", 1e6),
        ];
        assert_eq!(
            sentences(&[outcome("stall", 2, &cases)]),
            [
                "While a thread is stopped inside an operation, another's takes, in the median and at most: os-assisted 4.00 µs (4.00) \
                 and k-cas 0.90 µs (0.90); a mutex is kept for ever, which was watched for 1.00 ms at a time."
            ]
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn stalls_are_told_without_the_mutex() {
        assert_eq!(
            sentences(&[outcome("stall", 2, &[("k-cas", 900.0)])]),
            [
                "While a thread is stopped inside an operation, another's takes, in the median and at most: k-cas 0.90 µs (0.90)."
            ]
        );
        let alone = [("watched:mutex", 1e6)];
        assert_eq!(sentences(&[outcome("stall", 2, &alone)]), [""; 0]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn one_of_a_hundred_is_told_of_a_hundred() {
        let told = |times| {
            let of = |case, last| Series {
                case,
                unit: "ns",
                values: (1..times).map(|_| 1e3).chain([last]).collect(),
            };
            let series = [of("stack", 9e3), of("watched:mutex", 1e3)];
            sentences(&[Outcome::of("stall", 2, false, &series)]).concat()
        };
        let many = told(200);
        let all = "in the median and in 99 of 100 cases: stack 1.00 µs (1.00);";
        assert!(many.contains(all), "{many}");
        let few = told(99);
        assert!(
            few.contains("in the median and at most: stack 1.00 µs (9.00);"),
            "{few}"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn crowds_are_told_beside_one_thread() {
        let cases = [
            ("os-assisted:crowded", 15.0),
            ("os-assisted:alone", 10.0),
            ("spin:crowded", 600.0),
            ("spin:alone", 6.0),
        ];
        assert_eq!(
            sentences(&[outcome("oversubscription", 32, &cases)]),
            [
                "The CPU time of a change that 32 threads share, beside one thread's: 1.50 times by OS-assisted DCAS and 100 times \
                 under a lock whose waiters only spin."
            ]
        );
    }
}
