//! The registration of threads: the C library's where there is one, our own where not.
//!
//! ```text
//! own registration, a thread:   0 not yet ──first slow path──> 1 registered ──thread exit──> 2 retired
//!                                    └──the kernel refuses──> 3 refused; meanwhile, 4 registering
//! ```
//! A thread that is not registered reads -1 as its CPU number, so all its sections go to a guard
//! slot and from there to the slow path, which registers it. The exit hook is a thread-specific
//! key, made at start-up: unlike a destructor of Rust's it needs no memory. It unregisters before
//! the thread's storage goes (the kernel would go on writing to it) and retires the thread:
//! destructors that run later use the slow path. Where a sandbox that was set up late refuses that,
//! the thread stays registered if its storage outlives it; otherwise the process is aborted.

use super::signals::Blocked;
use super::start;
use crate::arch::{FOUND_MASK, SIGNATURE, syscall, thread_block_offset, thread_pointer};
use core::ffi::c_void;
use core::sync::atomic::{AtomicI32, AtomicIsize, AtomicU32, AtomicU64, Ordering};

/// Where a thread's `struct rseq` lies, counted from its thread pointer. Written once, by start-up;
/// every section reads it. Until then, and when sections are off, it must not be used, or leads to
/// a block whose CPU is -1.
pub static RSEQ_OFFSET: AtomicIsize = AtomicIsize::new(0);

/// The thread-specific key of the exit hook plus one; 0 unless threads register themselves.
static EXIT_KEY: AtomicU32 = AtomicU32::new(0);

/// The size every kernel accepts, and the alignment that goes with it.
const SIZE: usize = 32;
const FLAG_UNREGISTER: usize = 1;

const NOT_YET: u32 = 0;
const REGISTERED: u32 = 1;
const RETIRED: u32 = 2;
const REFUSED: u32 = 3;
const REGISTERING: u32 = 4;

/// glibc keeps the values of the first 32 keys in the thread itself, and allocates for later ones;
/// musl never does.
fn needs_no_memory(key: u32) -> bool {
    key < 32 || cfg!(not(target_env = "gnu"))
}

/// This thread's `struct rseq`: the C library's or ours.
#[inline]
pub(super) fn area() -> *mut u8 {
    // Relaxed: written before the Release that ends start-up.
    let offset = RSEQ_OFFSET.load(Ordering::Relaxed);
    thread_pointer().wrapping_add_signed(offset) as *mut u8
}

/// This thread's CPU as the kernel keeps it; negative when the thread is not registered.
#[inline]
pub fn cpu_id() -> i32 {
    // SAFETY: after start-up `area` is a live `struct rseq` of this thread, whose word at 4 the
    // kernel changes between two instructions of ours: an atomic load.
    unsafe { AtomicI32::from_ptr(area().add(4).cast()) }.load(Ordering::Relaxed)
}

fn block() -> usize {
    thread_pointer().wrapping_add_signed(thread_block_offset())
}

fn registration() -> &'static AtomicU32 {
    // SAFETY: a word of this thread's block (see `arch`), used only through atomics, by this thread
    // and its handlers.
    unsafe { AtomicU32::from_ptr((block() + 32) as *mut u32) }
}

/// How many forks this thread is in the middle of.
pub(super) fn forks() -> &'static AtomicU32 {
    // SAFETY: as in `registration`.
    unsafe { AtomicU32::from_ptr((block() + 36) as *mut u32) }
}

/// How many `SignalsBlocked`s this thread is inside.
pub(super) fn quiet() -> &'static AtomicU32 {
    // SAFETY: as in `registration`.
    unsafe { AtomicU32::from_ptr((block() + 40) as *mut u32) }
}

/// Whether forks wait for this thread's `SignalsBlocked`s to end.
pub(super) fn counted() -> &'static AtomicU32 {
    // SAFETY: as in `registration`.
    unsafe { AtomicU32::from_ptr((block() + 44) as *mut u32) }
}

/// The signal mask that the first of this thread's `SignalsBlocked`s found.
pub(super) fn found_mask() -> &'static AtomicU64 {
    // SAFETY: as in `registration`.
    unsafe { AtomicU64::from_ptr((block() + FOUND_MASK) as *mut u64) }
}

/// What user-level masks have blocked, if the last of them ended inside a `SignalsBlocked` that is
/// over now; `None` if no signal waits for that. Called with signals blocked.
pub(super) fn take_deferred() -> Option<u64> {
    // Words of `signal`'s: how many masks, and whether signals wait; what is blocked; what was
    // unblocked last; what is kept.
    // SAFETY: as in `registration`.
    let [masks, deferred, taken, kept] = [48, 56, 64, 224]
        .map(|offset| unsafe { AtomicU64::from_ptr((block() + offset) as *mut u64) });
    let waits = deferred.load(Ordering::Relaxed) | kept.load(Ordering::Relaxed) != 0;
    if masks.load(Ordering::Relaxed) << 1 != 0 || !waits {
        return None;
    }
    masks.store(0, Ordering::Relaxed);
    let ended = deferred.swap(0, Ordering::Relaxed);
    if ended != 0 {
        taken.store(ended, Ordering::Relaxed);
    }
    Some(ended)
}

/// Points every thread at a block of our own, not registered as yet.
pub(super) fn use_own_block() {
    RSEQ_OFFSET.store(thread_block_offset(), Ordering::Relaxed);
}

/// Uses glibc's registration if there is one, by its [symbols](glibc_symbols); returns glibc's
/// `__rseq_size`.
pub(super) fn adopt(symbols: Option<(isize, u32)>) -> Option<u32> {
    let (offset, size) = symbols?;
    if size == 0 {
        return None;
    }
    RSEQ_OFFSET.store(offset, Ordering::Relaxed);
    if cpu_id() < 0 {
        use_own_block();
        return None;
    }
    Some(size)
}

