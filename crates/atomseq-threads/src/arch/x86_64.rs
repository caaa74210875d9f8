//! x86-64.
//!
//! A coroutine that does not run has its stack pointer in its control block. The word there is the
//! address at which it continues:
//!
//! ```text
//! switched away             new
//!   sp ─> continue at "2"     sp ─> enter
//!         rbx                       rbx: the argument
//!         rbp                       rbp: the body
//! ```
//!
//! A coroutine that a signal has interrupted continues in `preempted`, on a stack that the handler
//! has prepared:
//!
//! ```text
//!         interrupted frame
//!   sp    128 bytes: the red zone        as the signal found it
//!         interrupted rip
//!         flags, rax, rcx, rdx, rsi, rdi, r8 to r11
//!         rbp                            <─ rbp
//!         padding to 64 bytes
//!         extended state (XSAVEC)
//! ```

use core::arch::{asm, naked_asm, x86_64};

use super::Image;

/// The initial value of the word that each thread has of its own.
#[unsafe(link_section = ".tdata.atomseq_threads")]
static OWN: Image = Image::NULL;

/// Returns the calling thread's own word, which is null at first. Two instructions: an address that
/// is computed first would take one more, and one more load. A handler may call it.
///
/// Neither the word nor its address is kept across a switch: what is kept lies on the stack that
/// was switched to, and the processor would wait for it.
#[inline(always)]
pub(crate) fn own() -> *const () {
    let word;
    // SAFETY: reads a constant that linkers know, and the word of the thread at that offset.
    unsafe {
        asm!(
            "mov {word}, qword ptr [rip + {image}@GOTTPOFF]", // its offset
            "mov {word}, qword ptr fs:[{word}]",
            word = out(reg) word,
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
    unsafe { asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// Sets the calling thread's own word.
#[inline(always)]
pub(crate) fn set_own(word: *const ()) {
    // SAFETY: writes the thread's own word, which `own` alone reads.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + {image}@GOTTPOFF]",
            "mov qword ptr fs:[{offset}], {word}",
            word = in(reg) word,
            offset = out(reg) _,
            image = sym OWN,
            options(nostack, preserves_flags),
        );
    }
}

/// How many words [`prepare`](super::prepare) takes of a stack: the switch to it consumes three,
/// and `enter` calls with an aligned stack pointer.
pub(super) const WORDS: usize = 5;

/// Saves the stack pointer in `from`, and continues where the stack pointer `to` was saved, or at
/// the beginning of a stack that [`prepare`](super::prepare) has made. Returns when another switch
/// continues here, with the message of that.
///
/// The compiler saves what it needs of all registers but two, since they count as overwritten. The
/// control words of the floating-point units stay as they are.
///
/// # Safety
///
/// `to` was saved by a switch, or is of `prepare`, and nothing has continued there since. Its stack
/// is still mapped. `from` may be written.
#[inline(always)]
pub(crate) unsafe fn switch(from: *mut *mut u8, to: *mut u8, message: *const ()) -> *const () {
    let received;
    // SAFETY: the other side restores rsp, rbp and rbx; all else is declared as overwritten. The
    // jump keeps the processor's return stack as it is: a `ret` would be predicted wrongly.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",                // where this one continues
            "mov [rdi], rsp",
            "mov rbx, [rsi + 8]",
            "mov rbp, [rsi + 16]",
            "lea rsp, [rsi + 24]",     // the other stack from here
            "jmp [rsi]",
            "2:",
            inout("rdi") from => _,
            inout("rsi") to => _,
            inout("rdx") message => received,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
    received
}

/// The beginning of a stack: calls the body. Backtraces end here. A `call` would stay on the
/// processor's return stack when the coroutine has finished.
#[unsafe(naked)]
pub(super) extern "C" fn enter() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "mov rdi, rbx", // the argument
        "mov rax, rbp", // the body
        "xor ebp, ebp",
        "lea rcx, [rip + 2f]",
        "push rcx", // where it would return
        "jmp rax",
        "2:",
        "ud2",
        ".cfi_endproc",
    )
}

/// The bits of XCR0 that are not saved: the state of AMX, which takes 8 KiB, and the rights of
/// protection keys, which belong to the thread.
const NOT_SAVED: u64 = 0b11 << 17 | 1 << 9;

/// The processor's way to save the state that a preempted coroutine uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preemption {
    /// What a preempted coroutine needs of its stack, in bytes: the frame above, and `then`.
    room: usize,
}

/// What XSAVEC saves, and how many bytes it may take, a multiple of 64. Constants of the processor,
/// written before the first preemption.
static mut COMPONENTS: u64 = 0;
static mut SAVED: u64 = 0;

/// What a preempted coroutine calls.
static mut THEN: Option<unsafe extern "C" fn()> = None;

