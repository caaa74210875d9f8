//! Processes of their own: this test program started again for one test, and children of a fork.
//!
//! ```text
//! cargo test ── harness, test T ── in_fresh_process: the same program, `T --exact`, marked
//!                                       └ harness, test T ── runs the check, prints the last line
//! ```
//!
//! A fresh process has passed when it exits with 0 *and* has printed that last line: a harness that
//! finds no test of that name exits with 0 as well.

use std::ffi::{CStr, CString};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::sandbox::{Refusal, refuse};

/// Marks the fresh process of a test, which runs the check itself.
const MARK: &str = "ATOMSEQ_VERIFY";

/// The words of a command to put in front of this program, for programs of another architecture.
const RUNNER: &str = "ATOMSEQ_VERIFY_RUNNER";

/// How long a fresh process may take, in seconds.
const PATIENCE: u32 = 60;

/// The environment variables that change what atomseq decides at start-up.
const DECISIVE: [&str; 3] = [
    "GLIBC_TUNABLES",
    "ATOMSEQ_DISABLE_RSEQ",
    "ATOMSEQ_TRUST_KERNEL",
];

/// What is different about the fresh process. By default: it has none of the environment variables
/// that change atomseq's start-up.
#[derive(Default)]
pub struct Circumstances {
    /// Environment variables to set.
    pub environment: Vec<(&'static str, &'static str)>,
    /// System calls that the kernel refuses from the start.
    pub refused: Vec<Refusal>,
    /// The kernel calls itself 2.6.
    pub ancient: bool,
    /// The test harness keeps what the test prints, as it usually does.
    pub captured: bool,
    /// Files that are mounted over others: the hidden one, and the one that takes its place.
    pub replaced: Vec<(CString, CString)>,
    /// The process keeps all environment variables of this one.
    pub inherited: bool,
}

impl Circumstances {
    /// The same environment.
    pub fn inherited() -> Circumstances {
        Circumstances {
            inherited: true,
            ..Circumstances::default()
        }
    }

    /// These environment variables.
    pub fn environment(variables: &[(&'static str, &'static str)]) -> Circumstances {
        Circumstances {
            environment: variables.to_vec(),
            ..Circumstances::default()
        }
    }

    /// A kernel that refuses a system call from the start.
    pub fn refused(refusal: Refusal) -> Circumstances {
        Circumstances {
            refused: vec![refusal],
            ..Circumstances::default()
        }
    }

    /// A test harness that keeps what the test prints: only what is written past it is seen.
    pub fn captured() -> Circumstances {
        Circumstances {
            captured: true,
            ..Circumstances::default()
        }
    }
}

/// What a fresh process has written.
pub struct Written {
    /// On standard output.
    pub output: String,
    /// On standard error.
    pub errors: String,
}

impl Written {
    /// Prints what the test has printed in lines that hold `mark`, from there on: the harness may
    /// have begun the line.
    pub fn print_from(&self, mark: &str) {
        let lines = self.output.lines();
        let marked = lines.filter_map(|line| line.find(mark).map(|start| &line[start..]));
        marked.for_each(|line| println!("{line}"));
    }
}

/// Runs `check` in a fresh process with the same environment; fails unless it ran there to its end.
/// Returns what it wrote, and `None` in the fresh process itself.
///
/// `test` is the name of the calling test, by which the fresh process finds it again.
pub fn in_fresh_process(test: &str, check: impl FnOnce()) -> Option<Written> {
    in_fresh_process_under(test, Circumstances::inherited(), check)
}

/// Does the same as [`in_fresh_process`] under `circumstances`.
pub fn in_fresh_process_under(
    test: &str,
    circumstances: Circumstances,
    check: impl FnOnce(),
) -> Option<Written> {
    if is_fresh_process() {
        check();
        println!("{}", ran_to_its_end(test));
        return None;
    }
    let (status, written) = spawn(test, circumstances);
    let Written { output, errors } = &written;
    assert!(
        status.success() && output.contains(&ran_to_its_end(test)),
        "{test}, {status}:\n{output}\n{errors}"
    );
    Some(written)
}

/// Runs `check` in a fresh process, which `signal` must kill; returns what it wrote on standard
/// error.
pub fn killed_in_fresh_process(test: &str, signal: i32, check: impl FnOnce()) -> Option<String> {
    killed_in_fresh_process_under(test, Circumstances::inherited(), signal, check)
}

