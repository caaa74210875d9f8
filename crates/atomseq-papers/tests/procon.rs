//! The example `procon` as a program: that what comes out is what went in, with every mechanism;
//! what it counts; and what it says when it cannot.

#[path = "../examples/procon/main.rs"]
#[allow(dead_code, reason = "its `main` is not this program's")]
mod procon;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

/// A directory that goes when the test ends.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Tree {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("procon-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Tree(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }

    fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Run {
    code: u8,
    out: String,
    err: String,
}

fn run(arguments: &[&str]) -> Run {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let arguments = arguments.iter().map(OsString::from);
    let code = procon::run(arguments, &mut out, &mut err).unwrap();
    Run {
        code,
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}

/// The cells of a mechanism's row: the name, seconds, faults, restarts, blocks, acquisitions, found
/// held, waits.
fn row(run: &Run, mechanism: &str) -> Vec<String> {
    let rows = run
        .out
        .lines()
        .map(|line| line.split_whitespace().map(str::to_string).collect());
    let mut rows = rows.filter(|row: &Vec<String>| row.len() == 8 && row[0] == mechanism);
    rows.next()
        .unwrap_or_else(|| panic!("no {mechanism} in:\n{}\n{}", run.out, run.err))
}

fn number(cell: &str) -> u64 {
    cell.replace(',', "")
        .parse()
        .unwrap_or_else(|_| panic!("{cell} is a number"))
}

/// Bytes that no two blocks have alike.
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

/// Is there emulation on this platform?
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
        for mechanism in &procon::mechanisms::ALL {
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
            let [acquisitions, held, waits] = [5, 6, 7].map(|cell: usize| number(&row[cell]));
            // 3,001 blocks go in and come out, the consumer looks once more, and both say that they
            // leave.
            assert_eq!(acquisitions, 2 * 3_001 + 1 + 2 + waits, "{row:?}");
            assert!(held <= acquisitions, "{row:?}");
            // Each acquisition is emulated, once at least, and nothing else is.
            let emulated = mechanism.name.starts_with("emulation-");
            assert!(
                !emulated && row[2] == "-" || number(&row[2]) >= acquisitions,
                "{row:?}"
            );
        }
        assert!(
            run.out
                .contains("What came out is what went in, each time."),
            "{}",
            run.out
        );
        assert!(run.out.contains("B91: emulation"), "{}", run.out);
    }
}

#[test]
fn b91s_row_stands_beside() {
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
    // std's, since the portable build's waiting is of another kind. One slot, one CPU: no block
    // goes through without both threads waiting.
    let arguments = [
        &tree.file("input", &content(20_000)),
        "--mechanism=std",
        "--slots=1",
        "--block=10",
    ];
    let run = run(&arguments.map(|argument| argument as &str));
    let row = row(&run, "std");
    assert!(
        number(&row[4]) >= 1_000 && number(&row[7]) >= 1_000,
        "{row:?}"
    );
}

#[test]
fn a_wrong_copy_is_noticed() {
    use procon::copying::{Error, Job, Outcome, copy};
    use procon::mechanisms::Mechanism;

    /// The first byte of what came out, changed.
    fn copies_wrongly(job: &Job<'_>) -> Result<Outcome, Error> {
        copy::<procon::locks::Std>(job).map(|outcome| Outcome {
            checksum: outcome.checksum ^ 1,
            ..outcome
        })
    }
    static WRONG: Mechanism = Mechanism {
        name: "wrong",
        about: "",
        one_cpu: false,
        prepare: || Ok(()),
        copy: copies_wrongly,
    };
    let tree = Tree::new("wrong");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let input = procon::files::Input::new(tree.file("input", b"abc").as_ref(), None).unwrap();
    let plan = procon::options::Plan {
        input,
        output: None,
        mechanisms: vec![&WRONG],
        cpus: [procon::threads::cpus().unwrap()[0]; 2],
        slots: 64,
        block: 64,
        runs: 1,
        left_out: Vec::new(),
    };
    let code = procon::copy(&plan, &mut out, &mut err).unwrap();
    let err = String::from_utf8(err).unwrap();
    assert_eq!((code, out.len()), (1, 0), "{err}");
    assert!(
        err.contains("the checksum of what came out is") && err.contains("that is a fault"),
        "{err}"
    );
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
            "give fewer or smaller ones",
        ),
        (&[&input, "--cpus=3"], "1..=2"),
        (&[&input, "--runs=0"], "'0'"),
        (
            &[&input, "--mechanism=magic"],
            "there is no mechanism \"magic\"; there are interlocked, ",
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
    assert_eq!(
        fs::read(&input).unwrap(),
        b"abc",
        "the input is what it was"
    );
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
fn what_is_no_regular_file_is_refused() {
    let run = run(&["/dev/zero"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("is not a regular file"), "{}", run.err);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_ends_both_threads() {
    let tree = Tree::new("full");
    let input = tree.file("input", &content(1 << 20));
    let full = run(&[&input, "--output=/dev/full", "--slots=2"]);
    assert_eq!((full.code, full.out.as_str()), (1, ""), "{}", full.err);
    assert!(
        full.err.contains("cannot be written to its end: "),
        "{}",
        full.err
    );
    let nowhere = run(&[&input, "--output=/nowhere/at/all"]);
    assert_eq!(nowhere.code, 1);
    assert!(
        nowhere.err.contains("the output cannot be written to: "),
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
    let names = procon::mechanisms::ALL
        .iter()
        .map(|mechanism| mechanism.name);
    for part in options
        .into_iter()
        .chain(names)
        .chain(procon::mechanisms::FOR_HANDLERS)
    {
        assert!(run.out.contains(part), "{part} in {}", run.out);
    }
}

#[test]
fn an_unread_end_is_no_failure() {
    use std::io::{Error, ErrorKind};
    use std::process::ExitCode;
    let code = |kind: ErrorKind| format!("{:?}", procon::exit_code(Err(Error::from(kind))));
    assert_eq!(
        code(ErrorKind::BrokenPipe),
        format!("{:?}", ExitCode::SUCCESS)
    );
    assert_eq!(
        code(ErrorKind::StorageFull),
        format!("{:?}", ExitCode::FAILURE)
    );
}
