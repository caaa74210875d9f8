//! procon as a program: correct copies with every mechanism, the counts, and the messages about
//! arguments that make no sense.

use std::fs;

use demo_common::testing::{self, Run, number};

/// A directory for the files of one test.
struct Tree(testing::Tree);

impl Tree {
    fn new(name: &str) -> Tree {
        Tree(testing::Tree::new(&format!("procon-{name}")))
    }

    fn path(&self, name: &str) -> String {
        self.0.0.join(name).to_str().unwrap().to_string()
    }

    fn file(&self, name: &str, content: &[u8]) -> String {
        self.0.file(name, content);
        self.path(name)
    }
}

fn run(arguments: &[&str]) -> Run {
    testing::run(demo_procon::run, arguments)
}

/// Returns the cells of a mechanism's row: name, mean, shortest and longest time, faults, restarts,
/// blocks, preemptions, acquisitions, found held, waits.
fn row(run: &Run, mechanism: &str) -> Vec<String> {
    run.row(mechanism, 11)
}

/// Returns bytes of which no two blocks are equal.
fn content(length: usize) -> Vec<u8> {
    (0..length as u32)
        .map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

fn two_cpus() -> bool {
    cfg!(not(target_os = "linux"))
        || fs::read_to_string("/proc/self/status").is_ok_and(|status| {
            let list = status
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            list.is_some_and(|list| list.contains([',', '-']))
        })
}

/// Returns whether this platform has emulation.
fn is_emulated() -> bool {
    cfg!(atomseq_sections)
}

#[test]
fn every_mechanism_copies() {
    let tree = Tree::new("all");
    let input = tree.file("input", &content(300_001));
    for cpus in ["--cpus=1", "--cpus=2"] {
        if cpus == "--cpus=2" && !two_cpus() {
            continue;
        }
        let output = tree.path("output");
        let run = run(&[&input, "--all", cpus, "--block=100", "--output", &output]);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
        assert_eq!(fs::read(&output).unwrap(), content(300_001));
        for mechanism in &demo_procon::ALL {
            let left_out = format!("Left out: {}", mechanism.name);
            if cpus == "--cpus=2" && mechanism.one_cpu {
                let left_out = left_out + " excludes the threads of one CPU only";
                assert!(run.out.contains(&left_out), "{}", run.out);
                continue;
            }
            if run.out.contains(&(left_out + ": ")) {
                assert!(!is_emulated(), "{}", run.out);
                continue;
            }
            let row = row(&run, mechanism.name);
            let [acquisitions, held, waits] = [8, 9, 10].map(|cell: usize| number(&row[cell]));
            // 3,001 blocks are put in and taken out, the consumer checks once more at the end, and
            // both sides mark that they have finished.
            assert_eq!(acquisitions, 2 * 3_001 + 1 + 2 + waits, "{row:?}");
            assert!(held <= acquisitions, "{row:?}");
            // Each acquisition is emulated at least once, and nothing else is.
            let emulated = mechanism.name.starts_with("emulation-");
            assert!(
                !emulated && row[4] == "-" || number(&row[4]) >= acquisitions,
                "{row:?}"
            );
        }
        assert!(run.out.contains("All copies are correct."), "{}", run.out);
        assert!(run.out.contains("B91: emulation"), "{}", run.out);
    }
}

#[test]
fn b91s_row_is_printed() {
    let tree = Tree::new("papers");
    let run = run(&[&tree.file("input", b"x"), "--mechanism=std"]);
    let cells = |name: &str| {
        let line = run.out.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..]
            .split_whitespace()
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        cells("B91: emulation"),
        ["30.4", "2,738,168", "-", "91,494"]
    );
    assert_eq!(cells("B91: restartable"), ["15.7", "-", "4", "106,969"]);
}