/// Does the same as [`killed_in_fresh_process`] under `circumstances`.
pub fn killed_in_fresh_process_under(
    test: &str,
    circumstances: Circumstances,
    signal: i32,
    check: impl FnOnce(),
) -> Option<String> {
    if is_fresh_process() {
        check();
        return None;
    }
    let (status, Written { errors, .. }) = spawn(test, circumstances);
    assert_eq!(status.signal(), Some(signal), "{test}, {status}:\n{errors}");
    Some(errors)
}

/// Is this such a process?
pub fn is_fresh_process() -> bool {
    std::env::var_os(MARK).is_some()
}

fn ran_to_its_end(test: &str) -> String {
    format!("ran to its end: {test}")
}

/// This program, to be started again; behind the words of `ATOMSEQ_VERIFY_RUNNER`.
pub fn this_program() -> Command {
    let program = std::env::current_exe().expect("a program knows its own path");
    let runner = std::env::var(RUNNER).unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(first) = words.next() else {
        return Command::new(program);
    };
    let mut command = Command::new(first);
    command.args(words).arg(program);
    command
}

/// Starts this program again with `argument`, for a part that needs a process of its own. Prints
/// what it writes on standard output. Returns `true` if it exits with 0, else says what went wrong.
pub fn passes_in_own_process(argument: &str) -> bool {
    let output = this_program().arg(argument).output();
    let output = output.expect("a program can start itself");
    print!("{}", String::from_utf8_lossy(&output.stdout));
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        println!("{argument}: WRONG, {}\n{errors}", output.status);
    }
    output.status.success()
}

fn spawn(test: &str, circumstances: Circumstances) -> (std::process::ExitStatus, Written) {
    let mut command = this_program();
    command.args([test, "--exact", "--test-threads=1"]);
    if !circumstances.captured {
        command.arg("--nocapture");
    }
    if !circumstances.inherited {
        DECISIVE
            .iter()
            .for_each(|name| _ = command.env_remove(name));
    }
    command.env(MARK, "1").envs(circumstances.environment);
    let (refused, ancient) = (circumstances.refused, circumstances.ancient);
    let replaced = circumstances.replaced;
    // An emulator takes many times as long.
    let is_emulated = std::env::var_os(RUNNER).is_some();
    let seconds = if is_emulated { 4 * PATIENCE } else { PATIENCE };
    // SAFETY: between fork and exec, only system calls and memory that is there already.
    unsafe {
        command.pre_exec(move || {
            // No fresh process hangs indefinitely: an alarm outlives the exec.
            libc::alarm(seconds);
            // A test that is killed on purpose leaves no core.
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            const UNAME26: libc::c_ulong = 0x0020000;
            if ancient && libc::personality(UNAME26) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            if !replaced.is_empty() {
                own_mounts()?;
            }
            for (hidden, instead) in &replaced {
                mount(Some(instead), hidden, libc::MS_BIND)?;
            }
            refused.iter().try_for_each(refuse)
        });
    }
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("a process");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (output, errors) = (text(&stdout), text(&stderr));
    (status, Written { output, errors })
}

/// Sets the time after which this process is ended, in seconds from now. For tests that take longer
/// than others.
pub fn end_in(seconds: u32) {
    // SAFETY: moves this process's alarm.
    unsafe { libc::alarm(seconds) };
}

/// Gives this process mounts of its own, and the right to change them.
fn own_mounts() -> std::io::Result<()> {
    let new = libc::CLONE_NEWUSER | libc::CLONE_NEWNS;
    // SAFETY: of the calling process, which has a single thread.
    if unsafe { libc::unshare(new) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    mount(None, c"/", libc::MS_REC | libc::MS_PRIVATE)
}

fn mount(from: Option<&CStr>, to: &CStr, flags: libc::c_ulong) -> std::io::Result<()> {
    let from = from.map_or(std::ptr::null(), CStr::as_ptr);
    let (no_type, no_data) = (std::ptr::null(), std::ptr::null());
    // SAFETY: null-terminated paths; a bind mount has no type and no data.
    match unsafe { libc::mount(from, to.as_ptr(), no_type, flags, no_data) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Does this system let an ordinary process have mounts of its own?
pub fn can_replace_files() -> bool {
    let mut command = Command::new("true");
    // SAFETY: system calls only.
    unsafe { command.pre_exec(own_mounts) };
    command.status().is_ok_and(|status| status.success())
}

/// Runs `check` in the fresh process of a control: a panic of `check`, also in a handler that it
/// must not leave, counts as a fault found, and so does an operation that runs until the alarm.
/// Either ends the process successfully.
pub fn panics_and_hangs_count<R>(test: &'static str, check: impl FnOnce() -> R) -> R {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        eprintln!("{test}: {panic}");
        println!("{}", ran_to_its_end(test));
        std::process::exit(0);
    }));
    *FOUND.lock().expect("one check at a time") = ran_to_its_end(test) + "\n";
    let handler: extern "C" fn(i32) = on_alarm;
    // SAFETY: the handler does what handlers may.
    unsafe { libc::signal(libc::SIGALRM, handler as libc::sighandler_t) };
    let outcome = check();
    // SAFETY: as it was.
    unsafe { libc::signal(libc::SIGALRM, libc::SIG_DFL) };
    std::panic::set_hook(usual);
    outcome
}

