//! The alternate stack that a handler needs, and a guard that gives one to a thread.

use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::options::Error;

/// The stack that a delivery takes beside the kernel's frame and the handler, in bytes: a bound on
/// the mean of three deliveries that interrupt each other, of which the last may go deeper than its
/// handler. verify-signals measures it, over code whose sequences are indexed; without optimisation
/// it is more. A third of it is for the search in objects that are not indexed.
const DELIVERY: usize = if cfg!(debug_assertions) { 4096 } else { 3072 };

/// Checks that the calling thread's alternate stack holds three deliveries and `bytes`: the signal,
/// another one that interrupts the handler, and a fault in that one's handler or in a clone that
/// its delivery runs.
pub fn check_alternate_stack(signal: c_int, bytes: usize) -> Result<(), Error> {
    // SAFETY: plain old data.
    let mut stack: libc::stack_t = unsafe { core::mem::zeroed() };
    // SAFETY: asks only.
    if unsafe { libc::sigaltstack(core::ptr::null(), &mut stack) } != 0 {
        let errno = std::io::Error::last_os_error().raw_os_error();
        let errno = errno.unwrap_or_default();
        return Err(Error::Refused { signal, errno });
    }
    let needs = needs(bytes);
    if stack.ss_flags & libc::SS_DISABLE == 0 && stack.ss_size < needs {
        return Err(Error::AlternateStackTooSmall {
            has: stack.ss_size,
            needs,
        });
    }
    Ok(())
}

/// Returns the size in bytes of a stack that holds three deliveries and `bytes`.
fn needs(bytes: usize) -> usize {
    let delivery = frame().saturating_add(DELIVERY);
    delivery.saturating_mul(3).saturating_add(bytes)
}

/// Returns the size of the kernel's frame, in bytes.
fn frame() -> usize {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let reported = {
        const AT_MINSIGSTKSZ: libc::c_ulong = 51;
        // SAFETY: reads a number that the kernel has passed at program start; 0 if it has not.
        unsafe { libc::getauxval(AT_MINSIGSTKSZ) as usize }
    };
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let reported = 0;
    reported.max(libc::MINSIGSTKSZ)
}

/// A guard: while it lives, its thread has an alternate signal stack that is large enough for
/// handlers [on the alternate stack](super::Options::on_alternate_stack).
///
/// The stack that the thread had before comes back when the guard is dropped. Threads that are
/// started meanwhile have stacks of their own, so each thread that handles signals on an alternate
/// stack needs a guard.
///
/// ```
/// use atomseq::signal::{self, AlternateStack, Options};
///
/// fn handle(_event: &mut signal::Event<'_>) {}
///
/// # #[cfg(unix)] {
/// let _stack = AlternateStack::new(4096)?;
/// // SAFETY: the handler does nothing.
/// unsafe { signal::install_with(libc::SIGUSR1, handle, Options::new().on_alternate_stack(4096))? };
/// # }
/// # Ok::<(), signal::Error>(())
/// ```
///
/// If the thread no longer has this alternate stack by the time of the drop, what it has instead
/// stays, and the memory of this one is kept: other code, or a guard that was made later, may still
/// name it. So hold the guard in a local variable of the thread's function. One in a
/// `thread_local!` is dropped after the standard library has taken its thread's alternate stack
/// away, and each thread leaves its memory behind.
///
/// A handler on the alternate stack that runs after the drop, even while `main` returns, finds what
/// the thread had before, which may be too small: the standard library's 8 KiB are. So
/// [uninstall](super::uninstall) such handlers, or block their signals, before the drop.
///
/// If a handler drops the guard, the thread keeps the stack, because the return from a handler
/// restores the alternate stack of the interrupted thread. The same may happen to a guard that is
/// dropped after a handler has left by a jump. A handler of other code must not drop the guard: its
/// return would restore a stack whose memory is unmapped.
///
/// The guard belongs to its thread:
///
/// ```compile_fail,E0277
/// let stack = atomseq::signal::AlternateStack::new(4096).unwrap();
/// std::thread::spawn(move || drop(stack));
/// ```
#[derive(Debug)]
#[must_use = "the thread loses the stack when the guard is dropped"]
pub struct AlternateStack {
    /// A page without access, and the stack above it.
    mapping: NonNull<u8>,
    /// The size of both, in bytes.
    bytes: usize,
    /// The size of that page.
    guard: usize,
    /// What the thread had before.
    before: Before,
    /// The stack belongs to the thread.
    _not_send: PhantomData<*mut ()>,
}

struct Before(libc::stack_t);

impl core::fmt::Debug for Before {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?}", self.0.ss_sp)
    }
}

