//! x86-64, in Intel syntax.

use super::KickWords;
use core::arch::{asm, global_asm};
use core::ffi::c_void;

/// Every abort address follows these four bytes (the operand of a `ud1`, so that they decode as an
/// instruction).
pub const SIGNATURE: u32 = 0x5305_3053;

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
    ".long 0",          //  0 cpu_id_start
    ".long 0xffffffff", //  4 cpu_id = -1: not registered
    ".zero 248", //  8 rseq_cs and the rest; 32 registration; 36 forks; 40 quiet; 44 counted; 48 signals; 232 mask
    ".popsection",
);

/// The thread pointer: the address that `%fs:0` holds.
#[inline]
pub fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the ABI keeps the thread pointer itself at offset 0 of the thread's storage.
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) pointer, options(pure, readonly, nostack, preserves_flags));
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
            concat!("mov {}, qword ptr [rip + ", name!("thread_block"), "@GOTTPOFF]"),
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
///   global offset table          thread's storage
///   IMAGE@GOTTPOFF: offset ──┐   ... copy of IMAGE ...... fs:0
///                            └──────── ^ ─────────────────┘
/// ```
///
/// Linkers turn the load into a constant where the static lies in the executable itself.
#[doc(hidden)]
#[macro_export]
macro_rules! __thread_address {
    ($image:path) => {{
        let __atomseq_address: *const ();
        // SAFETY: loads a link-time constant from the global offset table, and the thread pointer.
        unsafe {
            $crate::generated::standard::asm!(
                "mov {address}, qword ptr [rip + {image}@GOTTPOFF]", // its offset
                "add {address}, qword ptr fs:[0]",                   // from the thread pointer
                address = out(reg) __atomseq_address,
                image = sym $image,
                options(pure, readonly, nostack)
            );
        }
        __atomseq_address
    }};
}

/// Counts one more mask. Nothing that the compiler could move passes it: it may touch any memory.
///
/// Comparing and storing a constant, where adding would do: an add waits for the last one's store,
/// the comparison is predicted. A handler that runs in between leaves the count as it found it.
#[inline(always)]
pub fn enter_mask() {
    let block = thread_block_offset();
    // SAFETY: the count of masks, in this thread's block.
    unsafe {
        asm!(
            "cmp qword ptr fs:[{block} + 48], 0", // the outermost one?
            "jne {nested}",                       // no
            "mov qword ptr fs:[{block} + 48], 1", //
            block = in(reg) block,
            nested = label {
                // SAFETY: as above.
                unsafe {
                    asm!(
                        "add qword ptr fs:[{block} + 48], 1", // one more
                        block = in(reg) block,
                        options(nostack)
                    );
                }
            },
            options(nostack)
        );
    }
}

/// Counts one mask less, and calls `waiting` if a signal was deferred. That may find the count
/// above 0.
///
/// A signal that arrives before a store is seen by what comes next, one that arrives after the last
/// finds no mask.
#[inline(always)]
pub fn leave_mask(waiting: extern "C" fn()) {
    let block = thread_block_offset();
    // SAFETY: the count of masks and the signals that wait, in this thread's block.
    unsafe {
        asm!(
            "cmp qword ptr fs:[{block} + 48], 1", // the outermost one, and no signal waits?
            "jne {nested}",                       // no
            "mov qword ptr fs:[{block} + 48], 0", //
            "cmp qword ptr fs:[{block} + 56], 0", // does one wait now?
            "jne {waiting}",                      // yes
            block = in(reg) block,
            nested = label {
                // SAFETY: as above.
                unsafe {
                    asm!(
                        "sub qword ptr fs:[{block} + 48], 1", // one less
                        "jl {waiting}",                       // there was none, or its sign: a signal waits
                        block = in(reg) block,
                        waiting = label { waiting() },
                        options(nostack)
                    );
                }
            },
            waiting = label { waiting() },
            options(nostack)
        );
    }
}

