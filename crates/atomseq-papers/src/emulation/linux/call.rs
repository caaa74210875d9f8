//! By a system call.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::emulation::Error;
use crate::statistics::CALLS;

/// How often a failure that should pass may come in a row.
const PATIENCE: u32 = 100_000;

/// Asks the kernel to put this thread's number into the word if that is 0; the error number if it
/// did not.
fn try_lock(word: &AtomicU32) -> Result<(), i32> {
    const OPERATION: i32 = libc::FUTEX_TRYLOCK_PI | libc::FUTEX_PRIVATE_FLAG;
    let nothing = ptr::null::<u32>();
    // SAFETY: the word is valid and aligned, and the call keeps no reference to it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            OPERATION,
            0,
            nothing,
            nothing,
            0,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
    }
}

pub fn start() -> Result<(), Error> {
    let word = AtomicU32::new(0);
    try_lock(&word).map_err(refused)
}

fn refused(errno: i32) -> Error {
    Error::Refused {
        call: "FUTEX_TRYLOCK_PI",
        errno,
    }
}

pub fn test_and_set(word: &AtomicU32) -> bool {
    let mut failures = 0;
    loop {
        CALLS.add();
        let Err(errno) = try_lock(word) else {
            return true;
        };
        // The kernel gives many reasons for a word that is not 0: that others try as well, that its
        // thread is this one, or ended, or none. And some that have nothing to do with it: want of
        // memory, or that the word was cleared while another thread's attempt was under way. Only
        // the word tells whether somebody holds it. Acquire: pairs with the Release in `clear`.
        if word.load(Ordering::Acquire) != 0 {
            return false;
        }
        failures += 1;
        if errno == libc::ENOSYS || failures == PATIENCE {
            panic!("{}", refused(errno));
        }
        thread::yield_now();
    }
}
