//! Where a thread is, and what called it there: a signal's handler notes the thread's instruction
//! and a copy of its stack, in which what looks like a return address of this program is taken for
//! one.

use std::ffi::{c_int, c_void};
use std::fs;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use verify_every_instruction::blocked;
use verify_every_instruction::maps::{self, Mapping};
use verify_every_instruction::table::Program;

use crate::interrupt::with_errno_kept;
use crate::said::say;
use crate::stops::program;

/// Trials have no other use for it, and without a handler it does nothing.
const SIGNAL: c_int = libc::SIGURG;

/// How much of a stack is copied, in words: more than the frame of a signal, and many of calls.
const COPIED: usize = 4096;

/// How many return addresses are said.
const CALLERS: usize = 16;

/// How long a thread has to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// The instruction pointer of the thread that was asked.
static AT: AtomicUsize = AtomicUsize::new(0);
/// Its stack.
static STACK: [AtomicUsize; COPIED] = [const { AtomicUsize::new(0) }; COPIED];
/// How many words of it there are.
static HEIGHT: AtomicUsize = AtomicUsize::new(0);
/// Who has answered.
static ANSWERED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_question(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the interrupted thread's context to an SA_SIGINFO handler.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    let register = |index: c_int| context.uc_mcontext.gregs[index as usize] as usize;
    AT.store(register(libc::REG_RIP), Ordering::Relaxed);
    with_errno_kept(|| {
        let to = libc::iovec {
            iov_base: STACK.as_ptr().cast_mut().cast(),
            iov_len: size_of_val(&STACK),
        };
        let from = libc::iovec {
            iov_base: register(libc::REG_RSP) as *mut c_void,
            iov_len: size_of_val(&STACK),
        };
        // SAFETY: the kernel writes no more than there is room for, into atomics that nobody else
        // uses before this thread has answered; and reads what there is.
        let copied = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
        let words = usize::try_from(copied).unwrap_or(0) / size_of::<usize>();
        HEIGHT.store(words, Ordering::Relaxed);
        // SAFETY: asks for a number.
        let me = unsafe { libc::gettid() } as usize;
        // Release: pairs with the acquire of who asks.
        ANSWERED.store(me, Ordering::Release);
    });
}

/// Says where a thread is, and what called it there. One at a time asks.
pub fn say_of(thread: u32) {
    blocked::handle(SIGNAL, on_question);
    // SAFETY: sends a thread of this process, or none, a signal that has a handler.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
    let look = Duration::from_millis(1);
    // Acquire: pairs with the release of who answers.
    let answered = || ANSWERED.load(Ordering::Acquire) == thread as usize;
    for _ in 0..ANSWER.as_millis() {
        if answered() {
            break;
        }
        thread::sleep(look);
    }
    if !answered() {
        say("    it does not answer\n");
        return;
    }
    let program = program();
    say(format!(
        "    at {}\n",
        place(program, AT.load(Ordering::Relaxed))
    ));
    let stack = STACK[..HEIGHT.load(Ordering::Relaxed)].iter();
    let callers = stack
        .map(|word| word.load(Ordering::Relaxed))
        .filter(|word| is_behind_a_call(program, *word));
    for caller in callers.take(CALLERS) {
        say(format!("    from {}\n", place(program, caller)));
    }
}

/// Could this be where a call returns to?
fn is_behind_a_call(program: &Program, address: usize) -> bool {
    let text = program.text();
    if !(text.start + 8..text.end).contains(&address) {
        return false;
    }
    let before = |bytes: usize| {
        // SAFETY: a byte of this program's text.
        unsafe { ptr::read_volatile((address - bytes) as *const u8) }
    };
    const CALL: u8 = 0xe8;
    // Through a register or memory: one of eight forms of the byte behind it.
    const INDIRECT: u8 = 0xff;
    let indirect = [2, 3, 4, 6, 7].iter();
    before(5) == CALL || { indirect }
        .any(|bytes| before(*bytes) == INDIRECT && before(bytes - 1) >> 3 & 7 == 2)
}

/// A function of this program, or the file that is there.
fn place(program: &Program, address: usize) -> String {
    if program.function_at(address).is_some() {
        return program.place(address);
    }
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let found = maps::named(&maps).find(|mapping| mapping.range.contains(&address));
    let found = found.map(
        |Mapping {
             range,
             offset,
             name,
         }| { format!("{name}+{:#x}", address - range.start + offset) },
    );
    found.unwrap_or_else(|| program.place(address))
}
