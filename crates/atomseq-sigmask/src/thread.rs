//! A thread's masks, and how they change. The invariants are in the crate's documentation.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, compiler_fence};

use crate::control::{Protection, protects};
use crate::{action, arch, control, real, statistics};

/// The signals that are never lazy, whatever their handler: `SIGILL`, `SIGTRAP`, `SIGABRT`,
/// `SIGBUS`, `SIGFPE`, `SIGKILL`, `SIGSEGV`, `SIGCONT`, `SIGSTOP`, `SIGTSTP`, `SIGTTIN`, `SIGTTOU`,
/// `SIGSYS`, and those from 32 on.
pub const NEVER: u64 = bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGABRT)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGKILL)
    | bit(libc::SIGSEGV)
    | bit(libc::SIGCONT)
    | bit(libc::SIGSTOP)
    | bit(libc::SIGTSTP)
    | bit(libc::SIGTTIN)
    | bit(libc::SIGTTOU)
    | bit(libc::SIGSYS)
    | !(bit(32) - 1);

/// The signals whose default action is to be ignored.
pub const IGNORED: u64 =
    bit(libc::SIGCHLD) | bit(libc::SIGCONT) | bit(libc::SIGURG) | bit(libc::SIGWINCH);

/// The signals whose default action ends the process and that can be lazy.
pub const FATAL: u64 = !NEVER & !IGNORED;

/// What no mask contains: `SIGKILL` and `SIGSTOP`.
pub const UNBLOCKABLE: u64 = bit(libc::SIGKILL) | bit(libc::SIGSTOP);

/// What the C library takes out of every mask that a program sets: 32 cancels a thread, and 33
/// makes it change its user.
pub const INTERNAL: u64 = bit(32) | bit(33);

/// Returns a signal's bit in a mask.
pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// A thread's state. It lies in initial-exec thread-local memory, of which a thread starts with
/// zeros. Only the thread itself and its signal handlers use it, so atomics are relaxed: they keep
/// the compiler from splitting accesses. Assembly knows the offsets of the first six.
#[repr(C)]
pub struct Thread {
    /// The program's mask.
    pub program: AtomicU64,
    /// 1 while the masks here are valid: not before the thread's first call, and not once nothing
    /// is lazy.
    pub ready: AtomicU32,
    /// The number of the process that runs on this memory as a child of `vfork`, or 0. A child of
    /// that by `fork` finds its parent's number, and forgets it.
    pub vforked: AtomicU32,
    /// The kernel's mask, except within `arch::change_both` and a call that waits with another one:
    /// a signal that this shows blocked, and that is not, could end a call.
    pub kernel: AtomicU64,
    /// The signals that may be lazy in this thread.
    pub lazy: AtomicU64,
    /// The program's mask before a change that `arch::change_both` has begun.
    pub before: AtomicU64,
    /// Calls that set the mask.
    pub sets: AtomicU64,
    /// Signals for which [`action::promote`] has not looked for the action.
    pub untried: AtomicU64,
    /// The mask of a call that waits with another one, see `wait`.
    pub waiting_mask: AtomicU64,
    /// Where that mask is.
    pub waiting_set: AtomicU64,
    /// The stack pointer of such a call while it is in progress and none of its signals was
    /// delivered, else 0.
    pub waiting_stack: AtomicU64,
    /// How many handlers on a signal stack have not returned: nothing is lazy meanwhile. A frame
    /// for a signal that is blocked might not fit there; and if the handler lets another context
    /// run, the kernel would put the frame where the handler's is.
    pub signal_stack: AtomicU32,
    /// Whether this is the thread that the process started with.
    pub is_main: AtomicBool,
    /// System calls that the program would not have made: for masks, handlers and what is deferred.
    pub system_calls: AtomicU64,
    /// Deferred signals.
    pub deferred: AtomicU64,
}

/// Whether the process may have had another thread, a small stack or a filter of its system calls,
/// or called `system`: nothing is lazy from then on, and all calls are passed to the C library.
pub static EAGER: AtomicBool = AtomicBool::new(false);
/// Signals that the program made unfit for being lazy, with a timer.
pub static UNFIT: AtomicU64 = AtomicU64::new(0);

