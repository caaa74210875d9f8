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
//!
//! A coroutine that a signal has interrupted continues in `preempted`, on a stack that the handler
//! has prepared, and from there by the system call that ends a handler:
//!
//! ```text
//!         interrupted frame
//!         the signal's context: all registers
//!   sp    128 bytes: the signal's record, unused
//! ```

use core::arch::{asm, naked_asm};
use core::ffi::c_void;
use core::mem;

use super::Image;

/// The initial value of the word that each thread has of its own.
#[unsafe(link_section = ".tdata.atomseq_threads")]
static OWN: Image = Image::NULL;

/// Returns the calling thread's own word, which is null at first. A handler may call it.
///
/// Neither the word nor its address is kept across a switch: what is kept lies on the stack that
/// was switched to, and the processor would wait for it.
#[inline(always)]
pub(crate) fn own() -> *const () {
    let word;
    // SAFETY: reads a constant that linkers know, the thread pointer, and the word of the thread
    // at that offset.
    unsafe {
        asm!(
            "adrp {word}, :gottprel:{image}",              // the page that holds its offset
            "ldr {word}, [{word}, :gottprel_lo12:{image}]", // its offset
            "mrs {pointer}, tpidr_el0",                    // the thread pointer
            "ldr {word}, [{pointer}, {word}]",
            word = out(reg) word,
            pointer = out(reg) _,
            image = sym OWN,
            options(readonly, nostack, preserves_flags),
        );
    }
    word
}

/// Returns the stack pointer.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    let pointer;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// Sets the calling thread's own word.
#[inline(always)]
pub(crate) fn set_own(word: *const ()) {
    // SAFETY: writes the thread's own word, which `own` alone reads.
    unsafe {
        asm!(
            "adrp {offset}, :gottprel:{image}",
            "ldr {offset}, [{offset}, :gottprel_lo12:{image}]",
            "mrs {pointer}, tpidr_el0",
            "str {word}, [{pointer}, {offset}]",
            word = in(reg) word,
            offset = out(reg) _,
            pointer = out(reg) _,
            image = sym OWN,
            options(nostack, preserves_flags),
        );
    }
}

/// How many words [`prepare`](super::prepare) takes of a stack: the stack pointer is aligned.
pub(super) const WORDS: usize = 4;

/// Saves the stack pointer in `from`, and continues where the stack pointer `to` was saved, or at
/// the beginning of a stack that [`prepare`](super::prepare) has made. Returns when another switch
/// continues here, with the message of that.
///
/// The compiler saves what it needs of all registers but two, since they count as overwritten. The
/// control register of the floating-point unit stays as it is.
///
/// # Safety
///
/// `to` was saved by a switch, or is of `prepare`, and nothing has continued there since. Its stack
/// is still mapped. `from` may be written.
#[inline(always)]
pub(crate) unsafe fn switch(from: *mut *mut u8, to: *mut u8, message: *const ()) -> *const () {
    let received;
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
            inout("x2") message => received,
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
    received
}

/// The beginning of a stack: calls the body. Backtraces end here. A `blr` would stay on the
/// processor's return stack when the coroutine has finished.
#[unsafe(naked)]
pub(super) extern "C" fn enter() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined x30",
        "ldp x0, x16, [sp, #8]", // the argument, the body
        "add sp, sp, #32",
        "mov x29, xzr",
        "adr x30, 2f", // where it would return
        "br x16",
        "2:",
        "brk #1",
        ".cfi_endproc",
    )
}

/// What a preempted coroutine's frame begins with, as the kernel's do: the record of a signal,
/// which nothing reads, then the context.
const RECORD: usize = 128;

/// The system's way to save the state that a preempted coroutine uses: the context of the signal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preemption {
    /// What a preempted coroutine needs of its stack, in bytes: the frame above, and `then`.
    room: usize,
}

/// What a preempted coroutine calls, written before the first preemption.
static mut THEN: Option<unsafe extern "C" fn()> = None;

/// Where things lie in the frame, for `preempted`.
const MASK: usize = RECORD + mem::offset_of!(libc::ucontext_t, uc_sigmask);
const STACK: usize = RECORD + mem::offset_of!(libc::ucontext_t, uc_stack);

impl Preemption {
    /// Returns the system's way. An interrupted coroutine will call `then`, which may use `stack`
    /// bytes.
    ///
    /// # Safety
    ///
    /// No other thread calls this at the same time, and each call names the same function.
    pub unsafe fn new(then: unsafe extern "C" fn(), stack: usize) -> Option<Preemption> {
        // SAFETY: no other thread writes at the same time. Only preempted coroutines read it, and
        // ticks begin after this.
        unsafe { THEN = Some(then) };
        Some(Preemption {
            room: RECORD + size_of::<libc::ucontext_t>() + stack,
        })
    }

