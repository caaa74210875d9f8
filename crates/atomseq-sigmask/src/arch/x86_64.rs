//! x86-64.
//!
//! ```text
//! fs:[0]  thread pointer ── + atomseq_sigmask_thread@gottpoff ──> Thread
//!                          0 program's mask  8 ready  16 kernel's mask  24 lazy  32 before  40 sets
//! jmp_buf      0 rbx   8 rbp*  16 r12  24 r13  32 r14  40 r15  48 rsp*  56 rip*
//!             64 is a mask saved (4 bytes)  72 the mask      * mangled with fs:[0x30]
//! ucontext_t  40 r8  48 r9  72 r12  80 r13  88 r14  96 r15  104 rdi  112 rsi  120 rbp  128 rbx
//!            136 rdx  152 rcx  160 rsp  168 rip  224 address of the floating-point state
//!            296 mask  424 floating-point state: 0 control word, 4 status, 8 tags, 24 MXCSR
//! ```

use std::arch::{asm, global_asm, naked_asm};
use std::sync::atomic::Ordering::Relaxed;

use crate::control::{Protection, protects};
use crate::real::Function;
use crate::thread::{self, INTERNAL, Thread, UNBLOCKABLE};
use crate::{context, forward, mask, wait};

// The block of each thread, zeros at first. As large as `Thread`.
global_asm!(
    ".pushsection .tbss.atomseq_sigmask, \"awT\", @nobits",
    ".balign 64",
    ".hidden atomseq_sigmask_thread",
    ".globl atomseq_sigmask_thread",
    ".type atomseq_sigmask_thread, @object",
    ".size atomseq_sigmask_thread, {size}",
    "atomseq_sigmask_thread:",
    ".zero {size}",
    ".popsection",
    size = const size_of::<Thread>(),
);

const _: () = assert!(
    std::mem::offset_of!(Thread, program) == 0
        && std::mem::offset_of!(Thread, ready) == 8
        && std::mem::offset_of!(Thread, kernel) == 16
        && std::mem::offset_of!(Thread, lazy) == 24
        && std::mem::offset_of!(Thread, before) == 32
        && std::mem::offset_of!(Thread, sets) == 40
);

/// Returns the address of this thread's block.
#[inline(always)]
pub fn thread() -> *mut u8 {
    let address;
    // SAFETY: reads the thread pointer and an entry of the global offset table.
    unsafe {
        asm!(
            "mov {0}, qword ptr fs:[0]",                                   // the thread pointer
            "add {0}, qword ptr [rip + atomseq_sigmask_thread@gottpoff]",  // the block's offset
            out(reg) address,
            options(nostack, readonly),
        );
    }
    address
}

/// Returns the stack pointer.
#[inline(always)]
pub fn stack() -> usize {
    let stack;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) stack, options(nomem, nostack)) };
    stack
}

/// Returns an address that the C library has mangled in a `jmp_buf`.
pub fn demangle(mangled: u64) -> u64 {
    let key: u64;
    // SAFETY: reads the C library's key, which every thread has.
    unsafe { asm!("mov {}, qword ptr fs:[0x30]", out(reg) key, options(nostack, readonly)) };
    mangled.rotate_right(17) ^ key
}