/// `__rseq_offset` and `__rseq_size`, looked up when the program runs: it may have been linked on
/// an older system. Takes the dynamic linker's lock.
#[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
pub(super) fn glibc_symbols() -> Option<(isize, u32)> {
    // SAFETY: looks two names up; glibc has had these types since 2.35, and never unloads.
    unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr());
        if offset.is_null() {
            return None;
        }
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr());
        if size.is_null() {
            return None;
        }
        Some((*offset.cast::<isize>(), *size.cast::<u32>()))
    }
}

#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
pub(super) fn glibc_symbols() -> Option<(isize, u32)> {
    let (offset, size) = crate::arch::glibc_rseq_symbols();
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: both symbols are defined in this program, with these types.
    unsafe { Some((*offset, *size)) }
}

#[cfg(not(target_env = "gnu"))]
pub(super) fn glibc_symbols() -> Option<(isize, u32)> {
    None
}

/// Prepares threads to register themselves. `Err` holds an error number, or 0 for "no key that
/// needs no memory".
pub(super) fn create_exit_hook() -> Result<(), i32> {
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: the key is ours; the hook lives as long as the program.
    let result = unsafe { libc::pthread_key_create(&mut key, Some(at_thread_exit)) };
    if result != 0 {
        return Err(result);
    }
    let number = key as u32;
    if !needs_no_memory(number) {
        // SAFETY: made above, used by no one.
        unsafe { libc::pthread_key_delete(key) };
        return Err(0);
    }
    EXIT_KEY.store(number + 1, Ordering::Relaxed);
    Ok(())
}

/// No thread registers itself any more: start-up decided against sections.
pub(super) fn forget_exit_hook() {
    let key = EXIT_KEY.swap(0, Ordering::Relaxed);
    if key != 0 {
        // SAFETY: made by `create_exit_hook`; this thread has unregistered, and no other registers
        // before start-up has ended.
        unsafe { libc::pthread_key_delete((key - 1) as libc::pthread_key_t) };
    }
}

/// On the slow path, when this thread's CPU number reads as negative: registers the thread if that
/// is atomseq's to do. `true`: it is registered now, and the fast path is worth another try.
/// Async-signal-safe.
///
/// Before start-up has ended there is nothing to do: it may still decide against sections.
pub fn register_this_thread() -> bool {
    if EXIT_KEY.load(Ordering::Relaxed) == 0 || !start::is_decided() {
        return false;
    }
    match registration().load(Ordering::Relaxed) {
        NOT_YET => register().is_ok(),
        REGISTERED => true,
        _ => false,
    }
}

/// Registers this thread; `Err` holds the kernel's error number.
#[cold]
pub(super) fn register() -> Result<(), i32> {
    // A handler that ran in the middle would register too; one of `SIGSYS` may run, and does
    // without.
    let _blocked = Blocked::enter();
    if registration().load(Ordering::Relaxed) == REGISTERED {
        return Ok(());
    }
    registration().store(REGISTERING, Ordering::Relaxed);
    let key = (EXIT_KEY.load(Ordering::Relaxed) - 1) as libc::pthread_key_t;
    // The hook first: a registration without it would outlive the thread's storage.
    // SAFETY: the key exists; its value only has to differ from null.
    let result = unsafe { libc::pthread_setspecific(key, block() as *const c_void) };
    if result != 0 {
        registration().store(REFUSED, Ordering::Relaxed);
        return Err(result);
    }
    // SAFETY: the block is aligned to 32 bytes, has 32 for the kernel, and stays until the hook has
    // unregistered it.
    let result = unsafe { syscall(libc::SYS_rseq, [block(), SIZE, 0, SIGNATURE as usize, 0, 0]) };
    if result < 0 {
        // SAFETY: as above.
        unsafe { libc::pthread_setspecific(key, core::ptr::null()) };
        registration().store(REFUSED, Ordering::Relaxed);
        return Err(-result as i32);
    }
    registration().store(REGISTERED, Ordering::Relaxed);
    Ok(())
}

/// Unregisters this thread if it is registered, and leaves `state` behind. `false`: a sandbox set
/// up late refuses it, and the kernel goes on writing to the thread's block.
#[must_use]
fn unregister(state: u32) -> bool {
    let _blocked = Blocked::enter();
    if registration().swap(state, Ordering::Relaxed) != REGISTERED {
        return true;
    }
    // SAFETY: names the very area that this thread registered.
    let result = unsafe {
        syscall(
            libc::SYS_rseq,
            [block(), SIZE, FLAG_UNREGISTER, SIGNATURE as usize, 0, 0],
        )
    };
    result == 0
}

/// Start-up decided against sections after it had registered this thread.
pub(super) fn give_up() {
    if !unregister(REFUSED) {
        // Sections that are not to be trusted would run on this thread.
        cannot_unregister();
    }
    forget_exit_hook();
    use_own_block();
}

/// Does a thread's storage stay until the kernel is done with the thread? glibc unmaps it, or gives
/// it to another thread, after the kernel has cleared the thread's number. musl's detached threads
/// unmap their own before their last system call.
const STORAGE_OUTLIVES_THREAD: bool = cfg!(target_env = "gnu");

unsafe extern "C" fn at_thread_exit(_block: *mut c_void) {
    // A thread that is still registered may run sections to its end.
    if !unregister(RETIRED) && !STORAGE_OUTLIVES_THREAD {
        cannot_unregister();
    }
}

#[cold]
fn cannot_unregister() -> ! {
    crate::end::abort(
        "atomseq: the rseq system call registered this thread and is refused now (was a sandbox set up \
         since?); allow rseq, or set ATOMSEQ_DISABLE_RSEQ=1\n",
    )
}