    /// Returns what a preempted coroutine needs of its stack, in bytes.
    pub fn room(self) -> usize {
        self.room
    }

    /// Makes the interrupted code of `context` continue as if it had called `then`, at the
    /// instruction where it was interrupted. Returns false, and changes nothing, if less than what
    /// that needs lies between `limit` and the stack pointer, if the handler does not run on the
    /// alternate stack, or if the kernel has saved registers (of SVE or SME) elsewhere than in the
    /// context. Neither may the interrupted code run on the alternate stack, as another handler
    /// does.
    ///
    /// # Safety
    ///
    /// `context` is the `ucontext_t` of a signal that has interrupted a coroutine on this thread;
    /// its stack may be used down to `limit`.
    pub unsafe fn redirect(self, context: *mut c_void, limit: *const u8) -> bool {
        let context = context.cast::<libc::ucontext_t>();
        // SAFETY: the caller's promise.
        let (alternate, sp) = unsafe { ((*context).uc_stack, (*context).uc_mcontext.sp as usize) };
        let is_on_alternate =
            |address: usize| address.wrapping_sub(alternate.ss_sp as usize) < alternate.ss_size;
        if !is_on_alternate(context.addr())
            || is_on_alternate(sp)
            || sp.saturating_sub(limit as usize) < self.room
            // SAFETY: the caller's promise.
            || unsafe { has_more(context) }
        {
            return false;
        }
        // The interrupted stack pointer is a multiple of 16, and so is the size of the frame.
        let frame = sp - RECORD - size_of::<libc::ucontext_t>();
        // SAFETY: the frame lies above `limit`, and below all that the interrupted code uses: there
        // is no red zone. It is a copy, which `preempted` gives to the kernel.
        unsafe {
            ((frame + RECORD) as *mut libc::ucontext_t).copy_from_nonoverlapping(context, 1);
            let registers = &mut (*context).uc_mcontext;
            registers.sp = frame as u64;
            registers.pc = preempted as *const () as u64;
        }
        true
    }
}

/// Returns whether the kernel has saved registers outside of the context: there was no room.
///
/// # Safety
///
/// `context` is the context of a signal, as the kernel has written it.
unsafe fn has_more(context: *const libc::ucontext_t) -> bool {
    /// The number of a record of where the others are.
    const EXTRA: u32 = 0x4558_5401;
    // SAFETY: records, each of which begins with its number and its size; the last has 0 for both.
    unsafe {
        let end = context.add(1).cast::<u32>();
        let mut record = (&raw const (*context).uc_mcontext).add(1).cast::<u32>();
        // `uc_mcontext` ends with the space for the records.
        record = record.sub(RECORDS / 4);
        while record < end && *record != 0 && *record != EXTRA && *record.add(1) >= 8 {
            record = record.byte_add(*record.add(1) as usize);
        }
        record < end && *record == EXTRA
    }
}

/// The space for records at the end of a context, in bytes.
const RECORDS: usize = 4096;

/// Calls `THEN`, and continues where the signal has interrupted the code, by the system call with
/// which a handler would. It restores all registers, and what the thread has of its signal mask and
/// its alternate stack now.
#[unsafe(naked)]
extern "C" fn preempted() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_signal_frame",
        ".cfi_undefined x30", // backtraces end here
        "adrp x9, {then}",
        "ldr x9, [x9, :lo12:{then}]",
        "blr x9",
        "mov x0, #0",               // rt_sigprocmask(SIG_BLOCK, NULL, mask, 8)
        "mov x1, #0",
        "add x2, sp, #{mask}",
        "mov x3, #8",
        "mov x8, #{procmask}",
        "svc #0",
        "mov x0, #0",               // sigaltstack(NULL, stack)
        "add x1, sp, #{stack}",
        "mov x8, #{altstack}",
        "svc #0",
        "mov x8, #{sigreturn}",
        "svc #0",                   // takes the frame at the stack pointer
        "brk #1",
        ".cfi_endproc",
        then = sym THEN,
        mask = const MASK,
        stack = const STACK,
        procmask = const libc::SYS_rt_sigprocmask,
        altstack = const libc::SYS_sigaltstack,
        sigreturn = const libc::SYS_rt_sigreturn,
    )
}
