//! Emulation by a system call.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::emulation::Error;
use crate::statistics::CALLS;

/// The max number of consecutive temporary failures.
const PATIENCE: u32 = 100_000;

/// Makes the kernel store this thread's number in the word if that is 0. Otherwise returns the
/// error number.
fn try_lock(word: &AtomicU32) -> Result<(), i32> {
    const OPERATION: i32 = libc::FUTEX_TRYLOCK_PI | libc::FUTEX_PRIVATE_FLAG;
    let nothing = ptr::null::<u32>();
    // SAFETY: the word is valid and aligned, and the kernel keeps no reference to it after the
    // call.
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
        // The kernel has many errors for a word that is not 0: other threads try as well, or the
        // word names this thread, an exited one, or none. Other errors have different causes, such
        // as lack of memory, or a word that was cleared while another thread tried. Only the word
        // shows whether it is held. Acquire: pairs with the Release in `clear`.
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
