//! `atomseq torture` as its users run it: all invariants hold here, each kind of fault is detected,
//! and the report of a failure says how to repeat it.

use std::io::{BufRead, BufReader, Read};
#[cfg(target_os = "linux")]
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

const GROUPS: [(&str, &[&str]); 7] = [
    (
        "percpu",
        &[
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
        ],
    ),
    ("local", &["local"]),
    ("signals", &["signals"]),
    ("mutex", &["mutex"]),
    ("dcas", &["dcas"]),
    ("nonblocking", &["nonblocking"]),
    ("type_stable", &["type_stable"]),
];

fn targets() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, targets)| *targets).copied()
}

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

/// Returns the last line of a run in which all invariants held. Where the machine is too busy for
/// the signals, they come less often, and the run says so.
fn end_of_held(stdout: &str) -> &'static str {
    match stdout.contains(" times less often") {
        true => "\nAll invariants that were tested held.\n",
        false => "\nAll invariants held.\n",
    }
}

/// Runs targets, whose invariants must hold, and returns what was printed.
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

/// Runs with a limit on the address space, in KiB.
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
fn memory_that_the_system_refuses_is_not_reported_as_a_crash() {
    // Which allocation fails depends on the machine. Rust code panics there, and glibc aborts if it
    // has no memory to register a thread's destructor.
    let (mut refused, mut enough) = (0, 0);
    for kibibytes in (20_000..80_000).step_by(4_000) {
        let output = limited(kibibytes, "queue --seconds 1 --seed 1");
        let errors = text(&output.stderr);
        assert!(
            !errors.contains("the process crashed"),
            "{kibibytes}: {errors}"
        );
        match output.status.success() {
            true => enough += 1,
            false => (refused, enough) = (refused + 1, 0),
        }
        // More memory changes nothing.
        if enough == 5 {
            break;
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
    assert!(errors.contains("16000000 KiB of address space"), "{errors}");
}

/// Returns the cells of a target's row in the table.
fn row(stdout: &str, target: &str) -> Vec<String> {
    // The result is one column.
    let stdout = stdout.replace(" held in part ", " held-in-part ");
    let rows = stdout
        .lines()
        .map(|line| line.split_whitespace().map(str::to_string).collect());
    let mut rows = rows.filter(|row: &Vec<String>| row.first().is_some_and(|cell| cell == target));
    rows.next()
        .unwrap_or_else(|| panic!("no row for {target}: {stdout}"))
}

/// Returns a figure of a target's row: 1 rounds, 2 operations, 3 moves, 4 signals, 5 fences, 6
/// gates closed.
fn figure(row: &[String], column: usize) -> u64 {
    row[column]
        .parse()
        .unwrap_or_else(|_| panic!("column {column} of {row:?} is a number"))
}

#[test]
fn all_targets_hold() {
    let stdout = held(&["--seconds", "4", "--seed", "1"], &[]);
    assert!(
        stdout.starts_with("Seed 1. 17 targets for 4 seconds, "),
        "{stdout}"
    );
    for target in targets() {
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
        for target in ["handlers", "local", "signals", "mutex"] {
            assert!(figure(&row(&stdout, target), 4) > 0, "{stdout}");
        }
        assert!(figure(&row(&stdout, "registration"), 8) > 0, "{stdout}");
    }
}

#[test]
fn a_group_runs_its_targets() {
    for (arguments, count) in [
        (&["percpu", "stack"][..], 11),
        (&["nonblocking", "dcas"], 2),
    ] {
        let stdout = held(&[arguments, &["--seconds", "1"]].concat(), &[]);
        assert!(
            stdout.contains(&format!(" {count} targets for 1 second, ")),
            "{stdout}"
        );
    }
    // Locks are in the group that has the same name as its only target.
    fails("mutex", "oversleep");
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
        stdout.contains("off on this machine: the slow path is tested"),
        "{stdout}"
    );
    assert_eq!(
        figure(&row(&stdout, "gate"), 5),
        0,
        "no fence without sections: {stdout}"
    );
}

#[test]
fn targets_run_once_and_the_seed_is_printed() {
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

/// The limit for a run that must fail, in seconds. It ends as soon as it fails.
const UNTIL_FOUND: &str = "300";

/// Runs a target, which must fail; returns what it reports.
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
    assert!(!stdout.contains("All invariants held"), "{stdout}");
    stderr
}

#[test]
fn lost_values_are_detected() {
    for (target, violation) in [
        ("counter", "a sum is less than what this lane has added"),
        (
            "histogram",
            "a bucket does not have the values that were recorded in it",
        ),
        ("stack", "values were put in and never taken out"),
        ("queue", "values were put in and never taken out"),
        ("ring", "values were put in and never taken out"),
        ("list", "objects were lost"),
        ("pool", "objects were lost"),
    ] {
        let stderr = fails(target, "lose");
        // If no lane read the counter meanwhile, the final check fails.
        let last = target == "counter" && stderr.contains("the sum is not what was added");
        assert!(last || stderr.contains(violation), "{target}: {stderr}");
    }
    for target in ["gate", "registration", "fork", "handlers"] {
        fails(target, "lose");
    }
    let stderr = fails("signals", "lose");
    assert!(stderr.contains("the sum is not what was added"), "{stderr}");
    let stderr = fails("type_stable", "lose");
    assert!(
        stderr.contains("descriptors are allocated that no lane owns"),
        "{stderr}"
    );
    let stderr = fails("nonblocking", "lose");
    let violation = "values were put in and never taken out";
    assert!(stderr.contains(violation), "{stderr}");
    let stderr = fails("local", "lose");
    assert!(stderr.contains(violation), "{stderr}");
    let stderr = fails("dcas", "lose");
    let violation = "words that are changed together were seen half changed";
    assert!(stderr.contains(violation), "{stderr}");
    let stderr = fails("mutex", "lose");
    assert!(
        stderr.contains("the count under a lock is not how often it was held"),
        "{stderr}"
    );
}

#[test]
fn duplicated_values_are_detected() {
    for (target, violation) in [
        ("stack", "a value was taken out twice"),
        ("queue", "a value was taken out twice"),
        ("ring", "a value was taken out twice"),
        (
            "list",
            "an object was given to a lane while another held it",
        ),
        (
            "pool",
            "an object was given to a lane while another held it",
        ),
    ] {
        let stderr = fails(target, "duplicate");
        assert!(stderr.contains(violation), "{target}: {stderr}");
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
        "local",
        "dcas",
        "type_stable",
        "nonblocking",
    ] {
        fails(target, "duplicate");
    }
}

#[test]
fn a_lock_that_does_not_exclude_is_detected_and_named() {
    let stderr = fails("mutex", "intrude");
    let violations = [
        "two lanes were inside one lock",
        "a lane found the change of another incomplete",
        "a lane entered a lock that another held",
        "the count under a lock is not how often it was held",
        // A lane that finds it held sets it again; if the holder has cleared it meanwhile, it stays
        // set.
        "no thread has made progress",
    ];
    assert!(
        violations.iter().any(|what| stderr.contains(what)),
        "{stderr}"
    );
    let counted = stderr.contains(violations[3]);
    let stuck =
        stderr.contains(violations[4]) && stderr.contains(": an acquisition of a spin lock");
    assert!(
        counted || stuck || stderr.contains("the spin lock by no protection"),
        "{stderr}"
    );
}

#[test]
fn a_missed_wake_up_is_detected_and_named() {
    let stderr = fails("mutex", "oversleep");
    assert!(stderr.contains("no thread has made progress"), "{stderr}");
    assert!(
        stderr.contains(": a wait for a condition variable"),
        "{stderr}"
    );
}

#[test]
fn a_panic_is_detected() {
    let stderr = fails("queue", "panic");
    assert!(
        stderr.contains("an operation panicked: its message is above"),
        "{stderr}"
    );
    assert!(stderr.contains("this worker panics on request"), "{stderr}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_crash_is_reported() {
    let stderr = fails("ring", "crash");
    assert!(stderr.contains("the process crashed"), "{stderr}");
}

#[test]
fn a_reader_that_closes_the_pipe_does_not_hide_a_failure() {
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
    assert!(text(&output.stderr).contains("values were put in and never taken out"));
}

#[test]
fn without_a_reader_a_failure_is_still_detected() {
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
        stderr.contains("values were put in and never taken out"),
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
fn a_hang_is_detected() {
    // Signal handlers still run in the worker that makes no progress.
    let stderr = fails("counter", "hang");
    assert!(stderr.contains("no thread has made progress"), "{stderr}");
    assert!(
        stderr.contains("while the workers worked; lane 0: between two operations"),
        "{stderr}"
    );
}

/// A tracer that takes 1 ms to deliver each signal, as a debugger does, or a virtual machine
/// without CPU time. Timers that expire every 50 µs then leave no time for operations, unless the
/// command slows them down.
#[cfg(target_os = "linux")]
#[test]
#[expect(clippy::zombie_processes, reason = "`trace` waits for it")]
fn a_machine_that_delivers_signals_slowly_is_not_reported_as_a_hang() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atomseq"));
    command
        .args(["torture", "signals", "--seconds", "6", "--seed", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: one system call.
    unsafe {
        command.pre_exec(
            || match libc::ptrace(libc::PTRACE_TRACEME, 0, 0_i64, 0_i64) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            },
        );
    }
    // The thread that starts a process is its tracer.
    let child = command
        .spawn()
        .expect("the command was built with the tests");
    let (delivered, status) = trace(child.id() as i32);
    let (mut stdout, mut stderr) = (String::new(), String::new());
    child
        .stdout
        .expect("it is piped")
        .read_to_string(&mut stdout)
        .expect("it is UTF-8");
    child
        .stderr
        .expect("it is piped")
        .read_to_string(&mut stderr)
        .expect("it is UTF-8");
    println!("{delivered} signals were delivered\n{stdout}");
    assert_eq!(status, 0, "{stdout}{stderr}");
    assert!(stdout.contains(" times less often"), "{stdout}");
    assert!(stdout.contains(" held in part "), "{stdout}");
}

/// Traces a process that has just executed a program, with all its threads, until it exits.
/// Delivers each of its signals after 1 ms. Returns how many there were, and the exit status.
#[cfg(target_os = "linux")]
fn trace(process: i32) -> (u64, i32) {
    let call = |request, thread: i32, data: i32| {
        // SAFETY: a stopped tracee, and numbers; a call for one that was killed has no effect.
        unsafe { libc::ptrace(request, thread, 0_i64, i64::from(data)) }
    };
    let mut status = 0;
    // SAFETY: a child of this thread, and room for its status.
    assert_eq!(unsafe { libc::waitpid(process, &mut status, 0) }, process);
    call(
        libc::PTRACE_SETOPTIONS,
        process,
        libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL,
    );
    call(libc::PTRACE_CONT, process, 0);
    let mut delivered = 0;
    loop {
        // SAFETY: room for the status of any tracee.
        let thread = unsafe { libc::waitpid(-1, &mut status, libc::__WALL) };
        assert!(thread > 0, "{}", std::io::Error::last_os_error());
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            if thread == process {
                return (delivered, status);
            }
            continue;
        }
        let signal = match libc::WSTOPSIG(status) {
            // The stops of a new thread, and of the thread that started it.
            libc::SIGSTOP | libc::SIGTRAP => 0,
            signal => {
                delivered += 1;
                std::thread::sleep(std::time::Duration::from_millis(1));
                signal
            }
        };
        call(libc::PTRACE_CONT, thread, signal);
    }
}

#[test]
fn bad_arguments_exit_with_a_sentence_and_code_2() {
    for (arguments, sentence) in [
        (
            &["everything"][..],
            "there is no such target; the groups are percpu, local, signals, mutex, dcas, nonblocking, type_stable; \
             the targets are counter, histogram, ",
        ),
        (&["--seconds", "0"], "nothing can be tested in 0 seconds"),
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
fn help_lists_all_groups_and_targets() {
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
    for (group, targets) in GROUPS {
        assert!(
            help.contains(&format!("\n  {group}\n")),
            "{group} in {help}"
        );
        for target in targets {
            let line = format!("\n    {target} ");
            assert!(help.contains(&line), "{target} in {help}");
        }
    }
}
