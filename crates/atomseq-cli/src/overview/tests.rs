//! Outcomes made up, and what the table must say of them.

use super::*;
use crate::bench::record::Series;

const COUNTER: &Row = &ROWS[0];

/// Eleven rounds, so that the 10th and the 90th percentile are rounds.
const ROUNDS: usize = 11;

fn measured(cases: &[(&'static str, Vec<f64>)]) -> Measured {
    let series: Vec<_> = cases
        .iter()
        .map(|(case, values)| Series {
            case,
            unit: "ns/op",
            values: values.clone(),
        })
        .collect();
    Measured {
        row: COUNTER,
        threads: 2,
        outcome: Some(Outcome::of("percpu-counter", 2, false, &series)),
        reason: None,
    }
}

fn of_medians(cases: &[(&'static str, f64)]) -> Measured {
    let cases = cases.iter();
    let cases: Vec<_> = cases
        .map(|&(case, value)| (case, vec![value; ROUNDS]))
        .collect();
    measured(&cases)
}

fn printed(measured: &[Measured]) -> String {
    let mut text = Vec::new();
    print(measured, Terminal::NONE, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// The first part of what is printed, and what stands below it.
fn parts(text: &str) -> (&str, &str) {
    text.split_once("\natomseq loses").unwrap()
}

#[test]
fn rows_are_at_most_twelve_and_beside_every_peer() {
    assert!(ROWS.len() <= 12);
    for row in ROWS {
        // Not every system has every experiment.
        let Some(experiment) = experiments::find(row.experiment) else {
            continue;
        };
        let cases = experiment.cases.iter().map(|entry| entry.name);
        let cases: Vec<_> = cases
            .filter(|case| workload(case) == row.workload)
            .map(subject)
            .collect();
        let is_case = |name: &&str| cases.contains(name);
        assert!(row.ours.iter().any(is_case), "{}", row.what);
        // No peer is kept from the reader.
        for peer in experiment.peers {
            let is_named = row.names(peer);
            assert!(is_named || !is_case(peer), "{}: {peer}", row.what);
        }
        for ours in row.ours {
            assert!(!experiment.peers.contains(ours), "{}: {ours}", row.what);
        }
    }
}

#[test]
fn the_row_stands_beside_the_fastest_that_does_the_same() {
    let text = printed(&[of_medians(&[
        ("rseq", 3.0),
        ("mutex", 30.0),
        ("interlocked", 9.0),
        ("thread-local", 1.0),
    ])]);
    let (table, below) = parts(&text);
    let row = table.lines().nth(1).unwrap();
    let words: Vec<_> = row.split_whitespace().collect();
    let expected = "counter add 2 3.00 shared AtomicU64 9.00 ███ 3.00 × (3.0 to 3.0)";
    assert_eq!(words.join(" "), expected);
    // What its own thread alone can read is no alternative, but a loss.
    assert!(below.starts_with(" here\n"), "{text}");
    assert!(below.contains("thread-local"), "{text}");
    assert!(below.contains("0.33 × (0.33 to 0.33)"), "{text}");
    assert!(!below.contains("Mutex"), "{text}");
}

#[test]
fn an_alternative_that_is_faster_is_a_loss() {
    let text = printed(&[of_medians(&[("rseq", 3.0), ("mutex", 2.0)])]);
    let (table, below) = parts(&text);
    assert!(table.contains("0.67 × (0.67 to 0.67)"), "{text}");
    assert!(below.contains("Mutex<u64>"), "{text}");
}

#[test]
fn without_a_loss_there_is_none() {
    let text = printed(&[of_medians(&[("rseq", 3.0), ("mutex", 6.0)])]);
    assert!(
        text.contains("\natomseq loses to nothing that was measured here\n"),
        "{text}"
    );
    assert!(!text.contains("not decided"), "{text}");
}

#[test]
fn what_was_not_measured_says_why() {
    let without = |outcome, reason: Option<&str>| Measured {
        row: COUNTER,
        threads: 2,
        outcome,
        reason: reason.map(String::from),
    };
    let text = printed(&[without(None, Some("it needs 2 CPUs"))]);
    assert!(text.contains("not measured: it needs 2 CPUs"), "{text}");
    let untried = vec![("rseq", crate::bench::fault::Fault::untried("too busy"))];
    let outcome = Outcome::of("percpu-counter", 2, false, &[]).without(untried, &[]);
    let text = printed(&[without(Some(outcome), None)]);
    assert!(text.contains("not measured: too busy"), "{text}");
    assert_eq!(text.matches("too busy").count(), 1, "{text}");
}

/// What is printed of rounds in which the mutex takes so many times as long as the counter.
fn of_ratios(ratios: &[f64]) -> String {
    let ours = vec![1.0; ratios.len()];
    printed(&[measured(&[("rseq", ours), ("mutex", ratios.to_vec())])])
}

/// These rounds decide nothing: neither a gain nor a loss is concluded.
fn assert_open(ratios: &[f64]) {
    let text = of_ratios(ratios);
    let (table, below) = parts(&text);
    assert!(table.contains(", tie"), "{ratios:?}: {text}");
    let row = table.lines().nth(1).unwrap();
    assert!(
        !row.contains(['█', '▏', '▶']),
        "{ratios:?}: a tie has no bar: {text}"
    );
    assert!(
        below.starts_with(" to nothing that was measured here"),
        "{ratios:?}: {text}"
    );
}

/// These rounds decide that atomseq is faster, or that it loses.
fn assert_decided(ratios: &[f64], loses: bool) {
    let text = of_ratios(ratios);
    let (table, below) = parts(&text);
    assert!(!table.contains(", tie"), "{ratios:?}: {text}");
    assert_eq!(below.starts_with(" here\n"), loses, "{ratios:?}: {text}");
    assert!(!text.contains("not decided"), "{ratios:?}: {text}");
}

/// A few rounds in which the one that is faster in the median is the slower one.
#[test]
fn rounds_that_disagree_decide_nothing() {
    for (ratio, other, loses) in [(2.0, 0.5, false), (0.5, 2.0, true), (1.2, 0.99, false)] {
        // The 10th percentile is between the allowed number and the next.
        for (rounds, allowed) in [(11, 1), (21, 2), (101, 10)] {
            let mut ratios = vec![ratio; rounds];
            ratios[..allowed].fill(other);
            assert_decided(&ratios, loses);
            ratios[..=allowed].fill(other);
            assert_open(&ratios);
        }
    }
    assert_open(&[0.5, 0.5, 1.0, 2.0, 2.0]);
    assert_open(&[1.0; ROUNDS]);
}

/// One round in which a thread was stopped counts as one, however long it took.
#[test]
fn an_outlier_counts_as_one_round() {
    for rounds in [11, 51, 101] {
        for outlier in [1.1, 700.0, 1e6] {
            for (ratio, outlier, loses) in [(0.5, outlier, true), (2.0, 1.0 / outlier, false)] {
                let mut ratios = vec![ratio; rounds];
                ratios[0] = outlier;
                assert_decided(&ratios, loses);
            }
        }
    }
}

#[test]
fn a_few_rounds_decide_nothing() {
    for (ratio, loses) in [(0.5, true), (2.0, false)] {
        for rounds in 1..Effort::MIN_ROUNDS {
            assert_open(&vec![ratio; rounds]);
        }
        assert_decided(&[ratio; Effort::MIN_ROUNDS], loses);
    }
}

#[test]
fn a_median_against_atomseq_is_shown_where_it_is_not_decided() {
    let mut ratios = vec![0.9; ROUNDS];
    ratios[..3].fill(1.5);
    let text = of_ratios(&ratios);
    let (_, below) = parts(&text);
    assert!(
        below.contains("\nnot decided: 1 lies within the spread\n"),
        "{text}"
    );
    assert!(below.contains("0.90 × (0.90 to 1.5), tie"), "{text}");
}

#[test]
fn all_of_it_fits_on_a_page() {
    // Every row lost to everything: as long as it can be.
    let lost = ROWS.iter().map(|row| {
        let case = |subject: &str| {
            let name = match row.workload {
                "" => subject.to_string(),
                workload => format!("{workload}:{subject}"),
            };
            &*name.leak()
        };
        let others = row.alternatives.iter().chain(row.bounds);
        let others = others.map(|(subject, _)| (case(subject), 1.0));
        let series: Vec<_> = std::iter::once((case(row.ours[0]), 2.0))
            .chain(others)
            .map(|(case, value)| Series {
                case,
                unit: "ns/op",
                values: vec![value; ROUNDS],
            })
            .collect();
        Measured {
            row,
            threads: 2,
            outcome: Some(Outcome::of(row.experiment, 2, false, &series)),
            reason: None,
        }
    });
    let lost: Vec<_> = lost.collect();
    let text = printed(&lost);
    // Four lines of heading, one of a debug build, one that is empty, undecided pairs, faults.
    let rest = 6 + 3 + UNDECIDED + 3;
    assert!(text.lines().count() + rest <= 45, "{text}");
    assert!(text.contains(" more: atomseq bench --quick\n"), "{text}");
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(112), "{widest:?}: {text}");
}

#[test]
fn lines_fit_a_narrow_terminal() {
    let cases = [("rseq", 3.0), ("mutex", 10.0), ("thread-local", 1.0)];
    for width in [1, 20, 40, 60, 80, 100, 200] {
        let terminal = Terminal {
            width: Some(width),
            ..Terminal::NONE
        };
        let mut text = Vec::new();
        print(&[of_medians(&cases)], terminal, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{width}: {text}");
        let row = text.lines().nth(1).unwrap();
        assert_eq!(row.contains('█'), width >= 100, "{width}: {text}");
        assert_eq!(row.contains("3.33 × (3.3"), width >= 80, "{width}: {text}");
    }
}

#[test]
fn bars_are_drawn_to_scale() {
    let bar = table::bar;
    assert_eq!(bar(0.5, 10), "▌");
    assert_eq!(bar(1.0, 10), "█");
    assert_eq!(bar(3.26, 10), "███▎");
    assert_eq!(bar(10.0, 10), "█".repeat(10));
    assert_eq!(bar(10.2, 10), "█".repeat(9) + "▶");
    assert_eq!(bar(1e9, 5), "████▶");
    assert_eq!(bar(0.0, 5), "");
}

#[test]
fn the_heading_names_the_machine() {
    let heading = heading(&Diagnosis::take());
    assert!(heading.starts_with("atomseq "), "{heading}");
    assert!(heading.contains(" CPU"), "{heading}");
}
