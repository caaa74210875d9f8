//! The command under parents that block signals or ignore children, and on systems that refuse
//! something: threads, processes, system calls, output and memory.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use serde_json::Value;

fn atomseq(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atomseq"));
    command.args(arguments.split_whitespace());
    command
}

/// Runs the command in a process that has called `prepare` before.
fn after(
    prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
    arguments: &str,
) -> Output {
    let mut command = atomseq(arguments);
    // SAFETY: the functions that the tests below pass only make system calls.
    unsafe { command.pre_exec(prepare) };
    command
        .output()
        .expect("the command was built with the tests")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the output of a command that must succeed and print nothing to standard error.
fn success(output: &Output) -> String {
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success() && stderr.is_empty(),
        "{:?}: {stdout}{stderr}",
        output.status
    );
    stdout
}

fn block_all_signals() -> io::Result<()> {
    // SAFETY: zero is a valid set, which the calls write and read.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        match libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut()) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn ignore_children() -> io::Result<()> {
    // SAFETY: numbers only.
    match unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// A system call to refuse, always or by the bits of one of its arguments.
#[derive(Clone, Copy)]
struct Call {
    number: libc::c_long,
    /// Which argument, which bits, and whether to refuse it if any of them is set, or if none is.
    only: Option<(u32, u32, bool)>,
}

const fn any(number: libc::c_long) -> Call {
    Call { number, only: None }
}

/// Makes the kernel refuse these system calls with this error number.
fn refuse(calls: &[Call], errno: i32) -> io::Result<()> {
    let statement = |code: u32, k: u32, jt, jf| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let jump = |test| libc::BPF_JMP | test | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    // Of fixed size: a child of a process with threads must not allocate.
    let mut filter = [statement(answer, libc::SECCOMP_RET_ALLOW, 0, 0); 64];
    let mut length = 0;
    let mut add = |statement| {
        filter[length] = statement;
        length += 1;
    };
    for call in calls {
        add(statement(load, 0, 0, 0));
        let rest = if call.only.is_some() { 3 } else { 1 };
        add(statement(jump(libc::BPF_JEQ), call.number as u32, 0, rest));
        if let Some((argument, bits, with)) = call.only {
            add(statement(load, 16 + 8 * argument, 0, 0));
            let (jt, jf) = if with { (0, 1) } else { (1, 0) };
            add(statement(jump(libc::BPF_JSET), bits, jt, jf));
        }
        add(statement(
            answer,
            libc::SECCOMP_RET_ERRNO | errno as u32,
            0,
            0,
        ));
    }
    add(statement(answer, libc::SECCOMP_RET_ALLOW, 0, 0));
    let program = libc::sock_fprog {
        len: length as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program lives across the call, which copies it.
    let results = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ),
        ]
    };
    match results {
        [0, 0] => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes the kernel refuse processes and threads.
fn refuse_processes() -> io::Result<()> {
    let calls = [libc::SYS_clone, libc::SYS_clone3, FORKS[0], FORKS[1]];
    refuse(&calls.map(any), libc::EAGAIN)
}

/// Two more calls that x86-64 has and some C libraries use; elsewhere, one of the others again.
#[cfg(target_arch = "x86_64")]
const FORKS: [libc::c_long; 2] = [libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const FORKS: [libc::c_long; 2] = [libc::SYS_clone; 2];

/// Makes the kernel refuse processes, but not threads.
fn refuse_forks() -> io::Result<()> {
    let process = Call {
        number: libc::SYS_clone,
        only: Some((0, libc::CLONE_VM as u32, false)),
    };
    #[cfg(target_arch = "x86_64")]
    let calls = [process, any(libc::SYS_fork), any(libc::SYS_vfork)];
    #[cfg(not(target_arch = "x86_64"))]
    let calls = [process];
    refuse(&calls, libc::EAGAIN)
}

/// Makes the kernel refuse memory that is shared with a child.
fn refuse_shared_memory() -> io::Result<()> {
    let shared = Call {
        number: libc::SYS_mmap,
        only: Some((3, libc::MAP_SHARED as u32, true)),
    };
    refuse(&[shared], libc::ENOMEM)
}

/// The report is the same under each parent.
#[test]
fn doctor_reports_the_same_under_each_parent() {
    let signals = |output: &Output| {
        let diagnosis: Value = serde_json::from_str(&success(output)).expect("one JSON object");
        (diagnosis["signals"].clone(), diagnosis["advice"].clone())
    };
    let expected = signals(&after(|| Ok(()), "doctor --json"));
    for (prepare, name) in [
        (block_all_signals as fn() -> io::Result<()>, "blocked"),
        (ignore_children, "ignored"),
    ] {
        assert_eq!(
            signals(&after(prepare, "doctor --json")),
            expected,
            "{name}"
        );
    }
}

#[test]
fn experiments_with_signals_and_stops_run_under_a_parent_that_blocks_all() {
    for experiment in [
        "signal-sequence",
        "signal-mask",
        "rollforward-cost",
        "stall",
    ] {
        // Some exist only where there are per-CPU sequences.
        let arguments = format!("bench {experiment} --quick --threads 1 --json");
        let expected = after(|| Ok(()), "bench --help");
        if success(&expected).contains(&format!("  {experiment}: ")) {
            let lines = success(&after(block_all_signals, &arguments));
            assert!(lines.lines().count() > 2, "{experiment}: {lines}");
        }
    }
}

#[test]
fn torture_interrupts_and_forks_under_each_parent() {
    for prepare in [block_all_signals as fn() -> io::Result<()>, ignore_children] {
        let printed = success(&after(
            prepare,
            "torture fork mutex signals --seconds 3 --seed 1",
        ));
        // On a very busy machine, signals come less often.
        let all = !printed.contains(" times less often");
        assert_eq!(
            printed.ends_with("\nAll invariants held.\n"),
            all,
            "{printed}"
        );
        assert!(!printed.contains("the system refused"), "{printed}");
        let fork = printed
            .lines()
            .find(|line| line.trim_start().starts_with("fork "));
        let fork = fork.unwrap_or_else(|| panic!("no row for fork: {printed}"));
        assert!(!fork.contains(" 0 forks"), "{printed}");
        let cells: Vec<_> = fork.split_whitespace().collect();
        assert_ne!(cells[4], "0", "signals: {printed}");
    }
}

/// Refuses each system call that doctor makes after its start, one a run: no result is false.
#[test]
fn doctor_reports_no_failure_where_a_sandbox_refuses_a_call() {
    for (number, name) in [
        (libc::SYS_tgkill, "tgkill"),
        (libc::SYS_gettid, "gettid"),
        (libc::SYS_getpid, "getpid"),
        (libc::SYS_rt_sigprocmask, "rt_sigprocmask"),
        (libc::SYS_rt_sigreturn, "rt_sigreturn"),
        (libc::SYS_rt_tgsigqueueinfo, "rt_tgsigqueueinfo"),
        (libc::SYS_wait4, "wait4"),
        (libc::SYS_clone, "clone"),
        (libc::SYS_membarrier, "membarrier"),
        (libc::SYS_rseq, "rseq"),
        (libc::SYS_clock_nanosleep, "clock_nanosleep"),
        (libc::SYS_munmap, "munmap"),
        (libc::SYS_sigaltstack, "sigaltstack"),
        (libc::SYS_sched_getaffinity, "sched_getaffinity"),
        (libc::SYS_futex, "futex"),
    ] {
        for errno in [libc::EPERM, libc::ENOSYS] {
            let refusing = move || refuse(&[any(number)], errno);
            let printed = success(&after(refusing, "doctor --json"));
            let diagnosis: Value = serde_json::from_str(&printed).expect("one JSON object");
            let signals = &diagnosis["signals"];
            let fields = ["restart", "rollforward", "mask"].map(|field| &signals[field]);
            assert!(!fields.contains(&&false.into()), "{name}: {signals}");
            if cfg!(atomseq_sections) {
                // Either all was tested, or the report says why not.
                let all = fields.iter().all(|field| **field == true);
                assert_eq!(all, signals["untried"].is_null(), "{name}: {signals}");
            }
            assert!(!printed.contains("are not protected"), "{name}: {printed}");
        }
    }
}

/// A sandbox that refuses only the old `tkill` changes nothing.
#[cfg(target_arch = "x86_64")]
#[test]
fn doctor_does_without_tkill() {
    let signals = |output: &Output| {
        let diagnosis: Value = serde_json::from_str(&success(output)).expect("one JSON object");
        diagnosis["signals"].clone()
    };
    let refusing = || refuse(&[any(libc::SYS_tkill)], libc::EPERM);
    let expected = signals(&after(|| Ok(()), "doctor --json"));
    assert_eq!(signals(&after(refusing, "doctor --json")), expected);
}

/// Experiments that send signals report no failure of atomseq where none can be sent.
#[test]
fn the_benchmark_reports_no_failure_where_a_sandbox_refuses_a_call() {
    let help = success(&after(|| Ok(()), "bench --help"));
    for experiment in [
        "rollforward-cost",
        "stall",
        "signal-mask",
        "signal-sequence",
        "s92-table51",
    ] {
        if !help.contains(&format!("  {experiment}: ")) {
            continue;
        }
        let refusing = || refuse(&[any(libc::SYS_tgkill)], libc::EPERM);
        let output = after(refusing, &format!("bench {experiment} --quick --threads 1"));
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{experiment}: {errors}");
        assert!(
            errors.starts_with("atomseq: the system refused to ")
                && errors.contains("Operation not permitted")
                && errors.lines().count() == 1,
            "{experiment}: {errors}"
        );
    }
}

fn allow_no_queued_signals() -> io::Result<()> {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a valid limit, and a number.
    match unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &none) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Threads are stopped by a real-time signal, which must be queued.
#[test]
fn the_benchmark_names_the_limit_on_queued_signals() {
    if !success(&after(|| Ok(()), "bench --help")).contains("  stall: ") {
        return;
    }
    let output = after(allow_no_queued_signals, "bench stall --quick");
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("the system refused to send a thread a signal")
            && errors.contains("raise the limit on queued signals: `ulimit -i`"),
        "{errors}"
    );
}

/// Runs `torture`, which must report that what needs the refused call was not tested.
fn not_tested(
    prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
    arguments: &str,
    what: &str,
) {
    let printed = success(&after(prepare, arguments));
    assert!(
        printed.ends_with("All invariants that were tested held.\n"),
        "{what}: {printed}"
    );
    let line = printed.lines().find(|line| line.contains(what));
    let line = line.unwrap_or_else(|| panic!("{what}: {printed}"));
    assert!(line.contains("the system refused "), "{printed}");
    assert!(line.contains("so this was NOT tested: "), "{printed}");
    assert!(printed.contains(" held in part "), "{printed}");
}

#[test]
fn where_forks_are_refused_their_invariants_are_not_tested() {
    let arguments = "torture fork --seconds 1 --seed 1";
    not_tested(refuse_forks, arguments, "what a forked child finds");
    not_tested(refuse_shared_memory, arguments, "what a forked child finds");
}

/// Refuses each call as a sandbox does, and as a kernel without it does.
#[test]
fn where_calls_are_refused_their_invariants_are_not_tested() {
    for (number, target, what) in [
        (libc::SYS_wait4, "fork", "what a forked child finds"),
        (
            libc::SYS_sched_setaffinity,
            "stack",
            "threads moved in the middle",
        ),
        (libc::SYS_tgkill, "signals", "interruptions by signals"),
        (libc::SYS_timer_create, "signals", "interruptions by timers"),
        (
            libc::SYS_timer_settime,
            "signals",
            "interruptions by timers",
        ),
    ] {
        for errno in [libc::EPERM, libc::ENOSYS] {
            let refusing = move || refuse(&[any(number)], errno);
            let arguments = format!("torture {target} --seconds 1 --seed 1");
            not_tested(refusing, &arguments, what);
        }
    }
}

/// Without these calls nothing can be tested or measured; the command reports that first.
#[test]
fn what_each_thread_needs_is_checked_first() {
    for (number, name) in [
        (libc::SYS_clock_nanosleep, "sleep"),
        (libc::SYS_futex, "futex"),
        (libc::SYS_munmap, "unmap"),
        (libc::SYS_rt_sigprocmask, "signal mask"),
        (libc::SYS_rt_sigreturn, "return from a signal handler"),
    ] {
        for arguments in [
            "torture counter --seconds 1",
            "bench percpu-counter --quick --threads 1",
        ] {
            let refusing = move || refuse(&[any(number)], libc::EPERM);
            let output = after(refusing, arguments);
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{name}: {errors}");
            assert!(
                errors.starts_with("atomseq: the system refused to ") && errors.contains(name),
                "{name}: {errors}"
            );
            assert_eq!(text(&output.stdout), "", "{name}");
        }
    }
}

/// Where there is no child process, doctor reports no result of it.
#[test]
fn doctor_distinguishes_what_it_could_not_test_from_a_failure() {
    let output = after(refuse_processes, "doctor --json");
    let diagnosis: Value = serde_json::from_str(&success(&output)).expect("one JSON object");
    let signals = &diagnosis["signals"];
    for field in ["restart", "rollforward", "mask", "queued"] {
        assert_eq!(signals[field], Value::Null, "{field} in {signals}");
    }
    let printed = success(&after(refuse_processes, "doctor"));
    assert!(
        !printed.contains("FAILED") && !printed.contains("not protected"),
        "{printed}"
    );
    if cfg!(atomseq_sections) {
        assert!(
            signals["untried"]
                .as_str()
                .is_some_and(|why| why.contains("child process")),
            "{signals}"
        );
        assert!(
            printed.contains("not tested: ") && printed.contains("What to do\n"),
            "{printed}"
        );
        let uses = diagnosis["uses"].as_array().expect("structures");
        let of = uses.iter().find(|of| of["structure"] == "local::Stack");
        assert_eq!(of.expect("it is listed")["path"], "sequence");
    }
}

#[test]
fn a_refused_thread_ends_the_benchmark_with_a_sentence() {
    let output = after(refuse_processes, "bench percpu-counter --quick --threads 1");
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.starts_with("atomseq: cannot start more than 0 of 1 threads: "),
        "{errors}"
    );
}

