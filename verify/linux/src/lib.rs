//! Tools for tests that need a process of their own: start-up decides once for a process, and some
//! tests give the process a sandbox or an environment first.
#![cfg(atomseq_sections)]

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells a test that it runs in the fresh process, and should check.
const MARK: &str = "ATOMSEQ_VERIFY";

/// What is different about the fresh process.
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
    /// Files that are mounted over others: the one that is hidden, and the one that is there
    /// instead.
    pub replaced: Vec<(CString, CString)>,
}

/// Runs `check` in a fresh process under `circumstances`; fails unless it ran there to its end.
///
/// `test` is the name of the calling test, by which the fresh process finds it again.
/// Returns what it printed, and `None` in the fresh process itself.
pub fn in_fresh_process(
    test: &str,
    circumstances: Circumstances,
    check: impl FnOnce(),
) -> Option<String> {
    if is_fresh_process() {
        check();
        println!("{}", ran_to_its_end(test));
        return None;
    }
    let output = spawn(test, circumstances);
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains(&ran_to_its_end(test)),
        "{test}, {}:\n{text}\n{errors}",
        output.status
    );
    Some(text.into_owned())
}

/// Runs `check` in a fresh process, which must be killed by `signal`; returns what it wrote on
/// standard error itself, past the test harness, which loses what it keeps.
pub fn killed_in_fresh_process(test: &str, signal: i32, check: impl FnOnce()) -> Option<String> {
    if is_fresh_process() {
        check();
        return None;
    }
    let circumstances = Circumstances {
        captured: true,
        ..Circumstances::default()
    };
    let output = spawn(test, circumstances);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        output.status.signal(),
        Some(signal),
        "{test}, {}:\n{errors}",
        output.status
    );
    Some(errors)
}

/// Is this such a process?
pub fn is_fresh_process() -> bool {
    std::env::var_os(MARK).is_some()
}

fn ran_to_its_end(test: &str) -> String {
    format!("ran to its end: {test}")
}