impl Thread {
    /// Returns the current thread's, or nothing once nothing is lazy.
    #[inline(always)]
    pub fn current() -> Option<&'static Thread> {
        let thread = Self::block();
        if thread.ready.load(Relaxed) == 0 {
            if EAGER.load(Relaxed) {
                return None;
            }
            thread.begin(arch::mask());
        }
        Some(thread)
    }

    /// Returns the current thread's for `entry`, which the kernel calls with all signals blocked:
    /// the thread's mask is that of the interrupted code.
    pub fn interrupted(mask: u64) -> &'static Thread {
        let thread = Self::block();
        if thread.ready.load(Relaxed) == 0 {
            thread.begin(mask);
        }
        thread
    }

    /// Returns the current thread's memory.
    #[inline(always)]
    pub fn block() -> &'static Thread {
        // SAFETY: the address is of this thread's block, which lives as long as the thread, and is
        // zeros at first, which are valid. The reference is not handed to another thread; a context
        // that moves between threads takes no reference with it, since no call to the program's
        // code lies between taking a reference and its last use, except in `entry` and `wait`,
        // whose contexts are signal frames and frames of a call.
        unsafe { &*arch::thread().cast::<Thread>() }
    }

    /// Takes over the kernel's mask, which is the program's until this library changes it.
    #[cold]
    fn begin(&self, mask: u64) {
        self.set_both(mask);
        let is_main = arch::is_main_thread();
        self.is_main.store(is_main, Relaxed);
        // A signal in between does the same with the same result.
        self.ready.store(1, Relaxed);
        if EAGER.load(Relaxed) {
            // Its handler has ended that signals are lazy.
            self.ready.store(0, Relaxed);
        } else if is_main {
            self.untried.store(FATAL, Relaxed);
            statistics::MAIN.store(ptr::from_ref(self).cast_mut(), Relaxed);
        }
    }

    /// Stores a mask that both the program and the kernel have.
    pub fn set_both(&self, mask: u64) {
        self.program.store(mask, Relaxed);
        self.kernel.store(mask, Relaxed);
    }

    /// Returns whether signals can become lazy in this thread.
    pub fn can_be_lazy(&self) -> bool {
        self.is_main.load(Relaxed)
            && !EAGER.load(Relaxed)
            && !self.is_vforked()
            && self.signal_stack.load(Relaxed) == 0
    }

    /// Returns whether this process is a child of `vfork`, so that this memory is its parent's.
    pub fn is_vforked(&self) -> bool {
        let process = self.vforked.load(Relaxed);
        if process == 0 {
            return false;
        }
        let is_this = process == arch::process() as u32;
        if !is_this {
            // A child of that by `fork`, on its own memory. Its children may get the number.
            self.vforked.store(0, Relaxed);
        }
        is_this
    }

    /// A handler is called on a signal stack, after which the kernel has the program's mask.
    pub fn enter_signal_stack(&self) {
        self.signal_stack
            .store(self.signal_stack.load(Relaxed) + 1, Relaxed);
        self.lazy.store(0, Relaxed);
        self.untried.store(0, Relaxed);
    }

    /// Such a handler returns.
    pub fn leave_signal_stack(&self) {
        // None if a jump has left this handler, which a context has resumed.
        let handlers = self.signal_stack.load(Relaxed).saturating_sub(1);
        self.signal_stack.store(handlers, Relaxed);
        if handlers == 0 {
            self.untried.store(!NEVER, Relaxed);
        }
    }

    /// What follows runs with this stack pointer: a call that waits is left if its frame is.
    pub fn leave_waits(&self, stack: u64) {
        if self.waiting_stack.load(Relaxed) <= stack {
            self.waiting_stack.store(0, Relaxed);
        }
    }

    /// A jump goes to a stack pointer: if it leaves the signal stack, it leaves all handlers there.
    pub fn jump_off_signal_stack(&self, to: usize) {
        if self.signal_stack.load(Relaxed) == 0 {
            return;
        }
        // SAFETY: zeros are a valid description of a stack.
        let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes the description.
        unsafe { arch::signal_stack(0, &raw mut stack as usize) };
        let is_on = |pointer: usize| pointer.wrapping_sub(stack.ss_sp as usize) < stack.ss_size;
        if is_on(arch::stack()) && !is_on(to) {
            self.signal_stack.store(0, Relaxed);
            self.untried.store(!NEVER, Relaxed);
        }
    }

    /// Counts system calls.
    #[inline(always)]
    pub fn add_system_calls(&self, count: u64) {
        self.system_calls
            .store(self.system_calls.load(Relaxed) + count, Relaxed);
    }

    /// Sets the kernel's mask to the program's.
    pub fn synchronise(&self) {
        self.add_system_calls(1);
        // SAFETY: the old mask is not stored.
        unsafe { arch::change_both(!0, 0, ptr::null_mut()) };
    }

    /// Sets the kernel's mask to the program's unless it is: before a call that shows it, hands it
    /// on, or waits.
    #[inline(always)]
    pub fn publish(&self) {
        if self.program.load(Relaxed) & !self.kernel.load(Relaxed) != 0
            && protects(Protection::Publish)
        {
            self.synchronise();
        }
    }

    /// Ends that these signals are lazy. Atomic against this thread's signal handlers: one that is
    /// no longer lazy would run although the program blocks it, and the handler of another may make
    /// this one lazy again.
    pub fn exclude(&self, signals: u64) {
        if self.lazy.load(Relaxed) & signals == 0 {
            return;
        }
        self.add_system_calls(2);
        let all = match protects(Protection::Excluding) {
            true => !0,
            false => arch::mask(),
        };
        let mut mask = arch::change_mask(libc::SIG_SETMASK, all);
        self.exclude_from(signals, &mut mask);
        arch::set_mask(mask);
    }

    /// As [`exclude`](Self::exclude), while the kernel blocks all signals: adds to the mask that it
    /// will have afterwards.
    pub fn exclude_from(&self, signals: u64, mask: &mut u64) {
        let lazy = self.lazy.load(Relaxed);
        let blocked = self.program.load(Relaxed) & lazy & signals;
        self.lazy.store(lazy & !signals, Relaxed);
        self.kernel
            .store(self.kernel.load(Relaxed) | blocked, Relaxed);
        *mask |= blocked;
    }
}

