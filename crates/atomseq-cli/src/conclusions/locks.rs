//! What follows for locks.

use std::iter;

use super::{Verdict, count, disagreement, enumeration, list, undecided};
use crate::bench::record::{Measure, Outcome, subject, workload};
use crate::report::figure;

/// A sentence or two for each lock experiment that was measured.
pub fn sentences(outcomes: &[Outcome]) -> Vec<String> {
    let of = |name: &'static str| {
        outcomes
            .iter()
            .filter(move |outcome| outcome.experiment == name)
    };
    let mut sentences = Vec::new();
    sentences.extend(of("b91-table1").filter_map(mechanisms));
    sentences.extend(of("biased").flat_map(bias));
    sentences.extend(of("mutex").filter_map(contention));
    sentences
}

/// What a critical section costs by each mechanism, the loop around it taken off.
fn mechanisms(outcome: &Outcome) -> Option<String> {
    let added = |case: &str| Some(outcome.overhead(case, "loop")?.median);
    let (restarted, interlocked) = (added("restart-inlined")?, added("interlocked")?);
    let others = [
        ("cpu-inlined", "restarted by the kernel"),
        ("reservation-b", "by software reservation"),
        ("emulation-call", "by a system call"),
        ("emulation-trap", "by an emulated instruction"),
    ];
    let others: Vec<_> = others
        .into_iter()
        .filter_map(|(case, how)| Some(format!("{} ns {how}", figure(added(case)?))))
        .collect();
    let others = match others.is_empty() {
        true => String::new(),
        false => format!("; {}", list(&others)),
    };
    Some(format!(
        "A critical section takes {} ns by a test-and-set that signal handlers restart, {} ns by an interlocked one{others}.",
        figure(restarted),
        figure(interlocked),
    ))
}