impl Preemption {
    /// Returns the processor's way, or `None` if it lacks XSAVEC. An interrupted coroutine will
    /// call `then`, which may use `stack` bytes.
    ///
    /// # Safety
    ///
    /// No other thread calls this at the same time, and each call names the same function.
    pub unsafe fn new(then: unsafe extern "C" fn(), stack: usize) -> Option<Preemption> {
        const OSXSAVE: u32 = 1 << 27;
        const XSAVEC: u32 = 1 << 1;
        if x86_64::__cpuid(1).ecx & OSXSAVE == 0 || x86_64::__cpuid_count(13, 1).eax & XSAVEC == 0 {
            return None;
        }
        let enabled = x86_64::__cpuid_count(13, 0);
        let enabled = u64::from(enabled.edx) << 32 | u64::from(enabled.eax);
        let (low, high): (u32, u32);
        // SAFETY: the kernel has enabled XGETBV (OSXSAVE).
        unsafe {
            asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack))
        };
        let components = enabled & (u64::from(high) << 32 | u64::from(low)) & !NOT_SAVED;
        // Legacy region and header; the compact form takes no more than the other.
        let saved = (2..63)
            .filter(|bit| components & 1 << bit != 0)
            .map(|bit| x86_64::__cpuid_count(13, bit))
            .map(|component| component.eax + component.ebx)
            .fold(512 + 64, u32::max)
            .next_multiple_of(64);
        // SAFETY: no other thread writes at the same time. Only preempted coroutines read them, and
        // ticks begin after this.
        unsafe {
            COMPONENTS = components;
            SAVED = saved.into();
            THEN = Some(then);
        }
        let registers = 128 + 8 * 12 + 64;
        Some(Preemption {
            room: registers + saved as usize + stack,
        })
    }

    /// Returns what a preempted coroutine needs of its stack, in bytes.
    pub fn room(self) -> usize {
        self.room
    }

    /// Makes the interrupted code of `context` continue as if it had called `then`, at the
    /// instruction where it was interrupted. Returns false, and changes nothing, if less than what
    /// that needs lies between `limit` and the stack pointer, or if the handler does not run on the
    /// alternate stack: then its own frames lie there. Neither may the interrupted code run on that
    /// stack, as another handler does.
    ///
    /// # Safety
    ///
    /// `context` is the `ucontext_t` of a signal that has interrupted a coroutine on this thread;
    /// its stack may be used down to `limit`.
    pub unsafe fn redirect(self, context: *mut core::ffi::c_void, limit: *const u8) -> bool {
        // SAFETY: the caller's promise.
        let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
        // What the kernel has noted at the signal's arrival.
        let alternate = context.uc_stack;
        let is_on_alternate =
            |address: usize| address.wrapping_sub(alternate.ss_sp as usize) < alternate.ss_size;
        let registers = &mut context.uc_mcontext.gregs;
        let sp = registers[libc::REG_RSP as usize] as usize;
        if !is_on_alternate((&raw const alternate).addr())
            || is_on_alternate(sp)
            || sp.saturating_sub(limit as usize) < self.room
        {
            return false;
        }
        let sp = sp - 128 - 8;
        // SAFETY: below the red zone of the interrupted code, and above `limit`.
        unsafe { (sp as *mut i64).write_unaligned(registers[libc::REG_RIP as usize]) };
        registers[libc::REG_RSP as usize] = sp as i64;
        registers[libc::REG_RIP as usize] = preempted as *const () as i64;
        true
    }
}

/// Saves what the interrupted code may use, calls `THEN`, and continues there. A backtrace passes
/// through, as through a signal's frame.
#[unsafe(naked)]
extern "C" fn preempted() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_signal_frame",
        ".cfi_def_cfa rsp, 136", // the stack pointer of the interrupted code
        ".cfi_offset rip, -136",
        "pushfq",
        "cld",
        "push rax",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push rbp",
        ".cfi_def_cfa_offset 224",
        ".cfi_offset rbp, -224",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "and rsp, -64",
        "sub rsp, [rip + {saved}]",
        "xor eax, eax", // XSAVEC leaves a part of its header as it was
        "mov [rsp + 512], rax",
        "mov [rsp + 520], rax",
        "mov [rsp + 528], rax",
        "mov [rsp + 536], rax",
        "mov [rsp + 544], rax",
        "mov [rsp + 552], rax",
        "mov [rsp + 560], rax",
        "mov [rsp + 568], rax",
        "mov eax, [rip + {components}]",
        "mov edx, [rip + {components} + 4]",
        "fnstcw [rsp + 464]", // a part that the processor leaves to programs
        "xsavec [rsp]", // what is in its initial state is not written
        "fninit", // other code expects the stack of the x87 unit empty
        "fldcw [rsp + 464]",
        "call [rip + {then}]",
        "mov eax, [rip + {components}]",
        "mov edx, [rip + {components} + 4]",
        "xrstor [rsp]",
        "mov rsp, rbp",
        "pop rbp",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "popfq",
        "ret 128", // and gives the red zone back
        ".cfi_endproc",
        saved = sym SAVED,
        components = sym COMPONENTS,
        then = sym THEN,
    )
}
