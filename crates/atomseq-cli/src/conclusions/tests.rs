//! Outcomes made up, and what must be said of them.

use super::*;
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
            values: vec![value; 3],
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
