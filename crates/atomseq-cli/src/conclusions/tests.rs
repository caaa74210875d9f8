//! Outcomes made up, and what must be said of them.

use super::*;
use crate::bench::engine::Effort;
use crate::bench::record::Series;

const RUNNING: Sections = Sections {
    active: true,
    gates: true,
    reason: None,
};

fn outcome(experiment: &'static str, threads: usize, cases: &[(&'static str, f64)]) -> Outcome {
    let series: Vec<_> = cases
        .iter()
        .map(|&(case, value)| Series {
            case,
            unit: "ns/op",
            values: vec![value; Effort::FEWEST],
        })
        .collect();
    Outcome::of(experiment, threads, false, &series)
}

#[test]
fn a_win_is_told_beside_the_best_rival_that_does_the_same() {
    let counter = outcome(
        "percpu-counter",
        2,
        &[("rseq", 3.0), ("mutex", 30.0), ("interlocked", 9.0)],
    );
    let text = sentences(&RUNNING, &[counter]).join("\n");
    assert!(text.contains("Use percpu::Counter here."), "{text}");
    assert!(
        text.contains("takes 3.00 ns, interlocked (9.00 ns) 3.00 times as long"),
        "{text}"
    );
    assert!(text.contains("lost to nothing"), "{text}");
}

#[test]
fn thread_local_is_a_loss_but_no_reason_against() {
    let counter = outcome(
        "percpu-counter",
        1,
        &[("rseq", 3.0), ("mutex", 30.0), ("thread-local", 1.0)],
    );
    let text = sentences(&RUNNING, &[counter]).join("\n");
    assert!(text.contains("Use percpu::Counter here."), "{text}");
    assert!(
        text.contains("loses in percpu-counter to thread-local (3.00 times as much, 1 thread)"),
        "{text}"
    );
}

#[test]
fn a_loss_is_told_once_for_all_numbers_of_threads() {
    let outcomes = [
        outcome(
            "percpu-counter",
            1,
            &[("rseq", 3.0), ("mutex", 4.0), ("thread-local", 1.0)],
        ),
        outcome(
            "percpu-counter",
            2,
            &[("rseq", 4.0), ("mutex", 2.0), ("thread-local", 1.0)],
        ),
        outcome(
            "percpu-footprint",
            1_000,
            &[("bytes:rseq", 4096.0), ("bytes:mutex", 1024.0)],
        ),
    ];
    assert_eq!(
        losses(&outcomes),
        "atomseq loses in percpu-counter to thread-local (3.00 to 4.00 times as much, 1 and 2 threads) and mutex (2.00 \
         times as much, 2 threads); in percpu-footprint (bytes) to mutex (4.00 times as much, 1000 threads). Where \
         nobody has to read a count before its thread hands it in, keep it thread-local."
    );
}

#[test]
fn a_tie_is_no_loss() {
    let counter = outcome("percpu-counter", 1, &[("rseq", 1.01), ("mutex", 1.0)]);
    let text = sentences(&RUNNING, &[counter]).join("\n");
    assert!(text.contains("lost to nothing"), "{text}");
    assert!(!text.contains("times as long"), "{text}");
}

#[test]
fn a_rival_that_wins_is_recommended() {
    let ring = outcome(
        "percpu-ring",
        1,
        &[("rseq", 30.0), ("rseq-single", 40.0), ("crossbeam", 20.0)],
    );
    let text = sentences(&RUNNING, &[ring]).join("\n");
    assert!(
        text.contains("Here use crossbeam instead of percpu::Ring."),
        "{text}"
    );
    assert!(
        text.contains("loses in percpu-ring to crossbeam (1.50 times as much, 1 thread)"),
        "{text}"
    );
    assert!(!text.contains("rseq-single"), "{text}");
}

/// What is said of a ring whose rounds take these many times as long as the rival's.
fn ring(ratios: &[f64]) -> String {
    let of = |case, values| Series {
        case,
        unit: "ns/op",
        values,
    };
    let series = [
        of("rseq", ratios.to_vec()),
        of("mutex", vec![1.0; ratios.len()]),
    ];
    let outcome = Outcome::of("percpu-ring", 1, false, &series);
    sentences(&RUNNING, &[outcome]).join("\n")
}

/// These rounds decide nothing.
fn assert_open(ratios: &[f64]) {
    let text = ring(ratios);
    for expected in [
        "Nothing follows for percpu::Ring beside mutex (slower in",
        "the rounds do not decide percpu-ring beside mutex.",
    ] {
        assert!(text.contains(expected), "{ratios:?}: {text}");
    }
    let words = [
        "Use percpu::Ring",
        "Here use",
        "times as long",
        "lost to nothing",
        "atomseq loses",
    ];
    assert!(
        words.iter().all(|word| !text.contains(word)),
        "{ratios:?}: {text}"
    );
}

