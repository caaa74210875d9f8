//! The instruction that traps, executed at any address.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use atomseq_papers::emulation::test_and_set_at;

use crate::faults;

/// Executes the instruction, at the same place every time; returns what the word was.
#[inline(never)]
pub fn execute(address: usize) -> u32 {
    // SAFETY: good addresses are words that these tests access in no other way meanwhile; the rest
    // are what is tested.
    unsafe { test_and_set_at(address as *mut u32) }
}

/// Where the instruction is: where its fault was.
pub static HERE: AtomicUsize = AtomicUsize::new(0);

/// A handler that notes the fault, and goes on behind the instruction.
#[allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "the type of handlers in these tests; only the kernel calls it"
)]
pub extern "C" fn note_and_skip(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: what the kernel gave.
    unsafe { faults::note(signal, info, context) };
    let counter = faults::program_counter(context);
    // SAFETY: in the context; the instruction's length follows from its first bytes, and its result
    // is nobody's.
    unsafe {
        HERE.store(counter.read() as usize, SeqCst);
        counter.write(counter.read() + length(counter.read() as usize));
    }
}

/// How long the instruction at an address is, and is it one?
#[cfg(target_arch = "x86_64")]
pub fn length(at: usize) -> u64 {
    // SAFETY: code, which may be read.
    let byte = |offset: usize| unsafe { ((at + offset) as *const u8).read() };
    let prefix = usize::from(byte(0) >> 4 == 4);
    assert_eq!(
        (byte(prefix), byte(prefix + 1)),
        (0x0f, 0xb9),
        "no ud1 at {at:#x}"
    );
    let is_indexed = byte(prefix + 2) & 7 == 4;
    (prefix + 7 + usize::from(is_indexed)) as u64
}

/// How long the instruction at an address is, and is it one?
#[cfg(target_arch = "aarch64")]
pub fn length(at: usize) -> u64 {
    // SAFETY: code, which may be read.
    let word = unsafe { (at as *const u32).read() };
    assert_eq!(word >> 16, 0, "no udf at {at:#x}");
    8
}
