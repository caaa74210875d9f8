//! Threads by number: the number of this thread, and whether another has exited.

use crate::arch::syscall;
use core::sync::atomic::{AtomicU32, Ordering};

/// Numbers of threads and processes have at most this many bits (`PID_MAX_LIMIT`).
const NUMBER_BITS: u32 = 22;
const NUMBER: u64 = (1 << NUMBER_BITS) - 1;

/// The number of bits of a [name](thread_name).
pub const NAME_BITS: u32 = 2 * NUMBER_BITS + 8;

/// Returns this thread's number. No other live thread has it, but an earlier one may have had it.
pub fn thread_id() -> u32 {
    // SAFETY: the call takes no arguments and accesses no memory.
    unsafe { syscall(libc::SYS_gettid, [0; 6]) as u32 }
}

/// Returns whether this process has no such thread. Threads of the parent of a `fork` do not count.
/// The first thread of a process counts after its own `exit` as long as there are others.
pub fn is_gone(thread: u32) -> bool {
    number(libc::SYS_getpid).is_some_and(|process| is_gone_from(process, thread.into()))
}

fn is_gone_from(process: u64, thread: u64) -> bool {
    let arguments = [process as usize, thread as usize, 0, 0, 0, 0];
    // SAFETY: signal 0 is only checked, not sent, and the call accesses no memory.
    let result = unsafe { syscall(libc::SYS_tgkill, arguments) };
    result == -(libc::ESRCH as isize)
}

/// Returns this thread's name: its number, the process's number, and the count of forks before,
/// which distinguishes it from threads of ancestor processes. The name is above 2²². `None`: a
/// sandbox hides the numbers.
pub fn thread_name() -> Option<u64> {
    let own = || Some(process_name()? << NUMBER_BITS | number(libc::SYS_gettid)?);
    let name = own();
    if name.is_none() {
        // A sandbox was set up after start-up. From now on `knows_who_has_ended` returns false.
        KNOWN.store(NO, Ordering::Relaxed);
    }
    name
}

/// Returns the part common to the names of a process's threads.
fn process_name() -> Option<u64> {
    let numbers = u64::from(super::generation()) << NUMBER_BITS | number(libc::SYS_getpid)?;
    Some(numbers & ((1 << (NAME_BITS - NUMBER_BITS)) - 1))
}

/// Returns this process's number, or `None` if a sandbox hides it.
pub(super) fn process_number() -> Option<u32> {
    number(libc::SYS_getpid).map(|number| number as u32)
}

/// Returns the result of a system call without arguments, if it is a valid number of a thread or
/// process.
fn number(call: libc::c_long) -> Option<u64> {
    // SAFETY: the calls passed here take no arguments and access no memory.
    let answer = unsafe { syscall(call, [0; 6]) };
    u64::try_from(answer)
        .ok()
        .filter(|number| (1..=NUMBER).contains(number))
}

/// Returns whether the thread with that name has exited. If so, everything it did is visible to
/// this thread. Returns `false` for a thread of another process, which cannot be checked.
pub fn has_ended(name: u64) -> bool {
    let process = name >> NUMBER_BITS;
    process_name() == Some(process) && is_gone_from(process & NUMBER, name & NUMBER)
}

/// Returns whether the kernel reports which threads have exited, rather than a sandbox hiding it.
/// Async-signal-safe.
pub fn knows_who_has_ended() -> bool {
    // Relaxed: checking twice is harmless.
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

/// The result of `knows_who_has_ended`; 0: not yet known.
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
        // The kernel wakes a joining thread slightly before the number is gone.
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
