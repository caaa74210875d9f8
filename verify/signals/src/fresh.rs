//! Processes of their own.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Output};
use std::sync::Mutex;

/// Tells a test that it runs in the fresh process, and should check.
const MARK: &str = "ATOMSEQ_VERIFY_SIGNALS";

/// How long a fresh process may take, in seconds.
const PATIENCE: u32 = 60;

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

/// Runs `check` in a fresh process; fails unless it ran there to its end. Returns what it wrote on
/// standard error, and `None` in the fresh process itself.
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

/// For controls, in the fresh process: a panic of `check`, also in a handler that it must not
/// leave, counts as having found something out, and so does an operation that runs until the alarm.
/// It ends the process well.
pub fn panics_and_hangs_count<R>(test: &'static str, check: impl FnOnce() -> R) -> R {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        eprintln!("{test}: {panic}");
        println!("{}", ran_to_its_end(test));
        std::process::exit(0);
    }));
    *FOUND_OUT.lock().expect("one check at a time") = ran_to_its_end(test) + "\n";
    let handler: extern "C" fn(i32) = hangs;
    // SAFETY: the handler does what handlers may.
    unsafe { libc::signal(libc::SIGALRM, handler as libc::sighandler_t) };
    let outcome = check();
    // SAFETY: as it was.
    unsafe { libc::signal(libc::SIGALRM, libc::SIG_DFL) };
    std::panic::set_hook(usual);
    outcome
}

/// What a hang writes.
static FOUND_OUT: Mutex<String> = Mutex::new(String::new());

/// It hangs if it has had a CPU for half of its time; else it may only have waited for one.
extern "C" fn hangs(_signal: i32) {
    let mut spent = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let text = FOUND_OUT.try_lock();
    // SAFETY: a clock is read into a local; text is written; the process ends at once.
    unsafe {
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut spent);
        match text {
            Ok(text) if spent.tv_sec >= i64::from(PATIENCE / 2) => {
                libc::write(1, text.as_ptr().cast(), text.len());
                libc::_exit(0);
            }
            _ => libc::_exit(1),
        }
    }
}

/// Runs `check` in a fresh process, which must be killed by `signal`; returns what it wrote on
/// standard error.
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
    let code = code_of_child(|| {
        check();
        0
    });
    assert_eq!(code, 0, "the child's exit code");
}

/// Runs `check` in a fork's child; returns the exit code that it returned there, or 101 if it
/// panicked. Fails if a signal killed the child.
pub fn code_of_child(check: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs on as this process would; other threads do what a child can do
    // without.
    code_of_child_of(|| unsafe { libc::fork() }, check)
}

/// As [`code_of_child`], of a child that `fork` makes.
pub fn code_of_child_of(fork: impl FnOnce() -> i32, check: impl FnOnce() -> i32) -> i32 {
    let child = fork();
    assert!(child >= 0);
    if child == 0 {
        // A child that hangs, maybe with its signals blocked, ends with the process, which an alarm
        // ends. SAFETY: of this process.
        #[cfg(target_os = "linux")]
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        // SAFETY: ends the child; what the parent's exit would do is the parent's.
        unsafe { libc::_exit(outcome.unwrap_or(101)) };
    }
    code_of(child)
}

/// Waits for a child's end; returns its exit code. Fails if a signal killed it.
pub fn code_of(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: a child of this process.
    let ended = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(ended, child);
    assert!(libc::WIFEXITED(status), "the child: {status:#x}");
    libc::WEXITSTATUS(status)
}

/// A fork as `_Fork` makes it: no atfork handlers run, in the child or before it.
#[cfg(target_os = "linux")]
pub fn raw_fork() -> i32 {
    // SAFETY: as in `code_of_child`. All architectures take the flags first.
    unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32 }
}

fn ran_to_its_end(test: &str) -> String {
    format!("ran to its end: {test}")
}

/// The program that this test is in. Tests of another architecture need what runs them in front:
/// the words of `ATOMSEQ_VERIFY_RUNNER`.
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
    // An emulator takes many times as long.
    let is_emulated = std::env::var_os("ATOMSEQ_VERIFY_RUNNER").is_some();
    let seconds = if is_emulated { 4 * PATIENCE } else { PATIENCE };
    // SAFETY: between fork and exec, only system calls.
    unsafe {
        command.pre_exec(move || {
            // No fresh process hangs for ever: an alarm outlives the exec.
            libc::alarm(seconds);
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