/// Makes a system call with four arguments: not by the C library's `syscall`, which is this
/// library's.
///
/// # Safety
///
/// As of the system call.
#[inline(always)]
unsafe fn call(number: i64, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result;
    // SAFETY: the caller's promise; the kernel changes rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Returns the kernel's mask.
pub fn mask() -> u64 {
    let mut mask = 0_u64;
    let old = &raw mut mask as usize;
    // SAFETY: nothing is set, and the kernel writes eight bytes.
    unsafe {
        call(
            libc::SYS_rt_sigprocmask,
            libc::SIG_BLOCK as usize,
            0,
            old,
            8,
        )
    };
    mask
}

/// Sets the kernel's mask.
pub fn set_mask(mask: u64) {
    let new = &raw const mask as usize;
    // SAFETY: the kernel reads eight bytes.
    unsafe {
        call(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK as usize,
            new,
            0,
            8,
        )
    };
}

/// Changes the kernel's mask as `sigprocmask` does, and returns the old one.
pub fn change_mask(how: i32, set: u64) -> u64 {
    let mut old = 0_u64;
    // SAFETY: `old` is eight bytes.
    unsafe { change_mask_into(how, set, &raw mut old) };
    old
}

/// The same, but stores the old mask before signals are delivered. Returns an error number.
///
/// # Safety
///
/// The kernel may write eight bytes there.
#[inline(always)]
pub unsafe fn change_mask_into(how: i32, set: u64, old: *mut u64) -> i32 {
    let (from, to) = (&raw const set as usize, old as usize);
    // SAFETY: the kernel reads eight bytes, and writes as many by the caller's promise.
    unsafe { -call(libc::SYS_rt_sigprocmask, how as usize, from, to, 8) as i32 }
}

/// Asks the kernel to change its mask in a way that does not exist: it reads eight bytes, changes
/// nothing, and returns the error number.
pub fn refused_mask(how: i32, from: usize) -> i32 {
    // SAFETY: the kernel checks the address, and refuses the call for its first argument.
    unsafe { -call(libc::SYS_rt_sigprocmask, how as usize, from, 0, 8) as i32 }
}

/// Returns whether these eight bytes can be read, by asking the kernel.
pub fn is_readable(address: usize) -> bool {
    address != 0 && refused_mask(-1, address) != libc::EFAULT
}

/// Returns the word there, if it can be read.
pub fn read(address: usize) -> Option<u64> {
    // SAFETY: the kernel has just read these bytes.
    is_readable(address).then(|| unsafe { (address as *const u64).read_unaligned() })
}

/// Returns whether these eight bytes can be written, by having the kernel write there.
pub fn is_writable(address: usize) -> bool {
    // SAFETY: nothing is set, and the kernel checks the address.
    let result = unsafe {
        call(
            libc::SYS_rt_sigprocmask,
            libc::SIG_BLOCK as usize,
            0,
            address,
            8,
        )
    };
    address != 0 && result != -(libc::EFAULT as isize)
}

/// Installs a handler in the kernel as it is, and returns 0 or a negative error number.
///
/// # Safety
///
/// As of the system call.
pub unsafe fn kernels_sigaction(signal: i32, new: usize, old: usize) -> isize {
    // SAFETY: the caller's promise; the kernel checks the addresses.
    unsafe { call(libc::SYS_rt_sigaction, signal as usize, new, old, 8) }
}

/// `sigaltstack`: returns 0 or a negative error number.
///
/// # Safety
///
/// As of the system call.
pub unsafe fn signal_stack(new: usize, old: usize) -> isize {
    // SAFETY: the caller's promise; the kernel checks the addresses.
    unsafe { call(libc::SYS_sigaltstack, new, old, 0, 0) }
}

/// `getitimer` of the timer whose signal is `SIGALRM`.
///
/// # Safety
///
/// The kernel writes there.
pub unsafe fn interval_timer(value: *mut libc::itimerval) {
    let timer = libc::ITIMER_REAL as usize;
    // SAFETY: the caller's promise.
    unsafe { call(libc::SYS_getitimer, timer, value as usize, 0, 0) };
}

/// Returns the number of this process.
pub fn process() -> i32 {
    // SAFETY: it only returns a number.
    unsafe { call(libc::SYS_getpid, 0, 0, 0, 0) as i32 }
}

/// Returns whether this is the thread that the process started with: not if a sandbox refuses to
/// say, since signals could not be queued again.
pub fn is_main_thread() -> bool {
    let process = process();
    // SAFETY: it only returns a number.
    process > 0 && unsafe { call(libc::SYS_gettid, 0, 0, 0, 0) } as i32 == process
}

/// Queues a signal for this process, or for this thread if it was sent to a thread, as it came.
/// Returns whether it is queued: a sandbox may refuse it.
///
/// # Safety
///
/// `information` is what a handler got.
pub unsafe fn queue(signal: i32, information: *const libc::siginfo_t) -> bool {
    // SAFETY: the caller's promise; the other calls only return numbers.
    unsafe {
        let process = call(libc::SYS_getpid, 0, 0, 0, 0) as usize;
        // A sandbox refuses: to `kill`, an error number is a group, or all processes.
        if process as isize <= 0 {
            return false;
        }
        let thread = call(libc::SYS_gettid, 0, 0, 0, 0) as usize;
        let (signal, from) = (signal as usize, information as usize);
        let is_thread = (*information).si_code == libc::SI_TKILL;
        let mut result = if !protects(Protection::Information) {
            -1
        } else if is_thread {
            call(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, from)
        } else {
            call(libc::SYS_rt_sigqueueinfo, process, signal, from, 0)
        };
        // A sandbox without these calls: the signal counts more than what came with it.
        if result < 0 && !is_thread {
            result = call(libc::SYS_kill, process, signal, 0, 0);
        }
        if result < 0 {
            result = call(libc::SYS_tgkill, process, thread, signal, 0);
        }
        result == 0
    }
}

/// Makes a system call be made again that a signal has ended which is deferred, if it has no
/// timeout. Returns whether it did.
///
/// # Safety
///
/// `context` is what a handler got.
pub unsafe fn restart(context: &mut libc::ucontext_t) -> bool {
    let Some(number) = interrupted_call(context) else {
        return false;
    };
    let registers = &mut context.uc_mcontext.gregs;
    let restarts = match number {
        libc::SYS_futex => registers[libc::REG_R10 as usize] == 0,
        libc::SYS_read | libc::SYS_write | libc::SYS_readv | libc::SYS_writev => true,
        libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 => true,
        libc::SYS_ioctl | libc::SYS_fcntl => true,
        libc::SYS_wait4 | libc::SYS_waitid | libc::SYS_flock | libc::SYS_accept => true,
        libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_sendto | libc::SYS_sendmsg => true,
        libc::SYS_syslog => true,
        // It goes on waiting, as the kernel lets it do with `SA_RESTART`.
        libc::SYS_connect => true,
        _ => asks_file_system(number),
    };
    if restarts {
        registers[libc::REG_RIP as usize] -= 2;
        registers[libc::REG_RAX as usize] = number;
    }
    restarts
}

/// Returns the number of a system call that ended for a handler, if the code before it is as in a C
/// library, which sets the number just before.
fn interrupted_call(context: &libc::ucontext_t) -> Option<i64> {
    let register = |index: i32| context.uc_mcontext.gregs[index as usize] as usize;
    // Other code may set an argument last. With such a prefix a register is r8.
    let is_of_r8 = |byte: u8| byte & 0xf0 == 0x40 && byte & 5 != 0;
    // mov eax, number; not `mov r8d`, nor what loads edi from r8 and an offset
    let load = |[other, opcode, a, b, c, d]: [u8; 6]| {
        let is_load = opcode == 0xb8
            && !matches!(other, 0x41 | 0x63 | 0x8b | 0x8d | 0xb6 | 0xb7 | 0xbe | 0xbf);
        is_load.then(|| u32::from_le_bytes([a, b, c, d]).into())
    };
    // The same before `mov rsi, …`, of which this many bytes are left.
    let load_before = |left: usize| {
        let code = read(register(libc::REG_RIP).wrapping_sub(left + 8))?.to_ne_bytes();
        let [other, opcode, a, b, c, d, 0x48, 0x89] = code else {
            return None;
        };
        load([other, opcode, a, b, c, d])
    };
    let load_from = |base: i32, offset: u8| {
        let address = register(base).wrapping_add_signed(offset as i8 as isize);
        read(address).map(|number| number as i64)
    };
    match interrupted_code(context)? {
        // xor eax, eax
        [_, _, _, other, 0x31, 0xc0, ..] if !is_of_r8(other) => Some(0),
        // test eax, eax; jne …: `read` up to glibc 2.33, in a process that has one thread
        [_, other, 0x85, 0xc0, 0x75, _, ..] if !is_of_r8(other) => Some(0),
        // mov rsi, rdi; mov edi, AT_FDCWD: below `opendir`, and what opens a file for itself
        [0xfe, 0xbf, 0x9c, 0xff, 0xff, 0xff, ..] => load_before(8),
        // mov rsi, rdx: below `stat` of old programs, from glibc 2.43 on
        [_, _, _, 0x48, 0x89, 0xd6, ..] => load_before(3),
        // mov rax, [rsp + offset] or [rbp + offset]: what can be cancelled, from glibc 2.41 on
        [_, 0x48, 0x8b, 0x44, 0x24, offset, ..] => load_from(libc::REG_RSP, offset),
        [_, _, 0x48, 0x8b, 0x45, offset, ..] => load_from(libc::REG_RBP, offset),
        [other, opcode, a, b, c, d, ..] => load([other, opcode, a, b, c, d]),
    }
}

/// Returns whether a system call without a timeout looks a path up, or asks a file system: one in
/// user space may end each of these for a signal. Publishing the mask before them would cost more
/// than making them again.
fn asks_file_system(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_stat..=libc::SYS_lstat
            | libc::SYS_lseek
            | libc::SYS_pread64..=libc::SYS_pwrite64
            | libc::SYS_access
            | libc::SYS_bind
            | libc::SYS_fsync..=libc::SYS_lchown // among them rename, mkdir, unlink, chmod
            | libc::SYS_utime..=libc::SYS_mknod
            | libc::SYS_statfs..=libc::SYS_fstatfs
            | libc::SYS_chroot
            | libc::SYS_mount..=libc::SYS_umount2
            | libc::SYS_setxattr..=libc::SYS_fremovexattr
            | libc::SYS_getdents64
            | libc::SYS_utimes
            | libc::SYS_inotify_add_watch
            | libc::SYS_mkdirat..=libc::SYS_faccessat // among them newfstatat, unlinkat
            | libc::SYS_utimensat
            | libc::SYS_fanotify_mark
            | libc::SYS_name_to_handle_at..=libc::SYS_open_by_handle_at
            | libc::SYS_syncfs
            | libc::SYS_renameat2
            | libc::SYS_statx
            | libc::SYS_faccessat2
            | libc::SYS_fchmodat2
    )
}

