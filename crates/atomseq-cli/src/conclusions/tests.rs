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
        text.contains("loses to thread-local in percpu-counter (3.00 times as much with 1 thread)"),
        "{text}"
    );
}

#[test]
fn a_loss_is_told_once_for_all_numbers_of_threads() {
    let cases = [("rseq", 3.0), ("thread-local", 1.0)];
    let counters = [
        outcome("percpu-counter", 1, &cases),
        outcome("percpu-counter", 2, &cases),
    ];
    let text = losses(&counters);
    assert!(
        text.contains("in percpu-counter (3.00 times as much with 1 thread, 3.00 times as much with 2 threads)."),
        "{text}"
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
        text.contains("loses to crossbeam in percpu-ring (1.50 times as much with 1 thread)"),
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
