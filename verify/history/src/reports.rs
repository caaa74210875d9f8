//! Reports of a process that makes no progress, before it ends: messages to standard error itself,
//! since the test harness captures the output of `eprintln!` and loses it then; and the state of
//! every thread of this process.

use std::io::{Cursor, Write};
use std::sync::Once;
use std::{fs, panic};

use verify_support::threads::{self, scheduled};

/// Writes a text to standard error. Async-signal-safe: allocates no memory and acquires no lock.
pub fn say(text: impl AsRef<[u8]>) {
    let mut rest = text.as_ref();
    while !rest.is_empty() {
        // SAFETY: these bytes, which the kernel only reads.
        let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(1..) => rest = &rest[written as usize..],
            _ if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            // The pipe has no reader.
            _ => return,
        }
    }
}

/// Makes every panic write a line of its own first. The usual report is lost where a panic in a
/// handler ends the process.
pub fn say_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let payload = panic.payload();
            let message = (payload.downcast_ref::<&str>().copied())
                .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            // Truncated to the room that there is: it allocates no memory.
            let mut line = Cursor::new([0; 1_000]);
            let mut name = [0; 16];
            // SAFETY: the kernel writes 16 bytes at most, the last of them 0.
            unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            _ = write!(
                line,
                "thread {} panics",
                str::from_utf8(name).unwrap_or("?")
            );
            if let Some(place) = panic.location() {
                _ = write!(line, " at {place}");
            }
            _ = write!(line, ": {}", message.unwrap_or("?"));
            say(&line.get_ref()[..line.position() as usize]);
            say("\n");
            before(panic);
        }));
    });
}

/// System calls in which threads of trials sleep.
const CALLS: [(libc::c_long, &str); 6] = [
    (libc::SYS_futex, "futex"),
    (libc::SYS_nanosleep, "nanosleep"),
    (libc::SYS_clock_nanosleep, "clock_nanosleep"),
    (libc::SYS_sched_yield, "sched_yield"),
    (libc::SYS_membarrier, "membarrier"),
    (libc::SYS_wait4, "wait4"),
];

/// Reports the state of every thread but this one.
pub fn say_all() {
    let me = threads::this_thread();
    for thread in threads::all().filter(|thread| *thread != me) {
        say(line_of(thread));
        stack::say_of(thread);
    }
}

/// Returns a line about a thread: its name, state, times, and current system call.
fn line_of(thread: i32) -> String {
    let read = |what| fs::read_to_string(threads::task(thread).join(what));
    let name = read("comm").unwrap_or_default();
    let times = scheduled(thread).map_or_else(String::new, |(run, waited)| {
        format!(", {run:.1?} of CPU time, waited {waited:.1?} for a CPU")
    });
    let call = read("syscall").map_or_else(|_| String::new(), |call| in_call(&call));
    let channel = match read("wchan").unwrap_or_default() {
        channel if channel.is_empty() || channel == "0" => String::new(),
        channel => format!(", in the kernel's {channel}"),
    };
    let (name, state) = (name.trim_end(), threads::state(thread).unwrap_or('?'));
    format!("  thread {thread}, {name}: state {state}{times}{call}{channel}\n")
}

/// Parses the system call's number, its arguments and two addresses, or "running".
fn in_call(call: &str) -> String {
    let mut words = call.split_whitespace();
    let Some(number) = words.next().and_then(|number| number.parse().ok()) else {
        return String::new();
    };
    let name = CALLS.iter().find(|(known, _)| *known == number);
    let name = name.map_or_else(|| number.to_string(), |(_, name)| name.to_string());
    let arguments: Vec<&str> = words.take(6).collect();
    format!(", in system call {name}({})", arguments.join(", "))
}

#[cfg(not(all(atomseq_sections, target_arch = "x86_64")))]
mod stack {
    //! Names of instructions exist only where stops do.

    pub fn say_of(_thread: i32) {}
}

/// Reports where a thread is, and its callers. A signal handler records the thread's instruction
/// and a copy of its stack. Every word in it that looks like a return address of this program is
/// taken for one.
#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod stack {
    use std::ffi::{c_int, c_void};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use std::{ptr, thread};

    use verify_support::code::blocked;
    use verify_support::code::table::Program;
    use verify_support::proc::{self, Mapping};
    use verify_support::threads;

    use crate::interrupt::with_errno_kept;
    use crate::reports::say;
    use crate::stops::program;

    /// Trials do not use this signal, and without a handler it is ignored.
    const SIGNAL: c_int = libc::SIGURG;

    /// The copied part of a stack, in words: more than the frame of a signal, and many frames of
    /// calls.
    const COPIED: usize = 4096;

    /// The number of return addresses to report.
    const CALLERS: usize = 16;

    /// How long a thread has to answer.
    const ANSWER: Duration = Duration::from_secs(2);

    /// The instruction pointer of the thread that was asked.
    static AT: AtomicUsize = AtomicUsize::new(0);
    /// A copy of its stack.
    static STACK: [AtomicUsize; COPIED] = [const { AtomicUsize::new(0) }; COPIED];
    /// The number of words copied.
    static HEIGHT: AtomicUsize = AtomicUsize::new(0);
    /// The thread that has answered.
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
            // SAFETY: the kernel writes at most as much as there is room for, into atomics that no
            // other thread uses before this thread has answered; and it reads only memory that
            // exists.
            let copied = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
            let words = usize::try_from(copied).unwrap_or(0) / size_of::<usize>();
            HEIGHT.store(words, Ordering::Relaxed);
            // Release: pairs with the acquire of the thread that asks.
            ANSWERED.store(threads::this_thread() as usize, Ordering::Release);
        });
    }

    /// Reports where a thread is, and its callers. Only one thread at a time may ask.
    pub fn say_of(thread: i32) {
        blocked::handle(SIGNAL, on_question);
        threads::signal(thread, SIGNAL);
        let look = Duration::from_millis(1);
        // Acquire: pairs with the release of the thread that answers.
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

    /// Returns whether a call could return to this address.
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
        // Calls through a register or memory: one of eight forms of the second opcode byte.
        const INDIRECT: u8 = 0xff;
        let indirect = [2, 3, 4, 6, 7].iter();
        before(5) == CALL || { indirect }
            .any(|bytes| before(*bytes) == INDIRECT && before(bytes - 1) >> 3 & 7 == 2)
    }

    /// Returns the function of this program at the address, or the file mapped there.
    fn place(program: &Program, address: usize) -> String {
        if program.function_at(address).is_some() {
            return program.place(address);
        }
        let maps = proc::maps();
        let found = proc::mappings(&maps).find(|mapping| mapping.range.contains(&address));
        let found = found.map(
            |Mapping {
                 range,
                 offset,
                 name,
                 ..
             }| { format!("{name}+{:#x}", address - range.start + offset) },
        );
        found.unwrap_or_else(|| program.place(address))
    }
}
