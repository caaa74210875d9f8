//! AArch64.
//!
//! A coroutine that does not run has its stack pointer in its control block:
//!
//! ```text
//! switched away             new
//!   sp ─> continue at "2"     sp ─> enter
//!         (unused)                  argument
//!         x19                       body
//!         x29
//! ```

use core::arch::{asm, naked_asm};

/// How many words [`prepare`](super::prepare) takes of a stack: the stack pointer is aligned.
pub(super) const WORDS: usize = 4;

/// Saves the stack pointer in `from`, and continues where the stack pointer `to` was saved, or at
/// the beginning of a stack that [`prepare`](super::prepare) has made. Returns when another switch
/// continues here.
///
/// The compiler saves what it needs of all registers but two, since they count as overwritten. The
/// control register of the floating-point unit stays as it is.
///
/// # Safety
///
/// `to` was saved by a switch, or is of `prepare`, and nothing has continued there since. Its stack
/// is still mapped. `from` may be written.
#[inline(always)]
pub(crate) unsafe fn switch(from: *mut *mut u8, to: *mut u8) {
    // SAFETY: the other side restores sp, x19 and x29; all else is declared as overwritten.
    unsafe {
        asm!(
            "sub sp, sp, #32",
            "stp x19, x29, [sp, #16]",
            "adr x9, 2f",
            "str x9, [sp]",            // where this one continues
            "mov x9, sp",
            "str x9, [x0]",
            "mov sp, x1",              // the other stack from here
            "ldr x9, [sp]",
            "br x9",
            "2:",
            "ldp x19, x29, [sp, #16]",
            "add sp, sp, #32",
            inout("x0") from => _,
            inout("x1") to => _,
            out("x20") _,
            out("x21") _,
            out("x22") _,
            out("x23") _,
            out("x24") _,
            out("x25") _,
            out("x26") _,
            out("x27") _,
            out("x28") _,
            out("d8") _,
            out("d9") _,
            out("d10") _,
            out("d11") _,
            out("d12") _,
            out("d13") _,
            out("d14") _,
            out("d15") _,
            clobber_abi("C"),
        );
    }
}

/// The beginning of a stack: calls the body. Backtraces end here.
#[unsafe(naked)]
pub(super) extern "C" fn enter() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined x30",
        "ldp x0, x9, [sp, #8]", // the argument, the body
        "add sp, sp, #32",
        "mov x29, xzr",
        "mov x30, xzr",
        "blr x9",
        "brk #1",
        ".cfi_endproc",
    )
}

/// Code that a signal has interrupted cannot call a function here: there is no register free for
/// the way back. So coroutines are not preempted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Preemption {}

impl Preemption {
    /// Returns `None`.
    ///
    /// # Safety
    ///
    /// None; elsewhere there is.
    pub unsafe fn new(_then: unsafe extern "C" fn(), _stack: usize) -> Option<Preemption> {
        None
    }

    /// Never called: there is no such value.
    pub fn room(self) -> usize {
        match self {}
    }

    /// Never called: there is no such value.
    ///
    /// # Safety
    ///
    /// None; elsewhere there is.
    pub unsafe fn redirect(self, _context: *mut core::ffi::c_void, _limit: *const u8) -> bool {
        match self {}
    }
}