/// Returns the last eight bytes of code up to a system call that ended for a handler, if a handler
/// interrupted one.
pub fn interrupted_code(context: &libc::ucontext_t) -> Option<[u8; 8]> {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    let registers = &context.uc_mcontext.gregs;
    if registers[libc::REG_RAX as usize] != -i64::from(libc::EINTR) {
        return None;
    }
    // Code may start a mapping, or be executable only.
    let code = read((registers[libc::REG_RIP as usize] as usize).wrapping_sub(8))?.to_ne_bytes();
    (code[6..] == SYSCALL).then_some(code)
}

// Says how far the stack pointer is from that of the caller, for what unwinds: after each of them.
macro_rules! push {
    ($($register:literal)*) => {
        concat!($("push ", $register, "\n.cfi_adjust_cfa_offset 8\n"),*)
    };
}
pub(crate) use push;
macro_rules! pop {
    ($($register:literal)*) => {
        concat!($("pop ", $register, "\n.cfi_adjust_cfa_offset -8\n"),*)
    };
}
pub(crate) use pop;

// Calls the function `$prepare` with the number of a C library's function, and jumps to the address
// that it returns, with all argument registers as they were. Six of them and rax, which counts a
// variadic function's floating-point arguments, make seven words: the stack is aligned.
macro_rules! jump_after {
    ($prepare:path, $function:ident) => {
        naked_asm!(
            ".cfi_startproc",
            $crate::arch::push!("rdi" "rsi" "rdx" "rcx" "r8" "r9" "rax"),
            "mov edi, {function}",
            "call {prepare}",
            "mov r11, rax",                      // calls do not preserve r11
            $crate::arch::pop!("rax" "r9" "r8" "rcx" "rdx" "rsi" "rdi"),
            "jmp r11",
            ".cfi_endproc",
            function = const Function::$function as usize,
            prepare = sym $prepare,
        )
    };
}