// What the kernel calls on a signal: blocks what must not come in the middle of a delivery,
// announces the delivery, and has it dispatched.
//
//   rdi, rsi, rdx  the signal, its siginfo, the context of what it interrupted, up to the label
//   `noted`; then the system call's
//   r8             the number of the entry that was called: they lie 16 bytes apart
//   r10            the system call's fourth argument
//   rax            the system call's number and result; this thread's block
//   rcx, r11       the system call changes them; then rcx is the delivery whose code the signal has interrupted, or 0
//   rdx            from the label `ended` on: the context
//
//   stack while it is dispatched: signal/delivery/nested.rs has the layout, 456 bytes
//   [rsp]       the delivery that this one has interrupted
//   [rsp + 8]   the context
//   [rsp + 16]  what waits for this one: nothing yet [rsp + 24]  when the clone that it runs first
//   faulted: never yet [rsp + 32]  the mask before the system call; SIGKILL alone, which no mask
//   holds, if there was none [rsp + 40]  the signal [rsp + 48]  its siginfo [rsp + 56]  the number
//   of the entry
//
// What lies before the entries, and behind the code of each, tells other copies of atomseq that
// they are entries: signal/delivery/copies.rs.
//
// A signal that arrives before the label `noted` finds the context in rdx; one that arrives before
// `entered` finds it on the stack; one that arrives later finds this delivery in the thread's
// block, at 200. From `ending` up to `resumed` it may find it there or not; the context is on the
// stack, but at `ended` in rdx.
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
            "mov r8d, \\number",                 // which one
            "jmp 20f",                           // the rest is the same for all
            concat!(".org ", $crate::arch::name!("entry"), " + 16 * \\number + 12"),
            ".4byte {numbered} + \\number",
            ".endr",
            "20:",
            "sub rsp, 456",                      // room, and rsp aligned for the call
            ".cfi_adjust_cfa_offset 456",
            "mov qword ptr [rsp + 8], rdx",      // the context
            "mov qword ptr [rsp + 16], 0",       // nothing waits
            "mov qword ptr [rsp + 24], 0",       // no fault yet
            "mov qword ptr [rsp + 32], 256",     // no system call yet
            "mov qword ptr [rsp + 40], rdi",     // the signal
            "mov qword ptr [rsp + 48], rsi",     // its siginfo
            "mov qword ptr [rsp + 56], r8",      // which entry
            concat!($crate::arch::name!("noted"), ":"),
            "cmp edi, 31",                       // SIGSYS?
            "jne 21f",                           // no
            "cmp dword ptr [rsi + 8], 0",        // did a system call raise it (si_code > 0)?
            "jg 22f",                            // yes: no other one
            "21:",
            "xor edi, edi",                      // SIG_BLOCK
            "lea rsi, [rip + {set}]",            // these
            "lea rdx, [rsp + 32]",               // the mask before
            "mov r10d, 8",                       // bytes in a set
            "mov eax, 14",                       // rt_sigprocmask
            "syscall",                           // a refusal leaves the mask and [rsp + 32] as they are
            "22:",
            concat!("mov rax, qword ptr [rip + ", $crate::arch::name!("thread_block"), "@GOTTPOFF]"),
            "mov rcx, qword ptr fs:[rax + 200]", // whose code is interrupted?
            "mov qword ptr [rsp], rcx",          // that one's
            "mov qword ptr fs:[rax + 200], rsp", // known
            concat!($crate::arch::name!("entered"), ":"),
            "mov rdi, rsp",                      // this one
            "call {dispatch}",                   //
            concat!($crate::arch::name!("ending"), ":"),
            "23:",
            concat!("mov rax, qword ptr [rip + ", $crate::arch::name!("thread_block"), "@GOTTPOFF]"),
            "cmp qword ptr [rsp + 16], 0",       // does anything wait?
            "jne 24f",                           // yes
            "mov rcx, qword ptr [rsp]",          // whose code is interrupted?
            "mov qword ptr fs:[rax + 200], rcx", // that one is known, this one no more
            "mov rdx, qword ptr [rsp + 8]",      // the context
            "add rsp, 456",                      //
            ".cfi_remember_state",
            ".cfi_adjust_cfa_offset -456",
            concat!($crate::arch::name!("ended"), ":"),
            "ret",                               // to the kernel's way back
            ".cfi_restore_state",
            "24:",
            "mov qword ptr fs:[rax + 200], rsp", // known again
            concat!($crate::arch::name!("resumed"), ":"),
            "mov rdi, rsp",                      // this one
            "call {waiting}",                    // delivers what waits
            "jmp 23b",                           // may more have come?
            ".cfi_endproc",
            "29:",
            "jmp {below}",                       // what an entry passes signals on to
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
/// the entry: the return address comes between.
pub const CONTEXT_AFTER: usize = 456 + 8;

