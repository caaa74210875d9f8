//! `libatomseq_sigmask.so`: a signal mask without system calls for unmodified programs, by
//! `LD_PRELOAD`. `atomseq run -- PROGRAM` sets that up.
//!
//! The library defines the C library's functions that set, read, inherit or wait with the signal
//! mask. Each thread has the mask that the program set, the *program's mask*, in thread-local
//! memory; blocking a signal and restoring the mask are a load and a store there. The kernel's mask
//! is changed only where it matters. (Mosberger, Druschel and Peterson 1994, section 6, did
//! this for programs that were compiled for it, without signal stacks and job control.)
//!
//! # How
//!
//! The library installs [`delivery::entry`] in place of the program's handlers. A signal that the
//! program's mask blocks, but the kernel's does not, is *deferred*: `entry` queues it again with
//! the same `siginfo`, and sets the kernel's mask to the program's as it returns. So from the first
//! arrival on, the signal is pending in the kernel, which coalesces it with others, shows it to
//! `sigpending` and discards it when it is ignored. Unblocking a signal that the kernel blocks is a
//! system call, and the kernel delivers.
//!
//! A change of the mask is a restartable sequence (Bershad 1991): `entry` looks where the signal
//! came. If that is in [`arch::change`] before its last instruction, the change starts again when
//! the handler has returned; so every handler is before the change, or after it. If the kernel's
//! mask changes too, the last instruction is the system call.
//!
//! These are the invariants. `thread` maintains them, and all else relies on them:
//!
//! 1. A signal that the kernel blocks is blocked by the program's mask, except in `entry`, which
//!    runs with all signals blocked, and while the C library blocks all by itself.
//! 2. A signal that the program's mask blocks, but not the kernel's, is *lazy*: `entry` is its
//!    handler in the kernel, it is a standard signal of which nothing depends on when it was
//!    dequeued ([`thread::NEVER`]), and the process has had one thread, no small stack, and no
//!    handling of its system calls, and has not called `system`.
//! 3. While a thread is in a system call that a signal can interrupt, the masks are equal, or the
//!    call is made again after a signal that is blocked ([`arch::restart`]): so are `stat`,
//!    `rename` and what else a file system in user space may end for a signal.
//!
//! What is not lazy is blocked by a system call, as without the library. These are real-time
//! signals, since one that is queued again is the last of its kind; signals of POSIX timers, whose
//! overruns are counted from when they are dequeued; `SIGCONT` and those that stop, which discard
//! each other when they are sent; faults and `SIGABRT`; signals that are ignored or whose default
//! is to be ignored, which the kernel keeps only if it knows that they are blocked; those with
//! `SA_RESETHAND`, whose handler the kernel resets when it dequeues them; those with `SA_ONSTACK`
//! once the program has set a signal stack, which it may unmap while it blocks them; every signal
//! while a handler is on a signal stack, where there may be no room for a second frame; every
//! signal once the process has started a second thread, called `system`, which changes actions by
//! itself, prepared, by `makecontext`, a stack smaller than 16 KiB, or set, by `prctl` or
//! `syscall(3)`, a seccomp filter or user dispatch, which may refuse or handle this library's own
//! system calls; every signal in a second copy of this library, behind the first; and every signal
//! under valgrind, which ignores the mask that a handler sets for what it interrupted. A signal
//! whose default action ends the process becomes lazy when it is first blocked: `entry` then
//! performs the default action.
//!
//! A handler may end its thread by `pthread_exit`, or throw an exception through a call that waits,
//! wherever it has interrupted this library. So its functions are `extern "C-unwind"`, or assembly
//! that describes its stack, and none has a destructor: one that has is unwound only where it
//! calls, and otherwise ends the process.
//!
//! # Threads
//!
//! When a process starts its second thread, the library gives the kernel the mask and the program's
//! own handlers. From then on, for the rest of the process's life, it passes all calls to the C
//! library: they cost what they cost without it, and so do signals. The same holds for what else
//! ends that signals are lazy for good. Children of `fork` inherit that; a program that is executed
//! starts anew.
//!
//! A thread alone could block lazily beside others: the kernel might choose it for a signal to the
//! process, and it would queue the signal again for a thread that does not block it. But the signal
//! is pending nowhere between those two moments, and the thread may be preempted there. Each of the
//! following would be seen by the program:
//!
//! * Another thread that has just sent the signal finds nothing: in `sigpending`, in a
//!   `sigtimedwait` that does not wait, or in a read of a `signalfd` that does not block.
//! * `kill` of the own process returns to a thread that does not block the signal before the
//!   handler has run there, which POSIX rules out if all others block it.
//! * The kernel sends some signals to a thread, and their `siginfo` does not say so: `SIGPIPE`,
//!   `SIGXFSZ`, and those of `F_SETOWN_EX` and of `rt_tgsigqueueinfo`. One that is queued again
//!   would reach another thread.
//! * Another thread that makes the signal ignored, or resets it, makes the kernel discard what it
//!   must keep for the thread that blocks it.
//!
//! No thread can change another's mask in the kernel, so each of these calls would have to
//! interrupt all threads that block lazily, and wait until they have set their masks in the kernel.
//!
//! # What it does not see
//!
//! * System calls without the C library's functions: those of static programs, of Go's runtime,
//!   and assembly. `atomseq run` looks for them in the program's code, not in its libraries'.
//!   `syscall(3)` is seen, except timers that it creates or sets.
//! * Calls that bind to the C library past this one: `dlsym` of a handle of it (Python's
//!   `ctypes.CDLL("libc.so.6")`) or, in a library that comes after this one, of `RTLD_NEXT`;
//!   `dlvsym`, `dlmopen`. `dlopen` drops `RTLD_DEEPBIND`, so such an object sees the global symbols
//!   first.
//! * Signals that an IFUNC resolver blocks: the C library clears thread-local memory afterwards.
//!   One in a library cannot call functions that a preloaded library defines, as this one's `open`:
//!   the library is relocated before those.
//! * Libraries that define these functions too and come after this one, as the shared `libtsan` of
//!   `-fsanitize=thread` does: their handlers run in place of this library's. A `libtsan` that is
//!   linked statically comes first. One whose function calls another name of it (`__sigaction`
//!   below `sigaction`, `sigprocmask` below `pthread_sigmask`) calls this library's, which calls it
//!   again, without end.
//! * The last kilobytes of a stack, unless `makecontext` prepared it and it is smaller than 16 KiB:
//!   a signal that is blocked lazily still pushes a frame on the current stack, as does its default
//!   action from then on.
//! * Signal stacks of little more than the kernel's minimum: a handler finds some 300 bytes less.
//! * Handlers in assembly that return without the values of `rbx`, `rbp` and `r12` to `r15`, which
//!   the kernel restores: they return to this library, which needs them.
//! * Handlers that run while the program has another thread pointer (`ARCH_SET_FS`): this library
//!   finds its memory by that.
//! * Invalid pointers passed to the C library's functions: they fault in place of `EFAULT`. The
//!   system calls by `syscall(3)` check them. A handler of that fault that returns, having made the
//!   old mask's address valid, finds the call restarted.
//! * Sandboxes that a program starts with, that a child of `vfork` enters, or that a handler enters
//!   in the microsecond in which it has interrupted this library: a filter that kills for
//!   `rt_sigprocmask`, `rt_sigaction`, `getpid`, `gettid` or `getitimer` ends a program that would
//!   not have made this call; one that kills for `rt_sigqueueinfo` or `rt_tgsigqueueinfo` ends it
//!   when a signal is deferred; one that refuses that and `kill` and `tgkill` drops the signal; and
//!   one that refuses `rt_sigprocmask` leaves signals blocked. With one that refuses `getpid`,
//!   nothing is lazy.
//! * A parent in `vfork`, or in `clone` with `CLONE_VM` and `CLONE_VFORK`, handles no signal, not
//!   even one that ends it, until the child exits or calls `exec`, unless the process has had
//!   another thread.
//! * Handlers that a child of `vfork` installs: `sigprocmask` in such a handler does not see what
//!   the kernel blocks while it runs, nor in children that it forks. What such a handler changes in
//!   the mask, in that child or in those, seems changed after it returns, when the kernel has
//!   restored its mask: a signal that is blocked then may be handled.
//! * A child of `vfork` beside a process that it starts by `clone` with `CLONE_VM`, but without
//!   `CLONE_VFORK` or thread-local memory of its own: each finds what the other sets in the mask.
//! * Waits that only a signal that ends the process ends, as for a file system that does not
//!   answer: while there is one thread, the default action of a signal that was once blocked lazily
//!   does not end them, nor a `sigwait` for that signal, which takes it though it is not blocked.
//! * The default action of such a signal, if one of a lower number comes before the kernel delivers
//!   it: a handler of that one which blocks the signal runs first.
//! * The kernel's view: `/proc/self/status` and other processes see the kernel's mask and this
//!   library's handlers. As process 1 of a namespace, a program whose blocked signal has the
//!   default action gets this library's handler, so the kernel no longer ignores that signal.
//! * The flags and the mask of a handler with `SA_RESETHAND` that ran before signals ceased to be
//!   lazy, if the default action of its signal is to be ignored: `sigaction` returns others.
//! * The mask of a default action that the program installs with `SA_RESETHAND`, after a handler of
//!   that signal, if it contains the C library's signals 32 and 33: `sigaction` returns the mask
//!   of the handler.
//! * `setcontext` from a handler on a signal stack, an exception that leaves one, and `siglongjmp`
//!   to an outer handler there, or off one with `SS_AUTODISARM`: nothing is lazy afterwards, which
//!   costs only time.
//! * Signals that the kernel or another process sends to a thread, not by `tgkill` (`SIGPIPE`,
//!   `SIGXFSZ`, `F_SETOWN_EX`, `rt_tgsigqueueinfo`), or a handler by `pthread_sigqueue`, or `raise`
//!   beyond the limit of queued signals (`RLIMIT_SIGPENDING`): one that was deferred is pending for
//!   the process. It comes after those that are pending for the thread, and coalesces with one of
//!   its number that is pending for the process.
//! * Programs that step through themselves with the processor's trap flag: a call that changes an
//!   action, or a handler that sets the flag and returns, ends the process, since `SIGTRAP` is
//!   blocked there. A trap does not restart a change of the mask.
//! * The processor's alignment check (`EFLAGS.AC`): this library reads words that are not aligned.
//! * Emulators: `qemu-x86_64` calls handlers with a stack that is not aligned, so the default
//!   action of a signal that was once blocked lazily faults.
//! * Tracers and backtraces: a tracer sees a deferred signal twice, and one whose default action
//!   ends the process; if it discards the latter's second arrival, others stay blocked. A backtrace
//!   of a handler has a frame of this library.
//! * Children: they inherit `LD_PRELOAD`. A child with another C library, for another processor, in
//!   another root directory, or of a user who cannot read this library's file may say that it
//!   cannot load it, or not start. One with a shared `libasan`, which must be the first library,
//!   does not start. A program starts a tenth of a millisecond later: of the programs in
//!   BENCHMARKS.md, bash takes 1.01 to 1.17 of the time for each child and Emacs 1.08 to 1.20.
//! * Interruption by two signals in the same microsecond, one of them blocked lazily: the call of
//!   the C library may be restarted after the handler of the other.
//! * `sigvec`, which only programs that were linked with a glibc before 2.21 can call, and the
//!   signal stack of `sigstack`.
//! * Old versions of functions: a program that was linked with an older glibc gets the present
//!   `quick_exit` (before 2.24: it destroyed thread-local objects), `posix_spawn` and
//!   `posix_spawnp` (before 2.15: they ran a script without an interpreter line by the shell),
//!   `lio_listio` (before 2.4) and `timer_create` (before 2.3.3: a timer's number had four bytes,
//!   and eight are stored). With a glibc before 2.34, `getaddrinfo_a` fails if only a library that
//!   is loaded later needs `libanl`.
//! * Functions newer than glibc 2.38: `pidfd_spawn` does not publish the mask. With an older glibc,
//!   `dlsym` finds functions of newer ones, as `epoll_pwait2`, which fail with `ENOSYS`.
//! * Handlers that the C library itself installs: that of `profil(3)`, and that of `SIGALRM` while
//!   `lckpwdf` or a function of `utmpx.h` waits for a lock, if another handler changes the action
//!   meanwhile.
//! * The mask of a wait by `io_uring_enter` that has submitted, in the handler of a signal that
//!   ends it and that the thread's mask does not block: the handler has the thread's mask.
//! * A jump or an exception out of a call that waits with another mask, within a handler that has
//!   interrupted another such call before its system call: the next handler there runs with the
//!   thread's mask.
//! * The memory of the old mask, and the program counter, of a call that changes the mask, in a
//!   handler just before the change: the old mask may be there already, and the program counter is
//!   the start of the sequence.
//! * A signal's order among others of the same number that arrive in the microsecond in which it
//!   is queued again: standard signals coalesce, and the `siginfo` that remains may be of a later
//!   one.
//! * Calls of the C library from within itself are restarted after a deferred signal if they can
//!   be (`read` below `fgets`, `connect` below `syslog`), and a timeout of their socket
//!   (`SO_RCVTIMEO`) or terminal starts anew; `poll` and others with a timeout of their own that no
//!   function of [`forward`] covers may return `EINTR`. The server of a file system sees each call
//!   that is restarted twice.
//!
//! It is for glibc on x86-64 Linux, and empty elsewhere. What depends on the processor is
//! `arch/x86_64.rs`, where `context`, `wait` and `delivery` find the registers of a frame
//! (`context::make`, `wait::Waiting::is`), and the layout of the C library's `jmp_buf` in
//! `context`. AArch64 would need another way than `arch::restart`: the result of an interrupted
//! system call is in the register of its first argument, so a handler cannot make the call again.

#![cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")),
    allow(rustdoc::broken_intra_doc_links)
)]
#![allow(rustdoc::private_intra_doc_links)]

#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod action;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod arch;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod context;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod control;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod delivery;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod forward;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod mask;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod real;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod statistics;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod thread;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod wait;
