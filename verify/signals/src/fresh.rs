//! Processes of their own.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Output};

/// Tells a test that it runs in the fresh process, and should check.
const MARK: &str = "ATOMSEQ_VERIFY_SIGNALS";

/// The name of the calling test, without the crate's.
#[macro_export]
macro_rules! this_test {
    () => {{
        fn here() {}
        let name = std::any::type_name_of_val(&here);
        let name = name.strip_suffix("::here").unwrap_or(name);
        name.split_once("::").map_or(name, |(_, rest)| rest)
    }};
}

/// Runs `check` in a fresh process; fails unless it ran there to its end. Returns what it wrote on standard error,
/// and `None` in the fresh process itself.
pub fn in_fresh_process(test: &str, check: impl FnOnce()) -> Option<String> {
    if std::env::var_os(MARK).is_some() {
        check();
        println!("{}", ran_to_its_end(test));
        return None;
    }
    let (output, errors) = run(test);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains(&ran_to_its_end(test)),
        "{test}, {}:\n{text}\n{errors}",
        output.status
    );
    Some(errors)
}

/// Runs `check` in a fresh process, which must be killed by `signal`; returns what it wrote on standard error.
pub fn killed_in_fresh_process(test: &str, signal: i32, check: impl FnOnce()) -> Option<String> {
    if std::env::var_os(MARK).is_some() {
        check();
        return None;
    }
    let (output, errors) = run(test);
    assert_eq!(
        output.status.signal(),
        Some(signal),
        "{test}, {}:\n{errors}",
        output.status
    );
    Some(errors)
}

/// Runs `check` in a fork's child, and fails unless it ran there to its end.
pub fn in_child(check: impl FnOnce()) {
    // SAFETY: the child runs on as this process would; the tests have no other thread that does anything.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        // SAFETY: ends the child; what the parent's exit would do is the parent's.
        unsafe { libc::_exit(i32::from(outcome.is_err())) };
    }
    let mut status = 0;
    // SAFETY: a child of this process.
    let ended = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(ended, child);
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        "the child: {status:#x}"
    );
}

fn ran_to_its_end(test: &str) -> String {
    format!("ran to its end: {test}")
}

/// The program that this test is in. Tests of another architecture need what runs them in front: the words of
/// `ATOMSEQ_VERIFY_RUNNER`.
fn this_program() -> Command {
    let program = std::env::current_exe().expect("the path of this test");
    let runner = std::env::var("ATOMSEQ_VERIFY_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(first) = words.next() else {
        return Command::new(program);
    };
    let mut command = Command::new(first);
    command.args(words).arg(program);
    command
}

fn run(test: &str) -> (Output, String) {
    let mut command = this_program();
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(MARK, "1");
    // SAFETY: between fork and exec, only system calls.
    unsafe {
        command.pre_exec(|| {
            // No fresh process hangs for ever: an alarm outlives the exec.
            libc::alarm(60);
            // A test that is killed on purpose leaves no core.
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            Ok(())
        });
    }
    let output = command.output().expect("a process");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, errors)
}
