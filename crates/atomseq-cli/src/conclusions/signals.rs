//! What follows for signal handlers on the same thread.

use super::{Verdict, list, times};
use crate::bench::record::{Outcome, Ratio};
use crate::report::figure;

/// A sentence for each signal experiment that was measured, and one for what follows from two of
/// them.
pub fn sentences(outcomes: &[Outcome]) -> Vec<String> {
    let find = |name: &str| outcomes.iter().find(|outcome| outcome.experiment == name);
    let (sequence, mask) = (find("signal-sequence"), find("signal-mask"));
    let cost = find("rollforward-cost");
    let sentences = [
        sequence.and_then(protection),
        mask.and_then(masking),
        cost.and_then(deliveries),
        sequence
            .zip(cost)
            .and_then(|(sequence, cost)| break_even(sequence, cost)),
    ];
    sentences.into_iter().flatten().collect()
}

/// What protection adds to a sequence.
fn protection(outcome: &Outcome) -> Option<String> {
    let ratios = |subject: &str| {
        let ratio = |program: &str| {
            outcome.ratio(&format!("{program}:{subject}"), &format!("{program}:none"))
        };
        ["lifo", "fifo"]
            .into_iter()
            .filter_map(ratio)
            .collect::<Vec<&Ratio>>()
    };
    let free = [ratios("restarting"), ratios("rolling")].concat();
    let taken = times(&free)?;
    let others = [
        ("mask", "under signal::mask()"),
        ("interlocked", "by interlocked instructions"),
        ("sigprocmask", "between two calls of sigprocmask"),
    ];
    let others: Vec<_> = others
        .into_iter()
        .filter_map(|(subject, how)| Some(format!("{} {how}", times(&ratios(subject))?)))
        .collect();
    let verdict = match Verdict::of_all(&free) {
        Verdict::Gain | Verdict::Tie => "costs nothing".to_string(),
        Verdict::Loss | Verdict::Open => format!("makes them take {taken} as long"),
    };
    let others = match others.is_empty() {
        true => String::new(),
        false => format!("; by other ways they take {}", list(&others)),
    };
    Some(format!(
        "Protecting sequences against this thread's signal handlers, by restarting or rolling forward, {verdict}{others}."
    ))
}

/// What a mask costs.
fn masking(outcome: &Outcome) -> Option<String> {
    let (ours, theirs) = (outcome.measure("mask")?, outcome.measure("sigprocmask")?);
    let ratio = outcome.ratio("sigprocmask", "mask")?;
    Some(format!(
        "For any other code, signal::mask() and its end take {} ns, two calls of sigprocmask {} ns, {} as long.",
        figure(ours.median),
        figure(theirs.median),
        times(&[ratio])?,
    ))
}

/// What is paid for it when a signal comes.
fn deliveries(outcome: &Outcome) -> Option<String> {
    let plain = outcome.measure("plain")?;
    let times = |case: &str| times(&[outcome.ratio(case, "plain")?]);
    Some(format!(
        "The price is the signal's: delivering one takes {} µs, {} as long where a sequence is restarted, {} \
         where one is rolled forward, {} where a mask puts it off.",
        figure(plain.median / 1_000.0),
        times("restarted")?,
        times("rolled")?,
        times("deferred")?,
    ))
}

