//! A program that does at random what programs do with signals prints the same with the library;
//! one that masks and unmasks while another process sends it signals loses none, and gets none
//! early.

#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

use std::process::{Command, ExitStatus};

use verify_sigmask::{compile, output, with, without};

type Run = (ExitStatus, String);

/// Runs the program with a number, and with a second thread for every third.
fn run(mut command: Command, number: u64) -> Run {
    command.arg(number.to_string());
    if number.is_multiple_of(3) {
        command.arg("threads");
    }
    let output = output(&mut command);
    (
        output.status,
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

/// Returns the first lines that differ.
fn difference(expected: &Run, found: &Run) -> String {
    let lines = expected.1.lines().zip(found.1.lines());
    let different = lines.clone().find(|(expected, found)| expected != found);
    format!("{different:?}, {:?} and {:?}", expected.0, found.0)
}

#[test]
fn a_random_program_sees_no_difference() {
    let numbers = std::env::var("ATOMSEQ_SIGMASK_NUMBERS").unwrap_or_else(|_| "200".into());
    let numbers = numbers.parse().expect("a number");
    let program = compile("random.c");
    let (mut same, mut lines) = (0, 0);
    for number in 1..=numbers {
        let expected = run(without(&program), number);
        let found = run(with(&program), number);
        if expected != found {
            // When a child exits may differ by chance.
            let again = run(without(&program), number);
            assert!(
                again != expected,
                "{number}: {}",
                difference(&expected, &found)
            );
            continue;
        }
        same += 1;
        lines += expected.1.lines().count();
    }
    assert!(same * 10 > numbers * 9, "{same} of {numbers} are the same");
    println!("random: {same} of {numbers} runs, {lines} lines");
}

#[test]
fn without_a_protection_a_random_program_sees_one() {
    let program = compile("random.c");
    for protection in [
        "deferral",
        "publish",
        "never",
        "one-shot",
        "ignored",
        "handler-mask",
        "waiting",
        "context",
        "jumps",
    ] {
        let differs = (1..=200).any(|number| {
            let mut command = with(&program);
            command.env("ATOMSEQ_SIGMASK_WITHOUT", protection);
            run(command, number) != run(without(&program), number)
        });
        assert!(differs, "all pass without {protection}");
    }
}

#[test]
fn none_is_lost_and_none_is_early() {
    let rounds = std::env::var("ATOMSEQ_SIGMASK_ROUNDS").unwrap_or_else(|_| "3000000".into());
    let program = compile("storm.c");
    let run = output(with(&program).arg(&rounds));
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{said}");
    println!("storm: {rounds} rounds: {said}");
    // The control: a signal that is not deferred is early. On a busy machine few signals arrive,
    // perhaps none in a mask.
    let is_early = (0..20).any(|_| {
        let without = "ATOMSEQ_SIGMASK_WITHOUT";
        let run = output(with(&program).arg("3000000").env(without, "deferral"));
        run.status.code() == Some(1)
    });
    assert!(is_early, "the control");
}
