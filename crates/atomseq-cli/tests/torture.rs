//! `atomseq torture` as its users run it: that it holds here, that it can fail, and what it says
//! when it does.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

const TARGETS: [&str; 15] = [
    "counter",
    "histogram",
    "stack",
    "list",
    "queue",
    "ring",
    "pool",
    "gate",
    "registration",
    "fork",
    "handlers",
    "signals",
    "mutex",
    "memory",
    "nonblocking",
];

fn torture(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_atomseq"))
        .arg("torture")
        .args(arguments)
        .envs(environment.iter().copied())
        .output()
        .expect("the command was built with the tests")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How a torture ends that held: on a machine too busy for its signals, it says that they came more
/// rarely.
fn end_of_held(stdout: &str) -> &'static str {
    match stdout.contains("threads got no further between two signals") {
        true => "\nEvery law that was tried held.\n",
        false => "\nEvery law held.\n",
    }
}

/// Runs targets, which must hold, and returns what was printed.
fn held(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = torture(arguments, environment);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(
        output.status.code(),
        Some(0),
        "{arguments:?}: {stdout}{stderr}"
    );
    assert_eq!(stderr, "", "without a terminal there is no progress bar");
    assert!(stdout.ends_with(end_of_held(&stdout)), "{stdout}");
    assert!(!stdout.contains("the system refused"), "{stdout}");
    stdout
}

/// The torture with so many KiB of addresses.
#[cfg(target_os = "linux")]
fn limited(kibibytes: u64, arguments: &str) -> Output {
    let command = env!("CARGO_BIN_EXE_atomseq");
    let script = format!("ulimit -v {kibibytes}; exec '{command}' torture {arguments}");
    Command::new("sh")
        .args(["-c", &script])
        .output()
        .expect("a shell")
}

#[cfg(target_os = "linux")]
#[test]
fn memory_that_the_system_refuses_is_no_crash() {
    // Where memory ends depends on the machine, and may be at any allocation: it is a crash
    // nowhere, but where glibc itself aborts.
    let mut refused = 0;
    for kibibytes in (20_000..80_000).step_by(4_000) {
        let output = limited(kibibytes, "queue --seconds 1 --seed 1");
        let errors = text(&output.stderr);
        let is_glibc_s = errors.contains("failed to register TLS destructor: out of memory");
        assert!(
            is_glibc_s || !errors.contains("the process crashed"),
            "{kibibytes}: {errors}"
        );
        if !output.status.success() {
            refused += 1;
        }
    }
    assert!(refused > 0, "20 MB were enough");
}

#[cfg(target_os = "linux")]
#[test]
fn a_limit_on_memory_is_part_of_how_to_repeat() {
    let output = limited(16_000_000, "counter --seconds 1 --seed 3 --sabotage lose");
    let errors = text(&output.stderr);
    assert!(
        errors.contains("ulimit -v 16000000; atomseq torture counter --seed 3"),
        "{errors}"
    );
    assert!(errors.contains("16000000 KiB of addresses"), "{errors}");
}

/// The cells of a target's line in the table.
fn row(stdout: &str, target: &str) -> Vec<String> {
    // The result is one column.
    let stdout = stdout.replace(" held in part ", " held-in-part ");
    let rows = stdout
        .lines()
        .map(|line| line.split_whitespace().map(str::to_string).collect());
    let mut rows = rows.filter(|row: &Vec<String>| row.first().is_some_and(|cell| cell == target));
    rows.next()
        .unwrap_or_else(|| panic!("no line for {target}: {stdout}"))
}

/// A figure of a target's line: 1 rounds, 2 operations, 3 moves, 4 signals, 5 fences, 6 gates
/// closed.
fn figure(row: &[String], column: usize) -> u64 {
    row[column]
        .parse()
        .unwrap_or_else(|_| panic!("column {column} of {row:?} is a number"))
}

#[test]
fn every_target_holds() {
    let stdout = held(&["--seconds", "4", "--seed", "1"], &[]);
    assert!(
        stdout.starts_with("Seed 1. 15 targets for 4 seconds, "),
        "{stdout}"
    );
    for target in TARGETS {
        let row = row(&stdout, target);
        assert!(figure(&row, 1) >= 1 && figure(&row, 2) >= 64, "{row:?}");
        assert!(
            ["held", "held-in-part"].contains(&row[7].as_str()),
            "{row:?}"
        );
    }
    assert_eq!(
        row(&stdout, "fork").last().map(String::as_str),
        Some("forks")
    );
    assert!(figure(&row(&stdout, "gate"), 6) > 0);
    if cfg!(target_os = "linux") {
        for target in ["handlers", "signals", "mutex"] {
            assert!(figure(&row(&stdout, target), 4) > 0, "{stdout}");
        }
        assert!(figure(&row(&stdout, "registration"), 8) > 0, "{stdout}");
    }
}

