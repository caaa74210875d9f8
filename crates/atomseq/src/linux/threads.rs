//! Threads by their numbers: which one this is, and whether one has ended.

use crate::arch::syscall;
use core::sync::atomic::{AtomicU32, Ordering};

/// Numbers of threads and processes are below that (`PID_MAX_LIMIT`).
const NUMBER_BITS: u32 = 22;
const NUMBER: u64 = (1 << NUMBER_BITS) - 1;

/// The bits of a [name](thread_name).
pub const NAME_BITS: u32 = 2 * NUMBER_BITS + 8;

/// This thread's number; others may have had it before, none has it now.
pub fn thread_id() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { syscall(libc::SYS_gettid, [0; 6]) as u32 }
}

/// Is there no such thread in this process? Threads of the parent of a `fork` are in none. The
/// first thread of a process counts as there after its own `exit` as long as others are.
pub fn is_gone(thread: u32) -> bool {
    number(libc::SYS_getpid).is_some_and(|process| is_gone_from(process, thread.into()))
}

fn is_gone_from(process: u64, thread: u64) -> bool {
    let arguments = [process as usize, thread as usize, 0, 0, 0, 0];
    // SAFETY: signal 0 is sent to nobody.
    let result = unsafe { syscall(libc::SYS_tgkill, arguments) };
    result == -(libc::ESRCH as isize)
}

/// This thread's name: its number, the process's, and how many forks there were before: it tells
/// from this thread those of the processes that this one descends from. Above 2²². `None`: a
/// sandbox keeps the numbers back.
pub fn thread_name() -> Option<u64> {
    let own = || Some(process_name()? << NUMBER_BITS | number(libc::SYS_gettid)?);
    let name = own();
    if name.is_none() {
        // A sandbox set up late: from now on nobody asks.
        KNOWN.store(NO, Ordering::Relaxed);
    }
    name
}

/// What the names of a process's threads have in common.
fn process_name() -> Option<u64> {
    let numbers = u64::from(super::generation()) << NUMBER_BITS | number(libc::SYS_getpid)?;
    Some(numbers & ((1 << (NAME_BITS - NUMBER_BITS)) - 1))
}

/// This process's number; `None`: a sandbox keeps it back.
pub(super) fn process_number() -> Option<u32> {
    number(libc::SYS_getpid).map(|number| number as u32)
}

/// What a system call answers that has no arguments, if that is the number of a thread or a
/// process.
fn number(call: libc::c_long) -> Option<u64> {
    // SAFETY: only asks.
    let answer = unsafe { syscall(call, [0; 6]) };
    u64::try_from(answer)
        .ok()
        .filter(|number| (1..=NUMBER).contains(number))
}

/// Has the thread of that name ended? Then all that it did has been done, as this thread sees it.
/// Of another process's nobody can say so.
pub fn has_ended(name: u64) -> bool {
    let process = name >> NUMBER_BITS;
    process_name() == Some(process) && is_gone_from(process & NUMBER, name & NUMBER)
}

/// Does the kernel say which threads have ended, or does a sandbox keep that back?
/// Async-signal-safe.
pub fn knows_who_has_ended() -> bool {
    // Relaxed: asking twice does no harm.
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let knows =
                thread_name().is_some_and(|own| !has_ended(own)) && is_gone(1 << NUMBER_BITS);
            KNOWN.store(if knows { YES } else { NO }, Ordering::Relaxed);
            knows
        }
        known => known == YES,
    }
}

/// What is known of that: 0 nothing yet.
static KNOWN: AtomicU32 = AtomicU32::new(0);
const YES: u32 = 1;
const NO: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_there_until_it_has_ended() {
        assert!(!is_gone(thread_id()));
        let other = std::thread::spawn(|| {
            assert!(!is_gone(thread_id()));
            thread_id()
        });
        let other = other.join().unwrap();
        // The kernel tells whoever joins a little earlier.
        while !is_gone(other) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn only_a_thread_of_this_process_is_said_to_have_ended() {
        assert!(knows_who_has_ended());
        let other = std::thread::spawn(thread_name).join().unwrap().unwrap();
        let name = thread_name().unwrap();
        assert_ne!(name, other);
        assert!(name >> NUMBER_BITS != 0 && !has_ended(name));
        while !has_ended(other) {
            std::thread::yield_now();
        }
        let process = 1 << NUMBER_BITS;
        let generation = process << NUMBER_BITS;
        assert!(!has_ended(other ^ process), "of another process");
        assert!(!has_ended(other + generation), "of another fork");
    }
}
