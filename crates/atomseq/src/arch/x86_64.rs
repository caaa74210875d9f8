//! The assembly for x86-64, in Intel syntax.

use core::arch::{asm, global_asm};
use core::sync::atomic::AtomicUsize;

/// The four bytes before every abort address (the operand of a `ud1`, so that they decode as an
/// instruction).
pub const SIGNATURE: u32 = 0x5305_3053;

global_asm!(
    ".pushsection .tdata,\"awT\",@progbits",
    ".balign 32",
    hidden!("thread_block"),
    concat!(".type ", name!("thread_block"), ", @tls_object"),
    concat!(".size ", name!("thread_block"), ", 256"),
    concat!(name!("thread_block"), ":"),
    ".long 0",          //  0 cpu_id_start
    ".long 0xffffffff", //  4 cpu_id = -1: not registered
    ".zero 248", //  8 rseq_cs and the rest; 32 registration; 36 forks; 40 quiet; 44 counted; 48 signals; 232 mask
    ".popsection",
);

/// Returns the thread pointer: the word at `fs:[0]`.
#[inline]
pub fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: by the ABI, the word at offset 0 of the thread's storage holds its own address.
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) pointer, options(pure, readonly, nostack, preserves_flags));
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
            concat!("mov {}, qword ptr [rip + ", name!("thread_block"), "@GOTTPOFF]"), // its offset
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
///   global offset table          thread's storage
///   IMAGE@GOTTPOFF: offset ──┐   ... copy of IMAGE ...... fs:0
///                            └──────── ^ ─────────────────┘
/// ```
///
/// If the static is in the executable itself, linkers turn the load into a constant.
#[doc(hidden)]
#[macro_export]
macro_rules! __thread_address {
    ($image:path) => {{
        let __atomseq_address: *const ();
        // SAFETY: this only loads a link-time constant from the global offset table, and the thread
        // pointer.
        unsafe {
            $crate::generated::standard::asm!(
                "mov {address}, qword ptr [rip + {image}@GOTTPOFF]", // its offset
                "add {address}, qword ptr fs:[0]",                   // add the thread pointer
                address = out(reg) __atomseq_address,
                image = sym $image,
                options(pure, readonly, nostack)
            );
        }
        __atomseq_address
    }};
}

/// Increments the count of masks. The compiler moves no memory access across it, because the
/// assembly may access any memory.
///
/// ```text
/// fs:[block + 48]   count of masks of this thread; the highest bit: a signal waits
/// ```
///
/// Compares and stores a constant in the common case instead of adding: an addition waits for the
/// previous store to the word, while the comparison is predicted. A handler that runs in between
/// leaves the count as it found it.
#[inline(always)]
pub fn enter_mask() {
    let block = thread_block_offset();
    // SAFETY: the word is the count of masks in this thread's block, which only this thread and its
    // handlers access.
    unsafe {
        asm!(
            "cmp qword ptr fs:[{block} + 48], 0", // the outermost one?
            "jne {nested}",                       // no
            "mov qword ptr fs:[{block} + 48], 1", // yes: inside one mask
            block = in(reg) block,
            nested = label {
                // SAFETY: the word is the count of masks in this thread's block, which only this
                // thread and its handlers access.
                unsafe {
                    asm!(
                        "add qword ptr fs:[{block} + 48], 1", // one mask more
                        block = in(reg) block,
                        options(nostack)
                    );
                }
            },
            options(nostack)
        );
    }
}

