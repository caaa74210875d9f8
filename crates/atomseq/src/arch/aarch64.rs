//! AArch64.

use super::KickWords;
use core::arch::{asm, global_asm};
use core::ffi::c_void;

/// Every abort address follows these four bytes (`brk #0x45e0`).
pub const SIGNATURE: u32 = 0xd428_bc00;

/// A name of this crate's own in the linker's one name space: two versions of atomseq may meet in a
/// program.
macro_rules! name {
    ($text:literal) => {
        concat!(
            "__atomseq_",
            env!("CARGO_PKG_VERSION_MAJOR"),
            "_",
            env!("CARGO_PKG_VERSION_MINOR"),
            "_",
            $text
        )
    };
}

global_asm!(
    ".pushsection .tdata,\"awT\",@progbits",
    ".balign 32",
    concat!(".globl ", name!("thread_block")),
    concat!(".hidden ", name!("thread_block")),
    concat!(".type ", name!("thread_block"), ", @tls_object"),
    concat!(".size ", name!("thread_block"), ", 256"),
    concat!(name!("thread_block"), ":"),
    ".word 0",          //  0 cpu_id_start
    ".word 0xffffffff", //  4 cpu_id = -1: not registered
    ".zero 248", //  8 rseq_cs and the rest; 32 registration; 36 forks; 40 quiet; 44 counted; 48 signals; 232 mask
    ".popsection",
);

/// The thread pointer, `tpidr_el0`.
#[inline(always)]
pub fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: reads a register that user code may read.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(pure, nomem, nostack, preserves_flags));
    }
    pointer
}