#[test]
fn any_size_of_buffer_and_block_copies() {
    let tree = Tree::new("sizes");
    for (length, slots, block) in [
        (1, "1", "1"),
        (1_000, "1", "1"),
        (1_000, "2", "7"),
        (64, "64", "1"),
        (65, "64", "1"),
        (70_000, "3", "65537"),
        (200_000, "1", "1048576"),
        (131_072, "65536", "64"),
    ] {
        let input = tree.file("input", &content(length));
        let output = tree.path("output");
        let arguments = [&input, "--slots", slots, "--block", block, "-o", &output];
        let run = run(&arguments);
        assert_eq!(
            (run.code, run.err.as_str()),
            (0, ""),
            "{arguments:?}: {}",
            run.out
        );
        assert_eq!(fs::read(&output).unwrap(), content(length), "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_waits_is_a_block() {
    let tree = Tree::new("blocks");
    // std's mutex, because threads of the portable build wait without blocking in the kernel. With
    // one slot and one CPU, both threads wait for every block.
    let arguments = [
        &tree.file("input", &content(20_000)),
        "--mechanism=std",
        "--slots=1",
        "--block=10",
    ];
    let run = run(&arguments.map(|argument| argument as &str));
    let row = row(&run, "std");
    assert!(
        number(&row[6]) >= 1_000 && number(&row[10]) >= 1_000,
        "{row:?}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn times_are_a_mean_between_the_fastest_and_the_slowest() {
    let tree = Tree::new("means");
    let input = tree.file("input", &content(200_000));
    let run = run(&[&input, "--mechanism=std", "--runs=5"]);
    assert!(run.out.contains("means over the runs (5)"), "{}", run.out);
    let row = row(&run, "std");
    let [mean, min, max] = [1, 2, 3].map(|cell: usize| row[cell].parse::<f64>().unwrap());
    assert!(min <= mean && mean <= max, "{row:?}");
    number(&row[7]);
}

#[test]
fn what_cannot_be_copied_gets_a_sentence_and_status_2() {
    let tree = Tree::new("refused");
    let input = tree.file("input", b"abc");
    let empty = tree.file("empty", b"");
    let directory = tree.path("");
    let missing = tree.path("missing");
    for (arguments, expected) in [
        (&[missing.as_str()][..], "missing cannot be read: "),
        (&[&empty], "is empty, so there is nothing to copy"),
        (&[&directory], "is a directory"),
        (&[&input, "--slots=0"], "'0'"),
        (&[&input, "--slots=65537"], "1..=65536"),
        (&[&input, "--block=0"], "'0'"),
        (&[&input, "--block=1048577"], "1..=1048576"),
        (
            &[&input, "--slots=65536", "--block=1048576"],
            "give fewer or smaller slots",
        ),
        (&[&input, "--cpus=3"], "1..=2"),
        (&[&input, "--runs=0"], "'0'"),
        (
            &[&input, "--mechanism=magic"],
            "there is no mechanism \"magic\"; give one of interlocked, ",
        ),
        (
            &[&input, "--mechanism=restarting"],
            "its scope is SameThread",
        ),
        (
            &[&input, "--mechanism=reservation-b-one-cpu", "--cpus=2"],
            "its scope is SameCpu, and it needs --cpus 1",
        ),
        (&[&input, "--mechanism"], "--mechanism"),
        (&[&input, "--output", &input], "is the input itself"),
        (&[&input, "another"], "'another'"),
        (&["--everything"], "--everything"),
    ] {
        let run = run(arguments);
        assert_eq!(
            (run.code, run.out.as_str()),
            (2, ""),
            "{arguments:?}: {}",
            run.err
        );
        assert_eq!(run.err.lines().count(), 1, "{}", run.err);
        assert!(
            run.err.starts_with("procon: ") && run.err.contains(expected),
            "{arguments:?}: {}",
            run.err
        );
    }
    assert_eq!(fs::read(&input).unwrap(), b"abc", "the input is unchanged");
}

#[cfg(unix)]
#[test]
fn links_to_the_input_are_the_input() {
    let tree = Tree::new("links");
    let input = tree.file("input", b"abc");
    let (hard, symbolic) = (tree.path("hard"), tree.path("symbolic"));
    fs::hard_link(&input, &hard).unwrap();
    std::os::unix::fs::symlink(&input, &symbolic).unwrap();
    for output in [&hard, &symbolic] {
        let run = run(&[&input, "--output", output]);
        assert_eq!(run.code, 2, "{}", run.err);
    }
    assert_eq!(fs::read(&input).unwrap(), b"abc");
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_is_refused() {
    let run = run(&["/dev/zero"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("is not a regular file"), "{}", run.err);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_stops_both_threads() {
    let tree = Tree::new("full");
    let input = tree.file("input", &content(1 << 20));
    let full = run(&[&input, "--output=/dev/full", "--slots=2"]);
    assert_eq!((full.code, full.out.as_str()), (1, ""), "{}", full.err);
    assert!(
        full.err.contains("could not be written to its end: "),
        "{}",
        full.err
    );
    let nowhere = run(&[&input, "--output=/nowhere/at/all"]);
    assert_eq!(nowhere.code, 1);
    assert!(
        nowhere.err.contains("the output could not be created: "),
        "{}",
        nowhere.err
    );
}

#[test]
fn mechanisms_are_taken_once_and_in_order() {
    let tree = Tree::new("order");
    let input = tree.file("input", b"abc");
    let run = run(&[
        &input,
        "-m",
        "std",
        "-m",
        "interlocked",
        "-m",
        "std",
        "--runs=3",
    ]);
    assert_eq!(run.code, 0, "{}", run.err);
    let names = run
        .out
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let names: Vec<_> = names
        .filter(|name| ["std", "interlocked"].contains(name))
        .collect();
    assert_eq!(names, ["std", "interlocked"]);
}

#[test]
fn help_lists_everything() {
    let run = run(&["--help"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let options = [
        "Usage:",
        "--output",
        "--mechanism",
        "--all",
        "--cpus",
        "--slots",
        "--block",
        "--runs",
        "Exit status",
    ];
    let names = demo_procon::ALL.iter().map(|mechanism| mechanism.name);
    for part in options
        .into_iter()
        .chain(names)
        .chain(demo_procon::FOR_HANDLERS)
    {
        assert!(run.out.contains(part), "{part} in {}", run.out);
    }
}
