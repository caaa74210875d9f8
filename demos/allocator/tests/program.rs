//! The demo as a program: its exit status, and that both allocators lead to the same counts.

use std::process::{Command, Output};

use demo_common::testing::Tree;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_demo-allocator"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn words_are_counted_on_both_allocators() {
    let tree = Tree::new("allocator");
    tree.file("a.txt", b"one two two\nthree-three three")
        .file("deep/er/b.html", b"<three>&two;</three>")
        .file("empty", b"");
    let output = run(&[tree.0.to_str().unwrap(), "--threads=3", "--top=2"]);
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{out}");
    assert!(output.stderr.is_empty(), "{:?}", output.stderr);
    for text in [
        "Files      3\n",
        "Words      9, of which 3 distinct\n",
        "             5  three\n             3  two\n\n",
        "seconds on the pools\n",
        "seconds on the system's allocator\n",
    ] {
        assert!(out.contains(text), "{text:?} in\n{out}");
    }
}

#[test]
fn senseless_arguments_get_a_sentence_and_status_2() {
    for (arguments, expected) in [
        (
            &["/nowhere/at/all"][..],
            "\"/nowhere/at/all\" does not exist",
        ),
        (&["--threads=0"], "'0'"),
        (&["a", "b"], "'b'"),
    ] {
        let output = run(arguments);
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(
            err.starts_with("allocator: ") && err.contains(expected),
            "{err}"
        );
    }
}