/// These rounds decide that `expected` is said.
fn assert_decided(ratios: &[f64], expected: &[&str]) {
    let text = ring(ratios);
    let words = ["Nothing follows", "do not decide"];
    assert!(
        words.iter().all(|word| !text.contains(word)),
        "{ratios:?}: {text}"
    );
    assert!(
        expected.iter().all(|word| text.contains(word)),
        "{ratios:?}: {text}"
    );
}

const WON: &[&str] = &["Use percpu::Ring here.", "lost to nothing"];
const LOST: &[&str] = &["Here use mutex", "atomseq loses"];

/// A few rounds in which the one that is faster in the median is the slower one.
#[test]
fn rounds_that_disagree_decide_nothing() {
    let cases = [
        (2.0, 0.5, LOST),
        (0.5, 2.0, WON),
        (1.2, 0.99, LOST),
        (1.0, 2.0, WON),
        (1.0, 0.5, WON),
    ];
    for (ratio, other, expected) in cases {
        for (rounds, allowed) in [(5, 1), (10, 1), (19, 1), (20, 2), (101, 10)] {
            let mut ratios = vec![ratio; rounds];
            ratios[..allowed].fill(other);
            assert_decided(&ratios, expected);
            ratios[..=allowed].fill(other);
            assert_open(&ratios);
        }
    }
    assert_open(&[0.5, 0.5, 1.0, 2.0, 2.0]);
}

/// One round in which a thread was stopped counts as one, however long it took.
#[test]
fn an_outlier_counts_as_one_round() {
    for rounds in [5, 10, 101] {
        for outlier in [1.1, 700.0, 1e6] {
            for (ratio, outlier, expected) in [
                (0.5, outlier, WON),
                (2.0, 1.0 / outlier, LOST),
                (1.0, outlier, WON),
            ] {
                let mut ratios = vec![ratio; rounds];
                ratios[0] = outlier;
                assert_decided(&ratios, expected);
            }
        }
    }
}

#[test]
fn a_few_rounds_decide_nothing() {
    for (ratio, expected) in [(0.5, WON), (1.0, WON), (2.0, LOST)] {
        for rounds in 1..Effort::FEWEST {
            assert_open(&vec![ratio; rounds]);
        }
        assert_decided(&[ratio; Effort::FEWEST], expected);
    }
}

#[test]
fn without_sections_the_first_sentence_says_so() {
    let sections = Sections {
        active: false,
        gates: false,
        reason: Some("the kernel is too old".to_string()),
    };
    let text = sentences(&sections, &[]).join("\n");
    assert!(text.starts_with("Per-CPU sections do not run"), "{text}");
    assert!(text.contains("the kernel is too old"), "{text}");
}

/// A subject beside another in each of two workloads, by rounds.
fn ratios_of(values: [[f64; Effort::FEWEST]; 2]) -> String {
    let series = ["a:x", "b:x"]
        .into_iter()
        .zip(values.map(Vec::from))
        .chain(["a:y", "b:y"].map(|case| (case, vec![1.0; Effort::FEWEST])))
        .map(|(case, values)| Series {
            case,
            unit: "ns",
            values,
        });
    let outcome = Outcome::of("test", 1, false, &series.collect::<Vec<_>>());
    let ratios = ["a", "b"].map(|of| {
        let case = |subject| outcome.case(of, subject).unwrap();
        outcome.ratio(case("x"), case("y")).unwrap()
    });
    format!(
        "{}: {:?}",
        times(&ratios).unwrap(),
        Verdict::of_all(&ratios)
    )
}

#[test]
fn times_are_told_with_what_the_rounds_decide() {
    let (less, once, more) = ([0.5; 5], [1.0; 5], [3.0; 5]);
    let open = [2.0, 2.0, 2.0, 0.5, 0.5];
    assert_eq!(ratios_of([more; 2]), "3.00 times: Loss");
    assert_eq!(ratios_of([less, more]), "0.50 to 3.00 times: Loss");
    assert_eq!(ratios_of([less, once]), "0.50 to 1.00 times: Tie");
    assert_eq!(ratios_of([less; 2]), "0.50 times: Gain");
    let doubt = "times (which the rounds do not decide)";
    assert_eq!(
        ratios_of([less, open]),
        format!("0.50 to 2.00 {doubt}: Open")
    );
    assert_eq!(
        ratios_of([open, more]),
        format!("2.00 to 3.00 {doubt}: Loss")
    );
}

#[test]
fn lists() {
    let list = |items: &[&str]| {
        super::list(
            &items
                .iter()
                .map(|item| item.to_string())
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(
        [
            list(&[]),
            list(&["a"]),
            list(&["a", "b"]),
            list(&["a", "b", "c"])
        ],
        ["", "a", "a and b", "a, b and c"]
    );
}