impl AlternateStack {
    /// Gives this thread an alternate stack with room for three deliveries that interrupt each
    /// other, and `bytes` for the handler.
    ///
    /// That is what [`on_alternate_stack`](super::Options::on_alternate_stack) demands. A page
    /// without access lies below the stack, so an overflow is a fault. Costs three system calls,
    /// and the drop as many. Must not be called in a handler.
    ///
    /// # Errors
    ///
    /// [`Error::AlternateStackInUse`] if the thread is running on its alternate stack.
    /// [`Error::NoAlternateStack`] if there is no memory, or a sandbox refuses.
    /// [`Error::Unsupported`] under Miri.
    pub fn new(bytes: usize) -> Result<AlternateStack, Error> {
        if cfg!(miri) {
            return Err(Error::Unsupported);
        }
        // SAFETY: asks for a number.
        let guard = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize;
        let no_memory = Error::NoAlternateStack {
            errno: libc::ENOMEM,
        };
        let whole = needs(bytes)
            .checked_next_multiple_of(guard)
            .and_then(|stack| stack.checked_add(guard))
            .ok_or(no_memory)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANON;
        // SAFETY: requests a new anonymous mapping at an address of the system's choice, so it
        // affects no existing memory.
        let start = unsafe { libc::mmap(core::ptr::null_mut(), whole, access, kind, -1, 0) };
        let mapping = match NonNull::new(start.cast::<u8>()) {
            Some(mapping) if start != libc::MAP_FAILED => mapping,
            _ => return Err(refused()),
        };
        let unmap = || {
            // SAFETY: the whole mapping, which nothing uses.
            unsafe { libc::munmap(start, whole) };
        };
        // SAFETY: the first page of a mapping that nothing uses.
        if unsafe { libc::mprotect(start, guard, libc::PROT_NONE) } != 0 {
            let refused = refused();
            unmap();
            return Err(refused);
        }
        let own = libc::stack_t {
            ss_sp: start.wrapping_byte_add(guard),
            ss_flags: 0,
            ss_size: whole - guard,
        };
        // SAFETY: plain old data.
        let mut before: libc::stack_t = unsafe { core::mem::zeroed() };
        // SAFETY: the stack is memory that only this guard unmaps, which it does not while the
        // thread has it.
        if unsafe { libc::sigaltstack(&own, &mut before) } != 0 {
            let refused = refused();
            unmap();
            return Err(refused);
        }
        Ok(AlternateStack {
            mapping,
            bytes: whole,
            guard,
            before: Before(before),
            _not_send: PhantomData,
        })
    }

    /// Returns its size in bytes.
    pub fn size(&self) -> usize {
        self.bytes - self.guard
    }
}

/// Returns the error of the system call that has just failed.
fn refused() -> Error {
    match std::io::Error::last_os_error().raw_os_error() {
        // Of `sigaltstack` alone.
        Some(libc::EPERM) if is_in_use() => Error::AlternateStackInUse,
        errno => Error::NoAlternateStack {
            errno: errno.unwrap_or_default(),
        },
    }
}

fn is_in_use() -> bool {
    current().is_some_and(|stack| stack.ss_flags & libc::SS_ONSTACK != 0)
}

/// Returns the alternate stack that this thread has; `None` if the system does not say.
fn current() -> Option<libc::stack_t> {
    // SAFETY: plain old data.
    let mut stack: libc::stack_t = unsafe { core::mem::zeroed() };
    // SAFETY: asks only.
    let result = unsafe { libc::sigaltstack(core::ptr::null(), &mut stack) };
    (result == 0).then_some(stack)
}

/// Returns the place of the innermost handler that atomseq has called on this thread: an address in
/// the frame that called it. 0 if there is none. A handler that jumps away leaves its place behind.
fn handler() -> &'static AtomicUsize {
    let place: *const AtomicUsize = crate::__thread_storage!(AtomicUsize, AtomicUsize::new(0));
    // SAFETY: storage of the calling thread, an atomic, which callers use before the thread ends.
    unsafe { &*place }
}

/// Calls a handler, and records that it runs. Async-signal-safe.
#[inline(always)]
pub fn while_handling(call: impl FnOnce()) {
    let here = 0_u8;
    // Relaxed, here and below: only this thread and its handlers use it, and each of these leaves
    // it as it was.
    let outer = handler().load(Relaxed);
    handler().store((&raw const here).addr(), Relaxed);
    call();
    handler().store(outer, Relaxed);
}

/// Returns whether a handler that atomseq has called runs on this thread. May return `true` after
/// one has jumped away: not while the stack is shorter than that handler's was.
fn is_handling() -> bool {
    let here = 0_u8;
    (&raw const here).addr() <= handler().load(Relaxed)
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        let start = self.mapping.as_ptr().cast::<libc::c_void>();
        let is_own = |stack: libc::stack_t| {
            stack.ss_flags & libc::SS_DISABLE == 0
                && stack.ss_sp == start.wrapping_byte_add(self.guard)
        };
        // The return from a handler restores what the thread had when the signal came: this stack.
        if is_handling() || !current().is_some_and(is_own) {
            return;
        }
        // SAFETY: the stack that the thread had before the guard. The code that gave it has not
        // taken it away meanwhile, for the guard's is still in its place.
        let result = unsafe { libc::sigaltstack(&self.before.0, core::ptr::null_mut()) };
        if result == 0 {
            // SAFETY: the whole mapping. It is the stack of no thread any more, and this thread
            // does not run on it, or the call would have failed.
            unsafe { libc::munmap(start, self.bytes) };
        }
    }
}
