//! The assembly for AArch64.

use core::arch::{asm, global_asm};
use core::sync::atomic::AtomicUsize;

/// The four bytes before every abort address (`brk #0x45e0`).
pub const SIGNATURE: u32 = 0xd428_bc00;

global_asm!(
    ".pushsection .tdata,\"awT\",@progbits",
    ".balign 32",
    hidden!("thread_block"),
    concat!(".type ", name!("thread_block"), ", @tls_object"),
    concat!(".size ", name!("thread_block"), ", 256"),
    concat!(name!("thread_block"), ":"),
    ".word 0",          //  0 cpu_id_start
    ".word 0xffffffff", //  4 cpu_id = -1: not registered
    ".zero 248", //  8 rseq_cs and the rest; 32 registration; 36 forks; 40 quiet; 44 counted; 48 signals; 232 mask
    ".popsection",
);

/// Returns the thread pointer, `tpidr_el0`.
#[inline(always)]
pub fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: this reads a register that user code may read.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(pure, nomem, nostack, preserves_flags));
    }
    pointer
}

/// Returns the offset of the thread block from the thread pointer, the same in every thread.
#[inline(always)]
pub fn thread_block_offset() -> isize {
    let offset;
    // SAFETY: this only loads a link-time constant from the global offset table.
    unsafe {
        asm!(
            concat!("adrp {0}, :gottprel:", name!("thread_block")), // the page that holds its offset
            concat!("ldr {0}, [{0}, :gottprel_lo12:", name!("thread_block"), "]"), // its offset
            out(reg) offset,
            // The table never changes and no Rust code accesses it, so the load need not be
            // repeated.
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    offset
}

/// Evaluates to the address of the calling thread's copy of a static in `.tdata`.
///
/// ```text
///                       thread's storage               global offset table
///   tpidr_el0 ... copy of IMAGE ...                      :gottprel:IMAGE: offset
///       └──────────── ^ ────────────────────────────────────────────────────┘
/// ```
///
/// If the static is in the executable itself, linkers turn the load into a constant.
#[doc(hidden)]
#[macro_export]
macro_rules! __thread_address {
    ($image:path) => {{
        let __atomseq_address: *const ();
        // SAFETY: this only loads a link-time constant from the global offset table, and reads a
        // register that user code may read.
        unsafe {
            $crate::generated::standard::asm!(
                "adrp {address}, :gottprel:{image}",                   // the page that holds its offset
                "ldr {address}, [{address}, :gottprel_lo12:{image}]",  // its offset
                "mrs {pointer}, tpidr_el0",                            // the thread pointer
                "add {address}, {pointer}, {address}",                 // the address
                address = out(reg) __atomseq_address,
                pointer = out(reg) _,
                image = sym $image,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        __atomseq_address
    }};
}

/// Increments the count of masks. The compiler moves no memory access across it, because the
/// assembly may access any memory.
///
/// ```text
/// [block, #48]   count of masks of this thread; the highest bit: a signal waits
/// ```
///
/// A handler that runs in between leaves the count as it found it, but a mark that a deferral sets
/// there may be overwritten.
#[inline(always)]
pub fn enter_mask() {
    // SAFETY: the word is the count of masks in this thread's block, which only this thread and its
    // handlers access.
    unsafe {
        asm!(
            "ldr {count}, [{block}, #48]", // the count
            "add {count}, {count}, #1",    // one mask more
            "str {count}, [{block}, #48]", // store it
            block = in(reg) thread_block(),
            count = out(reg) _,
            options(nostack, preserves_flags)
        );
    }
}

/// Decrements the count of masks, and calls `waiting` if a signal was deferred. `waiting` may find
/// the count above 0.
///
/// ```text
/// [block, #48]   count of masks of this thread; the highest bit: a signal waits
/// [block, #56]   the signals that deferral has blocked in the kernel
/// ```
///
/// The last load sees a signal that arrived before the store. A signal that arrives after the store
/// finds no mask.
#[inline(always)]
pub fn leave_mask(waiting: extern "C" fn()) {
    let (count, waits): (i64, u64);
    // SAFETY: the words are the count of masks and the waiting signals in this thread's block,
    // which only this thread and its handlers access.
    unsafe {
        asm!(
            "ldr {count}, [{block}, #48]", // the count
            "sub {count}, {count}, #1",    // one mask less
            "str {count}, [{block}, #48]", // store it
            "ldr {waits}, [{block}, #56]", // does a signal wait?
            block = in(reg) thread_block(),
            count = out(reg) count,
            waits = lateout(reg) waits,
            options(nostack, preserves_flags)
        );
    }
    // The count was 0, or negative because a signal waited before.
    if count.wrapping_add(1) <= 0 || waits != 0 {
        waiting();
    }
}

#[inline(always)]
fn thread_block() -> usize {
    thread_pointer().wrapping_add_signed(thread_block_offset())
}

// The entries that the kernel calls on a signal. An entry blocks the signals that must not
// interrupt a delivery, records the delivery, and dispatches it.
//
//   x0, x1, x2  the signal, its siginfo, the interrupted context, up to the label `noted`;
//               then arguments of the system call
//   x3          the system call's fourth argument
//   x4          the number of the called entry: entries are 16 bytes apart
//   x8          the system call's number
//   x9          this thread's block
//   x2          from the label `ended` on: the context
//   x10         scratch; then the delivery whose code the signal has interrupted, or 0
//
//   stack during the dispatch: 456 bytes, see signal/delivery/nested.rs
//   [sp]        the delivery that this one has interrupted
//   [sp, #8]    the context
//   [sp, #16]   the signals that wait for this delivery: none yet
//   [sp, #24]   when the clone that it runs first faulted: never yet
//   [sp, #32]   the mask before the system call; if there was no call, SIGKILL alone, which no
//               mask contains
//   [sp, #40]   the signal
//   [sp, #48]   its siginfo
//   [sp, #56]   the number of the entry
//   [sp, #464]  x29, x30
//
// The text before the entries and the number after the code of each identify them as entries to
// other copies of atomseq: signal/delivery/copies.rs.
//
// A nested signal that arrives before the label `noted` finds the context in x2. One that arrives
// before `entered` finds it on the stack. A later one finds this delivery in the thread's block, at
// 200. From `ending` up to `resumed` it may or may not find it there; the context is on the stack,
// or in x2 at `ended`.
//
// A SIGSYS raised by a system call makes no further system call here, which might raise it again
// and kill the process.
macro_rules! signal_entries {
    (call $dispatch:path, then $waiting:path, block $set:path, ask $below:path) => {
        core::arch::global_asm!(
            ".pushsection .text.atomseq_entry,\"ax\",@progbits",
            ".balign 16",
            ".ascii \"atomseq: entries\"",
            ".4byte 29f - .",
            ".balign 16",
            $crate::arch::hidden!("entry"),
            concat!(".type ", $crate::arch::name!("entry"), ", @function"),
            $crate::arch::hidden!("noted"),
            $crate::arch::hidden!("entered"),
            $crate::arch::hidden!("ending"),
            $crate::arch::hidden!("ended"),
            $crate::arch::hidden!("resumed"),
            ".cfi_startproc",
            concat!($crate::arch::name!("entry"), ":"),
            ".irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
            concat!(".org ", $crate::arch::name!("entry"), " + 16 * \\number"),
            "hint #34",                 // bti c
            "mov w4, #\\number",        // the number of this entry
            "b 20f",                    // the common rest
            concat!(".org ", $crate::arch::name!("entry"), " + 16 * \\number + 12"),
            ".4byte {numbered} + \\number",
            ".endr",
            "20:",
            "sub sp, sp, #480",         // room
            ".cfi_adjust_cfa_offset 480",
            "stp x29, x30, [sp, #464]", // save the frame pointer and the return address
            ".cfi_rel_offset x29, 464",
            ".cfi_rel_offset x30, 472",
            "str x2, [sp, #8]",         // the context
            "stp xzr, xzr, [sp, #16]",  // no signal waits; no fault yet
            "mov x10, #256",            // SIGKILL alone
            "stp x10, x0, [sp, #32]",   // no system call yet; the signal
            "stp x1, x4, [sp, #48]",    // its siginfo; which entry
            concat!($crate::arch::name!("noted"), ":"),
            "cmp w0, #31",              // SIGSYS?
            "b.ne 21f",                 // no
            "ldr w10, [x1, #8]",        // did a system call raise it (si_code > 0)?
            "cmp w10, #0",              // si_code > 0?
            "b.gt 22f",                 // yes: make no system call
            "21:",
            "mov x0, #0",               // SIG_BLOCK
            "adrp x1, {set}",           // the page of the set
            "add x1, x1, :lo12:{set}",  // the signals to block
            "add x2, sp, #32",          // the mask before
            "mov x3, #8",               // bytes in a set
            "mov x8, #135",             // rt_sigprocmask
            "svc #0",                   // on a refusal, the mask and [sp, #32] are unchanged
            "22:",
            concat!("adrp x9, :gottprel:", $crate::arch::name!("thread_block")),
            concat!("ldr x9, [x9, :gottprel_lo12:", $crate::arch::name!("thread_block"), "]"),
            "mrs x10, tpidr_el0",       // the thread pointer
            "add x9, x9, x10",          // the block
            "ldr x10, [x9, #200]",      // the interrupted delivery, or 0
            "str x10, [sp]",            // link it from this one
            "mov x0, sp",               // this delivery
            "str x0, [x9, #200]",       // record this delivery
            concat!($crate::arch::name!("entered"), ":"),
            "add x29, sp, #464",        // a frame record like any function's
            "bl {dispatch}",            // dispatch it
            concat!($crate::arch::name!("ending"), ":"),
            "23:",
            concat!("adrp x9, :gottprel:", $crate::arch::name!("thread_block")),
            concat!("ldr x9, [x9, :gottprel_lo12:", $crate::arch::name!("thread_block"), "]"),
            "mrs x10, tpidr_el0",       // the thread pointer
            "add x9, x9, x10",          // the block
            "ldr x10, [sp, #16]",       // does a signal wait for this one?
            "cbnz x10, 24f",            // yes
            "ldr x10, [sp]",            // the interrupted delivery, or 0
            "str x10, [x9, #200]",      // record that one instead of this
            "ldr x2, [sp, #8]",         // the context
            "ldp x29, x30, [sp, #464]", // restore the frame pointer and the return address
            ".cfi_remember_state",
            ".cfi_restore x29",
            ".cfi_restore x30",
            "add sp, sp, #480",         // free the stack
            ".cfi_adjust_cfa_offset -480",
            concat!($crate::arch::name!("ended"), ":"),
            "ret",                      // to the code that calls rt_sigreturn
            ".cfi_restore_state",
            "24:",
            "mov x0, sp",               // this delivery
            "str x0, [x9, #200]",       // record it again
            concat!($crate::arch::name!("resumed"), ":"),
            "bl {waiting}",             // deliver the waiting signals
            "b 23b",                    // check again: more may have arrived
            ".cfi_endproc",
            "29:",
            "hint #34",                 // bti c
            "b {below}",                // the function that passes signals on
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
pub(crate) use signal_entries;

/// The offset of the context from the start of a delivery's stack, if the kernel has called the
/// entry: the siginfo is in between.
pub const CONTEXT_AFTER: usize = 480 + 128;

/// The offset of the address that the entry returns to from the start of a delivery's stack: the
/// kernel has set x30, which the entry saves.
pub const RETURN_AFTER: usize = 472;

/// The offset of the context from the stack pointer after the entry has returned.
pub const CONTEXT_AT_RETURN: usize = 128;

/// Returns whether the thread is about to call `rt_sigreturn`. `way_back` is the address that the
/// kernel makes an entry return to. `pc` must be its first instruction, or its second one with the
/// number of the call in `x8`.
pub fn is_returning(pc: usize, way_back: usize, x8: usize) -> bool {
    // Has no branch, so that a first delivery, which does not yet know the way back, runs through
    // the same instructions as later ones.
    let behind = pc.wrapping_sub(way_back);
    let calls = (behind == 4) & (x8 == libc::SYS_rt_sigreturn as usize);
    (way_back != 0) & ((behind == 0) | calls)
}

// Runs a clone inside the handler that has interrupted its sequence.
//
//   x0   the interrupted registers in the kernel's order, eight bytes each:
//        0 x0, 8 x1, … 240 x30, 248 sp, 256 pc, 264 pstate
//   x1   the address in the clone to start at
//   x0   returned: the place in the clone's end
//   x16  scratch: no sequence with a clone uses it
//
//   stack while the clone runs; only the clone's end uses it:
//   [sp]        the address that its end goes to
//   [sp, #8]    the place, stored by its end
//   [sp, #16]   the interrupted registers
//   [sp, #32]   the callee-saved registers: x19 to x30
global_asm!(
    ".pushsection .text.atomseq_roll,\"ax\",@progbits",
    hidden!("roll"),
    concat!(".type ", name!("roll"), ", @function"),
    concat!(name!("roll"), ":"),
    "sub sp, sp, #128",          // room for this frame
    "stp x19, x20, [sp, #32]",   // save callee-saved x19 and x20
    "stp x21, x22, [sp, #48]",   // save callee-saved x21 and x22
    "stp x23, x24, [sp, #64]",   // save callee-saved x23 and x24
    "stp x25, x26, [sp, #80]",   // save callee-saved x25 and x26
    "stp x27, x28, [sp, #96]",   // save callee-saved x27 and x28
    "stp x29, x30, [sp, #112]",  // save callee-saved x29 and x30
    "str x0, [sp, #16]",         // the interrupted registers
    "adr x16, 40f",              // where the clone's end goes …
    "str x16, [sp]",             // where the end goes
    "mov x16, x1",               // where to start
    "ldr x1, [x0, #264]",        // the interrupted flags …
    "msr nzcv, x1",              // the interruption may be between a comparison and its branch
    "ldp x2, x3, [x0, #16]",     // the interrupted x2 and x3
    "ldp x4, x5, [x0, #32]",     // the interrupted x4 and x5
    "ldp x6, x7, [x0, #48]",     // the interrupted x6 and x7
    "ldp x8, x9, [x0, #64]",     // the interrupted x8 and x9
    "ldp x10, x11, [x0, #80]",   // the interrupted x10 and x11
    "ldp x12, x13, [x0, #96]",   // the interrupted x12 and x13
    "ldp x14, x15, [x0, #112]",  // the interrupted x14 and x15
    "ldp x17, x18, [x0, #136]",  // the interrupted x17 and x18
    "ldp x19, x20, [x0, #152]",  // the interrupted x19 and x20
    "ldp x21, x22, [x0, #168]",  // the interrupted x21 and x22
    "ldp x23, x24, [x0, #184]",  // the interrupted x23 and x24
    "ldp x25, x26, [x0, #200]",  // the interrupted x25 and x26
    "ldp x27, x28, [x0, #216]",  // the interrupted x27 and x28
    "ldp x29, x30, [x0, #232]",  // the interrupted x29 and x30
    "ldp x0, x1, [x0]",          // last: it is the base of the others
    "ret x16",                   // the rest of the clone …
    "40:",                       // … comes back here
    "ldr x16, [sp, #16]",        // the interrupted registers
    "stp x0, x1, [x16]",         // save x0 and x1 as the clone left them
    "stp x2, x3, [x16, #16]",    // save x2 and x3 as the clone left them
    "stp x4, x5, [x16, #32]",    // save x4 and x5 as the clone left them
    "stp x6, x7, [x16, #48]",    // save x6 and x7 as the clone left them
    "stp x8, x9, [x16, #64]",    // save x8 and x9 as the clone left them
    "stp x10, x11, [x16, #80]",  // save x10 and x11 as the clone left them
    "stp x12, x13, [x16, #96]",  // save x12 and x13 as the clone left them
    "stp x14, x15, [x16, #112]", // save x14 and x15 as the clone left them
    "stp x17, x18, [x16, #136]", // save x17 and x18 as the clone left them
    "stp x19, x20, [x16, #152]", // save x19 and x20 as the clone left them
    "stp x21, x22, [x16, #168]", // save x21 and x22 as the clone left them
    "stp x23, x24, [x16, #184]", // save x23 and x24 as the clone left them
    "stp x25, x26, [x16, #200]", // save x25 and x26 as the clone left them
    "stp x27, x28, [x16, #216]", // save x27 and x28 as the clone left them
    "stp x29, x30, [x16, #232]", // save x29 and x30 as the clone left them
    "mrs x0, nzcv",              // the flags as the clone left them
    "ldr x1, [x16, #264]",       // the saved pstate
    "and x1, x1, #~0xf0000000",  // without its flags
    "orr x1, x1, x0",            // with the new ones
    "str x1, [x16, #264]",       // the flags
    "ldr x0, [sp, #8]",          // the place
    "41:",                       // the place is in x0
    "ldp x19, x20, [sp, #32]",   // restore x19 and x20
    "ldp x21, x22, [sp, #48]",   // restore x21 and x22
    "ldp x23, x24, [sp, #64]",   // restore x23 and x24
    "ldp x25, x26, [sp, #80]",   // restore x25 and x26
    "ldp x27, x28, [sp, #96]",   // restore x27 and x28
    "ldp x29, x30, [sp, #112]",  // restore x29 and x30
    "add sp, sp, #128",          // free this frame
    "ret",                       // to the caller
    hidden!("roll_abandoned"),
    concat!(name!("roll_abandoned"), ":"), // sp is the clone's; other registers are unused
    "mov x0, #0",                          // no place
    "b 41b",                               // return it
    concat!(".size ", name!("roll"), ", . - ", name!("roll")),
    ".popsection",
);

/// Returns the caller's program counter, stack pointer and frame pointer.
#[inline(always)]
pub fn place() -> [usize; 3] {
    let (counter, stack, frame);
    // SAFETY: this only reads three registers.
    unsafe {
        asm!(
            "adr {counter}, .",  // this instruction
            "mov {stack}, sp",   // the stack pointer
            "mov {frame}, x29",  // the frame pointer
            counter = out(reg) counter,
            stack = out(reg) stack,
            frame = out(reg) frame,
            options(nomem, nostack, preserves_flags)
        );
    }
    [counter, stack, frame]
}

/// Calls the kernel. A negative result is a negated error number. `errno` is not changed, since
/// this runs in signal handlers and allocators.
///
/// # Safety
/// The requirements are those of the system call.
pub unsafe fn syscall(number: i64, arguments: [usize; 6]) -> isize {
    let result;
    // SAFETY: this follows the kernel's calling convention. By the contract the call itself is
    // sound.
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

/// Returns the addresses of `__rseq_offset` and `__rseq_size`, or nulls if the C library has none.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
pub fn glibc_rseq_symbols() -> (*const isize, *const u32) {
    let (offset, size);
    // SAFETY: this only loads two addresses from the global offset table. A weak reference that
    // stays undefined is null.
    unsafe {
        asm!(
            ".weak __rseq_offset",                     // null if it is undefined
            ".weak __rseq_size",                       // null if it is undefined
            "adrp {0}, :got:__rseq_offset",            // the page that holds its address
            "ldr {0}, [{0}, :got_lo12:__rseq_offset]", // its address
            "adrp {1}, :got:__rseq_size",              // the page that holds its address
            "ldr {1}, [{1}, :got_lo12:__rseq_size]",   // its address
            out(reg) offset,
            lateout(reg) size,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    (offset, size)
}

// The helper of the self-test.
//
//   x0   KickWords; kept in x9, which system calls do not change
//   x0   returned: the child's process id, or a negative error number
//   x10  rounds left (child only)
//   x11 to x13  scratch (child only)
//
//   KickWords: 0 ready, 4 done, 8 cpu, 12 kick, 16 result, 20 rounds, 24 nap, 40 mask_bytes,
//              48 mask, 56 attributes, 64 prepared, 68 alive
//
// The child shares the memory and even the stack pointer of its parent. It uses neither the stack
// nor thread-local storage, and exits by a system call. The caller has blocked signals, so no
// handler runs on it.
global_asm!(
    ".pushsection .text.atomseq_selftest,\"ax\",@progbits",
    ".balign 4",
    hidden!("spawn_kicker"),
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
    "svc #0",                  // call the kernel
    "cbz x0, 20f",             // 0: the child
    "ret",                     // the parent
    "20:",                     // the child
    "mov x8, #274",            // sched_setattr
    "mov x0, #0",              // of this child
    "ldr x1, [x9, #56]",       // its parent's attributes with a short slice
    "mov x2, #0",              // no flags
    "svc #0",                  // a refusal only makes the test slower
    "ldr x1, [x9, #40]",       // length of the set of CPUs to stay on
    "cbz x1, 21f",             // none: anywhere
    "mov x8, #122",            // sched_setaffinity
    "mov x0, #0",              // of this child
    "ldr x2, [x9, #48]",       // the set
    "svc #0",                  // call the kernel
    "str w0, [x9, #16]",       // 0 or a negative error number
    "21:",                     // the CPUs are set
    "mov w12, #1",             // true
    "str w12, [x9, #64]",      // prepared
    "ldr w10, [x9, #20]",      // how often to check
    "22:",                     // one check
    "ldar w12, [x9]",          // does the section run yet?
    "cbnz w12, 23f",           // yes: interrupt it
    "mov x8, #101",            // nanosleep: on a machine with one CPU the parent must run
    "add x0, x9, #24",         // this long
    "mov x1, #0",              // no remaining time
    "svc #0",                  // call the kernel
    "subs w10, w10, #1",       // one round less
    "b.ne 22b",                // check again
    "b 25f",                   // give up
    "23:",                     // the section runs
    "ldr w11, [x9, #12]",      // how to interrupt
    "cbz w11, 24f",            // by running here? that has happened
    "mov x8, #283",            // membarrier
    "mov x0, #128",            // MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ
    "mov x1, #0",              // on every CPU
    "mov x2, #0",              // no CPU
    "svc #0",                  // when it returns, every running section was aborted
    "str w0, [x9, #16]",       // 0 or a negative error number
    "24:",                     // the section was interrupted
    "mov w12, #1",             // true
    "add x13, x9, #4",         // address of done
    "stlr w12, [x13]",         // done
    "25:",                     // the end
    "mov x8, #93",             // exit
    "mov x0, #0",              // status 0
    "svc #0",                  // call the kernel
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
//   x0   this thread's struct rseq: cpu_id at 4, rseq_cs at 8
//   x1   KickWords: 0 ready, 4 done, 8 cpu
//   x2   the number of rounds to spin
//   w0   returned: one of `watched`
//   x9 to x12  scratch
//
//   arm ── start ── cpu? ── ready = 1 ── done? ──┐ ── end
//                                          ^─────┘
//   abort: anywhere between start and end
global_asm!(
    ".pushsection .text.atomseq_selftest,\"ax\",@progbits",
    ".balign 4",
    hidden!("watch"),
    concat!(".type ", name!("watch"), ", @function"),
    concat!(name!("watch"), ":"),
    "hint #34",        // bti c
    "add x12, x1, #4", // address of done
    concat!("adrp x9, ", name!("watch_descriptor")),
    concat!("add x9, x9, :lo12:", name!("watch_descriptor")),
    "str x9, [x0, #8]",      // arm the section
    "30:",                   // start
    "ldr w10, [x0, #4]",     // this thread's CPU
    "ldr w11, [x1, #8]",     // the one that the helper aims at
    "cmp w10, w11",          // still the same?
    "b.ne 33f",              // no: leave
    "mov w10, #1",           // true
    "stlr w10, [x1]",        // ready: the helper may interrupt
    "31:",                   // one round
    "ldar w10, [x12]",       // is the helper done?
    "cbnz w10, 32f",         // yes, and this still runs
    "subs x2, x2, #1",       // one round less
    "b.ne 31b",              // spin
    "32:",                   // end
    "str xzr, [x0, #8]",     // disarm the section
    "cmp x2, #0",            // did the rounds run out?
    "mov w10, #1",           // watched::MISSED
    "mov w11, #2",           // watched::NOTHING
    "csel w0, w11, w10, eq", // NOTHING if they did
    "ret",                   // to the caller
    "33:",                   // on another CPU
    "str xzr, [x0, #8]",     // disarm the section
    "mov w0, #3",            // watched::MOVED
    "ret",                   // to the caller
    ".inst 0xd428bc00",      // the signature
    "34:",                   // abort
    "mov w0, #0",            // watched::ABORTED
    "ret",                   // to the caller
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

/// Returns whether this processor has a double-width compare-and-swap. Every one has, as one
/// instruction or as an exclusive pair.
#[inline]
pub fn has_double_width() -> bool {
    true
}

/// Fetches the cache line of this address. A hint: it never faults.
#[inline(always)]
pub fn prefetch(address: usize) {
    // SAFETY: a prefetch changes no memory and no register, and ignores addresses that it cannot
    // access.
    unsafe {
        asm!(
            "prfm pldl1keep, [{}]", // fetch the line
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        )
    }
}

/// Fetches the cache line of this address for a store. A hint: it never faults.
#[inline(always)]
pub fn prefetch_for_store(address: usize) {
    // SAFETY: a prefetch changes no memory and no register, and ignores addresses that it cannot
    // access.
    unsafe {
        asm!(
            "prfm pstl1keep, [{}]", // fetch the line for a store
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        )
    }
}

/// Replaces a word that only this thread and what interrupts it change, if it is as expected.
/// Returns whether it did. Orders nothing for other threads.
///
/// An interruption by the kernel makes the exclusive store fail.
#[inline(always)]
pub fn compare_exchange_here(word: &AtomicUsize, expected: usize, new: usize) -> bool {
    let found: usize;
    // SAFETY: the word is valid, and its type allows a change through a shared reference.
    unsafe {
        asm!(
            "2:",
            "ldxr {found}, [{word}]",           // load, exclusively
            "cmp {found}, {expected}",          // as expected?
            "b.ne 3f",                          // no
            "stxr {failed:w}, {new}, [{word}]", // store, unless an interruption came between
            "cbnz {failed:w}, 2b",              // it did: retry
            "3:",
            word = in(reg) word.as_ptr(),
            expected = in(reg) expected,
            new = in(reg) new,
            found = out(reg) found,
            failed = out(reg) _,
            options(nostack)
        );
    }
    found == expected
}

/// Compares two adjacent words with `expected` and replaces both by `new` if they are equal.
/// Otherwise returns the words that were there. One atomic instruction; acquire and release.
///
/// # Safety
///
/// `words` must be valid and aligned to 16 bytes.
#[cfg(target_feature = "lse")]
#[inline(always)]
pub unsafe fn compare_exchange_double(
    words: *mut u64,
    expected: (u64, u64),
    new: (u64, u64),
) -> Result<(), (u64, u64)> {
    let (first, second);
    // SAFETY: by the contract, the words are valid and aligned. The instruction needs each pair in
    // registers that start at an even number.
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

/// Compares two adjacent words with `expected` and replaces both by `new` if they are equal.
/// Otherwise returns the words that were there. Acquire and release.
///
/// If the pair differs, the loaded values are stored back: only a successful exclusive store proves
/// that both were loaded at once.
///
/// # Safety
///
/// `words` must be valid and aligned to 16 bytes.
#[cfg(not(target_feature = "lse"))]
#[inline(always)]
pub unsafe fn compare_exchange_double(
    words: *mut u64,
    expected: (u64, u64),
    new: (u64, u64),
) -> Result<(), (u64, u64)> {
    let (first, second): (u64, u64);
    // SAFETY: by the contract, the words are valid and aligned.
    unsafe {
        asm!(
            "2:",
            "ldaxp {first}, {second}, [{words}]",        // load both, exclusively
            "cmp {first}, {expected_first}",             // the first word as expected?
            "ccmp {second}, {expected_second}, #0, eq",  // both as expected?
            "csel {low}, {new_first}, {first}, eq",      // the new first word, or the loaded one
            "csel {high}, {new_second}, {second}, eq",   // and its second word
            "stlxp {failed:w}, {low}, {high}, [{words}]", // store both, unless another access intervened
            "cbnz {failed:w}, 2b",                       // another access intervened: retry
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
