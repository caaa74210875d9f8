//! What each thread of this process is at, for those who look for what hangs.

use std::fs;

use crate::patience::{scheduled, threads};
use crate::said::say;

/// System calls that threads of trials sleep in.
const CALLS: [(libc::c_long, &str); 6] = [
    (libc::SYS_futex, "futex"),
    (libc::SYS_nanosleep, "nanosleep"),
    (libc::SYS_clock_nanosleep, "clock_nanosleep"),
    (libc::SYS_sched_yield, "sched_yield"),
    (libc::SYS_membarrier, "membarrier"),
    (libc::SYS_wait4, "wait4"),
];

/// Says it of all threads but this one.
pub fn say_all() {
    // SAFETY: asks for a number.
    let me = unsafe { libc::gettid() } as u32;
    for thread in threads().filter(|thread| *thread != me) {
        say(told(thread));
        stack::say_of(thread);
    }
}

/// A line: its name, state, time, and the system call that it is in.
fn told(thread: u32) -> String {
    let read = |what| fs::read_to_string(format!("/proc/self/task/{thread}/{what}"));
    let name = read("comm").unwrap_or_default();
    let stat = read("stat").unwrap_or_default();
    // The name, in parentheses, may have spaces.
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    let times = scheduled(thread).map_or_else(String::new, |(run, waited)| {
        format!(", {run:.1?} of CPU time, waited {waited:.1?} for a CPU")
    });
    let call = read("syscall").map_or_else(|_| String::new(), |call| in_call(&call));
    let channel = match read("wchan").unwrap_or_default() {
        channel if channel.is_empty() || channel == "0" => String::new(),
        channel => format!(", in the kernel's {channel}"),
    };
    let (name, state) = (name.trim_end(), state.unwrap_or('?'));
    format!("  thread {thread}, {name}: state {state}{times}{call}{channel}\n")
}

/// From the number of the call, its arguments, and two addresses; or "running".
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
    //! Where stops are absent, so are the names of instructions.

    pub fn say_of(_thread: u32) {}
}

#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod stack;