/// How far behind it the address lies to which the entry returns.
pub const RETURN_AFTER: usize = 456;

/// How far behind the stack pointer the context lies where the entry has returned.
pub const CONTEXT_AT_RETURN: usize = 0;

/// Is `pc` one of the two instructions at `way_back`, to which the kernel has an entry return, and
/// is the second one about to call `rt_sigreturn`, whose number is in `rax`? (The first one, which
/// sets it, has 5 bytes or 7.)
pub fn is_returning(pc: usize, way_back: usize, rax: usize) -> bool {
    // Without a branch: a first delivery, which finds no way back, comes by the same instructions
    // as others.
    let behind = pc.wrapping_sub(way_back);
    let is_second = (behind == 5) | (behind == 7);
    let calls = is_second & (rax == libc::SYS_rt_sigreturn as usize);
    (way_back != 0) & ((behind == 0) | calls)
}

// Running a clone inside the handler that has interrupted its sequence.
//
//   rdi  the interrupted registers, as the kernel has saved them (gregs): r8 to r15, rdi, rsi, rbp,
//   rbx, rdx, rax,
//        rcx, rsp, rip, flags, eight bytes each
//   rsi  where in the clone
//   rax  returned: the place in the clone's end
//
//   stack while the clone runs, which uses none of it:
//   [rsp]       where its end calls
//   [rsp + 8]   the interrupted registers
//   [rsp + 16]  what C's calling convention wants back: r15, r14, r13, r12, rbx, rbp; the return
//   address
global_asm!(
    ".pushsection .text.atomseq_roll,\"ax\",@progbits",
    concat!(".globl ", name!("roll")),
    concat!(".hidden ", name!("roll")),
    concat!(".type ", name!("roll"), ", @function"),
    concat!(name!("roll"), ":"),
    "push rbp",                       //
    "push rbx",                       //
    "push r12",                       //
    "push r13",                       //
    "push r14",                       //
    "push r15",                       //
    "push rdi",                       // the registers
    "lea rax, [rip + 40f]",           //
    "push rax",                       // where the end calls
    "mov qword ptr [rsp - 16], rsi",  // where to start; signals leave 128 bytes below rsp alone
    "push qword ptr [rdi + 136]",     // the flags
    "mov r8, qword ptr [rdi]",        //
    "mov r9, qword ptr [rdi + 8]",    //
    "mov r10, qword ptr [rdi + 16]",  //
    "mov r11, qword ptr [rdi + 24]",  //
    "mov r12, qword ptr [rdi + 32]",  //
    "mov r13, qword ptr [rdi + 40]",  //
    "mov r14, qword ptr [rdi + 48]",  //
    "mov r15, qword ptr [rdi + 56]",  //
    "mov rsi, qword ptr [rdi + 72]",  //
    "mov rbp, qword ptr [rdi + 80]",  //
    "mov rbx, qword ptr [rdi + 88]",  //
    "mov rdx, qword ptr [rdi + 96]",  //
    "mov rax, qword ptr [rdi + 104]", //
    "mov rcx, qword ptr [rdi + 112]", //
    "mov rdi, qword ptr [rdi + 64]",  // last, for it led to the others
    "popfq",                          // the interruption may be between a comparison and its branch
    "jmp qword ptr [rsp - 16]",       // the rest of the clone …
    "40:",                            // … comes back here; it has pushed the place
    "push rdi",                       //
    "mov rdi, qword ptr [rsp + 24]",  // the registers
    "mov qword ptr [rdi], r8",        //
    "mov qword ptr [rdi + 8], r9",    //
    "mov qword ptr [rdi + 16], r10",  //
    "mov qword ptr [rdi + 24], r11",  //
    "mov qword ptr [rdi + 32], r12",  //
    "mov qword ptr [rdi + 40], r13",  //
    "mov qword ptr [rdi + 48], r14",  //
    "mov qword ptr [rdi + 56], r15",  //
    "mov qword ptr [rdi + 72], rsi",  //
    "mov qword ptr [rdi + 80], rbp",  //
    "mov qword ptr [rdi + 88], rbx",  //
    "mov qword ptr [rdi + 96], rdx",  //
    "mov qword ptr [rdi + 104], rax", //
    "mov qword ptr [rdi + 112], rcx", //
    "pop qword ptr [rdi + 64]",       // rdi
    "pushfq",                         //
    "pop qword ptr [rdi + 136]",      // the flags
    "pushfq",                         // for this handler itself: no single steps, no
    "and qword ptr [rsp], ~0x40500",  // alignment checks, strings upwards
    "popfq",                          //
    "pop rax",                        // the place
    "41:",                            //
    "add rsp, 16",                    //
    "pop r15",                        //
    "pop r14",                        //
    "pop r13",                        //
    "pop r12",                        //
    "pop rbx",                        //
    "pop rbp",                        //
    "ret",                            //
    concat!(".globl ", name!("roll_abandoned")),
    concat!(".hidden ", name!("roll_abandoned")),
    concat!(name!("roll_abandoned"), ":"), // rsp is the clone's; nothing else counts
    "pushfq",                              // as above
    "and qword ptr [rsp], ~0x40500",       //
    "popfq",                               //
    "xor eax, eax",                        // no place
    "jmp 41b",                             //
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
    // SAFETY: keeps to C's calling convention; a clone uses no stack, and its end comes back.
    unsafe { roll_asm(registers, entry) }
}

