//! Outcomes made up, beside M94's Table 1.

use super::*;
use crate::bench::experiments::{self, Experiment};
use crate::bench::record::Series;

/// A cost that was the same in every round.
fn steady(median: f64) -> Option<Cost> {
    Some(Cost {
        median,
        p10: median,
        p90: median,
    })
}

fn experiment() -> &'static Experiment {
    experiments::find("signal-sequence").unwrap()
}

fn beside() -> &'static Beside {
    experiment().beside.unwrap()
}

fn outcome(cases: &[(&'static str, f64)]) -> Outcome {
    outcome_of(cases, None)
}

/// The same, but a case takes a hundred nanoseconds more in its first rounds: which, and how many.
fn outcome_of(cases: &[(&'static str, f64)], slow: Option<(&str, usize)>) -> Outcome {
    let series: Vec<_> = cases
        .iter()
        .map(|&(case, value)| Series {
            case,
            unit: "ns/op",
            values: (0..11)
                .map(|round| match slow {
                    Some((slow, rounds)) if slow == case && round < rounds => value + 100.0,
                    _ => value,
                })
                .collect(),
        })
        .collect();
    Outcome::of("signal-sequence", 1, false, &series).over("none", &series)
}

#[test]
fn every_experiment_names_what_its_paper_has() {
    for experiment in experiments::ALL {
        let Some(beside) = experiment.beside else {
            continue;
        };
        let paper = beside.paper();
        let has = |technique: &str| {
            let mut cells = paper.cells.iter();
            cells.any(|c| Some(c.table) == beside.table && c.technique == technique)
        };
        let is_case = |here: &str| {
            let mut cases = experiment.cases.iter();
            cases.any(|entry| subject(entry.name) == here)
        };
        for difference in beside.differences {
            assert!(is_case(difference.of) && is_case(difference.over));
        }
        for (here, there) in beside.counterparts.iter().chain(beside.nearest) {
            assert!(has(there), "{there}");
            let mut differences = beside.differences.iter();
            let is_difference = differences.any(|difference| difference.name == *here);
            assert!(is_difference || is_case(here), "{here}");
        }
        for (there, _) in beside.absent {
            assert!(
                has(there) && beside.shown(there, |_| true).is_empty(),
                "{there}"
            );
        }
        for (here, there) in beside.programs {
            assert!(
                paper.cells.iter().any(|cell| cell.program == *there),
                "{there}"
            );
            let mut cases = experiment.cases.iter();
            assert!(cases.any(|entry| workload(entry.name) == *here), "{here}");
        }
        for (dividend, divisor) in beside.arguments {
            let has_subject = |there: &str| !beside.shown(there, is_case).is_empty();
            assert!(has_subject(dividend) && has_subject(divisor));
        }
        let own = beside
            .sections
            .iter()
            .map(|section| (beside.paper, *section));
        for place in own.chain(beside.also.iter().copied()) {
            let mut figures = beside.figures();
            assert!(
                figures.any(|(paper, figure)| (paper, figure.section) == place),
                "{place:?}"
            );
        }
    }
}

#[test]
fn every_cell_is_reported_once_beside_its_cases() {
    let published = beside().published(experiment());
    let cells: Vec<_> = published
        .iter()
        .filter(|cell| cell.table.is_some())
        .collect();
    assert_eq!(cells.len(), beside().paper().cells.len());
    let cell = cells
        .iter()
        .find(|c| (c.technique, c.program, c.machine) == (Some("Hyb/Jump"), "FIFO", "DEC Alpha"))
        .unwrap();
    assert_eq!((cell.value, cell.printed.as_str()), (Some(6.0), "6"));
    assert_eq!(cell.cases, ["fifo:hyb-jump", "fifo-stores:hyb-jump"]);
    let json = serde_json::to_value(crate::bench::record::Record::Published(cell)).unwrap();
    assert_eq!(
        (&json["kind"], &json["unit"]),
        (&"published".into(), &"cycles".into())
    );
    let unknown = cells.iter().find(|cell| cell.printed == "n/a").unwrap();
    assert_eq!(unknown.value, None);
}

#[test]
fn an_argument_is_the_quotient_of_what_is_added() {
    let outcome = outcome(&[
        ("lifo:none", 3.0),
        ("lifo:hyb-jump", 4.0),
        ("lifo:sigprocmask", 603.0),
        ("lifo:interlocked", 23.0),
    ]);
    let arguments = beside().arguments(&outcome, "lifo");
    let found: Vec<_> = arguments
        .iter()
        .map(|a| (a.subjects, a.measured, a.published.clone()))
        .collect();
    let (alpha, hp) = ("DEC Alpha", "HP PA-RISC 1.1");
    assert_eq!(
        found,
        [
            (
                ("sigprocmask", "hyb-jump"),
                steady(600.0),
                vec![("609".to_string(), alpha), ("447".to_string(), hp)]
            ),
            (
                ("interlocked", "hyb-jump"),
                steady(20.0),
                vec![("≥ 23.6".to_string(), alpha)]
            ),
        ]
    );
}

#[test]
fn the_spread_of_an_argument_is_that_of_both_costs() {
    let cost = |p10, median, p90| Cost { median, p10, p90 };
    let (large, small) = (cost(90.0, 100.0, 120.0), cost(1.0, 2.0, 3.0));
    assert_eq!(large.over(small), cost(30.0, 50.0, 120.0));
    let unbounded = large.over(cost(-1.0, 2.0, 3.0));
    assert_eq!(unbounded, cost(30.0, 50.0, f64::INFINITY));
}

#[test]
fn the_nearest_stands_where_nothing_else_was_measured() {
    let beside = Beside {
        paper: "M94",
        counterparts: &[("hyb-jump", "Hyb/Jump")],
        nearest: &[("rolling", "Hyb/Jump")],
        ..Beside::NOTHING
    };
    let shown = |cases: &[(&'static str, f64)]| {
        let shown = beside.subjects(&outcome(cases), "Hyb/Jump");
        let shown = shown.iter().map(|shown| (shown.subject, shown.nearest));
        shown.collect::<Vec<_>>()
    };
    assert_eq!(shown(&[("lifo:none", 3.0)]), []);
    let stand_in = [("lifo:none", 3.0), ("lifo:rolling", 4.0)];
    assert_eq!(shown(&stand_in), [("rolling", true)]);
    let both = [stand_in[1], ("lifo:hyb-jump", 5.0)];
    assert_eq!(shown(&both), [("hyb-jump", false)]);
}

#[test]
fn what_adds_nothing_is_no_divisor() {
    let outcome = outcome(&[
        ("lifo:none", 3.0),
        ("lifo:hyb-jump", 3.01),
        ("lifo:sigprocmask", 603.0),
    ]);
    let arguments = beside().arguments(&outcome, "lifo");
    assert_eq!((arguments.len(), arguments[0].measured), (1, None));
}

#[test]
fn another_order_is_reported_with_its_reason() {
    let as_there = [
        ("lifo:none", 3.0),
        ("lifo:hyb-jump", 3.0),
        ("lifo:dyn-jump", 6.0),
        ("lifo:interlocked", 30.0),
        ("lifo:sigprocmask", 600.0),
    ];
    assert_eq!(beside().reversals(&outcome(&as_there), "lifo"), []);
    let mut otherwise = as_there;
    otherwise[3].1 = 5.0;
    let reversals = beside().reversals(&outcome(&otherwise), "lifo");
    assert_eq!(reversals.len(), 1);
    assert_eq!(reversals[0].here, ("dyn-jump", "interlocked"));
    assert_eq!(reversals[0].there, ("LL/STC", "Dyn/Jump"));
    assert!(reversals[0].reason.contains("own cache"));
    // One round of eleven lies outside the 10th to the 90th percentile, two do not.
    let reversals = |rounds| {
        let outcome = outcome_of(&otherwise, Some(("lifo:interlocked", rounds)));
        beside().reversals(&outcome, "lifo").len()
    };
    assert_eq!([0, 1, 2].map(reversals), [1, 1, 0]);
    // NULL was not measured with LL/STC.
    let null = outcome(&[
        ("null:none", 1.0),
        ("null:dyn-jump", 9.0),
        ("null:interlocked", 2.0),
    ]);
    assert_eq!(beside().reversals(&null, "null"), []);
}

// Where there are no sequences, neither is there this experiment.
#[cfg(atomseq_sections)]
#[test]
fn a_difference_stands_beside_its_figure() {
    let experiment = experiments::find("b91-table4").unwrap();
    let beside = experiment.beside.unwrap();
    let series = [
        ("loop", 1.0),
        ("interlocked", 8.0),
        ("cpu-branch", 9.0),
        ("restart-branch", 5.0),
        ("restart-inlined", 3.0),
    ];
    let series: Vec<_> = series
        .into_iter()
        .map(|(case, value)| Series {
            case,
            unit: "ns/op",
            values: vec![value; crate::bench::engine::Effort::MIN_ROUNDS],
        })
        .collect();
    let outcome = Outcome::of(experiment.name, 1, false, &series)
        .over("loop", &series)
        .difference("restart-branch", "restart-inlined", &series);
    let cost = |subject| beside.cost(&outcome, "", subject);
    assert_eq!(cost("restart-linkage"), steady(2.0));
    assert_eq!(cost("restart-branch"), steady(4.0));
    let arguments = beside.arguments(&outcome, "");
    assert_eq!(
        (arguments.len(), arguments[0].measured),
        (1, steady(7.0 / 8.0))
    );
    // A figure a machine of the table, none of the others.
    assert_eq!(arguments[0].published.len(), 8);
    assert_eq!(beside.machines().len(), 8);
    assert_eq!(beside.reversals(&outcome, ""), []);
}

// Where there are no sequences, neither is there this experiment.
#[cfg(atomseq_sections)]
#[test]
fn b91s_reservations_may_come_in_another_order() {
    let beside = experiments::find("b91-table1").unwrap().beside.unwrap();
    let reversals = |a, b| {
        let series = [
            ("loop", 1.0),
            ("restart-inlined", 3.0),
            ("restart-branch", 3.02),
            ("reservation-a", a),
            ("reservation-b", b),
            ("emulation-trap", 7_000.0),
        ];
        let series: Vec<_> = series
            .into_iter()
            .map(|(case, value)| Series {
                case,
                unit: "ns/op",
                values: vec![value; crate::bench::engine::Effort::MIN_ROUNDS],
            })
            .collect();
        let outcome = Outcome::of("b91-table1", 1, false, &series).over("loop", &series);
        beside.reversals(&outcome, "")
    };
    assert_eq!(reversals(6.0, 5.0), [], "as there");
    assert_eq!(reversals(5.0, 5.1), [], "no more than chance");
    let other = reversals(5.0, 6.0);
    assert_eq!(other.len(), 1);
    assert_eq!(other[0].here, ("reservation-b", "reservation-a"));
    assert!(other[0].reason.contains("thread pointer"), "{other:?}");
}
