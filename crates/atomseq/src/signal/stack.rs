//! The alternate stack that a handler needs.

use core::ffi::c_int;

use super::options::Error;

/// The stack that a delivery takes beside the kernel's frame and the handler, in bytes: a bound on
/// the mean of three deliveries that interrupt each other, of which the last may go deeper than its
/// handler. verify-signals measures it; without optimisation it is more.
const DELIVERY: usize = if cfg!(debug_assertions) { 3072 } else { 2048 };

/// Checks that the calling thread's alternate stack holds three deliveries and `bytes`: the signal,
/// another one that interrupts the handler, and a fault in that one's handler or in a clone that
/// its delivery runs.
pub fn check_alternate_stack(signal: c_int, bytes: usize) -> Result<(), Error> {
    // SAFETY: plain old data.
    let mut stack: libc::stack_t = unsafe { core::mem::zeroed() };
    // SAFETY: asks only.
    if unsafe { libc::sigaltstack(core::ptr::null(), &mut stack) } != 0 {
        let errno = std::io::Error::last_os_error().raw_os_error();
        let errno = errno.unwrap_or_default();
        return Err(Error::Refused { signal, errno });
    }
    let delivery = frame().saturating_add(DELIVERY);
    let needs = delivery.saturating_mul(3).saturating_add(bytes);
    if stack.ss_flags & libc::SS_DISABLE == 0 && stack.ss_size < needs {
        return Err(Error::AlternateStackTooSmall {
            has: stack.ss_size,
            needs,
        });
    }
    Ok(())
}

/// Returns the size of the kernel's frame, in bytes.
fn frame() -> usize {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let reported = {
        const AT_MINSIGSTKSZ: libc::c_ulong = 51;
        // SAFETY: reads a number that the kernel has passed at program start; 0 if it has not.
        unsafe { libc::getauxval(AT_MINSIGSTKSZ) as usize }
    };
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let reported = 0;
    reported.max(libc::MINSIGSTKSZ)
}