/// The caller's program counter, stack pointer and frame pointer.
#[inline(always)]
pub fn place() -> [usize; 3] {
    let (counter, stack, frame);
    // SAFETY: reads three registers.
    unsafe {
        asm!(
            "lea {counter}, [rip]", // the next instruction
            "mov {stack}, rsp",     //
            "mov {frame}, rbp",     //
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
            "syscall",
            inlateout("rax") number => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _, // the return address
            lateout("r11") _, // the flags
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
            "mov {}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {}, qword ptr [rip + __rseq_size@GOTPCREL]",
            out(reg) offset,
            out(reg) size,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    (offset, size)
}

// The helper of the self-test.
//
//   rdi  KickWords; kept in r9, which system calls leave alone
//   rax  returned: the child's process id, or a negative error number
//
// The child shares the memory, and even the stack pointer, of its parent: it touches neither the
// stack nor thread-local storage, and ends by a system call. Signals are blocked by the caller, so
// no handler runs on it.
global_asm!(
    ".pushsection .text.atomseq_selftest,\"ax\",@progbits",
    concat!(".globl ", name!("spawn_kicker")),
    concat!(".hidden ", name!("spawn_kicker")),
    concat!(".type ", name!("spawn_kicker"), ", @function"),
    concat!(name!("spawn_kicker"), ":"),
    "mov r9, rdi",                   // the shared words
    "mov eax, 56",                   // clone
    "mov edi, 0x200700",             // CLONE_VM | FS | FILES | CHILD_CLEARTID, no signal at the end
    "xor esi, esi",                  // no stack of its own
    "xor edx, edx",                  // no parent word
    "lea r10, [r9 + 68]",            // the child word: `alive`
    "xor r8d, r8d",                  // no thread-local storage of its own
    "syscall",                       //
    "test eax, eax",                 // which side is this?
    "jz 20f",                        // 0: the child
    "ret",                           // the parent
    "20:",                           //
    "mov eax, 314",                  // sched_setattr
    "xor edi, edi",                  // of this child
    "mov rsi, qword ptr [r9 + 56]",  // its parent's attributes with a short slice
    "xor edx, edx",                  //
    "syscall",                       // a refusal only makes the test slower
    "cmp qword ptr [r9 + 40], 0",    // a set of CPUs to stay on?
    "je 21f",                        // no: anywhere
    "mov eax, 203",                  // sched_setaffinity
    "xor edi, edi",                  // of this child
    "mov rsi, qword ptr [r9 + 40]",  // length of the set
    "mov rdx, qword ptr [r9 + 48]",  // the set
    "syscall",                       //
    "mov dword ptr [r9 + 16], eax",  // 0, or why not
    "21:",                           //
    "mov dword ptr [r9 + 64], 1",    // prepared
    "mov r12d, dword ptr [r9 + 20]", // how often to look
    "22:",                           //
    "cmp dword ptr [r9], 0",         // does the section run yet?
    "jne 23f",                       //
    "mov eax, 35",                   // nanosleep: on a machine with one CPU the parent must run
    "lea rdi, [r9 + 24]",            // this long
    "xor esi, esi",                  //
    "syscall",                       //
    "dec r12d",                      //
    "jnz 22b",                       // look again
    "jmp 25f",                       // give up
    "23:",                           //
    "cmp dword ptr [r9 + 12], 0",    // running here was the interruption
    "je 24f",                        //
    "mov eax, 324",                  // membarrier
    "mov edi, 128",                  // MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ
    "xor esi, esi",                  // on every CPU
    "xor edx, edx",                  //
    "syscall",                       // when it returns, every running section was aborted
    "mov dword ptr [r9 + 16], eax",  // 0, or why not
    "24:",                           //
    "mov dword ptr [r9 + 4], 1",     // done
    "25:",                           //
    "mov eax, 60",                   // exit
    "xor edi, edi",                  //
    "syscall",                       //
    "ud2",                           // not reached
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
//   rdi  this thread's struct rseq
//   rsi  KickWords
//   rdx  how many rounds to spin
//   eax  returned: one of `watched`
//   rcx  scratch
//
//   arm ── start ── cpu? ── ready = 1 ── done? ──┐ ── end
//                                          ^─────┘
//   abort: anywhere between start and end
global_asm!(
    ".pushsection .text.atomseq_selftest,\"ax\",@progbits",
    concat!(".globl ", name!("watch")),
    concat!(".hidden ", name!("watch")),
    concat!(".type ", name!("watch"), ", @function"),
    concat!(name!("watch"), ":"),
    concat!("lea rax, [rip + ", name!("watch_descriptor"), "]"),
    "mov qword ptr [rdi + 8], rax", // arm
    "30:",                          // start
    "mov ecx, dword ptr [rdi + 4]", // this thread's CPU
    "cmp ecx, dword ptr [rsi + 8]", // still the one that the helper aims at?
    "jne 33f",                      // no: leave
    "mov dword ptr [rsi], 1",       // ready: the helper may strike
    "31:",                          //
    "cmp dword ptr [rsi + 4], 0",   // is the helper through?
    "jne 32f",                      // yes, and this still runs
    "dec rdx",                      //
    "jnz 31b",                      // spin
    "32:",                          // end
    "mov qword ptr [rdi + 8], 0",   // disarm
    "mov eax, 1",                   // watched::MISSED
    "mov ecx, 2",                   // watched::NOTHING
    "test rdx, rdx",                // did the rounds run out?
    "cmovz eax, ecx",               //
    "ret",                          //
    "33:",                          //
    "mov qword ptr [rdi + 8], 0",   // disarm
    "mov eax, 3",                   // watched::MOVED
    "ret",                          //
    ".byte 0x0f, 0xb9, 0x3d",       // ud1 edi, [rip + signature]
    ".long 0x53053053",             // the signature
    "34:",                          // abort
    "xor eax, eax",                 // watched::ABORTED
    "ret",                          //
    concat!(".size ", name!("watch"), ", . - ", name!("watch")),
    ".popsection",
    ".pushsection __rseq_cs,\"awR\",@progbits",
    ".balign 32",
    concat!(name!("watch_descriptor"), ":"),
    ".long 0, 0",           // version, flags
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

/// Does this processor have a double-width compare-and-swap? All but the very first of this
/// architecture do.
#[inline]
pub fn has_double_width() -> bool {
    std::is_x86_feature_detected!("cmpxchg16b")
}

/// Compares two adjacent words and changes both if they are as expected; what was there otherwise.
///
/// ```text
///   rdx:rax  expected, then what was there      rcx:rbx  new      rdi  the words
/// ```
///
/// rbx belongs to the compiler and is put aside meanwhile. The compiler may keep any input there,
/// so the address of the words has a register by name.
///
/// # Safety
///
/// The address is valid, aligned to 16 bytes, and [`has_double_width`].
#[inline(always)]
pub unsafe fn compare_exchange_double(
    words: *mut u64,
    expected: (u64, u64),
    new: (u64, u64),
) -> Result<(), (u64, u64)> {
    let (mut first, mut second) = expected;
    let done: u8;
    // SAFETY: the caller's promise; rbx is given back.
    unsafe {
        asm!(
            "xchg {low}, rbx",                     // put rbx aside, the new first word into it
            "lock cmpxchg16b xmmword ptr [rdi]",   // compare, and change both or load both
            "mov rbx, {low}",                      // give rbx back; the flags stay
            "sete {done}",                         // changed?
            in("rdi") words,
            low = inout(reg) new.0 => _,
            done = out(reg_byte) done,
            inout("rax") first,
            inout("rdx") second,
            in("rcx") new.1,
            options(nostack)
        );
    }
    if done != 0 {
        Ok(())
    } else {
        Err((first, second))
    }
}
