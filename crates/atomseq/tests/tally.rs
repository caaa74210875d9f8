//! The example `tally` as a program: exit codes, what it skips, and that its counts are right.

mod program;
#[path = "../examples/tally/main.rs"]
#[allow(dead_code, reason = "its `main` is not this program's")]
mod tally;

use std::ffi::OsStr;
use std::path::Path;

use program::{Run, Tree};

fn run(arguments: &[&dyn AsRef<OsStr>]) -> Run {
    program::run(
        |arguments, out, err| tally::run(arguments, out, err),
        arguments,
    )
}

fn tally(directory: &Path, threads: &str) -> Run {
    run(&[&directory, &"--threads", &threads, &"--top=9"])
}

/// The counts of the words it printed.
fn top(run: &Run) -> Vec<(u64, String)> {
    run.out
        .lines()
        .filter_map(|line| line.trim_start().split_once("  "))
        .filter_map(|(count, word)| Some((count.replace(',', "").parse().ok()?, word.to_owned())))
        .collect()
}

#[test]
fn counts_words_in_every_file_below() {
    let tree = Tree::new("tally-counts");
    tree.file("a.txt", b"one two two\nthree-three three")
        .file("deep/er/b.html", b"<three>&two;</three>")
        .file("empty", b"");
    for threads in ["1", "2", "7"] {
        let run = tally(&tree.0, threads);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
        let expected = [(5, "three"), (3, "two"), (1, "one")];
        assert_eq!(
            top(&run),
            expected.map(|(count, word)| (count, word.to_owned()))
        );
        assert!(run.out.contains("Files      3, 49 bytes"), "{}", run.out);
        assert!(run.out.contains("skipped: 0"), "{}", run.out);
        assert!(run.out.contains("All counts agree."), "{}", run.out);
    }
}

#[test]
fn a_single_file_is_counted_alone() {
    let tree = Tree::new("tally-single");
    tree.file("a", b"x x").file("b", b"y");
    let run = tally(&tree.0.join("a"), "2");
    assert_eq!((run.code, top(&run)), (0, vec![(2, "x".to_owned())]));
}

#[test]
fn an_empty_directory_has_no_words() {
    let tree = Tree::new("tally-empty");
    let run = tally(&tree.0, "3");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert!(
        run.out.contains("Words      0, of which 0 different"),
        "{}",
        run.out
    );
}

#[test]
fn binary_files_and_huge_words_are_words_too() {
    let tree = Tree::new("tally-binary");
    let every_byte: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    tree.file("binary", &every_byte)
        .file("zeroes", &[0; 300_000])
        .file("huge", &vec![b'x'; 1_000_000])
        .file("latin1", b"caf\xe9 caf\xe9");
    let run = tally(&tree.0, "2");
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    let huge = format!("{}…", "x".repeat(60));
    assert!(top(&run).contains(&(15, huge)), "{}", run.out);
}

#[test]
fn many_different_words_make_the_tables_grow() {
    const FILES: usize = 40;
    const WORDS: usize = 2_000;
    let tree = Tree::new("tally-growth");
    for file in 0..FILES {
        // Every word is in two files, and "the" is everywhere.
        let words = (0..WORDS).map(|word| format!("the w{} ", file / 2 * WORDS + word));
        tree.file(&format!("{file}"), words.collect::<String>().as_bytes());
    }
    for threads in ["1", "5"] {
        let run = tally(&tree.0, threads);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
        assert_eq!(top(&run)[0], ((FILES * WORDS) as u64, "the".to_owned()));
        assert_eq!(top(&run)[1].0, 2);
        let words = "Words      160,000, of which 40,001 different";
        assert!(run.out.contains(words), "{}", run.out);
    }
}