/// Goes on with a change of the program's mask, see [`arch::change`], that the kernel must know of:
/// makes signals lazy, or changes both masks.
pub unsafe extern "C-unwind" fn change_slowly(keep: u64, add: u64, old: *mut u64) -> i32 {
    let thread = Thread::block();
    let new = thread.program.load(Relaxed) & keep | add;
    let kernel = thread.kernel.load(Relaxed);
    let wanted = new & !kernel & !thread.lazy.load(Relaxed);
    if kernel & !new == 0 && wanted & !thread.untried.load(Relaxed) == 0 && thread.can_be_lazy() {
        action::promote(thread, wanted);
        // What is still not lazy was tried, so this ends.
        // SAFETY: the caller's promise.
        return unsafe { arch::change(keep, add, old) };
    }
    thread.sets.store(thread.sets.load(Relaxed) + 1, Relaxed);
    thread.add_system_calls(1);
    // SAFETY: the caller's promise.
    unsafe { arch::change_both(keep, add, old) };
    0
}

/// Ends that signals are lazy: there will be another thread, a stack too small for `entry`, a
/// filter that may refuse its system calls, or a `system` that changes actions. In a child of
/// `vfork` none is, and the memory is its parent's.
pub fn end_laziness() {
    let Some(thread) = Thread::current() else {
        return;
    };
    if !protects(Protection::Threads) || thread.is_vforked() {
        return;
    }
    thread.add_system_calls(2);
    let before = match protects(Protection::Starting) {
        true => arch::change_mask(libc::SIG_SETMASK, !0),
        false => arch::mask(),
    };
    let mut mask = before;
    // A handler may have done it meanwhile, and there may be another thread.
    if !EAGER.load(Relaxed) {
        mask |= thread.program.load(Relaxed);
        action::hand_over(thread);
        // Starting another thread orders this.
        EAGER.store(true, Relaxed);
        thread.ready.store(0, Relaxed);
        thread.untried.store(0, Relaxed);
        thread.lazy.store(0, Relaxed);
        thread.set_both(mask);
    }
    compiler_fence(std::sync::atomic::Ordering::SeqCst);
    arch::set_mask(mask);
}

/// The C library calls this before `main`, though not before all other libraries' constructors.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C-unwind" fn() = begin;

extern "C-unwind" fn begin() {
    control::begin();
    real::resolve();
    if real::is_behind_another() {
        return end_laziness();
    }
    // Valgrind ignores the mask that a handler sets in its `ucontext`.
    let is_valgrind = real::getenv(c"LD_PRELOAD").is_some_and(|preload| {
        let name = b"/vgpreload_";
        let mut places = preload.to_bytes().windows(name.len());
        places.any(|place| place == name)
    });
    if is_valgrind {
        end_laziness();
    }
    // Another library's constructor may have set a filter that kills for this call.
    if Thread::current().is_some() {
        action::begin();
    }
    statistics::begin();
}