// Exports a function with the arguments of `sigprocmask`: looks at them, and goes on with `change`.
macro_rules! changes {
    ($($name:ident $otherwise:path;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name(
            how: i32,
            new: *const libc::sigset_t,
            old: *mut libc::sigset_t,
        ) -> i32 {
            naked_asm!(
                ".cfi_startproc",
                "mov r8, qword ptr [rip + atomseq_sigmask_thread@gottpoff]",
                "cmp dword ptr fs:[r8 + 8], 0",  // ready
                "je {otherwise}",
                "cmp edi, 2",
                "ja {otherwise}",
                "test rsi, rsi",
                "jz {otherwise}",
                "mov rax, {removable}",
                "and rax, qword ptr [rsi]",      // first: both sets may be one
                "xor esi, esi",
                "cmp edi, 1",
                "ja 3f",
                "je 2f",
                "mov rdi, -1",                   // SIG_BLOCK: keep all, add the set
                "mov rsi, rax",
                "jmp {change}",
                "2:",
                "not rax",                       // SIG_UNBLOCK: keep all but the set, add none
                "mov rdi, rax",
                "jmp {change}",
                "3:",
                "xor edi, edi",                  // SIG_SETMASK: keep none
                "mov rsi, rax",
                "jmp {change}",
                ".cfi_endproc",
                removable = const !(UNBLOCKABLE | INTERNAL) as i64,
                otherwise = sym $otherwise,
                change = sym change,
            )
        }
    )*};
}
changes! {
    sigprocmask mask::sigprocmask_otherwise;
    pthread_sigmask mask::pthread_sigmask_otherwise;
}

/// Changes the program's mask to `mask & keep | add`, stores the old one unless `old` is null, and
/// returns 0. A sequence that is restarted if a signal is handled before its last instruction, so
/// it is before the change, or after it. If the kernel's mask changes too, `thread::change_slowly`
/// goes on: it blocks a signal that the new mask does not, or does not block one that is not lazy.
///
/// # Safety
///
/// `old` is null, or eight bytes can be written there, which need not be aligned. `add` contains
/// neither `SIGKILL` nor `SIGSTOP`.
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn change(keep: u64, add: u64, old: *mut u64) -> i32 {
    naked_asm!(
        ".cfi_startproc",
        "mov r8, qword ptr [rip + atomseq_sigmask_thread@gottpoff]",
        ".hidden atomseq_sigmask_change",
        ".globl atomseq_sigmask_change",
        "atomseq_sigmask_change:",
        "mov rax, qword ptr fs:[r8]",       // the old mask
        "mov r9, rax",
        "and r9, rdi",
        "or r9, rsi",                       // the new one
        "mov r10, qword ptr fs:[r8 + 16]",  // the kernel's
        "mov r11, qword ptr fs:[r8 + 24]",  // lazy
        "not r11",
        "or r11, r10",
        "xor r10, r9",
        "test r10, r11",
        "jnz {slowly}",
        "test rdx, rdx",
        "jz 2f",
        "mov qword ptr [rdx], rax",
        "2:",
        "mov qword ptr fs:[r8], r9",
        ".hidden atomseq_sigmask_changed",
        ".globl atomseq_sigmask_changed",
        "atomseq_sigmask_changed:",
        "inc qword ptr fs:[r8 + 40]",       // sets
        "xor eax, eax",
        "ret",
        ".cfi_endproc",
        slowly = sym thread::change_slowly,
    )
}