/// M94 4.3: up to which rate of signals the rare price is worth paying, beside a price that is
/// always paid.
fn break_even(sequence: &Outcome, cost: &Outcome) -> Option<String> {
    let is_longer = |ratio| Verdict::of(ratio) == Verdict::Loss;
    if !is_longer(sequence.ratio("lifo:interlocked", "lifo:none")?)
        || !is_longer(cost.ratio("rolled", "plain")?)
    {
        return None;
    }
    let added = |case: &str| Some(sequence.overhead(case, "none")?.median);
    // A push and a pop are two sequences.
    let always = added("lifo:interlocked")? / 2.0;
    let ours = added("lifo:rolling")?.max(0.0) / 2.0;
    let duration = sequence.measure("lifo:none")?.median / 2.0;
    let rare = cost.measure("rolled")?.median - cost.measure("plain")?.median;
    let kilohertz = (always - ours) / (duration * rare) * 1e6;
    (kilohertz.is_finite() && kilohertz > 0.0).then(|| {
        format!(
            "By M94's model (4.3) rolling forward pays, beside interlocked instructions, on a thread that gets fewer than \
             {} thousand signals a second; in M94's example it was 80.",
            figure(kilohertz)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::Effort;
    use crate::bench::record::Series;

    fn outcome(experiment: &'static str, cases: &[(&'static str, f64)]) -> Outcome {
        let series: Vec<_> = cases
            .iter()
            .map(|&(case, value)| Series {
                case,
                unit: "ns/op",
                values: vec![value; Effort::FEWEST],
            })
            .collect();
        Outcome::of(experiment, 1, false, &series).over("none", &series)
    }

    fn sequence(rolling: f64) -> Outcome {
        outcome(
            "signal-sequence",
            &[
                ("lifo:none", 4.0),
                ("lifo:restarting", 4.0),
                ("lifo:rolling", rolling),
                ("lifo:interlocked", 24.0),
                ("fifo:none", 2.0),
                ("fifo:rolling", 2.0),
                ("fifo:interlocked", 14.0),
            ],
        )
    }

    fn cost() -> Outcome {
        let cases = [
            ("plain", 1_000.0),
            ("restarted", 1_100.0),
            ("rolled", 3_000.0),
            ("deferred", 4_000.0),
        ];
        outcome("rollforward-cost", &cases)
    }

    #[test]
    fn what_costs_nothing_is_told_so() {
        let text = sentences(&[sequence(4.0)]).join("\n");
        assert!(
            text.contains("costs nothing; by other ways they take 6.00 to 7.00 times by interlocked instructions."),
            "{text}"
        );
    }

    #[test]
    fn what_costs_something_is_told_as_well() {
        let text = sentences(&[sequence(6.0)]).join("\n");
        assert!(
            text.contains("makes them take 1.00 to 1.50 times as long"),
            "{text}"
        );
    }

    /// Three rounds of five say that rolling forward costs nothing, two that it doubles the time.
    #[test]
    fn what_is_not_decided_does_not_cost_nothing() {
        let values = |values: [f64; Effort::FEWEST]| values.to_vec();
        let of = |case, values| Series {
            case,
            unit: "ns/op",
            values,
        };
        let rounds = [
            of("lifo:none", values([4.0; 5])),
            of("lifo:rolling", values([4.0, 4.0, 4.0, 8.0, 8.0])),
            of("lifo:interlocked", values([8.0, 8.0, 8.0, 2.0, 2.0])),
        ];
        let sequence = Outcome::of("signal-sequence", 1, false, &rounds).over("none", &rounds);
        let text = sentences(&[sequence, cost()]).join("\n");
        let told = "makes them take 1.00 times (which the rounds do not decide) as long; by other \
                    ways they take 2.00 times (which the rounds do not decide) by interlocked";
        assert!(text.contains(told), "{text}");
        assert!(!text.contains("By M94's model"), "{text}");
    }

    #[test]
    fn a_delivery_is_told_in_microseconds() {
        let text = sentences(&[cost()]).join("\n");
        assert!(
            text.contains(
                "takes 1.00 µs, 1.10 times as long where a sequence is restarted, 3.00 times"
            ),
            "{text}"
        );
    }

    #[test]
    fn the_break_even_rate_is_m94s() {
        // (10 - 0) ns / (2 ns · 2,000 ns) is 2.5 million a second.
        let text = sentences(&[sequence(4.0), cost()]).join("\n");
        assert!(
            text.contains("fewer than 2500 thousand signals a second"),
            "{text}"
        );
        let dear = sentences(&[sequence(40.0), cost()]).join("\n");
        assert!(!dear.contains("By M94's model"), "{dear}");
    }

    #[test]
    fn a_mask_is_told_beside_the_kernels() {
        let text = sentences(&[outcome(
            "signal-mask",
            &[("mask", 1.5), ("sigprocmask", 300.0)],
        )])
        .join("\n");
        assert!(
            text.contains("take 1.50 ns, two calls of sigprocmask 300 ns, 200 times as long"),
            "{text}"
        );
    }
}