/// Decrements the count of masks, and calls `waiting` if a signal was deferred. `waiting` may find
/// the count above 0.
///
/// ```text
/// fs:[block + 48]   count of masks of this thread; the highest bit: a signal waits
/// fs:[block + 56]   the signals that deferral has blocked in the kernel
/// ```
///
/// The check that follows each store sees a signal that arrived before the store. A signal that
/// arrives after the last store finds no mask.
#[inline(always)]
pub fn leave_mask(waiting: extern "C" fn()) {
    let block = thread_block_offset();
    // SAFETY: the words are the count of masks and the waiting signals in this thread's block,
    // which only this thread and its handlers access.
    unsafe {
        asm!(
            "cmp qword ptr fs:[{block} + 48], 1", // the outermost one, and no signal waits?
            "jne {nested}",                       // no
            "mov qword ptr fs:[{block} + 48], 0", // yes: inside none
            "cmp qword ptr fs:[{block} + 56], 0", // does a signal wait now?
            "jne {waiting}",                      // yes
            block = in(reg) block,
            nested = label {
                // SAFETY: the word is the count of masks in this thread's block, which only this
                // thread and its handlers access.
                unsafe {
                    asm!(
                        "sub qword ptr fs:[{block} + 48], 1", // one mask less
                        "jl {waiting}",                       // negative: there was none, or a signal waits
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

// The entries that the kernel calls on a signal. An entry blocks the signals that must not
// interrupt a delivery, records the delivery, and dispatches it.
//
//   rdi, rsi, rdx  the signal, its siginfo, the interrupted context, up to the label `noted`;
//                  then arguments of the system call
//   r8             the number of the called entry: entries are 16 bytes apart
//   r10            the system call's fourth argument
//   rax            the system call's number and result; then this thread's block
//   rcx, r11       changed by the system call; then rcx is the delivery whose code the signal has
//                  interrupted, or 0
//   rdx            from the label `ended` on: the context
//
//   stack during the dispatch: 456 bytes, see signal/delivery/nested.rs
//   [rsp]          the delivery that this one has interrupted
//   [rsp + 8]      the context
//   [rsp + 16]     the signals that wait for this delivery: none yet
//   [rsp + 24]     when the clone that it runs first faulted: never yet
//   [rsp + 32]     the mask before the system call; if there was no call, SIGKILL alone, which no
//                  mask contains
//   [rsp + 40]     the signal
//   [rsp + 48]     its siginfo
//   [rsp + 56]     the number of the entry
//
// The text before the entries and the number after the code of each identify them as entries to
// other copies of atomseq: signal/delivery/copies.rs.
//
// A nested signal that arrives before the label `noted` finds the context in rdx. One that arrives
// before `entered` finds it on the stack. A later one finds this delivery in the thread's block, at
// 200. From `ending` up to `resumed` it may or may not find it there; the context is on the stack,
// or in rdx at `ended`.
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
            "mov r8d, \\number",                 // the number of this entry
            "jmp 20f",                           // the common rest
            concat!(".org ", $crate::arch::name!("entry"), " + 16 * \\number + 12"),
            ".4byte {numbered} + \\number",
            ".endr",
            "20:",
            "sub rsp, 456",                      // room; rsp is aligned for the call
            ".cfi_adjust_cfa_offset 456",
            "mov qword ptr [rsp + 8], rdx",      // the context
            "mov qword ptr [rsp + 16], 0",       // no signal waits
            "mov qword ptr [rsp + 24], 0",       // no fault yet
            "mov qword ptr [rsp + 32], 256",     // no system call yet
            "mov qword ptr [rsp + 40], rdi",     // the signal
            "mov qword ptr [rsp + 48], rsi",     // its siginfo
            "mov qword ptr [rsp + 56], r8",      // which entry
            concat!($crate::arch::name!("noted"), ":"),
            "cmp edi, 31",                       // SIGSYS?
            "jne 21f",                           // no
            "cmp dword ptr [rsi + 8], 0",        // did a system call raise it (si_code > 0)?
            "jg 22f",                            // yes: make no system call
            "21:",
            "xor edi, edi",                      // SIG_BLOCK
            "lea rsi, [rip + {set}]",            // the signals to block
            "lea rdx, [rsp + 32]",               // the mask before
            "mov r10d, 8",                       // bytes in a set
            "mov eax, 14",                       // rt_sigprocmask
            "syscall",                           // on a refusal, the mask and [rsp + 32] are unchanged
            "22:",
            concat!("mov rax, qword ptr [rip + ", $crate::arch::name!("thread_block"), "@GOTTPOFF]"),
            "mov rcx, qword ptr fs:[rax + 200]", // the interrupted delivery, or 0
            "mov qword ptr [rsp], rcx",          // link it from this one
            "mov qword ptr fs:[rax + 200], rsp", // record this delivery
            concat!($crate::arch::name!("entered"), ":"),
            "mov rdi, rsp",                      // this delivery
            "call {dispatch}",                   // dispatch it
            concat!($crate::arch::name!("ending"), ":"),
            "23:",
            concat!("mov rax, qword ptr [rip + ", $crate::arch::name!("thread_block"), "@GOTTPOFF]"),
            "cmp qword ptr [rsp + 16], 0",       // does a signal wait for this one?
            "jne 24f",                           // yes
            "mov rcx, qword ptr [rsp]",          // the interrupted delivery, or 0
            "mov qword ptr fs:[rax + 200], rcx", // record that one instead of this
            "mov rdx, qword ptr [rsp + 8]",      // the context
            "add rsp, 456",                      // free the stack
            ".cfi_remember_state",
            ".cfi_adjust_cfa_offset -456",
            concat!($crate::arch::name!("ended"), ":"),
            "ret",                               // to the code that calls rt_sigreturn
            ".cfi_restore_state",
            "24:",
            "mov qword ptr fs:[rax + 200], rsp", // record it again
            concat!($crate::arch::name!("resumed"), ":"),
            "mov rdi, rsp",                      // this delivery
            "call {waiting}",                    // deliver the waiting signals
            "jmp 23b",                           // check again: more may have arrived
            ".cfi_endproc",
            "29:",
            "jmp {below}",                       // the function that passes signals on
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
/// entry: the return address is in between.
pub const CONTEXT_AFTER: usize = 456 + 8;

/// The offset of the address that the entry returns to from the start of a delivery's stack.
pub const RETURN_AFTER: usize = 456;

/// The offset of the context from the stack pointer after the entry has returned.
pub const CONTEXT_AT_RETURN: usize = 0;

/// Returns whether the thread is about to call `rt_sigreturn`. `way_back` is the address that the
/// kernel makes an entry return to. `pc` must be its first instruction, or its second one with the
/// number of the call in `rax`. (The first, which sets it, has 5 or 7 bytes.)
pub fn is_returning(pc: usize, way_back: usize, rax: usize) -> bool {
    // Has no branch, so that a first delivery, which does not yet know the way back, runs through
    // the same instructions as later ones.
    let behind = pc.wrapping_sub(way_back);
    let is_second = (behind == 5) | (behind == 7);
    let calls = is_second & (rax == libc::SYS_rt_sigreturn as usize);
    (way_back != 0) & ((behind == 0) | calls)
}

// Runs a clone inside the handler that has interrupted its sequence.
//
//   rdi  the interrupted registers in the kernel's order (gregs), eight bytes each:
//          0 r8    8 r9    16 r10   24 r11   32 r12   40 r13   48 r14   56 r15   64 rdi
//         72 rsi  80 rbp   88 rbx   96 rdx  104 rax  112 rcx  120 rsp  128 rip  136 flags
//   rsi  the address in the clone to start at
//   rdx  whether the processor has `sahf`
//   rax  returned: the place in the clone's end
//
//   stack while the clone runs, which uses none of it:
//   [rsp]       the address that its end calls
//   [rsp + 8]   the interrupted registers
//   [rsp + 16]  the callee-saved registers: r15, r14, r13, r12, rbx, rbp; then the return address
//   below it while `roll` enters the clone; signals leave 128 bytes alone:
//   [rsp - 8]   the flags
//   [rsp - 16]  the address in the clone to start at
//   [rsp - 24]  where to go: that address, or first to `popfq`
//
// `popfq` runs only if the interrupted thread has a flag that only `popfq` sets: TF (0x100: single
// steps), DF (0x400: direction) or AC (0x40000: alignment checks). After a tracer has stepped over
// one and over the next instruction, Linux takes the tracer's TF for the thread's own, and leaves
// it set when the tracer detaches. The thread dies of SIGTRAP.
global_asm!(
    ".pushsection .text.atomseq_roll,\"ax\",@progbits",
    hidden!("roll"),
    concat!(".type ", name!("roll"), ", @function"),
    concat!(name!("roll"), ":"),
    "push rbp",                       // save callee-saved rbp
    "push rbx",                       // save callee-saved rbx
    "push r12",                       // save callee-saved r12
    "push r13",                       // save callee-saved r13
    "push r14",                       // save callee-saved r14
    "push r15",                       // save callee-saved r15
    "push rdi",                       // the interrupted registers
    "lea rax, [rip + 40f]",           // where the clone's end calls …
    "push rax",                       // where the end calls
    "mov qword ptr [rsp - 16], rsi",  // where to start
    "mov rax, qword ptr [rdi + 136]", // the interrupted flags …
    "mov qword ptr [rsp - 8], rax",   // the flags
    "lea rcx, [rip + 45f]",           // to `popfq` first …
    "mov qword ptr [rsp - 24], rcx",  // where to go
    "test edx, edx",                  // does this processor have `sahf`?
    "jz 44f",                         // no: `popfq`
    "test eax, 0x40500",              // does the thread have TF, DF or AC?
    "jnz 44f",                        // yes: `popfq`
    "mov qword ptr [rsp - 24], rsi",  // where to go: straight to the clone
    "mov ecx, eax",                   // a copy of the flags
    "shr ecx, 11",                    // OF to the lowest bit
    "and ecx, 1",                     // OF alone
    "mov ah, al",                     // SF, ZF, AF, PF and CF, for `sahf`
    "mov al, cl",                     // OF as 0 or 1 …
    "add al, 127",                    // … sets OF: 128 is too large for a signed byte
    "sahf",                           // the interruption may be between a comparison and its branch
    "44:",                            // no instruction from here to the clone changes the flags
    "mov r8, qword ptr [rdi]",        // the interrupted r8
    "mov r9, qword ptr [rdi + 8]",    // the interrupted r9
    "mov r10, qword ptr [rdi + 16]",  // the interrupted r10
    "mov r11, qword ptr [rdi + 24]",  // the interrupted r11
    "mov r12, qword ptr [rdi + 32]",  // the interrupted r12
    "mov r13, qword ptr [rdi + 40]",  // the interrupted r13
    "mov r14, qword ptr [rdi + 48]",  // the interrupted r14
    "mov r15, qword ptr [rdi + 56]",  // the interrupted r15
    "mov rsi, qword ptr [rdi + 72]",  // the interrupted rsi
    "mov rbp, qword ptr [rdi + 80]",  // the interrupted rbp
    "mov rbx, qword ptr [rdi + 88]",  // the interrupted rbx
    "mov rdx, qword ptr [rdi + 96]",  // the interrupted rdx
    "mov rax, qword ptr [rdi + 104]", // the interrupted rax
    "mov rcx, qword ptr [rdi + 112]", // the interrupted rcx
    "mov rdi, qword ptr [rdi + 64]",  // last: it is the base of the others
    "jmp qword ptr [rsp - 24]",       // the rest of the clone comes back to 40, or …
    "45:",                            // … first all the flags
    "lea rsp, [rsp - 8]",             // to the flags
    "popfq",                          // as above
    "jmp qword ptr [rsp - 16]",       // the rest of the clone …
    "40:",                            // … comes back here; it has pushed the place
    "push rdi",                       // save rdi as the clone left it
    "mov rdi, qword ptr [rsp + 24]",  // the interrupted registers
    "mov qword ptr [rdi], r8",        // save r8 as the clone left it
    "mov qword ptr [rdi + 8], r9",    // save r9 as the clone left it
    "mov qword ptr [rdi + 16], r10",  // save r10 as the clone left it
    "mov qword ptr [rdi + 24], r11",  // save r11 as the clone left it
    "mov qword ptr [rdi + 32], r12",  // save r12 as the clone left it
    "mov qword ptr [rdi + 40], r13",  // save r13 as the clone left it
    "mov qword ptr [rdi + 48], r14",  // save r14 as the clone left it
    "mov qword ptr [rdi + 56], r15",  // save r15 as the clone left it
    "mov qword ptr [rdi + 72], rsi",  // save rsi as the clone left it
    "mov qword ptr [rdi + 80], rbp",  // save rbp as the clone left it
    "mov qword ptr [rdi + 88], rbx",  // save rbx as the clone left it
    "mov qword ptr [rdi + 96], rdx",  // save rdx as the clone left it
    "mov qword ptr [rdi + 104], rax", // save rax as the clone left it
    "mov qword ptr [rdi + 112], rcx", // save rcx as the clone left it
    "pop qword ptr [rdi + 64]",       // rdi
    "pushfq",                         // the flags as the clone left them …
    "pop rcx",                        // the flags
    "mov rdx, qword ptr [rdi + 136]", // the interrupted flags
    "or rdx, ~0x100",                 // TF only if the thread has it: …
    "and rcx, rdx",                   // … `pushfq` stores that of a tracer that steps, too
    "mov qword ptr [rdi + 136], rcx", // save the flags
    "test ecx, 0x40500",              // did the clone run with TF, DF or AC?
    "jz 46f",                         // no
    "pushfq",                         // this handler's flags …
    "and qword ptr [rsp], ~0x40500",  // single steps, alignment checks, direction off
    "popfq",                          // load the cleared flags
    "46:",                            // the flags are a function's
    "pop rax",                        // the place
    "41:",                            // the place is in rax
    "add rsp, 16",                    // drop the two words of the clone
    "pop r15",                        // restore r15
    "pop r14",                        // restore r14
    "pop r13",                        // restore r13
    "pop r12",                        // restore r12
    "pop rbx",                        // restore rbx
    "pop rbp",                        // restore rbp
    "ret",                            // to the caller of `roll`
    hidden!("roll_abandoned"),
    concat!(name!("roll_abandoned"), ":"), // rsp is the clone's, the flags are a function's
    "xor eax, eax",                        // no place
    "jmp 41b",                             // return it
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
            "lea {counter}, [rip]", // the next instruction
            "mov {stack}, rsp",     // the stack pointer
            "mov {frame}, rbp",     // the frame pointer
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

/// Returns the addresses of `__rseq_offset` and `__rseq_size`, or nulls if the C library has none.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
pub fn glibc_rseq_symbols() -> (*const isize, *const u32) {
    let (offset, size);
    // SAFETY: this only loads two addresses from the global offset table. A weak reference that
    // stays undefined is null.
    unsafe {
        asm!(
            ".weak __rseq_offset", // null if it is undefined
            ".weak __rseq_size",   // null if it is undefined
            "mov {}, qword ptr [rip + __rseq_offset@GOTPCREL]", // its address
            "mov {}, qword ptr [rip + __rseq_size@GOTPCREL]",   // its address
            out(reg) offset,
            out(reg) size,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    (offset, size)
}

// The helper of the self-test.
//
//   rdi  KickWords; kept in r9, which system calls do not change
//   rax  returned: the child's process id, or a negative error number
//
//   KickWords: 0 ready, 4 done, 8 cpu, 12 kick, 16 result, 20 rounds, 24 nap, 40 mask_bytes,
//              48 mask, 56 attributes, 64 prepared, 68 alive
//
// The child shares the memory and even the stack pointer of its parent. It uses neither the stack
// nor thread-local storage, and exits by a system call. The caller has blocked signals, so no
// handler runs on it.
global_asm!(
    ".pushsection .text.atomseq_selftest,\"ax\",@progbits",
    hidden!("spawn_kicker"),
    concat!(".type ", name!("spawn_kicker"), ", @function"),
    concat!(name!("spawn_kicker"), ":"),
    "mov r9, rdi",                   // the shared words
    "mov eax, 56",                   // clone
    "mov edi, 0x200700",             // CLONE_VM | FS | FILES | CHILD_CLEARTID, no signal at the end
    "xor esi, esi",                  // no stack of its own
    "xor edx, edx",                  // no parent word
    "lea r10, [r9 + 68]",            // the child word: `alive`
    "xor r8d, r8d",                  // no thread-local storage of its own
    "syscall",                       // call the kernel
    "test eax, eax",                 // parent or child?
    "jz 20f",                        // 0: the child
    "ret",                           // the parent
    "20:",                           // the child
    "mov eax, 314",                  // sched_setattr
    "xor edi, edi",                  // of this child
    "mov rsi, qword ptr [r9 + 56]",  // its parent's attributes with a short slice
    "xor edx, edx",                  // no flags
    "syscall",                       // a refusal only makes the test slower
    "cmp qword ptr [r9 + 40], 0",    // a set of CPUs to stay on?
    "je 21f",                        // no: anywhere
    "mov eax, 203",                  // sched_setaffinity
    "xor edi, edi",                  // of this child
    "mov rsi, qword ptr [r9 + 40]",  // length of the set
    "mov rdx, qword ptr [r9 + 48]",  // the set
    "syscall",                       // call the kernel
    "mov dword ptr [r9 + 16], eax",  // 0 or a negative error number
    "21:",                           // the CPUs are set
    "mov dword ptr [r9 + 64], 1",    // prepared
    "mov r12d, dword ptr [r9 + 20]", // how often to check
    "22:",                           // one check
    "cmp dword ptr [r9], 0",         // does the section run yet?
    "jne 23f",                       // yes: interrupt it
    "mov eax, 35",                   // nanosleep: on a machine with one CPU the parent must run
    "lea rdi, [r9 + 24]",            // this long
    "xor esi, esi",                  // no remaining time
    "syscall",                       // call the kernel
    "dec r12d",                      // one round less
    "jnz 22b",                       // check again
    "jmp 25f",                       // give up
    "23:",                           // the section runs
    "cmp dword ptr [r9 + 12], 0",    // by running here? that has happened
    "je 24f",                        // nothing more to do
    "mov eax, 324",                  // membarrier
    "mov edi, 128",                  // MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ
    "xor esi, esi",                  // on every CPU
    "xor edx, edx",                  // no CPU
    "syscall",                       // when it returns, every running section was aborted
    "mov dword ptr [r9 + 16], eax",  // 0 or a negative error number
    "24:",                           // the section was interrupted
    "mov dword ptr [r9 + 4], 1",     // done
    "25:",                           // the end
    "mov eax, 60",                   // exit
    "xor edi, edi",                  // status 0
    "syscall",                       // call the kernel
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
//   rdi  this thread's struct rseq: cpu_id at 4, rseq_cs at 8
//   rsi  KickWords: 0 ready, 4 done, 8 cpu
//   rdx  the number of rounds to spin
//   eax  returned: one of `watched`
//   rcx  scratch
//
//   arm ── start ── cpu? ── ready = 1 ── done? ──┐ ── end
//                                          ^─────┘
//   abort: anywhere between start and end
global_asm!(
    ".pushsection .text.atomseq_selftest,\"ax\",@progbits",
    hidden!("watch"),
    concat!(".type ", name!("watch"), ", @function"),
    concat!(name!("watch"), ":"),
    concat!("lea rax, [rip + ", name!("watch_descriptor"), "]"),
    "mov qword ptr [rdi + 8], rax", // arm the section
    "30:",                          // start
    "mov ecx, dword ptr [rdi + 4]", // this thread's CPU
    "cmp ecx, dword ptr [rsi + 8]", // still the one that the helper aims at?
    "jne 33f",                      // no: leave
    "mov dword ptr [rsi], 1",       // ready: the helper may interrupt
    "31:",                          // one round
    "cmp dword ptr [rsi + 4], 0",   // is the helper done?
    "jne 32f",                      // yes, and this still runs
    "dec rdx",                      // one round less
    "jnz 31b",                      // spin
    "32:",                          // end
    "mov qword ptr [rdi + 8], 0",   // disarm the section
    "mov eax, 1",                   // watched::MISSED
    "mov ecx, 2",                   // watched::NOTHING
    "test rdx, rdx",                // did the rounds run out?
    "cmovz eax, ecx",               // then NOTHING
    "ret",                          // to the caller
    "33:",                          // on another CPU
    "mov qword ptr [rdi + 8], 0",   // disarm the section
    "mov eax, 3",                   // watched::MOVED
    "ret",                          // to the caller
    ".byte 0x0f, 0xb9, 0x3d",       // ud1 edi, [rip + signature]
    ".long 0x53053053",             // the signature
    "34:",                          // abort
    "xor eax, eax",                 // watched::ABORTED
    "ret",                          // to the caller
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

/// Returns whether this processor has `sahf`. Only the first ones of this architecture lack it, and
/// every one with this feature has it.
#[inline]
pub fn has_sahf() -> bool {
    std::is_x86_feature_detected!("sse4.2")
}

/// Returns whether this processor has a double-width compare-and-swap. Only the first ones of this
/// architecture lack it.
#[inline]
pub fn has_double_width() -> bool {
    std::is_x86_feature_detected!("cmpxchg16b")
}

/// Fetches the cache line of this address. A hint: it never faults.
#[inline(always)]
pub fn prefetch(address: usize) {
    // SAFETY: a prefetch changes no memory and no register, and ignores addresses that it cannot
    // access.
    unsafe {
        asm!(
            "prefetcht0 byte ptr [{}]", // fetch the line
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        )
    }
}

/// Fetches the cache line of this address for a store. A hint: it never faults.
#[inline(always)]
pub fn prefetch_for_store(address: usize) {
    // SAFETY: a prefetch changes no memory and no register, and ignores addresses that it cannot
    // access. Processors of this architecture that do not know this one execute it as no operation.
    unsafe {
        asm!(
            "prefetchw byte ptr [{}]", // fetch the line for a store
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        )
    }
}

/// Replaces a word that only this thread and what interrupts it change, if it is as expected.
/// Returns whether it did. One instruction, which is not atomic for other threads.
#[inline(always)]
pub fn compare_exchange_here(word: &AtomicUsize, expected: usize, new: usize) -> bool {
    let done: u8;
    // SAFETY: the word is valid, and its type allows a change through a shared reference.
    unsafe {
        asm!(
            "cmpxchg qword ptr [{word}], {new}", // compare, and change or load
            "sete {done}",                       // changed?
            word = in(reg) word.as_ptr(),
            new = in(reg) new,
            done = out(reg_byte) done,
            inout("rax") expected => _,
            options(nostack)
        );
    }
    done != 0
}

/// Compares two adjacent words with `expected` and replaces both by `new` if they are equal.
/// Otherwise returns the words that were there. One atomic instruction; a full barrier.
///
/// ```text
///   rdx:rax  expected, then what was there      rcx:rbx  new      rdi  the words
/// ```
///
/// The compiler reserves rbx, so it is saved and restored here. The compiler may assign any unnamed
/// input to rbx, so the address of the words has a register by name.
///
/// # Safety
///
/// `words` must be valid and aligned to 16 bytes, and [`has_double_width`] must be true.
#[inline(always)]
pub unsafe fn compare_exchange_double(
    words: *mut u64,
    expected: (u64, u64),
    new: (u64, u64),
) -> Result<(), (u64, u64)> {
    let (mut first, mut second) = expected;
    let done: u8;
    // SAFETY: by the contract, the words are valid and aligned and the instruction exists. rbx is
    // restored.
    unsafe {
        asm!(
            "xchg {low}, rbx",                     // save rbx; the new first word into it
            "lock cmpxchg16b xmmword ptr [rdi]",   // compare, and change both or load both
            "mov rbx, {low}",                      // restore rbx; the flags are unchanged
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
