//! The demo's runs: everything is accounted for, each fault is found, and bad arguments are
//! refused.
#![cfg(target_os = "linux")]

use demo_common::testing::{self, Run};

fn run(arguments: &[&str]) -> Run {
    testing::run(demo_cachekernel::run, arguments)
}

/// Returns the number before these words.
fn number(out: &str, words: &str) -> u64 {
    let line = out.lines().find(|line| line.contains(words));
    let line = line.unwrap_or_else(|| panic!("{words:?} in\n{out}"));
    testing::number(line.split_whitespace().next().unwrap_or_default())
}

#[test]
fn everything_is_accounted_for_while_threads_stop_and_exit() {
    for arguments in [
        &["--seconds=1", "--exits=200"][..],
        // Nothing has room, and each operation writes something back.
        &["--seconds=1", "--loaded=5", "--seed=2"],
        &["--seconds=0.5", "--threads=1", "--loaded=100"],
        &["--seconds=0.5", "--spaces=1", "--guests=1", "--pages=1"],
        &["--seconds=1e-9"],
    ] {
        let run = run(arguments);
        assert_eq!((run.code, &*run.err), (0, ""), "{arguments:?}\n{}", run.out);
        assert!(
            run.out.contains("\nEverything is accounted for.\n"),
            "{}",
            run.out
        );
        assert!(number(&run.out, "runs of a guest") > 0, "{}", run.out);
    }
}

#[test]
fn the_working_set_does_not_fit_in() {
    let run = run(&["--seconds=2", "--exits=100"]);
    assert_eq!((run.code, &*run.err), (0, ""), "{}", run.out);
    for words in [
        "page faults",
        "mappings written back",
        "spaces written back",
        "guests written back",
        "registrations written back",
        "frames reclaimed",
        "signals received by a handler",
        "lines found in a signal cache",
        "lines filled from the lists of frames",
        "lines written back",
        "threads stopped",
        "threads exited",
    ] {
        assert!(number(&run.out, words) > 0, "{words}\n{}", run.out);
    }
}

/// The controls.
#[test]
fn each_fault_is_found() {
    for (fault, sentence) in [
        ("leak", "were recovered"),
        ("skip", "were counted"),
        ("stale", "has the receivers"),
    ] {
        for exits in ["0", "20"] {
            let once = || run(&["--seconds=0.5", "--fault", fault, "--exits", exits]);
            // On a busy machine half a second may be too short.
            let found = (0..20).map(|_| once()).find(|run| run.code != 0);
            let run = found.unwrap_or_else(|| panic!("{fault}: in none of 20 runs"));
            assert_eq!(run.code, 1, "{fault}\n{}", run.out);
            assert!(run.err.contains(sentence), "{fault}\n{}", run.err);
            assert!(
                run.out.contains("not accounted for"),
                "{fault}\n{}",
                run.out
            );
        }
    }
}

#[test]
fn senseless_arguments_get_a_sentence_and_status_2() {
    for (arguments, expected) in [
        (&["--seconds=0"][..], "--seconds is 0"),
        (&["--seconds=nan"], "--seconds is NaN"),
        (&["--threads=0"], "'0'"),
        (&["--loaded=101"], "'101'"),
        (&["--fault=none"], "'none'"),
        (&["--seconds=inf"], "--seconds is inf"),
        (&["--seconds=1e9"], "--seconds is 1000000000"),
        (&["--threads=65"], "'65'"),
        (&["--pages=99999999999999999999"], "'99999999999999999999'"),
        (&["--exits=1001"], "'1001'"),
        (&["--seed=-1"], "'-1'"),
        (&["extra"], "'extra'"),
    ] {
        let run = run(arguments);
        assert_eq!((run.code, &*run.out), (2, ""), "{arguments:?}");
        assert_eq!(run.err.lines().count(), 1, "{}", run.err);
        assert!(run.err.starts_with("cachekernel: "), "{}", run.err);
        assert!(run.err.contains(expected), "{}", run.err);
    }
    let help = run(&["--help"]);
    assert_eq!((help.code, &*help.err), (0, ""));
    assert!(help.out.contains("Exit status"), "{}", help.out);
}