/// Where the thread block lies, counted from the thread pointer; the same in every thread.
#[inline(always)]
pub fn thread_block_offset() -> isize {
    let offset;
    // SAFETY: loads a link-time constant from the global offset table.
    unsafe {
        asm!(
            concat!("adrp {0}, :gottprel:", name!("thread_block")),
            concat!("ldr {0}, [{0}, :gottprel_lo12:", name!("thread_block"), "]"),
            out(reg) offset,
            // The table never changes and no Rust code sees it: the load need not be repeated.
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    offset
}

/// The address of the calling thread's copy of a static in `.tdata`.
///
/// ```text
///                       thread's storage               global offset table
///   tpidr_el0 ... copy of IMAGE ...                      :gottprel:IMAGE: offset
///       └──────────── ^ ────────────────────────────────────────────────────┘
/// ```
///
/// Linkers turn the load into a constant where the static lies in the executable itself.
#[doc(hidden)]
#[macro_export]
macro_rules! __thread_address {
    ($image:path) => {{
        let __atomseq_address: *const ();
        // SAFETY: loads a link-time constant from the global offset table, and reads a register
        // that user code may read.
        unsafe {
            $crate::generated::standard::asm!(
                "adrp {address}, :gottprel:{image}",                   // the page its offset is on
                "ldr {address}, [{address}, :gottprel_lo12:{image}]",  // its offset
                "mrs {pointer}, tpidr_el0",                            // from the thread pointer
                "add {address}, {pointer}, {address}",                 //
                address = out(reg) __atomseq_address,
                pointer = out(reg) _,
                image = sym $image,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        __atomseq_address
    }};
}

/// Counts one more mask. Nothing that the compiler could move passes it: it may touch any memory.
///
/// A handler that runs in between leaves the count as it found it; but what a deferral notes there
/// may be overwritten.
#[inline(always)]
pub fn enter_mask() {
    // SAFETY: the count of masks, in this thread's block.
    unsafe {
        asm!(
            "ldr {count}, [{block}, #48]", //
            "add {count}, {count}, #1",    // one more
            "str {count}, [{block}, #48]", //
            block = in(reg) thread_block(),
            count = out(reg) _,
            options(nostack, preserves_flags)
        );
    }
}

/// Counts one mask less, and calls `waiting` if a signal was deferred. That may find the count
/// above 0.
///
/// A signal that arrives before the store is seen by the last load, one that arrives after it finds
/// no mask.
#[inline(always)]
pub fn leave_mask(waiting: extern "C" fn()) {
    let (count, waits): (i64, u64);
    // SAFETY: the count of masks and the signals that wait, in this thread's block.
    unsafe {
        asm!(
            "ldr {count}, [{block}, #48]", //
            "sub {count}, {count}, #1",    // one less
            "str {count}, [{block}, #48]", //
            "ldr {waits}, [{block}, #56]", // does a signal wait?
            block = in(reg) thread_block(),
            count = out(reg) count,
            waits = lateout(reg) waits,
            options(nostack, preserves_flags)
        );
    }
    // There was none, or the sign of what there was: one waited before.
    if count.wrapping_add(1) <= 0 || waits != 0 {
        waiting();
    }
}

#[inline(always)]
fn thread_block() -> usize {
    thread_pointer().wrapping_add_signed(thread_block_offset())
}

// What the kernel calls on a signal: blocks what must not come in the middle of a delivery,
// announces the delivery, and has it dispatched.
//
//   x0, x1, x2  the signal, its siginfo, the context of what it interrupted, up to the label
//   `noted`; then the system call's
//   x3          the system call's fourth argument
//   x4          the number of the entry that was called: they lie 16 bytes apart
//   x8          the system call's number
//   x9          this thread's block
//   x2          from the label `ended` on: the context
//   x10         scratch; then the delivery whose code the signal has interrupted, or 0
//
//   stack while it is dispatched: signal/delivery/nested.rs has the layout, 456 bytes
//   [sp]        the delivery that this one has interrupted
//   [sp, #8]    the context
//   [sp, #16]   what waits for this one: nothing yet
//   [sp, #24]   when the clone that it runs first faulted: never yet
//   [sp, #32]   the mask before the system call; SIGKILL alone, which no mask holds, if there was none
//   [sp, #40]   the signal
//   [sp, #48]   its siginfo
//   [sp, #56]   the number of the entry
//   [sp, #464]  x29, x30
//
// What lies before the entries, and behind the code of each, tells other copies of atomseq that
// they are entries: signal/delivery/copies.rs.
//
// A signal that arrives before the label `noted` finds the context in x2; one that arrives before
// `entered` finds it on the stack; one that arrives later finds this delivery in the thread's
// block, at 200. From `ending` up to `resumed` it may find it there or not; the context is on the
// stack, but at `ended` in x2.
//
// A SIGSYS that a system call has raised comes without another one, which might raise it again and
// kill.
macro_rules! signal_entries {
    (call $dispatch:path, then $waiting:path, block $set:path, ask $below:path) => {
        core::arch::global_asm!(
            ".pushsection .text.atomseq_entry,\"ax\",@progbits",
            ".balign 16",
            ".ascii \"atomseq: entries\"",
            ".4byte 29f - .",
            ".balign 16",
            concat!(".globl ", $crate::arch::name!("entry")),
            concat!(".hidden ", $crate::arch::name!("entry")),
            concat!(".type ", $crate::arch::name!("entry"), ", @function"),
            concat!(".globl ", $crate::arch::name!("noted")),
            concat!(".hidden ", $crate::arch::name!("noted")),
            concat!(".globl ", $crate::arch::name!("entered")),
            concat!(".hidden ", $crate::arch::name!("entered")),
            concat!(".globl ", $crate::arch::name!("ending")),
            concat!(".hidden ", $crate::arch::name!("ending")),
            concat!(".globl ", $crate::arch::name!("ended")),
            concat!(".hidden ", $crate::arch::name!("ended")),
            concat!(".globl ", $crate::arch::name!("resumed")),
            concat!(".hidden ", $crate::arch::name!("resumed")),
            ".cfi_startproc",
            concat!($crate::arch::name!("entry"), ":"),
            ".irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
            concat!(".org ", $crate::arch::name!("entry"), " + 16 * \\number"),
            "hint #34",                 // bti c
            "mov w4, #\\number",        // which one
            "b 20f",                    // the rest is the same for all
            concat!(".org ", $crate::arch::name!("entry"), " + 16 * \\number + 12"),
            ".4byte {numbered} + \\number",
            ".endr",
            "20:",
            "sub sp, sp, #480",         // room
            ".cfi_adjust_cfa_offset 480",
            "stp x29, x30, [sp, #464]", //
            ".cfi_rel_offset x29, 464",
            ".cfi_rel_offset x30, 472",
            "str x2, [sp, #8]",         // the context
            "stp xzr, xzr, [sp, #16]",  // nothing waits, no fault yet
            "mov x10, #256",            //
            "stp x10, x0, [sp, #32]",   // no system call yet; the signal
            "stp x1, x4, [sp, #48]",    // its siginfo; which entry
            concat!($crate::arch::name!("noted"), ":"),
            "cmp w0, #31",              // SIGSYS?
            "b.ne 21f",                 // no
            "ldr w10, [x1, #8]",        // did a system call raise it (si_code > 0)?
            "cmp w10, #0",              //
            "b.gt 22f",                 // yes: no other one
            "21:",
            "mov x0, #0",               // SIG_BLOCK
            "adrp x1, {set}",           //
            "add x1, x1, :lo12:{set}",  // these
            "add x2, sp, #32",          // the mask before
            "mov x3, #8",               // bytes in a set
            "mov x8, #135",             // rt_sigprocmask
            "svc #0",                   // a refusal leaves the mask and [sp, #32] as they are
            "22:",
            concat!("adrp x9, :gottprel:", $crate::arch::name!("thread_block")),
            concat!("ldr x9, [x9, :gottprel_lo12:", $crate::arch::name!("thread_block"), "]"),
            "mrs x10, tpidr_el0",       //
            "add x9, x9, x10",          // the block
            "ldr x10, [x9, #200]",      // whose code is interrupted?
            "str x10, [sp]",            // that one's
            "mov x0, sp",               // this one
            "str x0, [x9, #200]",       // known
            concat!($crate::arch::name!("entered"), ":"),
            "add x29, sp, #464",        // a frame as others have
            "bl {dispatch}",            //
            concat!($crate::arch::name!("ending"), ":"),
            "23:",
            concat!("adrp x9, :gottprel:", $crate::arch::name!("thread_block")),
            concat!("ldr x9, [x9, :gottprel_lo12:", $crate::arch::name!("thread_block"), "]"),
            "mrs x10, tpidr_el0",       //
            "add x9, x9, x10",          // the block
            "ldr x10, [sp, #16]",       // does anything wait?
            "cbnz x10, 24f",            // yes
            "ldr x10, [sp]",            // whose code is interrupted?
            "str x10, [x9, #200]",      // that one is known, this one no more
            "ldr x2, [sp, #8]",         // the context
            "ldp x29, x30, [sp, #464]", //
            ".cfi_remember_state",
            ".cfi_restore x29",
            ".cfi_restore x30",
            "add sp, sp, #480",         //
            ".cfi_adjust_cfa_offset -480",
            concat!($crate::arch::name!("ended"), ":"),
            "ret",                      // to the kernel's way back
            ".cfi_restore_state",
            "24:",
            "mov x0, sp",               // this one
            "str x0, [x9, #200]",       // known again
            concat!($crate::arch::name!("resumed"), ":"),
            "bl {waiting}",             // delivers what waits
            "b 23b",                    // may more have come?
            ".cfi_endproc",
            "29:",
            "hint #34",                 // bti c
            "b {below}",                // what an entry passes signals on to
            concat!(".size ", $crate::arch::name!("entry"), ", . - ", $crate::arch::name!("entry")),
            ".popsection",
            dispatch = sym $dispatch,
            waiting = sym $waiting,
            set = sym $set,
            below = sym $below,
            numbered = const $crate::arch::ENTRY_NUMBERED,
        );
    };
}
pub(crate) use {name, signal_entries};

/// How far behind the beginning of a delivery's stack the context lies, if the kernel has called
/// the entry: the siginfo comes between.
pub const CONTEXT_AFTER: usize = 480 + 128;

/// How far behind it the address lies to which the entry returns: the kernel has set x30, which the
/// entry saves.
pub const RETURN_AFTER: usize = 472;

/// How far behind the stack pointer the context lies where the entry has returned.
pub const CONTEXT_AT_RETURN: usize = 128;

/// Is `pc` one of the two instructions at `way_back`, to which the kernel has an entry return, and
/// is the second one about to call `rt_sigreturn`, whose number is in `x8`?
pub fn is_returning(pc: usize, way_back: usize, x8: usize) -> bool {
    // Without a branch: a first delivery, which finds no way back, comes by the same instructions
    // as others.
    let behind = pc.wrapping_sub(way_back);
    let calls = (behind == 4) & (x8 == libc::SYS_rt_sigreturn as usize);
    (way_back != 0) & ((behind == 0) | calls)
}

// Running a clone inside the handler that has interrupted its sequence.
//
//   x0   the interrupted registers, as the kernel has saved them: x0 to x30, sp, pc, pstate, eight bytes each
//   x1   where in the clone
//   x0   returned: the place in the clone's end
//   x16  no sequence that has a clone uses it
//
//   stack while the clone runs, whose ends alone use it:
//   [sp]        where its end goes
//   [sp, #8]    the place that its end leaves
//   [sp, #16]   the interrupted registers
//   [sp, #32]   what the calling convention wants back: x19 to x30
global_asm!(
    ".pushsection .text.atomseq_roll,\"ax\",@progbits",
    concat!(".globl ", name!("roll")),
    concat!(".hidden ", name!("roll")),
    concat!(".type ", name!("roll"), ", @function"),
    concat!(name!("roll"), ":"),
    "sub sp, sp, #128",          //
    "stp x19, x20, [sp, #32]",   //
    "stp x21, x22, [sp, #48]",   //
    "stp x23, x24, [sp, #64]",   //
    "stp x25, x26, [sp, #80]",   //
    "stp x27, x28, [sp, #96]",   //
    "stp x29, x30, [sp, #112]",  //
    "str x0, [sp, #16]",         // the registers
    "adr x16, 40f",              //
    "str x16, [sp]",             // where the end goes
    "mov x16, x1",               // where to start
    "ldr x1, [x0, #264]",        //
    "msr nzcv, x1",              // the interruption may be between a comparison and its branch
    "ldp x2, x3, [x0, #16]",     //
    "ldp x4, x5, [x0, #32]",     //
    "ldp x6, x7, [x0, #48]",     //
    "ldp x8, x9, [x0, #64]",     //
    "ldp x10, x11, [x0, #80]",   //
    "ldp x12, x13, [x0, #96]",   //
    "ldp x14, x15, [x0, #112]",  //
    "ldp x17, x18, [x0, #136]",  //
    "ldp x19, x20, [x0, #152]",  //
    "ldp x21, x22, [x0, #168]",  //
    "ldp x23, x24, [x0, #184]",  //
    "ldp x25, x26, [x0, #200]",  //
    "ldp x27, x28, [x0, #216]",  //
    "ldp x29, x30, [x0, #232]",  //
    "ldp x0, x1, [x0]",          // last, for it led to the others
    "ret x16",                   // the rest of the clone …
    "40:",                       // … comes back here
    "ldr x16, [sp, #16]",        // the registers
    "stp x0, x1, [x16]",         //
    "stp x2, x3, [x16, #16]",    //
    "stp x4, x5, [x16, #32]",    //
    "stp x6, x7, [x16, #48]",    //
    "stp x8, x9, [x16, #64]",    //
    "stp x10, x11, [x16, #80]",  //
    "stp x12, x13, [x16, #96]",  //
    "stp x14, x15, [x16, #112]", //
    "stp x17, x18, [x16, #136]", //
    "stp x19, x20, [x16, #152]", //
    "stp x21, x22, [x16, #168]", //
    "stp x23, x24, [x16, #184]", //
    "stp x25, x26, [x16, #200]", //
    "stp x27, x28, [x16, #216]", //
    "stp x29, x30, [x16, #232]", //
    "mrs x0, nzcv",              //
    "ldr x1, [x16, #264]",       //
    "and x1, x1, #~0xf0000000",  //
    "orr x1, x1, x0",            //
    "str x1, [x16, #264]",       // the flags
    "ldr x0, [sp, #8]",          // the place
    "41:",                       //
    "ldp x19, x20, [sp, #32]",   //
    "ldp x21, x22, [sp, #48]",   //
    "ldp x23, x24, [sp, #64]",   //
    "ldp x25, x26, [sp, #80]",   //
    "ldp x27, x28, [sp, #96]",   //
    "ldp x29, x30, [sp, #112]",  //
    "add sp, sp, #128",          //
    "ret",                       //
    concat!(".globl ", name!("roll_abandoned")),
    concat!(".hidden ", name!("roll_abandoned")),
    concat!(name!("roll_abandoned"), ":"), // sp is the clone's; nothing else counts
    "mov x0, #0",                          // no place
    "b 41b",                               //
    concat!(".size ", name!("roll"), ", . - ", name!("roll")),
    ".popsection",
);

unsafe extern "C" {
    #[link_name = name!("roll")]
    fn roll_asm(registers: *mut c_void, entry: usize) -> usize;
    #[link_name = name!("roll_abandoned")]
    static ROLL_ABANDONED: u8;
}

/// Where a thread that is in a clone is to go on, with the clone's stack pointer, for `roll` to
/// return 0.
pub fn roll_abandoned() -> usize {
    &raw const ROLL_ABANDONED as usize
}

/// Runs a clone from `entry` on with the interrupted registers, and saves them again as it leaves
/// them, but for the stack pointer and the program counter. Returns the place in the clone's end;
/// or 0, and saves nothing, if a fault's handler has sent the thread to [`roll_abandoned`].
///
/// # Safety
/// In a handler: `registers` are those that the kernel saved of the thread that it interrupted in a
/// sequence, and `entry` is the same instruction in the sequence's clone.
pub unsafe fn roll(registers: *mut c_void, entry: usize) -> usize {
    // SAFETY: keeps to C's calling convention; a clone uses no stack but the two words for its end,
    // and comes back.
    unsafe { roll_asm(registers, entry) }
}

/// The caller's program counter, stack pointer and frame pointer.
#[inline(always)]
pub fn place() -> [usize; 3] {
    let (counter, stack, frame);
    // SAFETY: reads three registers.
    unsafe {
        asm!(
            "adr {counter}, .",  // this instruction
            "mov {stack}, sp",   //
            "mov {frame}, x29",  //
            counter = out(reg) counter,
            stack = out(reg) stack,
            frame = out(reg) frame,
            options(nomem, nostack, preserves_flags)
        );
    }
    [counter, stack, frame]
}

/// Calls the kernel; a negative result is an error number with its sign changed. `errno` stays as
/// it is, since this runs in signal handlers and in allocators.
///
/// # Safety
/// As the system call itself.
pub unsafe fn syscall(number: i64, arguments: [usize; 6]) -> isize {
    let result;
    // SAFETY: the kernel's calling convention; the caller vouches for the call itself.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") arguments[0] => result,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            in("x4") arguments[4],
            in("x5") arguments[5],
            options(nostack),
        );
    }
    result
}

/// The addresses of `__rseq_offset` and `__rseq_size`; null when the C library has none.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
pub fn glibc_rseq_symbols() -> (*const isize, *const u32) {
    let (offset, size);
    // SAFETY: loads two addresses from the global offset table; a weak reference that stays
    // undefined is null.
    unsafe {
        asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "adrp {0}, :got:__rseq_offset",
            "ldr {0}, [{0}, :got_lo12:__rseq_offset]",
            "adrp {1}, :got:__rseq_size",
            "ldr {1}, [{1}, :got_lo12:__rseq_size]",
            out(reg) offset,
            lateout(reg) size,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    (offset, size)
}

// The helper of the self-test.
//
//   x0   KickWords; kept in x9, which system calls leave alone
//   x0   returned: the child's process id, or a negative error number
//   x10  rounds left (child only)
//
// The child shares the memory, and even the stack pointer, of its parent: it touches neither the
// stack nor thread-local storage, and ends by a system call. Signals are blocked by the caller, so
// no handler runs on it.
global_asm!(
    ".pushsection .text.atomseq_selftest,\"ax\",@progbits",
    ".balign 4",
    concat!(".globl ", name!("spawn_kicker")),
    concat!(".hidden ", name!("spawn_kicker")),
    concat!(".type ", name!("spawn_kicker"), ", @function"),
    concat!(name!("spawn_kicker"), ":"),
    "hint #34",                // bti c
    "mov x9, x0",              // the shared words
    "mov x8, #220",            // clone
    "mov x0, #0x700",          // CLONE_VM | CLONE_FS | CLONE_FILES, no signal at the end
    "movk x0, #0x20, lsl #16", // CLONE_CHILD_CLEARTID
    "mov x1, #0",              // no stack of its own
    "mov x2, #0",              // no parent word
    "mov x3, #0",              // no thread-local storage of its own
    "add x4, x9, #68",         // the child word: `alive`
    "svc #0",                  //
    "cbz x0, 20f",             // 0: the child
    "ret",                     // the parent
    "20:",                     //
    "mov x8, #274",            // sched_setattr
    "mov x0, #0",              // of this child
    "ldr x1, [x9, #56]",       // its parent's attributes with a short slice
    "mov x2, #0",              //
    "svc #0",                  // a refusal only makes the test slower
    "ldr x1, [x9, #40]",       // length of the set of CPUs to stay on
    "cbz x1, 21f",             // none: anywhere
    "mov x8, #122",            // sched_setaffinity
    "mov x0, #0",              // of this child
    "ldr x2, [x9, #48]",       // the set
    "svc #0",                  //
    "str w0, [x9, #16]",       // 0, or why not
    "21:",                     //
    "mov w12, #1",             //
    "str w12, [x9, #64]",      // prepared
    "ldr w10, [x9, #20]",      // how often to look
    "22:",                     //
    "ldar w12, [x9]",          // does the section run yet?
    "cbnz w12, 23f",           //
    "mov x8, #101",            // nanosleep: on a machine with one CPU the parent must run
    "add x0, x9, #24",         // this long
    "mov x1, #0",              //
    "svc #0",                  //
    "subs w10, w10, #1",       //
    "b.ne 22b",                // look again
    "b 25f",                   // give up
    "23:",                     //
    "ldr w11, [x9, #12]",      // how to interrupt
    "cbz w11, 24f",            // running here was the interruption
    "mov x8, #283",            // membarrier
    "mov x0, #128",            // MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ
    "mov x1, #0",              // on every CPU
    "mov x2, #0",              //
    "svc #0",                  // when it returns, every running section was aborted
    "str w0, [x9, #16]",       // 0, or why not
    "24:",                     //
    "mov w12, #1",             //
    "add x13, x9, #4",         //
    "stlr w12, [x13]",         // done
    "25:",                     //
    "mov x8, #93",             // exit
    "mov x0, #0",              //
    "svc #0",                  //
    "udf #0",                  // not reached
    concat!(
        ".size ",
        name!("spawn_kicker"),
        ", . - ",
        name!("spawn_kicker")
    ),
    ".popsection",
);

// The section of the self-test.
//
//   x0   this thread's struct rseq
//   x1   KickWords
//   x2   how many rounds to spin
//   w0   returned: one of `watched`
//   x9 to x12  scratch
//
//   arm ── start ── cpu? ── ready = 1 ── done? ──┐ ── end
//                                          ^─────┘
//   abort: anywhere between start and end
global_asm!(
    ".pushsection .text.atomseq_selftest,\"ax\",@progbits",
    ".balign 4",
    concat!(".globl ", name!("watch")),
    concat!(".hidden ", name!("watch")),
    concat!(".type ", name!("watch"), ", @function"),
    concat!(name!("watch"), ":"),
    "hint #34",        // bti c
    "add x12, x1, #4", // address of done
    concat!("adrp x9, ", name!("watch_descriptor")),
    concat!("add x9, x9, :lo12:", name!("watch_descriptor")),
    "str x9, [x0, #8]",      // arm
    "30:",                   // start
    "ldr w10, [x0, #4]",     // this thread's CPU
    "ldr w11, [x1, #8]",     // the one that the helper aims at
    "cmp w10, w11",          // still the same?
    "b.ne 33f",              // no: leave
    "mov w10, #1",           //
    "stlr w10, [x1]",        // ready: the helper may strike
    "31:",                   //
    "ldar w10, [x12]",       // is the helper through?
    "cbnz w10, 32f",         // yes, and this still runs
    "subs x2, x2, #1",       //
    "b.ne 31b",              // spin
    "32:",                   // end
    "str xzr, [x0, #8]",     // disarm
    "cmp x2, #0",            // did the rounds run out?
    "mov w10, #1",           // watched::MISSED
    "mov w11, #2",           // watched::NOTHING
    "csel w0, w11, w10, eq", //
    "ret",                   //
    "33:",                   //
    "str xzr, [x0, #8]",     // disarm
    "mov w0, #3",            // watched::MOVED
    "ret",                   //
    ".inst 0xd428bc00",      // the signature
    "34:",                   // abort
    "mov w0, #0",            // watched::ABORTED
    "ret",                   //
    concat!(".size ", name!("watch"), ", . - ", name!("watch")),
    ".popsection",
    ".pushsection __rseq_cs,\"awR\",@progbits",
    ".balign 32",
    concat!(name!("watch_descriptor"), ":"),
    ".word 0, 0",           // version, flags
    ".quad 30b, 32b - 30b", // start, length
    ".quad 34b",            // abort
    ".popsection",
    ".pushsection __rseq_cs_ptr_array,\"awR\",@progbits",
    concat!(".quad ", name!("watch_descriptor")),
    ".popsection",
);

unsafe extern "C" {
    #[link_name = name!("spawn_kicker")]
    fn spawn_kicker_asm(words: *const KickWords) -> i64;
    #[link_name = name!("watch")]
    fn watch_asm(rseq: *mut u8, words: *const KickWords, rounds: u64) -> u32;
}

/// Starts the self-test's helper; returns its process id or a negative error number.
///
/// # Safety
/// All signals are blocked, the thread has no rseq section armed, and `words` lives until the child
/// was waited for.
pub unsafe fn spawn_kicker(words: *const KickWords) -> i64 {
    // SAFETY: the assembly keeps to the C calling convention in the parent; the child never
    // returns.
    unsafe { spawn_kicker_asm(words) }
}

/// Spins inside a section until it is aborted, or `done` is set, or `rounds` are over.
///
/// # Safety
/// `rseq` is this thread's registered `struct rseq`; `words` is valid.
pub unsafe fn watch(rseq: *mut u8, words: *const KickWords, rounds: u64) -> u32 {
    // SAFETY: a leaf function in the C calling convention; the abort handler returns to the same
    // caller.
    unsafe { watch_asm(rseq, words, rounds) }
}

/// Does this processor have a double-width compare-and-swap? Every one has, by an instruction or by
/// exclusive pairs.
#[inline]
pub fn has_double_width() -> bool {
    true
}

/// Compares two adjacent words and changes both if they are as expected; what was there otherwise.
///
/// # Safety
///
/// The address is valid and aligned to 16 bytes.
#[cfg(target_feature = "lse")]
#[inline(always)]
pub unsafe fn compare_exchange_double(
    words: *mut u64,
    expected: (u64, u64),
    new: (u64, u64),
) -> Result<(), (u64, u64)> {
    let (first, second);
    // SAFETY: the caller's promise. Pairs of registers begin at an even one.
    unsafe {
        asm!(
            "caspal x4, x5, x6, x7, [{words}]", // compare, change both or not; load both
            words = in(reg) words,
            inout("x4") expected.0 => first,
            inout("x5") expected.1 => second,
            in("x6") new.0,
            in("x7") new.1,
            options(nostack, preserves_flags)
        );
    }
    if (first, second) == expected {
        Ok(())
    } else {
        Err((first, second))
    }
}

/// Compares two adjacent words and changes both if they are as expected; what was there otherwise.
///
/// A pair that differs is stored back as it is: only then has it been read at once.
///
/// # Safety
///
/// The address is valid and aligned to 16 bytes.
#[cfg(not(target_feature = "lse"))]
#[inline(always)]
pub unsafe fn compare_exchange_double(
    words: *mut u64,
    expected: (u64, u64),
    new: (u64, u64),
) -> Result<(), (u64, u64)> {
    let (first, second): (u64, u64);
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "2:",
            "ldaxp {first}, {second}, [{words}]",        // load both, exclusively
            "cmp {first}, {expected_first}",             //
            "ccmp {second}, {expected_second}, #0, eq",  // both as expected?
            "csel {low}, {new_first}, {first}, eq",      // the new pair, or the same again
            "csel {high}, {new_second}, {second}, eq",   //
            "stlxp {failed:w}, {low}, {high}, [{words}]", // store both, if nobody has since
            "cbnz {failed:w}, 2b",                       //
            words = in(reg) words,
            expected_first = in(reg) expected.0,
            expected_second = in(reg) expected.1,
            new_first = in(reg) new.0,
            new_second = in(reg) new.1,
            first = out(reg) first,
            second = out(reg) second,
            low = out(reg) _,
            high = out(reg) _,
            failed = out(reg) _,
            options(nostack)
        );
    }
    if (first, second) == expected {
        Ok(())
    } else {
        Err((first, second))
    }
}
