//! The profiler as a program: it ends, its books balance, ticks and samples agree with the clock,
//! it names the functions of the work, and it detects lost samples.
//!
//! Every run is a process of its own, because a signal handler belongs to a process, and because a
//! run that hangs can then be killed and reported.

#![cfg(target_os = "linux")]

use std::ffi::OsString;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// In the environment of a child: the part that it plays.
const PART: &str = "ATOMSEQ_TEST_PART";

/// In the environment of a child: the profiler's arguments, one on each line.
const ARGUMENTS: &str = "ATOMSEQ_TEST_ARGUMENTS";

/// Far longer than any run, however busy the machine.
const TOO_LONG: Duration = Duration::from_secs(120);

struct Run {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Run {
    /// Returns the number in the line of the report that begins with `name`.
    fn number(&self, name: &str) -> u64 {
        let lines = self.out.lines().chain(self.err.lines());
        let mut rest = lines.filter_map(|line| line.strip_prefix(name));
        let found = rest
            .next()
            .unwrap_or_else(|| panic!("no {name:?} in:\n{self}"));
        let number = found.split_whitespace().next().unwrap().replace(',', "");
        number
            .parse()
            .unwrap_or_else(|_| panic!("{name:?} {found:?}"))
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}\n{}\n{}", self.code, self.out, self.err)
    }
}

