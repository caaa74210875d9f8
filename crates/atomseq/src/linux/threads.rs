//! Threads by their numbers: which one this is, and whether one has ended.

use crate::arch::syscall;

/// This thread's number; others may have had it before, none has it now.
pub fn thread_id() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { syscall(libc::SYS_gettid, [0; 6]) as u32 }
}

/// Is there no such thread in this process? Threads of the parent of a `fork` are in none. The first thread of a process counts as
/// there after its own `exit` as long as others are.
pub fn is_gone(thread: u32) -> bool {
    // SAFETY: no arguments, cannot fail.
    let process = unsafe { syscall(libc::SYS_getpid, [0; 6]) as usize };
    // SAFETY: signal 0 is sent to nobody.
    let result = unsafe { syscall(libc::SYS_tgkill, [process, thread as usize, 0, 0, 0, 0]) };
    result == -(libc::ESRCH as isize)
}

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
}