/// A biased lock at home, with visitors and contended, beside the best of the others.
fn bias(outcome: &Outcome) -> Vec<String> {
    let workloads = [
        ("home", "used by one CPU alone"),
        (
            "visitor-1e4",
            "that another CPU visits once in 10,000 operations",
        ),
        (
            "visitor-1e2",
            "that another CPU visits once in 100 operations",
        ),
        ("contended", "that two CPUs contend for"),
    ];
    let (mut won, mut lost, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for (of, when) in workloads {
        let Some(ours) = outcome.case(of, "biased") else {
            continue;
        };
        let Some(best) = best(outcome, of, |subject| subject != "biased") else {
            continue;
        };
        let (Some(ours), Some(ratio)) = (outcome.measure(ours), outcome.ratio(ours, best.case))
        else {
            continue;
        };
        let figures = format!(
            "{} ns, {} {} ns",
            figure(ours.median),
            subject(best.case),
            figure(best.median)
        );
        match Verdict::of(ratio) {
            Verdict::Gain | Verdict::Tie => won.push(format!("{when} ({figures})")),
            Verdict::Loss => lost.push(format!("{when} ({figures})")),
            Verdict::Open => open.push(format!("{when} ({figures}; {})", disagreement(ratio))),
        }
    }
    let mut sentences = Vec::new();
    if !won.is_empty() {
        sentences.push(format!(
            "mutex::Biased is the lock for data {}.",
            list(&won)
        ));
    }
    if !lost.is_empty() {
        sentences.push(format!(
            "mutex::Biased is not the lock for data {}.",
            list(&lost)
        ));
    }
    if !open.is_empty() {
        let what = format!("mutex::Biased as the lock for data {}", list(&open));
        sentences.push(undecided(&what));
    }
    sentences
}

/// The fastest lock for each time that it is held, or those of which the rounds do not decide which
/// it is; and how atomseq's mutex does beside it.
fn contention(outcome: &Outcome) -> Option<String> {
    let holds = [
        ("hold-0", "no time"),
        ("hold-100ns", "100 ns"),
        ("hold-1us", "1 µs"),
    ];
    let phrases: Vec<_> = holds
        .into_iter()
        .filter_map(|(of, held)| {
            let ours = outcome.measure(outcome.case(of, "mutex")?)?;
            let best = best(outcome, of, |_| true)?;
            let beside = match outcome.ratio(ours.case, best.case) {
                None => String::new(),
                Some(ratio) => format!(", mutex::Mutex {} times", figure(ratio.median)),
            };
            let others = outcome.ratios.iter().filter(|ratio| {
                ratio.numerator == best.case && Verdict::of(ratio) != Verdict::Gain
            });
            let others = others.map(|ratio| subject(ratio.denominator).to_string());
            let fastest: Vec<_> = iter::once(subject(best.case).to_string())
                .chain(others)
                .collect();
            Some(format!(
                "held for {held}, {} is the fastest ({} ns{beside})",
                enumeration(&fastest, "or"),
                figure(best.median)
            ))
        })
        .collect();
    (!phrases.is_empty()).then(|| {
        format!(
            "Of locks that {} use{} all the time, {}.",
            count(outcome.threads),
            if outcome.threads == 1 { "s" } else { "" },
            list(&phrases)
        )
    })
}

/// The fastest subject of a workload that may be meant.
fn best<'a>(outcome: &'a Outcome, of: &str, may: impl Fn(&str) -> bool) -> Option<&'a Measure> {
    let measures = outcome.measures.iter();
    measures
        .filter(|measure| workload(measure.case) == of && may(subject(measure.case)))
        .min_by(|a, b| a.median.total_cmp(&b.median))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::Effort;
    use crate::bench::record::Series;

    fn outcome(
        experiment: &'static str,
        threads: usize,
        cases: &[(&'static str, f64)],
    ) -> Vec<Outcome> {
        let series: Vec<_> = cases
            .iter()
            .map(|&(case, value)| Series {
                case,
                unit: "ns/op",
                values: vec![value; Effort::FEWEST],
            })
            .collect();
        vec![Outcome::of(experiment, threads, false, &series).over("loop", &series)]
    }

    #[test]
    fn mechanisms_are_told_without_the_loop() {
        let cases = [
            ("restart-inlined", 2.5),
            ("interlocked", 8.5),
            ("emulation-call", 200.5),
            ("loop", 0.5),
        ];
        assert_eq!(
            sentences(&outcome("b91-table1", 1, &cases)),
            [
                "A critical section takes 2.00 ns by a test-and-set that signal handlers restart, 8.00 ns by an interlocked one; \
                 200 ns by a system call."
            ]
        );
    }

    #[test]
    fn a_biased_lock_is_told_where_it_wins_and_where_it_loses() {
        let cases = [
            ("home:biased", 5.0),
            ("home:std", 15.0),
            ("home:parking_lot", 16.0),
            ("contended:biased", 90.0),
            ("contended:std", 80.0),
            ("contended:parking_lot", 60.0),
        ];
        assert_eq!(
            sentences(&outcome("biased", 2, &cases)),
            [
                "mutex::Biased is the lock for data used by one CPU alone (5.00 ns, std 15.0 ns).",
                "mutex::Biased is not the lock for data that two CPUs contend for (90.0 ns, parking_lot 60.0 ns)."
            ]
        );
    }

    /// An outcome of these rounds.
    fn of_rounds(
        experiment: &'static str,
        cases: &[(&'static str, [f64; Effort::FEWEST])],
    ) -> Vec<Outcome> {
        let series: Vec<_> = cases
            .iter()
            .map(|&(case, values)| Series {
                case,
                unit: "ns/op",
                values: values.to_vec(),
            })
            .collect();
        vec![Outcome::of(experiment, 2, false, &series)]
    }

    #[test]
    fn a_biased_lock_is_told_where_nothing_is_decided() {
        let cases = [
            ("home:biased", [5.0; 5]),
            ("home:std", [15.0; 5]),
            ("contended:biased", [90.0, 90.0, 90.0, 50.0, 50.0]),
            ("contended:std", [60.0; 5]),
        ];
        assert_eq!(
            sentences(&of_rounds("biased", &cases)),
            [
                "mutex::Biased is the lock for data used by one CPU alone (5.00 ns, std 15.0 ns).",
                "Nothing follows for mutex::Biased as the lock for data that two CPUs contend for (90.0 ns, std 60.0 ns; \
                 slower in 3 and faster in 2 of 5 rounds): the rounds are too few or differ too much, as on a busy machine."
            ]
        );
    }

    #[test]
    fn all_locks_are_told_that_may_be_the_fastest() {
        let cases = [
            ("hold-0:mutex", [20.0; 5]),
            ("hold-0:backoff", [10.0; 5]),
            ("hold-0:std", [15.0, 15.0, 12.0, 8.0, 8.0]),
            ("hold-0:parking_lot", [10.1; 5]),
        ];
        assert_eq!(
            sentences(&of_rounds("mutex", &cases)),
            [
                "Of locks that 2 threads use all the time, held for no time, backoff, std or parking_lot is the fastest \
                 (10.0 ns, mutex::Mutex 2.00 times)."
            ]
        );
    }

    #[test]
    fn the_fastest_lock_is_told_whoever_made_it() {
        let theirs = [("hold-0:mutex", 20.0), ("hold-0:backoff", 10.0)];
        assert_eq!(
            sentences(&outcome("mutex", 8, &theirs)),
            [
                "Of locks that 8 threads use all the time, held for no time, backoff is the fastest (10.0 ns, mutex::Mutex 2.00 \
                 times)."
            ]
        );
        let ours = [("hold-1us:mutex", 20.0), ("hold-1us:std", 30.0)];
        assert_eq!(
            sentences(&outcome("mutex", 1, &ours)),
            [
                "Of locks that 1 thread uses all the time, held for 1 µs, mutex is the fastest (20.0 ns)."
            ]
        );
    }
}