/// Runs the profiler in a process of its own, which also plays a part.
fn run(part: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Run {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_child", "--nocapture", "--test-threads=1"])
        .env(PART, part)
        .env(ARGUMENTS, arguments.join("\n"))
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let [out, err] = std::thread::scope(|scope| {
        let out = scope.spawn(move || text(&mut out));
        let err = scope.spawn(move || text(&mut err));
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if start.elapsed() > TOO_LONG {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!(
                    "{part} hangs:\n{}\n{}",
                    out.join().unwrap(),
                    err.join().unwrap()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        [out.join().unwrap(), err.join().unwrap()]
    });
    Run {
        code: child.wait().unwrap().code(),
        out,
        err,
    }
}

fn text(from: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// The work of a child. In the test process itself it does nothing.
#[test]
fn the_child() {
    let Some(part) = std::env::var_os(PART) else {
        return;
    };
    match part.to_str().unwrap() {
        "profile" => {}
        "disturb" => disturb(),
        "no timers" => demo_common::testing::forbid_timers(),
        #[cfg(atomseq_sections)]
        "no rollforward" => {
            use atomseq::internals::signal_controls;
            // SAFETY: nothing is installed yet, and only this program's books become wrong.
            unsafe { signal_controls::set(signal_controls::ROLLFORWARD) };
        }
        other => panic!("there is no part {other:?}"),
    }
    let arguments = std::env::var(ARGUMENTS).unwrap();
    let arguments = arguments.lines().map(OsString::from);
    println!();
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let code = demo_profiler::run(arguments, &mut out, &mut err).unwrap();
    std::process::exit(code.into());
}

/// Sends the profiler's signal continually to the process, and to one thread that has no timer.
fn disturb() {
    // The signals have no effect before the handler is installed and after it is uninstalled.
    // SAFETY: ignores the signal until `install` replaces this disposition.
    unsafe { libc::signal(libc::SIGRTMIN(), libc::SIG_IGN) };
    std::thread::spawn(|| {
        loop {
            // SAFETY: sends a signal to this thread, then one to this process.
            unsafe {
                libc::pthread_kill(libc::pthread_self(), libc::SIGRTMIN());
                libc::kill(libc::getpid(), libc::SIGRTMIN());
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    });
}

/// Files in which to count words.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/atomseq/src");

/// Checks that a run succeeded, that its books balance, and that they agree with the clock.
fn check(run: &Run) {
    assert_eq!(run.code, Some(0), "{run}");
    let entries = run.number("handler entries");
    let dropped = run.number("  dropped, no room") + run.number("  dropped, no tick");
    assert_eq!(entries, run.number("  recorded") + dropped, "{run}");
    let ticks = run.number("ticks by the clock");
    let seen = entries - run.number("  dropped, no tick") + run.number("overruns");
    assert!(seen <= ticks, "{run}");
    let missing = ticks - seen - run.number("after the last entry");
    assert!(missing <= ticks / 100 + 2, "{run}");
    assert!(
        run.out.contains("Every handler entry is accounted for."),
        "{run}"
    );
}

#[test]
fn samples_and_ticks_agree_and_the_work_is_named() {
    let arguments = [SOURCES, "--threads=4", "--seconds=3", "--top=200"];
    let run = run("profile", &arguments, &[]);
    check(&run);
    // At most 4 threads of 3 seconds at 1 kHz. A timer runs while its thread waits for a CPU or for
    // its first file. On a busy machine threads start late.
    let ticks = run.number("ticks by the clock");
    assert!((1..=16_000).contains(&ticks), "{run}");
    // The ticks of a thread that waits for a CPU are overruns.
    assert!(run.number("  recorded") > ticks / 100, "{run}");
    assert_eq!(run.number("  dropped, no room"), 0, "{run}");
    let functions: Vec<&str> = run
        .out
        .lines()
        .filter(|line| line.ends_with(')') && line.contains("  ("))
        .collect();
    let among =
        |first: usize, name: &str| functions.iter().take(first).any(|line| line.contains(name));
    assert!(among(10, "counting::words::"), "{run}");
    assert!(
        among(200, "counting::text::") && among(200, "counting::counts::"),
        "{run}"
    );
    let named = run
        .out
        .lines()
        .find(|line| line.contains("functions with a name"))
        .unwrap();
    let percent: f64 = named.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(percent > 50.0, "{run}");
    assert!(run.out.contains("words.rs:"), "{run}");
}

#[test]
fn it_works_with_any_registration_and_with_none() {
    for setting in [
        ("GLIBC_TUNABLES", "glibc.pthread.rseq=0"),
        ("ATOMSEQ_DISABLE_RSEQ", "1"),
    ] {
        let arguments = [SOURCES, "--threads=3", "--seconds=1", "--frequency=2000"];
        check(&run("profile", &arguments, &[setting]));
    }
}

#[test]
fn samples_without_room_are_dropped_and_counted() {
    let arguments = [SOURCES, "--threads=2", "--seconds=1", "--entries=2"];
    let run = run("profile", &arguments, &[]);
    check(&run);
    assert!(run.number("  dropped, no room") > 0, "{run}");
    assert!(run.number("  recorded") > 0, "{run}");
}

#[test]
fn signals_that_are_no_ticks_are_dropped_and_counted() {
    let arguments = [SOURCES, "--threads=2", "--seconds=1"];
    let run = run("disturb", &arguments, &[]);
    check(&run);
    assert!(run.number("  dropped, no tick") > 100, "{run}");
}

/// The negative control of the sequences that threads share with their handlers: without
/// rollforward, a handler takes words that are half counted.
#[cfg(atomseq_sections)]
#[test]
fn a_handler_inside_an_update_is_detected() {
    let arguments = [SOURCES, "--threads=2", "--seconds=1", "--frequency=5000"];
    let once = || run("no rollforward", &arguments, &[]);
    // On a busy machine there may be no such handler entry in a second.
    let found = (0..20).map(|_| once()).find(|run| run.code != Some(0));
    let run = found.expect("in one of twenty runs");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.err.contains("were taken"), "{run}");
    assert!(
        !run.out.contains("Every handler entry is accounted for."),
        "{run}"
    );
}

/// Without a timer the cost of timers is not known.
#[test]
fn without_a_timer_no_cost_is_reported() {
    let arguments = [SOURCES, "--threads=2", "--seconds=1"];
    let run = run("no timers", &arguments, &[]);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.err.contains("refused a timer to every thread"), "{run}");
    assert!(run.out.contains("`ulimit -i`"), "{run}");
    for sentence in [
        "With timers",
        "Passes differ",
        "each handled tick",
        "The handler",
    ] {
        assert!(!run.out.contains(sentence), "{run}");
    }
}

#[test]
fn senseless_arguments_get_a_sentence_and_status_2() {
    for (arguments, expected) in [
        (&["--threads=0"][..], "'0'"),
        (&["--threads=1025"], "1..=1024"),
        (&["--threads"], "--threads"),
        (&["--frequency=0"], "'0'"),
        (&["--frequency=fast"], "'fast'"),
        (&["--seconds=-1"], "'-1'"),
        (&["--entries=0"], "a number from 1 to"),
        (&["--bottom"], "--bottom"),
        (&["a", "b"], "'b'"),
        (&["/nowhere/at/all"], "\"/nowhere/at/all\" does not exist"),
        (
            &["/dev/null"],
            "\"/dev/null\" contains no file that can be read",
        ),
    ] {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let arguments = arguments.iter().map(OsString::from);
        let code = demo_profiler::run(arguments, &mut out, &mut err).unwrap();
        let err = String::from_utf8(err).unwrap();
        assert_eq!((code, out.len()), (2, 0), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(
            err.starts_with("profiler: ") && err.contains(expected),
            "{err}"
        );
    }
}

#[test]
fn help_is_printed_and_status_0() {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = demo_profiler::run(["--help".into()].into_iter(), &mut out, &mut err).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert_eq!((code, err.len()), (0, 0));
    for part in [
        "Usage:",
        "--threads",
        "--frequency",
        "--seconds",
        "--entries",
        "Exit status",
    ] {
        assert!(out.contains(part), "{out}");
    }
}