/// As [`change`], and gives the kernel the new mask, in a sequence that ends with the system call:
/// if it is restarted after it has stored the new mask, [`restart_sequence`] restores the old one.
///
/// # Safety
///
/// As of [`change`].
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn change_both(keep: u64, add: u64, old: *mut u64) {
    naked_asm!(
        ".cfi_startproc",
        "mov r8, qword ptr [rip + atomseq_sigmask_thread@gottpoff]",
        "mov r9, rdi", // what the system call does not need
        "mov r11, rsi",
        "mov rcx, rdx",
        "mov edi, 2", // SIG_SETMASK
        "xor edx, edx",
        "mov r10d, 8",
        ".hidden atomseq_sigmask_both",
        ".globl atomseq_sigmask_both",
        "atomseq_sigmask_both:",
        "mov rax, qword ptr fs:[r8]",      // the old mask
        "mov qword ptr fs:[r8 + 32], rax", // before
        ".hidden atomseq_sigmask_both_kept",
        ".globl atomseq_sigmask_both_kept",
        "atomseq_sigmask_both_kept:",
        "test rcx, rcx",
        "jz 2f",
        "mov qword ptr [rcx], rax",
        "2:",
        "and rax, r9",
        "or rax, r11",
        "mov qword ptr fs:[r8], rax",      // the new one
        "mov qword ptr fs:[r8 + 16], rax", // the kernel's
        "mov rsi, qword ptr fs:[0]",       // the thread pointer
        "add rsi, r8",                     // the address of the new one
        "mov eax, 14",                     // rt_sigprocmask
        "syscall",
        ".hidden atomseq_sigmask_both_changed",
        ".globl atomseq_sigmask_both_changed",
        "atomseq_sigmask_both_changed:",
        "ret",
        ".cfi_endproc",
    )
}

/// Returns the address of a symbol of this file.
macro_rules! address_of {
    ($symbol:literal) => {{
        let address: i64;
        // SAFETY: computes an address.
        unsafe {
            asm!(
                concat!("lea {}, [rip + ", $symbol, "]"),
                out(reg) address,
                options(nomem, nostack, preserves_flags),
            );
        }
        address
    }};
}

/// Lets a frame go on at the start of a sequence that a signal has interrupted. `kernel` is the
/// kernel's mask there.
pub fn restart_sequence(frame: &mut libc::ucontext_t, thread: &Thread, kernel: u64) {
    if !protects(Protection::Sequences) {
        return;
    }
    let code = &mut frame.uc_mcontext.gregs[libc::REG_RIP as usize];
    let change = address_of!("atomseq_sigmask_change");
    if (change..address_of!("atomseq_sigmask_changed")).contains(code) {
        *code = change;
    }
    let (both, changed) = (
        address_of!("atomseq_sigmask_both"),
        address_of!("atomseq_sigmask_both_changed"),
    );
    if (both..changed).contains(code) {
        if *code >= address_of!("atomseq_sigmask_both_kept") {
            thread.program.store(thread.before.load(Relaxed), Relaxed);
            thread.kernel.store(kernel, Relaxed);
        }
        *code = both;
    }
}

/// Exports functions that only need the mask in the kernel, whatever their arguments: those are in
/// registers and on the stack as they were. A thread that is not ready has blocked nothing here.
macro_rules! published {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "mov r11, qword ptr [rip + atomseq_sigmask_thread@gottpoff]",
                "mov r10, qword ptr fs:[r11 + 16]",  // the kernel's mask
                "not r10",
                "test r10, qword ptr fs:[r11]",      // the program's
                "jnz 2f",
                "mov r11, qword ptr [rip + {addresses} + 8 * {function}]",
                "test r11, r11",
                "jz 2f",
                "jmp r11",
                "2:",
                $crate::arch::push!("rdi" "rsi" "rdx" "rcx" "r8" "r9" "rax"),
                "mov edi, {function}",
                "call {prepare}",
                "mov r11, rax",
                $crate::arch::pop!("rax" "r9" "r8" "rcx" "rdx" "rsi" "rdi"),
                "jmp r11",
                ".cfi_endproc",
                addresses = sym $crate::real::ADDRESSES,
                function = const $crate::real::Function::$name as usize,
                prepare = sym $crate::forward::publish,
            )
        }
    )*};
}
pub(crate) use published;
published!(execl execle execlp);