#[test]
fn own_registration_holds() {
    let targets = [
        "registration",
        "fork",
        "handlers",
        "signals",
        "mutex",
        "stack",
        "--seconds",
        "3",
        "--seed",
        "2",
    ];
    held(&targets, &[("GLIBC_TUNABLES", "glibc.pthread.rseq=0")]);
}

#[test]
fn the_slow_path_holds_and_is_named() {
    let targets = [
        "queue",
        "ring",
        "gate",
        "registration",
        "mutex",
        "--seconds",
        "2",
        "--seed",
        "3",
    ];
    let stdout = held(&targets, &[("ATOMSEQ_DISABLE_RSEQ", "1")]);
    assert!(
        stdout.contains("so the slow path is what is tortured"),
        "{stdout}"
    );
    assert_eq!(
        figure(&row(&stdout, "gate"), 5),
        0,
        "no fence without sections: {stdout}"
    );
}

#[test]
fn targets_are_tortured_once_and_seeds_are_told() {
    let stdout = held(&["stack", "counter", "stack", "--seconds", "1"], &[]);
    assert!(stdout.contains(" 2 targets for 1 second, "), "{stdout}");
    let seed = stdout
        .strip_prefix("Seed ")
        .and_then(|rest| rest.split_once('.'));
    assert!(
        seed.is_some_and(|(seed, _)| seed.parse::<u64>().is_ok()),
        "{stdout}"
    );
}

/// How long a torture may take that must fail, in seconds. It ends as soon as it does; on a machine
/// with much else to do that takes longer than one would wait for a torture that holds.
const UNTIL_FOUND: &str = "60";

/// What is printed when a target fails: the law, and how to repeat it.
fn fails(target: &str, kind: &str) -> String {
    let output = torture(
        &[
            target,
            "--seconds",
            UNTIL_FOUND,
            "--seed",
            "5",
            "--sabotage",
            kind,
        ],
        &[],
    );
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(
        output.status.code(),
        Some(1),
        "{target}, {kind}: {stdout}{stderr}"
    );
    let repeat =
        format!("atomseq torture {target} --seed 5 --seconds {UNTIL_FOUND} --sabotage {kind}");
    for part in [&repeat, "  kernel ", "  status ", "  seed      5\n"] {
        assert!(stderr.contains(part), "{part} in {stderr}");
    }
    assert!(!stdout.contains("Every law held"), "{stdout}");
    stderr
}

#[test]
fn what_is_lost_is_noticed() {
    for (target, law) in [
        ("counter", "a sum is less than what was certainly in it"),
        (
            "histogram",
            "a bucket does not hold what was recorded in it",
        ),
        ("stack", "values went in and never came out"),
        ("queue", "values went in and never came out"),
        ("ring", "values went in and never came out"),
        ("list", "objects were lost"),
        ("pool", "objects were lost"),
    ] {
        let stderr = fails(target, "lose");
        // A counter that nobody looked at in between ends with another law broken.
        let last = target == "counter" && stderr.contains("the sum is not what was added");
        assert!(last || stderr.contains(law), "{target}: {stderr}");
    }
    for target in ["gate", "registration", "fork", "handlers"] {
        fails(target, "lose");
    }
    let stderr = fails("signals", "lose");
    assert!(stderr.contains("the sum is not what was added"), "{stderr}");
    let stderr = fails("memory", "lose");
    assert!(
        stderr.contains("descriptors are allocated that nobody has"),
        "{stderr}"
    );
    let stderr = fails("nonblocking", "lose");
    let laws = [
        "values went in and never came out",
        "words that change together do not agree",
    ];
    assert!(laws.iter().any(|law| stderr.contains(law)), "{stderr}");
    let stderr = fails("mutex", "lose");
    assert!(
        stderr.contains("what was counted under a lock is not how often it was held"),
        "{stderr}"
    );
}

#[test]
fn what_comes_twice_is_noticed() {
    for (target, law) in [
        ("stack", "a value came out twice"),
        ("queue", "a value came out twice"),
        ("ring", "a value came out twice"),
        ("list", "an object was handed out while somebody held it"),
        ("pool", "an object was handed out while somebody held it"),
    ] {
        let stderr = fails(target, "duplicate");
        assert!(stderr.contains(law), "{target}: {stderr}");
    }
    for target in [
        "counter",
        "histogram",
        "gate",
        "registration",
        "fork",
        "handlers",
        "signals",
        "mutex",
        "memory",
        "nonblocking",
    ] {
        fails(target, "duplicate");
    }
}

