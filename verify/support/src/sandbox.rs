//! Sandboxes: system calls that the kernel refuses or traps, for the calling thread and for all
//! that it starts.
//!
//! A filter is a program of the kernel's BPF machine. It reads `struct seccomp_data`: the number of
//! the call at 0, the low half of argument n (from 0) at 16 + 8 n. Filters add up; the strictest
//! answer counts.

use std::ffi::{c_int, c_long, c_void};
use std::io::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};

use libc::sock_filter;

use crate::signals::{Three, install_plainly};

/// A system call, and what the kernel answers instead of doing it.
#[derive(Clone, Copy)]
pub struct Refusal {
    /// The call's number.
    pub call: c_long,
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

/// Which calls a [`Refusal`] is for.
#[derive(Clone, Copy)]
pub enum When {
    /// All.
    Always,
    /// Those with this first argument, of which the low half counts.
    Equals(u32),
    /// Those whose first argument has none of these bits set.
    Lacks(u32),
    /// Those whose second argument is less: a size.
    Below(u32),
    /// Those whose sixth argument is not this password: a handler that knows it can make the call.
    Without(u32),
}

/// The call, refused always.
pub const fn always(call: c_long, errno: i32) -> Refusal {
    Refusal {
        call,
        answer: Answer::Error(errno),
        when: When::Always,
    }
}

/// Makes the kernel refuse a system call from now on.
pub fn refuse(refusal: &Refusal) -> Result<()> {
    let refusing = match refusal.answer {
        Answer::Error(errno) => libc::SECCOMP_RET_ERRNO | errno as u32,
        Answer::Trap => libc::SECCOMP_RET_TRAP,
        Answer::Kill => libc::SECCOMP_RET_KILL_PROCESS,
    };
    // How to compare which argument with what, and how many statements to skip if it is so, and if
    // not: the next one refuses, the last one allows.
    let (argument, test, value, so, not_so) = match refusal.when {
        When::Always => (0, libc::BPF_JGE, 0, 0, 1),
        When::Equals(value) => (0, libc::BPF_JEQ, value, 0, 1),
        When::Lacks(bits) => (0, libc::BPF_JSET, bits, 1, 0),
        When::Below(size) => (1, libc::BPF_JGE, size, 1, 0),
        When::Without(password) => (5, libc::BPF_JEQ, password, 1, 0),
    };
    install(&mut [
        load(0),
        jump(libc::BPF_JEQ, refusal.call as u32, 0, 3),
        load(16 + 8 * argument),
        jump(test, value, so, not_so),
        answer(refusing),
        answer(libc::SECCOMP_RET_ALLOW),
    ])
}

/// Makes these calls fail with `EPERM` from now on.
pub fn refuse_all(calls: &[c_long]) {
    for &call in calls {
        refuse(&always(call, libc::EPERM)).expect("a filter");
    }
}

/// Makes this call raise `SIGSYS` from now on, unless its sixth argument is `password`.
pub fn trap(call: c_long, password: u32) {
    let (answer, when) = (Answer::Trap, When::Without(password));
    refuse(&Refusal { call, answer, when }).expect("a filter");
}

/// Makes every other system call end the process from now on.
pub fn allow_only(calls: &[c_long]) -> Result<()> {
    let mut filter = vec![load(0)];
    for call in calls {
        filter.push(jump(libc::BPF_JEQ, *call as u32, 0, 1));
        filter.push(answer(libc::SECCOMP_RET_ALLOW));
    }
    filter.push(answer(libc::SECCOMP_RET_KILL_PROCESS));
    install(&mut filter)
}

fn load(offset: u32) -> sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
}

fn jump(test: u32, value: u32, so: u8, not_so: u8) -> sock_filter {
    statement(libc::BPF_JMP | test | libc::BPF_K, value, so, not_so)
}

fn answer(answer: u32) -> sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, answer, 0, 0)
}

fn statement(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    let code = code as u16;
    sock_filter { code, jt, jf, k }
}

fn install(filter: &mut [sock_filter]) -> Result<()> {
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
        _ => Err(Error::last_os_error()),
    }
}

/// How many trapped system calls the handler of [`answer_traps`] has answered.
pub static ANSWERED: AtomicU64 = AtomicU64::new(0);

/// Installs a handler of `SIGSYS` that answers trapped system calls by `ENOSYS`. The kernel ends a
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
pub fn install_answer(answer: Three) {
    install_plainly(libc::SIGSYS, answer, 0, &[]);
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

/// Returns the number of the trapped call.
///
/// # Safety
///
/// The third argument of the handler of `SIGSYS` that runs.
pub unsafe fn trapped_call(context: *mut c_void) -> c_long {
    // SAFETY: the caller's promise.
    let context = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    let number = context.gregs[libc::REG_RAX as usize] as c_long;
    #[cfg(target_arch = "aarch64")]
    let number = context.regs[8] as c_long;
    number
}

/// Returns the second argument of the trapped call.
///
/// # Safety
///
/// The third argument of the handler of `SIGSYS` that runs.
pub unsafe fn second_argument(context: *mut c_void) -> usize {
    // SAFETY: the caller's promise.
    let context = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    let argument = context.gregs[libc::REG_RSI as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let argument = context.regs[1] as usize;
    argument
}