#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn clone() {
    naked_asm!(
        ".cfi_startproc",
        "cmp byte ptr [rip + {eager}], 0",
        "jne {other}",
        "test rdi, rdi",      // the C library refuses it
        "jz {other}",
        "mov eax, edx",
        "and eax, 0x84900",   // CLONE_SETTLS, CLONE_VFORK, CLONE_SIGHAND, CLONE_VM
        "cmp eax, 0x4100",    // this thread-local memory, while this thread waits
        "je {vfork}",
        "jmp {other}",
        ".cfi_endproc",
        eager = sym thread::EAGER,
        vfork = sym context::clone_vfork,
        other = sym other_clone,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn other_clone() {
    jump_after!(forward::several, clone)
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __clone() {
    naked_asm!(".cfi_startproc", "jmp {}", ".cfi_endproc", sym clone)
}

/// `dlopen` without `RTLD_DEEPBIND`, by which a library would call the C library past this one. A
/// jump, since the C library looks at the return address for the caller's search path.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlopen() {
    naked_asm!(
        ".cfi_startproc",
        "and esi, {}",
        "jmp {}",
        ".cfi_endproc",
        const !libc::RTLD_DEEPBIND,
        sym published_dlopen,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn published_dlopen() {
    jump_after!(forward::publish, dlopen)
}

/// `syscall(3)`: calls that change masks and handlers are this library's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn syscall() {
    naked_asm!(
        ".cfi_startproc",
        "cmp byte ptr [rip + {eager}], 0",
        "jne {other}",
        "lea eax, [rdi - 13]",          // rt_sigaction 13, rt_sigprocmask 14
        "cmp eax, 2",
        "jb {known}",
        "cmp edi, 131",                 // sigaltstack
        "je {known}",
        "cmp edi, 130",                 // rt_sigsuspend
        "je {waits}",
        "cmp edi, 270",                 // pselect6
        "je {waits}",
        "cmp edi, 271",                 // ppoll
        "je {waits}",
        "cmp edi, 281",                 // epoll_pwait
        "je {waits}",
        "cmp edi, 441",                 // epoll_pwait2
        "je {waits}",
        "cmp edi, 333",                 // io_pgetevents
        "je {waits}",
        "cmp edi, 426",                 // io_uring_enter
        "je {waits}",
        "cmp edi, 56",                  // clone
        "je {starts}",
        "cmp edi, 58",                  // vfork
        "je {starts}",
        "cmp edi, 435",                 // clone3
        "je {starts}",
        "cmp edi, 317",                 // seccomp
        "je {starts}",
        "cmp edi, 157",                 // prctl
        "jne {other}",
        "cmp esi, 22",                  // PR_SET_SECCOMP
        "je {starts}",
        "cmp esi, 59",                  // PR_SET_SYSCALL_USER_DISPATCH
        "je {starts}",
        "jmp {other}",
        ".cfi_endproc",
        eager = sym thread::EAGER,
        starts = sym starting_system_call,
        waits = sym wait::system_call,
        known = sym forward::known_system_call,
        other = sym other_system_call,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn other_system_call() {
    jump_after!(forward::publish, syscall)
}

#[unsafe(naked)]
unsafe extern "C" fn starting_system_call() {
    jump_after!(forward::several, syscall)
}

/// `prctl`: a filter of system calls may refuse to queue a signal again, and a program that handles
/// its own system calls may not expect this library's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn prctl() {
    naked_asm!(
        ".cfi_startproc",
        "cmp edi, 22",  // PR_SET_SECCOMP
        "je {filters}",
        "cmp edi, 59",  // PR_SET_SYSCALL_USER_DISPATCH
        "je {filters}",
        "jmp {other}",
        ".cfi_endproc",
        filters = sym filtering_prctl,
        other = sym published_prctl,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn published_prctl() {
    jump_after!(forward::publish, prctl)
}

#[unsafe(naked)]
unsafe extern "C" fn filtering_prctl() {
    jump_after!(forward::several, prctl)
}

/// `vfork`: the child runs on this very stack and this very thread-local memory, so what it changes
/// in them is restored. Registers keep the masks meanwhile: the child has its own.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn vfork() -> i32 {
    naked_asm!(
        ".cfi_startproc",
        "cmp byte ptr [rip + {eager}], 0",
        "jne {other}",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {before}",        // blocks all signals in the kernel; the mask in rax, lazy in rdx
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "mov rsi, rax",
        "mov r8, rdx",
        "pop rdi",              // the child overwrites the return address
        ".cfi_adjust_cfa_offset -8",
        ".cfi_register rip, rdi",
        "mov eax, 58",          // vfork
        "syscall",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rip, -8",
        "mov rdi, rax",
        "mov rdx, r8",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {after}",         // of the result, the mask and lazy; returns vfork's result
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        eager = sym thread::EAGER,
        other = sym other_vfork,
        before = sym context::before_vfork,
        after = sym context::after_vfork,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn other_vfork() {
    jump_after!(forward::publish, vfork)
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __vfork() -> i32 {
    naked_asm!(".cfi_startproc", "jmp {}", ".cfi_endproc", sym vfork)
}

/// `sigsetjmp`: the C library's, except that the mask is the program's. With a shadow stack, or
/// once nothing is lazy, the C library's itself runs, and reads the kernel's mask, which is made
/// equal before.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __sigsetjmp() -> i32 {
    naked_asm!(
        ".cfi_startproc",
        "test dword ptr fs:[0x48], 2",  // the shadow stack's bit
        "jnz {shadow}",
        "test esi, esi",
        "jz 2f",
        "mov rdx, qword ptr [rip + atomseq_sigmask_thread@gottpoff]",
        "cmp dword ptr fs:[rdx + 8], 0",  // ready
        "je {shadow}",
        "mov rax, qword ptr fs:[rdx]",    // the program's mask
        "mov qword ptr [rdi + 72], rax",
        "mov esi, 1",
        "2:",
        "mov dword ptr [rdi + 64], esi",  // whether a mask is saved
        "mov qword ptr [rdi], rbx",
        "mov rax, rbp",
        "xor rax, qword ptr fs:[0x30]",   // the C library mangles addresses so
        "rol rax, 17",
        "mov qword ptr [rdi + 8], rax",
        "mov qword ptr [rdi + 16], r12",
        "mov qword ptr [rdi + 24], r13",
        "mov qword ptr [rdi + 32], r14",
        "mov qword ptr [rdi + 40], r15",
        "lea rax, [rsp + 8]",             // the caller's stack pointer after the return
        "xor rax, qword ptr fs:[0x30]",
        "rol rax, 17",
        "mov qword ptr [rdi + 48], rax",
        "mov rax, qword ptr [rsp]",       // the return address
        "xor rax, qword ptr fs:[0x30]",
        "rol rax, 17",
        "mov qword ptr [rdi + 56], rax",
        "xor eax, eax",
        "ret",
        ".cfi_endproc",
        shadow = sym published_sigsetjmp,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn published_sigsetjmp() {
    jump_after!(forward::publish, __sigsetjmp)
}

/// The function `setjmp` saves the mask; the macro is `_setjmp`, which does not.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn setjmp() -> i32 {
    naked_asm!(".cfi_startproc", "mov esi, 1", "jmp {}", ".cfi_endproc", sym __sigsetjmp)
}

// Saves the registers and the floating-point state in the context at rdi. At a call the register
// stack of the old floating-point unit is empty, so all of its state is the control and status
// words: storing and loading the rest takes longer than all else.
macro_rules! save_context {
    () => {
        concat!(
            "mov qword ptr [rdi + 128], rbx\n",
            "mov qword ptr [rdi + 120], rbp\n",
            "mov qword ptr [rdi + 72], r12\n",
            "mov qword ptr [rdi + 80], r13\n",
            "mov qword ptr [rdi + 88], r14\n",
            "mov qword ptr [rdi + 96], r15\n",
            "mov qword ptr [rdi + 104], rdi\n",
            "mov qword ptr [rdi + 112], rsi\n",
            "mov qword ptr [rdi + 136], rdx\n",
            "mov qword ptr [rdi + 152], rcx\n",
            "mov qword ptr [rdi + 40], r8\n",
            "mov qword ptr [rdi + 48], r9\n",
            "mov rax, qword ptr [rsp]\n", // the return address
            "mov qword ptr [rdi + 168], rax\n",
            "lea rax, [rsp + 8]\n", // the stack pointer after the return
            "mov qword ptr [rdi + 160], rax\n",
            "lea rax, [rdi + 424]\n",
            "mov qword ptr [rdi + 224], rax\n",
            "fnstcw word ptr [rdi + 424]\n", // the control word
            "fnstsw ax\n",                   // the status word
            "movzx eax, ax\n",
            "mov dword ptr [rdi + 428], eax\n",
            "mov dword ptr [rdi + 432], 0xffff\n", // tags: all empty
            "mov dword ptr [rdi + 436], 0\n",      // the last instruction and operand
            "mov qword ptr [rdi + 440], 0\n",
            "stmxcsr dword ptr [rdi + 448]\n",
        )
    };
}

/// `getcontext`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn getcontext() -> i32 {
    naked_asm!(
        ".cfi_startproc",
        save_context!(),
        push!("rdi"),
        "call {program}",               // the program's mask
        pop!("rdi"),
        "mov qword ptr [rdi + 296], rax",
        "xor eax, eax",
        "ret",
        ".cfi_endproc",
        program = sym mask::now,
    )
}

/// `swapcontext`: in the place of the C library's system call are a load, a store and a comparison
/// if both contexts have the same mask.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn swapcontext() -> i32 {
    naked_asm!(
        ".cfi_startproc",
        save_context!(),
        "mov rdx, qword ptr [rip + atomseq_sigmask_thread@gottpoff]",
        "cmp dword ptr fs:[rdx + 8], 0",   // ready
        "je 3f",
        "mov rax, qword ptr fs:[rdx]",     // the program's mask
        "cmp rax, qword ptr [rsi + 296]",  // first: the contexts may be one
        "jne 3f",
        "mov qword ptr [rdi + 296], rax",
        "jmp {load}",
        "3:",
        push!("rsi"),
        "call {exchange}",                 // of both contexts: saves the mask, and sets the other
        pop!("rsi"),
        "jmp {load}",
        ".cfi_endproc",
        exchange = sym context::exchange,
        load = sym load_context,
    )
}

/// `setcontext`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn setcontext() -> i32 {
    naked_asm!(
        ".cfi_startproc",
        push!("rdi"),
        "call {set}",   // sets the mask
        pop!("rsi"),
        "jmp {load}",
        ".cfi_endproc",
        set = sym context::set,
        load = sym load_context,
    )
}

/// Loads the registers from the context at rsi. Loading the floating-point state takes longer than
/// comparing it. The comparison's memory is in the red zone, which signal handlers leave alone.
/// Backtraces are those of the context from its first register on.
#[unsafe(naked)]
unsafe extern "C" fn load_context() -> i32 {
    naked_asm!(
        ".cfi_startproc",
        "mov rcx, qword ptr [rsi + 224]",
        "fnstcw word ptr [rsp - 8]",
        "fnstsw ax",
        "mov dx, word ptr [rsp - 8]",
        "cmp ax, word ptr [rcx + 4]",
        "jne 4f",
        "cmp dx, word ptr [rcx]",
        "jne 4f",
        "5:",
        "stmxcsr dword ptr [rsp - 8]",
        "mov eax, dword ptr [rsp - 8]",
        "cmp eax, dword ptr [rsi + 448]", // of a copy not where the pointer leads
        "jne 6f",
        "7:",
        ".cfi_remember_state",
        ".cfi_def_cfa rsi, 0",
        ".cfi_offset rip, 168",
        ".cfi_offset rsp, 160",
        ".cfi_offset rbx, 128",
        ".cfi_offset rbp, 120",
        ".cfi_offset r12, 72",
        ".cfi_offset r13, 80",
        ".cfi_offset r14, 88",
        ".cfi_offset r15, 96",
        "mov rsp, qword ptr [rsi + 160]",
        "mov rbx, qword ptr [rsi + 128]",
        "mov rbp, qword ptr [rsi + 120]",
        "mov r12, qword ptr [rsi + 72]",
        "mov r13, qword ptr [rsi + 80]",
        "mov r14, qword ptr [rsi + 88]",
        "mov r15, qword ptr [rsi + 96]",
        "mov r11, qword ptr [rsi + 168]", // where to go on
        "mov rdi, qword ptr [rsi + 104]",
        "mov rdx, qword ptr [rsi + 136]",
        "mov rcx, qword ptr [rsi + 152]",
        "mov r8, qword ptr [rsi + 40]",
        "mov r9, qword ptr [rsi + 48]",
        "mov rsi, qword ptr [rsi + 112]",
        ".cfi_def_cfa rsp, 0",
        ".cfi_register rip, r11",
        ".cfi_same_value rsp",
        ".cfi_same_value rbx",
        ".cfi_same_value rbp",
        ".cfi_same_value r12",
        ".cfi_same_value r13",
        ".cfi_same_value r14",
        ".cfi_same_value r15",
        "xor eax, eax",
        "jmp r11",
        ".cfi_restore_state",
        "4:",
        "fldenv [rcx]",
        "jmp 5b",
        "6:",
        "ldmxcsr dword ptr [rsi + 448]",
        "jmp 7b",
        ".cfi_endproc",
    )
}

/// `makecontext(context, function, count, …)`: hands over the arguments in registers and the
/// address of those on the stack.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn makecontext() {
    naked_asm!(
        ".cfi_startproc",
        "lea rax, [rsp + 8]",      // the arguments on the stack, from the fourth on
        push!("r9" "r8" "rcx"),    // the others: the first is pushed last
        "mov rcx, rsp",
        "mov r8, rax",
        "call {make}",             // the stack is aligned: three words and the return address
        "add rsp, 24",
        ".cfi_adjust_cfa_offset -24",
        "ret",
        ".cfi_endproc",
        make = sym context::make,
    )
}

/// Where the function of a context returns to, behind the first instruction. rbx has been kept: it
/// is the address of the link. Backtraces and exceptions end here: they look for the instruction
/// before the return address.
#[unsafe(naked)]
pub unsafe extern "C" fn finish_context() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "nop",
        "mov rdi, qword ptr [rbx]",
        "mov rsp, rbx",
        "and rsp, -16",
        "call {finish}",  // sets the linked context, or exits
        "ud2",
        ".cfi_endproc",
        finish = sym context::finish,
    )
}
