//! The command under parents that leave something behind, and on systems that withhold something: signals that are blocked, children
//! that vanish, threads and processes that cannot be had, nowhere to write to, and next to no memory.
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

/// Runs the command in a process that has called this function before.
fn after(prepare: fn() -> io::Result<()>, arguments: &str) -> Output {
    let mut command = atomseq(arguments);
    // SAFETY: what the tests below give makes system calls and nothing else.
    unsafe { command.pre_exec(prepare) };
    command
        .output()
        .expect("the command was built with the tests")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The output, if the command ended well and had nothing to say on standard error.
fn well(output: &Output) -> String {
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success() && stderr.is_empty(),
        "{:?}: {stdout}{stderr}",
        output.status
    );
    stdout
}

fn block_all_signals() -> io::Result<()> {
    // SAFETY: all zero is a set, which the calls fill in and read.
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

/// From now on there is neither a process nor a thread to be had.
fn refuse_processes() -> io::Result<()> {
    let statement = |code: u32, k: u32, jf| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let (equals, answer) = (
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    let refused = libc::SECCOMP_RET_ERRNO | libc::EAGAIN as u32;
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        statement(equals, libc::SYS_clone as u32, 1),
        statement(answer, refused, 0),
        statement(equals, libc::SYS_clone3 as u32, 1),
        statement(answer, refused, 0),
        // x86-64 has two more, which not every C library calls; elsewhere these are the same once again.
        statement(equals, FORKS[0] as u32, 1),
        statement(answer, refused, 0),
        statement(equals, FORKS[1] as u32, 1),
        statement(answer, refused, 0),
        statement(answer, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
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

#[cfg(target_arch = "x86_64")]
const FORKS: [libc::c_long; 2] = [libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const FORKS: [libc::c_long; 2] = [libc::SYS_clone; 2];

/// The same verdict, whatever the parent has left behind.
#[test]
fn doctor_says_the_same_under_every_parent() {
    let signals = |output: &Output| {
        let diagnosis: Value = serde_json::from_str(&well(output)).expect("one JSON object");
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
        // Some exist only where there are sections.
        let arguments = format!("bench {experiment} --quick --threads 1 --json");
        let expected = after(|| Ok(()), "bench --help");
        if well(&expected).contains(&format!("  {experiment}: ")) {
            let lines = well(&after(block_all_signals, &arguments));
            assert!(lines.lines().count() > 2, "{experiment}: {lines}");
        }
    }
}

#[test]
fn torture_interrupts_and_forks_under_every_parent() {
    for prepare in [block_all_signals as fn() -> io::Result<()>, ignore_children] {
        let told = well(&after(
            prepare,
            "torture fork mutex signals --seconds 3 --seed 1",
        ));
        assert!(told.ends_with("Every law held.\n"), "{told}");
        let fork = told
            .lines()
            .find(|line| line.trim_start().starts_with("fork "));
        let fork = fork.unwrap_or_else(|| panic!("no line for fork: {told}"));
        assert!(!fork.contains(" 0 forks"), "{told}");
        let cells: Vec<_> = fork.split_whitespace().collect();
        assert_ne!(cells[4], "0", "signals: {told}");
    }
}

/// Where there is no child process, doctor does not say what would have become of one.
#[test]
fn doctor_tells_what_it_could_not_try_from_what_fails() {
    let output = after(refuse_processes, "doctor --json");
    let diagnosis: Value = serde_json::from_str(&well(&output)).expect("one JSON object");
    let signals = &diagnosis["signals"];
    for field in ["restart", "rollforward", "mask", "queued"] {
        assert_eq!(signals[field], Value::Null, "{field} in {signals}");
    }
    let told = well(&after(refuse_processes, "doctor"));
    assert!(
        !told.contains("FAILED") && !told.contains("not protected"),
        "{told}"
    );
    if cfg!(atomseq_sections) {
        assert!(
            signals["untried"]
                .as_str()
                .is_some_and(|why| why.contains("child process")),
            "{signals}"
        );
        assert!(
            told.contains("not tried: ") && told.contains("What to do\n"),
            "{told}"
        );
        let uses = diagnosis["uses"].as_array().expect("structures");
        let of = uses.iter().find(|of| of["structure"] == "local::Stack");
        assert_eq!(of.expect("it is told")["path"], "sequence");
    }
}

#[test]
fn a_thread_that_cannot_be_had_ends_the_benchmark_in_a_sentence() {
    let output = after(refuse_processes, "bench percpu-counter --quick --threads 1");
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.starts_with("atomseq: cannot start more than 0 of 1 threads: "),
        "{errors}"
    );
}

/// Where neither stream takes anything, the command ends by an exit code, not by a panic.
#[test]
fn nowhere_to_write_ends_in_exit_code_1() {
    for arguments in ["doctor", "doctor --json", "--help", "bench --threads 0"] {
        let full = || {
            File::options()
                .write(true)
                .open("/dev/full")
                .expect("it is there")
        };
        let status = atomseq(arguments).stdout(full()).stderr(full()).status();
        let code = status.expect("the command was built with the tests").code();
        let expected = match arguments {
            "--help" => 0,
            "bench --threads 0" => 2,
            _ => 1,
        };
        assert_eq!(code, Some(expected), "{arguments}");
    }
}

/// What has said everything ends well, however little memory there was.
#[test]
fn a_limit_on_memory_does_not_crash_the_end() {
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
