//! Assembly, a file an architecture, in which the same functions have the same names: `switch`
//! changes stacks, and `enter` is the beginning of one; `own` is a word that each thread has;
//! `Preemption` makes an interrupted coroutine call a function.

use core::cell::UnsafeCell;
use core::ptr;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{Preemption, own, set_own, stack_pointer, switch};
#[cfg(target_arch = "aarch64")]
use aarch64::{WORDS, enter};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{Preemption, own, set_own, stack_pointer, switch};
#[cfg(target_arch = "x86_64")]
use x86_64::{WORDS, enter};

/// A word in the initial image of thread-local storage. Only the assembly that finds a thread's
/// copy refers to it.
#[repr(transparent)]
struct Image(UnsafeCell<*const ()>);

// SAFETY: each thread accesses a copy of its own, and no code accesses this value.
unsafe impl Sync for Image {}

impl Image {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "the initial value of a static"
    )]
    const NULL: Image = Image(UnsafeCell::new(ptr::null()));
}

/// What the first switch to a coroutine calls, with its argument.
pub(crate) type Body = unsafe extern "C" fn(*const ()) -> !;

/// Prepares a stack whose first free byte is below `top`, so that the first switch to it calls
/// `body`. Returns its stack pointer.
///
/// # Safety
///
/// `top` is a multiple of 16, and the 40 bytes below it may be written.
#[inline]
pub(crate) unsafe fn prepare(top: *mut u8, body: Body, argument: *const ()) -> *mut u8 {
    let sp = top.cast::<usize>().wrapping_sub(WORDS);
    // SAFETY: the caller's promise.
    unsafe {
        sp.write(enter as *const () as usize);
        sp.add(1).write(argument as usize);
        sp.add(2).write(body as *const () as usize);
    }
    sp.cast()
}