#[cfg(unix)]
#[test]
fn what_cannot_be_read_is_reported_skipped_and_counted() {
    use std::os::unix::fs::symlink;

    let tree = Tree::new("tally-skipped");
    tree.file("good", b"word").file("sub/good", b"word");
    symlink(tree.0.join("nowhere"), tree.0.join("dangling")).unwrap();
    symlink(tree.0.join("itself"), tree.0.join("itself")).unwrap();
    symlink("..", tree.0.join("sub/loop")).unwrap();
    symlink("/dev/null", tree.0.join("device")).unwrap();
    symlink("good", tree.0.join("link")).unwrap();
    let pipe = std::process::Command::new("mkfifo")
        .arg(tree.0.join("line\nfeed"))
        .status();
    assert!(pipe.unwrap().success());
    let run = tally(&tree.0, "2");
    assert_eq!(run.code, 0, "{}", run.err);
    // The link counts as the file that it leads to.
    assert_eq!(top(&run), [(3, "word".to_owned())]);
    assert!(run.out.contains("skipped: 5"), "{}", run.out);
    assert_eq!(run.err.lines().count(), 5, "{}", run.err);
    for (name, why) in [
        ("dangling", "No such file"),
        ("itself", "symbolic link"),
        ("loop", "counted already"),
        ("device", "not a regular file"),
        ("line\\nfeed", "not a regular file"),
    ] {
        let line = run.err.lines().find(|line| line.contains(name));
        assert!(
            line.is_some_and(|line| line.contains(why)),
            "{name}: {}",
            run.err
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_fails_when_it_is_read_is_skipped_too() {
    // Opens, has a size, and fails to be read.
    let tree = Tree::new("tally-fails");
    tree.file("good", b"word");
    std::os::unix::fs::symlink("/proc/self/mem", tree.0.join("mem")).unwrap();
    let run = tally(&tree.0, "2");
    assert_eq!((run.code, top(&run)), (0, vec![(1, "word".to_owned())]));
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    assert!(run.err.contains("mem"), "{}", run.err);
    assert!(run.out.contains("skipped: 1"), "{}", run.out);
}

#[test]
fn senseless_arguments_get_a_sentence_and_status_2() {
    for (arguments, expected) in [
        (
            &["--threads"][..],
            "--threads needs a number from 1 to 1024",
        ),
        (&["--threads", "0"], "not \"0\""),
        (&["--threads=1025"], "not \"1025\""),
        (&["--threads", "-1"], "not \"-1\""),
        (&["--threads", "two"], "not \"two\""),
        (
            &["--top", "99999999999999999999999"],
            "--top needs a number",
        ),
        (&["--runs=0"], "--runs needs"),
        (&["--bottom"], "no option --bottom"),
        (&["-t"], "no option -t"),
        (&["a", "b"], "one directory at a time"),
        (&["/nowhere/at/all"], "there is no \"/nowhere/at/all\""),
        (&["--", "--help"], "there is no \"--help\""),
        (&[""], "there is no \"\""),
    ] {
        let arguments: Vec<&dyn AsRef<OsStr>> =
            arguments.iter().map(|argument| argument as _).collect();
        let run = run(&arguments);
        assert_eq!((run.code, run.out.as_str()), (2, ""));
        assert_eq!(run.err.lines().count(), 1);
        assert!(run.err.contains(expected), "{}", run.err);
    }
}

#[test]
fn help_is_printed_and_status_0() {
    for option in ["--help", "-h"] {
        let run = run(&[&option, &"--threads"]);
        assert_eq!((run.code, run.err.as_str()), (0, ""));
        for part in [
            "Usage:",
            "--threads N",
            "--top K",
            "--runs N",
            "Exit status",
        ] {
            assert!(run.out.contains(part), "{}", run.out);
        }
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    use std::io::{Error, ErrorKind};
    use std::process::ExitCode;
    let code = |kind: ErrorKind| format!("{:?}", tally::exit_code(Err(Error::from(kind))));
    assert_eq!(
        code(ErrorKind::BrokenPipe),
        format!("{:?}", ExitCode::SUCCESS)
    );
    assert_eq!(
        code(ErrorKind::StorageFull),
        format!("{:?}", ExitCode::FAILURE)
    );
}