fn close_output() -> io::Result<()> {
    // SAFETY: a number only; no other code uses this descriptor.
    match unsafe { libc::close(1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Output that cannot be written is a failure; bad arguments keep their exit code.
#[test]
fn output_that_is_lost_is_an_error() {
    let full = || {
        let file = File::options().write(true).open("/dev/full");
        file.expect("it is there")
    };
    for (arguments, code) in [
        ("--help", 1),
        ("--version", 1),
        ("bench --help", 1),
        ("help torture", 1),
        ("doctor", 1),
        ("doctor --json", 1),
        ("torture counter --seconds 1", 1),
        ("bench percpu-counter --quick --threads 1", 1),
        ("bench --threads 0", 2),
    ] {
        let ends = |output: Output, reason: &str| {
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{arguments}: {errors}");
            let printed = format!("atomseq: cannot write the result: {reason}");
            let lost = errors.starts_with(&printed) && errors.lines().count() == 1;
            assert_eq!(lost, code == 1, "{arguments}: {errors}");
        };
        let output = atomseq(arguments).stdout(full()).output();
        ends(output.expect("it runs"), "No space left");
        ends(after(close_output, arguments), "Bad file descriptor");
        // Without standard error, only the exit code remains.
        let status = atomseq(arguments).stdout(full()).stderr(full()).status();
        assert_eq!(status.expect("it runs").code(), Some(code), "{arguments}");
    }
}

/// With little memory, the command succeeds, or it exits with a sentence and code 1. A failure
/// before its code runs is not its own: the dynamic loader, the kernel or Rust's runtime reports
/// it.
#[test]
fn a_limit_on_memory_ends_with_a_sentence() {
    let command = env!("CARGO_BIN_EXE_atomseq");
    let ended = |kibibytes: usize, arguments: &str| {
        let script = format!("ulimit -c 0; ulimit -v {kibibytes}; exec '{command}' {arguments}");
        let output = Command::new("sh").args(["-c", &script]).output();
        let output = output.expect("a shell");
        let errors = text(&output.stderr);
        // Rust's runtime allocates the signal stack of the thread `main` before it calls `main`.
        let begun = !(errors.contains("thread 'main'")
            && errors.contains("failed to allocate an alternative stack"));
        let loaded = output.status.code() != Some(127)
            && (output.status.code().is_some() || begun && !errors.is_empty());
        match output.status.code() {
            _ if !loaded => None,
            Some(0) => Some(true),
            Some(1) if errors.starts_with("atomseq: ") || errors.contains("\natomseq: ") => {
                assert!(!errors.contains("panicked"), "{kibibytes}: {errors}");
                // glibc aborts if it has no memory for a thread's destructor: no crash, either.
                assert!(
                    !errors.contains("the process crashed"),
                    "{kibibytes}: {errors}"
                );
                Some(false)
            }
            code => panic!("{arguments} with {kibibytes} KiB: {code:?}, {errors}"),
        }
    };
    // After this number of successes in a row, more memory changes nothing. `.ci/soak` asks for
    // more of those that take a second each.
    let asked = std::env::var("ATOMSEQ_MEMORY_SUCCESSES").ok();
    let long = asked.map_or(5, |asked| asked.parse().expect("a number of successes"));
    std::thread::scope(|scope| {
        for (arguments, step, last, enough_in_a_row) in [
            // Between too little to start and enough are 95 KiB.
            ("--help", 30, 24_000, 20),
            ("doctor", 200, 24_000, 20),
            ("bench percpu-stack --quick --threads 1", 800, 30_000, 20),
            ("bench dcas --quick --threads 2", 3_000, 48_000, long),
            (
                "torture fork registration --seconds 1 --seed 1",
                4_000,
                100_000,
                long,
            ),
        ] {
            let ended = &ended;
            scope.spawn(move || {
                // Below the coarse limit the program does not start.
                const COARSE: usize = 600;
                let starts = |limit: &usize| ended(*limit, arguments).is_some();
                let first = (4_000..last).step_by(COARSE).find(starts);
                let first = first.unwrap_or_else(|| panic!("{arguments}: never enough"));
                let (mut too_little, mut enough, mut in_a_row) = (0, 0, 0);
                for limit in (first - COARSE..last).step_by(step) {
                    match ended(limit, arguments) {
                        Some(true) => (enough, in_a_row) = (enough + 1, in_a_row + 1),
                        Some(false) => (too_little, in_a_row) = (too_little + 1, 0),
                        None => in_a_row = 0,
                    }
                    if in_a_row == enough_in_a_row {
                        break;
                    }
                }
                assert!(enough > 0, "{arguments}: never enough");
                assert!(too_little > 0, "{arguments}: never too little");
            });
        }
    });
}

/// A command that has printed its result succeeds, however little memory there is.
#[test]
fn a_limit_on_memory_does_not_crash_the_exit() {
    let command = env!("CARGO_BIN_EXE_atomseq");
    let mut complete = 0;
    for kibibytes in (4_000..30_000).step_by(500) {
        let script = format!("ulimit -v {kibibytes}; exec '{command}' --version");
        let output = Command::new("sh")
            .args(["-c", &script])
            .output()
            .expect("a shell");
        if text(&output.stdout).starts_with("atomseq ") {
            complete += 1;
            assert!(output.status.success(), "{kibibytes}: {:?}", output.status);
        }
    }
    assert!(complete > 0, "30 MB were not enough");
}