fn spawn(test: &str, circumstances: Circumstances) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("the path of this test"));
    command.args([test, "--exact", "--test-threads=1"]);
    if !circumstances.captured {
        command.arg("--nocapture");
    }
    for name in [
        "GLIBC_TUNABLES",
        "ATOMSEQ_DISABLE_RSEQ",
        "ATOMSEQ_TRUST_KERNEL",
    ] {
        command.env_remove(name);
    }
    command.env(MARK, "1").envs(circumstances.environment);
    let (refused, ancient) = (circumstances.refused, circumstances.ancient);
    let replaced = circumstances.replaced;
    // SAFETY: between fork and exec, only system calls and memory that is there already.
    unsafe {
        command.pre_exec(move || {
            // No fresh process hangs for ever: an alarm outlives the exec.
            libc::alarm(60);
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
    command.output().expect("a process")
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

/// A system call, and what the kernel answers instead of doing it.
#[derive(Clone, Copy)]
pub struct Refusal {
    /// The call's number.
    pub call: libc::c_long,
    /// What it answers.
    pub answer: Answer,
    /// Which of these calls.
    pub when: When,
}

/// What comes of a refused system call.
#[derive(Clone, Copy)]
pub enum Answer {
    /// An error number; 0 for a success in name.
    Error(i32),
    /// A `SIGSYS`.
    Trap,
    /// The end of the process.
    Kill,
}

/// Which calls a [`Refusal`] is for, by the low half of their first argument.
#[derive(Clone, Copy)]
pub enum When {
    /// All.
    Always,
    /// Those with this argument.
    Equals(u32),
    /// Those with none of these bits set.
    Lacks(u32),
}

/// From now on, the kernel refuses a system call to this thread and what it starts.
pub fn refuse(refusal: &Refusal) -> std::io::Result<()> {
    // A filter looks at `struct seccomp_data`: the call's number at 0, its first argument's low
    // half at 16.
    let statement = |code: u32, k: u32, jt, jf| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let answer = libc::BPF_RET | libc::BPF_K;
    let refusing = match refusal.answer {
        Answer::Error(errno) => libc::SECCOMP_RET_ERRNO | errno as u32,
        Answer::Trap => libc::SECCOMP_RET_TRAP,
        Answer::Kill => libc::SECCOMP_RET_KILL_PROCESS,
    };
    let (test, argument, refused, allowed) = match refusal.when {
        When::Always => (libc::BPF_JGE, 0, 0, 1),
        When::Equals(argument) => (libc::BPF_JEQ, argument, 0, 1),
        When::Lacks(bits) => (libc::BPF_JSET, bits, 1, 0),
    };
    let mut filter = [
        statement(load, 0, 0, 0),
        statement(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            refusal.call as u32,
            0,
            3,
        ),
        statement(load, 16, 0, 0),
        statement(
            libc::BPF_JMP | test | libc::BPF_K,
            argument,
            refused,
            allowed,
        ),
        statement(answer, refusing, 0, 0),
        statement(answer, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    install(&mut filter)
}

/// How many trapped system calls the handler of [`answer_traps`] has answered.
pub static ANSWERED: AtomicU64 = AtomicU64::new(0);

/// From now on a handler of `SIGSYS` answers trapped system calls by `ENOSYS`. The kernel ends a
/// process that has blocked the signal.
pub fn answer_traps() {
    extern "C" fn answer(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
        ANSWERED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: a handler's third argument.
        unsafe { fail_trapped_call(context) };
    }
    install_answer(answer);
}

/// Installs a handler of `SIGSYS`.
pub fn install_answer(answer: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void)) {
    // SAFETY: plain old data, filled in.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = answer as usize;
        action.sa_flags = libc::SA_SIGINFO;
        let no_old = core::ptr::null_mut();
        assert_eq!(libc::sigaction(libc::SIGSYS, &action, no_old), 0);
    }
}

/// Makes the trapped call return `ENOSYS`.
///
/// # Safety
///
/// The third argument of the handler of `SIGSYS` that runs.
pub unsafe fn fail_trapped_call(context: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { end_trapped_call(context, -i64::from(libc::ENOSYS)) }
}

/// Makes the trapped call return what the kernel would: a result, or an error's number, negative.
///
/// # Safety
///
/// The third argument of the handler of `SIGSYS` that runs.
pub unsafe fn end_trapped_call(context: *mut c_void, result: i64) {
    // SAFETY: the caller's promise.
    let context = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    {
        context.gregs[libc::REG_RAX as usize] = result;
    }
    #[cfg(target_arch = "aarch64")]
    {
        context.regs[0] = result as u64;
    }
}

/// The number of the trapped call.
///
/// # Safety
///
/// The third argument of the handler of `SIGSYS` that runs.
pub unsafe fn trapped_call(context: *mut c_void) -> libc::c_long {
    // SAFETY: the caller's promise.
    let context = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    {
        context.gregs[libc::REG_RAX as usize] as libc::c_long
    }
    #[cfg(target_arch = "aarch64")]
    {
        context.regs[8] as libc::c_long
    }
}

/// The second argument of the trapped call.
///
/// # Safety
///
/// The third argument of the handler of `SIGSYS` that runs.
pub unsafe fn second_argument(context: *mut c_void) -> usize {
    // SAFETY: the caller's promise.
    let context = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    {
        context.gregs[libc::REG_RSI as usize] as usize
    }
    #[cfg(target_arch = "aarch64")]
    {
        context.regs[1] as usize
    }
}

/// From now on, every other system call ends the process.
pub fn allow_only(calls: &[libc::c_long]) -> std::io::Result<()> {
    let statement = |code: u32, k: u32, jf| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let answer = libc::BPF_RET | libc::BPF_K;
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    for call in calls {
        let equals = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        filter.push(statement(equals, *call as u32, 1));
        filter.push(statement(answer, libc::SECCOMP_RET_ALLOW, 0));
    }
    filter.push(statement(answer, libc::SECCOMP_RET_KILL_PROCESS, 0));
    install(&mut filter)
}

fn install(filter: &mut [libc::sock_filter]) -> std::io::Result<()> {
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
    if results == [0, 0] {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// The text of one of the library's sources.
pub fn library_source(name: &str) -> String {
    let text = std::fs::read_to_string(library().join(name));
    text.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The library's sources, by their names, without files of unit tests.
pub fn library_sources() -> Vec<(String, String)> {
    let mut sources = Vec::new();
    let mut directories = vec![library()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let is_source = path.extension().is_some_and(|extension| extension == "rs");
            if path.is_dir() && !path.ends_with("tests") {
                directories.push(path);
            } else if is_source && !path.ends_with("tests.rs") {
                let name = path.strip_prefix(library()).expect("a part of it");
                let name = name.to_string_lossy().into_owned();
                let text = library_source(&name);
                sources.push((name, text));
            }
        }
    }
    sources
}

fn library() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/atomseq/src")
}

/// A source up to its unit tests.
pub fn without_tests(text: &str) -> &str {
    let tests = text.find("#[cfg(test)]\nmod tests {");
    &text[..tests.unwrap_or(text.len())]
}

/// The CPU that this thread is on, asked of the kernel itself: the C library's answer comes from
/// rseq.
pub fn kernel_cpu() -> i32 {
    let mut cpu = 0u32;
    // SAFETY: the kernel writes one word.
    let result = unsafe { libc::syscall(libc::SYS_getcpu, &raw mut cpu, 0, 0) };
    assert_eq!(result, 0);
    cpu as i32
}

/// Keeps this thread on the CPU that it is on, and returns that.
pub fn pin() -> i32 {
    let cpu = kernel_cpu();
    // SAFETY: plain old data, filled below; 0 is this thread.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
    cpu
}

/// Waits for a child of a fork, and returns what it exited with; `None` when a signal ended it. A
/// child that takes more than two minutes hangs, and is killed (it may have blocked every other
/// signal).
pub fn exit_code(child: i32) -> Option<i32> {
    let mut status = 0;
    for _ in 0..120_000 {
        // SAFETY: the kernel writes one word.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            0 => std::thread::sleep(std::time::Duration::from_millis(1)),
            ended => {
                assert_eq!(ended, child);
                return libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
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