#[test]
fn a_lock_that_excludes_nobody_is_noticed_and_named() {
    let stderr = fails("mutex", "intrude");
    let laws = [
        "two were inside one lock",
        "what a lock guards was found half done",
        "somebody came into a lock that was held",
        "what was counted under a lock is not how often it was held",
        // Who found it held sets it all the same, and if the holder has cleared it meanwhile, it
        // stays set.
        "nothing goes on any more",
    ];
    assert!(laws.iter().any(|law| stderr.contains(law)), "{stderr}");
    let counted = stderr.contains(laws[3]);
    let stuck = stderr.contains(laws[4]) && stderr.contains(": an acquisition of a spin lock");
    assert!(
        counted || stuck || stderr.contains("the spin lock by no protection"),
        "{stderr}"
    );
}

#[test]
fn a_sleeper_who_is_forgotten_is_noticed_and_named() {
    let stderr = fails("mutex", "oversleep");
    assert!(stderr.contains("nothing goes on any more"), "{stderr}");
    assert!(stderr.contains(": a wait for a condition"), "{stderr}");
}

#[test]
fn a_panic_is_noticed() {
    let stderr = fails("queue", "panic");
    assert!(
        stderr.contains("an operation panicked: its message is above"),
        "{stderr}"
    );
    assert!(stderr.contains("this worker was told to panic"), "{stderr}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_crash_has_last_words() {
    let stderr = fails("ring", "crash");
    assert!(stderr.contains("the process crashed"), "{stderr}");
}

#[test]
fn a_reader_who_leaves_does_not_hide_a_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_atomseq"))
        .args([
            "torture",
            "stack",
            "--seconds",
            UNTIL_FOUND,
            "--sabotage",
            "lose",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command was built with the tests");
    let mut first = String::new();
    let stdout = child.stdout.take().expect("it is piped");
    BufReader::new(stdout)
        .read_line(&mut first)
        .expect("it is UTF-8");
    assert!(first.starts_with("Seed "), "{first}");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("values went in and never came out"));
}

#[test]
fn without_a_reader_a_failure_is_found_all_the_same() {
    let ended = |arguments: &[&str]| {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_atomseq"));
        command.arg("torture").args(arguments).stdout(writer);
        command
            .output()
            .expect("the command was built with the tests")
    };
    let lost = ended(&["stack", "--seconds", UNTIL_FOUND, "--sabotage", "lose"]);
    let stderr = text(&lost.stderr);
    assert_eq!(lost.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("values went in and never came out"),
        "{stderr}"
    );
    // The control.
    let held = ended(&["stack", "--seconds", "1"]);
    assert_eq!(
        (held.status.code(), text(&held.stderr)),
        (Some(0), String::new())
    );
}

#[test]
fn a_hang_is_noticed() {
    // With handlers going on in the worker that does not.
    let stderr = fails("counter", "hang");
    assert!(stderr.contains("nothing goes on any more"), "{stderr}");
    assert!(
        stderr.contains("while the workers worked; lane 0: between two operations"),
        "{stderr}"
    );
}

#[test]
fn bad_arguments_end_in_a_sentence_and_exit_code_2() {
    for (arguments, sentence) in [
        (
            &["everything"][..],
            "there is no such target; there are counter, histogram, ",
        ),
        (&["--seconds", "0"], "in no time nothing can be tested"),
        (&["--seconds", "-1"], "not a number of seconds"),
        (&["--seconds", "1.5"], "not a number of seconds"),
        (&["--seconds", "99999999999"], "longer than a year"),
        (
            &["--seed", "tree"],
            "not a seed; give a whole number from 0 to ",
        ),
        (&["--seed", "-1"], "not a seed"),
        (&["--seed", "18446744073709551616"], "not a seed"),
        (&["--seed"], "a value is required"),
        (&["--sabotage", "much"], "invalid value 'much'"),
        (&["--json"], "unexpected argument '--json'"),
        (
            &["stack", "--sabotage", "intrude"],
            "only the target mutex has locks",
        ),
    ] {
        let output = torture(arguments, &[]);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        let message = text(&output.stderr);
        assert!(message.contains(sentence), "{arguments:?}: {message}");
    }
}

#[test]
fn help_lists_everything() {
    let help = text(&torture(&["--help"], &[]).stdout);
    for part in [
        "[TARGET]...",
        "--seconds <N>",
        "--seed <S>",
        "--sabotage <KIND>",
        "duplicate",
        "self-check",
    ] {
        assert!(help.contains(part), "{part} in {help}");
    }
    for target in TARGETS {
        assert!(
            help.contains(&format!("\n  {target} ")),
            "{target} in {help}"
        );
    }
}