/// What the alarm of a process that hangs writes.
static FOUND: Mutex<String> = Mutex::new(String::new());

/// A process that had a CPU for half of its time hangs; another may only have waited for a CPU.
extern "C" fn on_alarm(_signal: i32) {
    let mut spent = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let text = FOUND.try_lock();
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

/// Makes a child by the C library's `fork`: returns 0 in the child, and its number in the parent.
pub fn fork() -> i32 {
    // SAFETY: the child runs on as this process would; other threads do what a child can do
    // without.
    unsafe { libc::fork() }
}

/// Makes a child as `_Fork` does: no atfork handlers run, in the child or before it.
pub fn raw_fork() -> i32 {
    // SAFETY: as in `fork`. All architectures take the flags first.
    unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32 }
}

/// Ends this process at once, without the test harness.
pub fn exit(code: i32) -> ! {
    // SAFETY: ends the process; what an ordinary exit would do is the parent's.
    unsafe { libc::_exit(code) }
}

/// Runs `check` in a fork's child, and fails unless it ran there to its end.
pub fn in_child(check: impl FnOnce()) {
    in_child_of(fork, check);
}

/// Does the same as [`in_child`] in a child that `fork` makes.
pub fn in_child_of(fork: impl FnOnce() -> i32, check: impl FnOnce()) {
    let code = code_of_child_of(fork, || {
        check();
        0
    });
    assert_eq!(code, 0, "the child's exit code");
}

/// Runs `check` in a child that `fork` makes, which must run to its end there and find it true.
pub fn holds_in_child_of(fork: impl FnOnce() -> i32, check: impl FnOnce() -> bool) {
    let child = start_child(fork, || i32::from(!check()));
    assert_eq!(exit_code(child), Some(0), "None: it hung or crashed");
}

/// Runs `check` in a fork's child; returns the exit code that it returned there, or 101 if it
/// panicked. Fails if a signal killed the child.
pub fn code_of_child(check: impl FnOnce() -> i32) -> i32 {
    code_of_child_of(fork, check)
}

/// Does the same as [`code_of_child`] in a child that `fork` makes.
pub fn code_of_child_of(fork: impl FnOnce() -> i32, check: impl FnOnce() -> i32) -> i32 {
    code_of(start_child(fork, check))
}

/// Makes a child that exits with what `check` returns there, or with 101 if it panics; returns the
/// child's number.
pub fn start_child(fork: impl FnOnce() -> i32, check: impl FnOnce() -> i32) -> i32 {
    let child = fork();
    assert!(child >= 0, "no child: {}", std::io::Error::last_os_error());
    if child == 0 {
        // A child that hangs, maybe with its signals blocked, ends with this process, which an
        // alarm ends. SAFETY: of this process.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        exit(outcome.unwrap_or(101));
    }
    child
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

/// Waits for a child's end; returns its exit code, or `None` if a signal killed it. A child that
/// takes more than two minutes hangs, and is killed: it may have blocked every other signal.
pub fn exit_code(child: i32) -> Option<i32> {
    exit_code_within(child, Duration::from_secs(120))
}

/// Does the same as [`exit_code`] with another limit. Signals may interrupt the wait at any time.
pub fn exit_code_within(child: i32, limit: Duration) -> Option<i32> {
    let (start, mut looks, mut status) = (Instant::now(), 0, 0);
    while start.elapsed() < limit {
        looks += 1;
        // SAFETY: the kernel writes one word.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            // Most children end soon.
            0 if looks < 100 => std::thread::yield_now(),
            0 => std::thread::sleep(Duration::from_millis(1)),
            ended if ended == child => {
                return libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
            }
            _ => {
                let error = std::io::Error::last_os_error();
                assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "{error}");
            }
        }
    }
    // SAFETY: a child of ours that has not been waited for.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &mut status, 0);
    }
    None
}
