//! The logbook as a program: exit codes, skipped files, agreement of all structures, and reads in
//! signal handlers.

#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::process::Command;

use demo_common::testing::{self, Run, Tree};

fn run(arguments: &[&dyn AsRef<OsStr>]) -> Run {
    testing::run(
        |arguments, out, err| demo_logbook::run(arguments, out, err),
        arguments,
    )
}

/// Returns the printed ranking.
fn ranking(run: &Run) -> Vec<(u64, &str)> {
    let lines = run.out.lines().filter(|line| line.starts_with("     "));
    let pairs = lines.filter_map(|line| line.trim_start().split_once("  "));
    pairs
        .filter_map(|(count, word)| Some((count.replace(',', "").parse().ok()?, word)))
        .collect()
}

/// Returns the numbers in a row: lines per second, reads by the reader, reads in handlers, and how
/// many of those were refused.
fn reads(run: &Run, way: &str) -> [u64; 4] {
    // The last such line: an earlier one has atomseq's status.
    let row = run.out.lines().rfind(|line| line.starts_with(way));
    let row = row.unwrap_or_else(|| panic!("no {way} in:\n{}", run.out));
    let numbers: Vec<u64> = row[12..]
        .split_whitespace()
        .filter_map(|number| number.replace(',', "").parse().ok())
        .collect();
    numbers.try_into().unwrap()
}

/// Writes lines of words. A word is more frequent the earlier it is in the alphabet, and every file
/// has a word of its own.
fn texts(tree: &Tree, files: usize) {
    for file in 0..files {
        let mut text = String::new();
        for line in 0..300_usize {
            for (index, letter) in ('a'..='z').enumerate() {
                if line % (index + 1) == 0 {
                    text.push_str(&format!("{letter}{letter} "));
                }
            }
            text.push_str(&format!("Only-{file}\n"));
        }
        tree.file(&format!("{file}.txt"), text.as_bytes());
    }
}

#[test]
fn all_structures_agree_while_handlers_read() {
    let tree = Tree::new("logbook-agree");
    texts(&tree, 12);
    for threads in ["1", "3"] {
        let run = run(&[
            &tree.0,
            &"--writers",
            &threads,
            &"--folders",
            &threads,
            &"--top=4",
            &"--lines=7",
            &"--hertz=1000",
        ]);
        // A fault of a peer is not atomseq's. On a crowded machine, crossbeam's set was seen to
        // contain a rank twice.
        let of_peers = |line: &&str| line.starts_with("logbook: crossbeam: ");
        let own: Vec<&str> = run.err.lines().filter(|line| !of_peers(line)).collect();
        assert!(own.is_empty(), "{}{}", run.err, run.out);
        assert_eq!(run.code == 0, run.err.is_empty(), "{}{}", run.err, run.out);
        let by = match atomseq::status().gates_active() {
            true => "queue and lists by OS-assisted",
            false => "queue and lists by k-CAS",
        };
        assert!(run.out.contains(by), "{}", run.out);
        let expected = [(3_600, "aa"), (3_600, "only"), (1_800, "bb"), (1_200, "cc")];
        assert_eq!(ranking(&run), expected, "{}", run.out);
        assert!(run.out.contains("12 files, 3,600 lines, 39 distinct words"));
        for (way, never) in [("atomseq", false), ("crossbeam", true)] {
            let [_, reader, handlers, refused] = reads(&run, way);
            assert!(reader > 0);
            assert_eq!(refused, if never { handlers } else { 0 }, "{}", run.out);
        }
    }
}

/// A longer text, so that timers expire during the run.
#[test]
fn handlers_are_called() {
    let tree = Tree::new("logbook-called");
    texts(&tree, 12);
    let run = run(&[&tree.0, &"--hertz=2000", &"--runs=3"]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(reads(&run, "atomseq")[2] > 0, "{}", run.out);
}

/// A structure that could not be tried is not reported as wrong. The limit on timers is per
/// process, so the test sets it in a child.
#[test]
fn refused_timers_are_no_disagreement() {
    const CHILD: &str = "ATOMSEQ_TEST_WITHOUT_TIMERS";
    if std::env::var_os(CHILD).is_none() {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([
            "--exact",
            "refused_timers_are_no_disagreement",
            "--nocapture",
        ]);
        let output = child.env(CHILD, "").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let tree = Tree::new("logbook-untried");
    texts(&tree, 1);
    testing::forbid_timers();
    let with = |hertz: &str| run(&[&tree.0, &"--hertz", &hertz]);
    let refused = with("1000");
    assert_eq!(refused.code, 1, "{}", refused.err);
    let verdict = "\nNot all structures could be tried.\n";
    assert!(refused.out.ends_with(verdict), "{}", refused.out);
    assert_eq!(refused.err.lines().count(), 3, "{}", refused.err);
    for line in refused.err.lines() {
        assert!(line.contains("refused a thread its timer"), "{line}");
    }
    // Without timers everything can be tried.
    let without = with("0");
    assert!(!without.out.contains("could be tried"), "{}", without.out);
}

#[test]
fn files_without_text_are_reported_and_skipped() {
    let tree = Tree::new("logbook-left-out");
    tree.file("a.txt", b"One two two\nthree\n")
        .file("deep/er/b.txt", b"three THREE")
        .file("binary", b"two \xff two")
        .file("empty", b"");
    let fifo = tree.0.join("fifo");
    let name = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
    // SAFETY: the path ends in zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let run = run(&[&tree.0, &"--top", &"9", &"--hertz", &"0"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(ranking(&run), [(3, "three"), (2, "two"), (1, "one")]);
    assert!(
        run.out.contains("3 files, 3 lines, 3 distinct words"),
        "{}",
        run.out
    );
    assert_eq!(run.err.lines().count(), 2, "{}", run.err);
    for (name, why) in [
        ("binary", "not UTF-8 at byte 4"),
        ("fifo", "not a regular file"),
    ] {
        let reported = run
            .err
            .lines()
            .any(|line| line.contains(name) && line.contains(why));
        assert!(reported, "{}", run.err);
    }
    // Without timers no handler reads.
    assert_eq!(reads(&run, "mutex")[2], 0);
}

#[test]
fn bad_input_is_refused_with_a_sentence() {
    let tree = Tree::new("logbook-bad");
    tree.file("binary", b"\xff").file("blank", b" \n--\n");
    let file = tree.0.join("blank");
    let missing = tree.0.join("missing");
    let cases: [(&[&dyn AsRef<OsStr>], &str); 8] = [
        (&[], "<DIRECTORY>"),
        (&[&missing], "does not exist"),
        (&[&file], "is not a directory"),
        (&[&tree.0], "contains no text"),
        (&[&tree.0, &"--top=0"], "0 is not in 1..=100"),
        (&[&tree.0, &"--lines=0"], "0 is not in 1..=1048576"),
        (&[&tree.0, &"--writers=many"], "invalid value 'many'"),
        (&[&tree.0, &"--colour"], "unexpected argument '--colour'"),
    ];
    for (arguments, sentence) in cases {
        let run = run(arguments);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{}", run.err);
        assert!(run.err.contains(sentence), "{}", run.err);
        assert!(run.err.ends_with("(see --help)\n"), "{}", run.err);
    }
}

#[test]
fn help_lists_every_option() {
    let run = run(&[&"--help"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    for option in [
        "--writers",
        "--folders",
        "--top",
        "--lines",
        "--hertz",
        "--runs",
    ] {
        assert!(run.out.contains(option), "{}", run.out);
    }
}
