//! The registration of threads with the kernel: by the C library where it does so, otherwise by
//! atomseq.
//!
//! ```text
//! own registration, a thread:   0 not yet ──first slow path──> 1 registered ──thread exit──> 2 retired
//!                                    └──the kernel refuses──> 3 refused; meanwhile, 4 registering
//! ```
//! An unregistered thread reads -1 as its CPU number. All its sections then use a guard slot and
//! fall through to the slow path, which registers the thread. The exit hook is a thread-specific
//! key, created at start-up; unlike a Rust destructor it needs no memory. It unregisters the thread
//! before its storage is freed, which the kernel would otherwise keep writing to. It also retires
//! the thread, so that later destructors use the slow path. If a sandbox set up later refuses this,
//! the thread stays registered if its storage outlives it; otherwise the process is aborted. Where
//! storage does not outlive threads, a thread that [may be exiting](may_be_exiting) is not
//! registered, because the C library may have called its last hook.

use super::dispositions::{
    Disposition, bit, change_mask, replace_disposition, send_to_this_thread,
};
use super::signals::Blocked;
use super::start;
use crate::arch::{FOUND_MASK, SIGNATURE, syscall, thread_block_offset, thread_pointer};
use core::ffi::c_void;
use core::sync::atomic::{AtomicI32, AtomicIsize, AtomicU32, AtomicU64, Ordering};

/// The offset of a thread's `struct rseq` from its thread pointer. Written once, by start-up, and
/// read by every section. Before that, and without sections, it must not be used, or leads to a
/// block whose CPU number is -1.
pub static RSEQ_OFFSET: AtomicIsize = AtomicIsize::new(0);

/// The thread-specific key of the exit hook plus one, or 0 unless atomseq registers threads.
static EXIT_KEY: AtomicU32 = AtomicU32::new(0);

/// The size that every kernel accepts, in bytes, and the required alignment.
const SIZE: usize = 32;
const FLAG_UNREGISTER: usize = 1;

const NOT_YET: u32 = 0;
const REGISTERED: u32 = 1;
const RETIRED: u32 = 2;
const REFUSED: u32 = 3;
const REGISTERING: u32 = 4;

/// Returns whether setting a key allocates nothing. glibc keeps the values of the first 32 keys in
/// the thread itself and allocates for later ones; musl never allocates.
fn needs_no_memory(key: u32) -> bool {
    key < 32 || cfg!(not(target_env = "gnu"))
}

/// Returns this thread's `struct rseq`, the C library's or atomseq's.
#[inline]
pub(super) fn area() -> *mut u8 {
    // Relaxed: written before the Release that ends start-up.
    let offset = RSEQ_OFFSET.load(Ordering::Relaxed);
    thread_pointer().wrapping_add_signed(offset) as *mut u8
}

/// Returns this thread's CPU as the kernel keeps it, or a negative number if the thread is not
/// registered.
#[inline]
pub fn cpu_id() -> i32 {
    // SAFETY: after start-up, `area` is a live `struct rseq` of this thread. The kernel changes the
    // word at 4 between two instructions, as if by an atomic store. Relaxed: only this thread reads
    // it.
    unsafe { AtomicI32::from_ptr(area().add(4).cast()) }.load(Ordering::Relaxed)
}

fn block() -> usize {
    thread_pointer().wrapping_add_signed(thread_block_offset())
}

fn registration() -> &'static AtomicU32 {
    // SAFETY: an aligned word of this thread's block (see `arch`), accessed only atomically, by
    // this thread and its handlers.
    unsafe { AtomicU32::from_ptr((block() + 32) as *mut u32) }
}

/// Returns the word that counts how many forks this thread is in the middle of.
pub(super) fn forks() -> &'static AtomicU32 {
    // SAFETY: an aligned word of this thread's block (see `arch`), accessed only atomically, by
    // this thread and its handlers.
    unsafe { AtomicU32::from_ptr((block() + 36) as *mut u32) }
}

/// Returns the word that counts this thread's `SignalsBlocked` guards.
pub(super) fn quiet() -> &'static AtomicU32 {
    // SAFETY: an aligned word of this thread's block (see `arch`), accessed only atomically, by
    // this thread and its handlers.
    unsafe { AtomicU32::from_ptr((block() + 40) as *mut u32) }
}

/// Returns the word that says whether forks wait for this thread: the generation of the process
/// that counts it, or 0.
pub(super) fn counted() -> &'static AtomicU32 {
    // SAFETY: an aligned word of this thread's block (see `arch`), accessed only atomically, by
    // this thread and its handlers.
    unsafe { AtomicU32::from_ptr((block() + 44) as *mut u32) }
}

/// Returns the word with the signal mask that the first of this thread's `SignalsBlocked` guards
/// found.
pub(super) fn found_mask() -> &'static AtomicU64 {
    // SAFETY: an aligned word of this thread's block (see `arch`), accessed only atomically, by
    // this thread and its handlers.
    unsafe { AtomicU64::from_ptr((block() + FOUND_MASK) as *mut u64) }
}

/// Returns the signals that user-level masks have blocked, if the last mask ended inside a
/// `SignalsBlocked` that is now over. `None` if no signal waits for that. The caller has blocked
/// all signals.
pub(super) fn take_deferred() -> Option<u64> {
    // The words belong to `signal`: the number of masks and the deferred mark; the blocked signals;
    // those unblocked last; the kept signals. SAFETY: they are aligned words of this thread's block
    // (see `arch`), accessed only atomically, by this thread and its handlers.
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

/// Ends the process if this thread's storage is not what the C library sets up: a raw `clone` gave
/// it zeros. Such a thread reads CPU 0 where -1 belongs, and the kernel restarts none of its
/// sections. Fast paths cannot see that, so this is checked where a slow path begins. A thread that
/// shares another's storage is not recognized.
#[inline]
pub(super) fn check_storage() {
    // On x86-64, the thread pointer itself is a word of that storage.
    let is_set_up = thread_pointer() != 0 && {
        // SAFETY: an aligned word of this thread's block (see `arch`). The kernel changes it only
        // in registered threads, between two instructions. Relaxed: only this thread reads it.
        let cpu = unsafe { AtomicI32::from_ptr((block() + 4) as *mut i32) }.load(Ordering::Relaxed);
        cpu == -1 || registration().load(Ordering::Relaxed) != NOT_YET
    };
    if !is_set_up {
        no_storage();
    }
}

/// Writes a message to standard error and ends the process by `SIGABRT`. Calls the kernel alone:
/// the C library's functions use the storage.
#[cold]
fn no_storage() -> ! {
    let sentence = "atomseq: this thread's storage was not set up, so what it has done here may be lost \
                    (was it made by a raw clone?); make threads by pthread_create\n";
    let arguments = [2, sentence.as_ptr() as usize, sentence.len(), 0, 0, 0];
    // SAFETY: the pointer and length are those of a valid string, which the kernel only reads.
    unsafe { syscall(libc::SYS_write, arguments) };
    // SAFETY: the disposition contains no function.
    let _ = unsafe { replace_disposition(libc::SIGABRT, &Disposition::DEFAULT) };
    change_mask(libc::SIG_UNBLOCK, bit(libc::SIGABRT));
    let _ = send_to_this_thread(libc::SIGABRT);
    loop {
        let _ = send_to_this_thread(libc::SIGKILL);
    }
}

/// Points every thread at atomseq's own block, which is not registered yet.
pub(super) fn use_own_block() {
    RSEQ_OFFSET.store(thread_block_offset(), Ordering::Relaxed);
}

/// Uses glibc's registration if it exists, given its [symbols](glibc_symbols). Returns glibc's
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

/// Looks up `__rseq_offset` and `__rseq_size` at run time, because the program may have been linked
/// on an older system. Takes the dynamic linker's lock.
#[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
pub(super) fn glibc_symbols() -> Option<(isize, u32)> {
    // SAFETY: the names are null-terminated. glibc has defined both with these types since 2.35,
    // never changes them after program start, and is never unloaded.
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
    // SAFETY: both are not null, so this program defines them, with these types.
    unsafe { Some((*offset, *size)) }
}

#[cfg(not(target_env = "gnu"))]
pub(super) fn glibc_symbols() -> Option<(isize, u32)> {
    None
}

/// Prepares threads to register themselves. `Err` holds an error number, or 0 if every available
/// key would need memory.
pub(super) fn create_exit_hook() -> Result<(), i32> {
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: the key is valid for writes, and the hook lives as long as the program.
    let result = unsafe { libc::pthread_key_create(&mut key, Some(at_thread_exit)) };
    if result != 0 {
        return Err(result);
    }
    let number = key as u32;
    if !needs_no_memory(number) {
        // SAFETY: the key was created above and is not used by any thread.
        unsafe { libc::pthread_key_delete(key) };
        return Err(0);
    }
    EXIT_KEY.store(number + 1, Ordering::Relaxed);
    Ok(())
}

/// Deletes the key, so that no thread registers itself: start-up decided against sections.
pub(super) fn forget_exit_hook() {
    let key = EXIT_KEY.swap(0, Ordering::Relaxed);
    if key != 0 {
        // SAFETY: `create_exit_hook` created the key. This thread has unregistered, and no other
        // thread registers before start-up has ended.
        unsafe { libc::pthread_key_delete((key - 1) as libc::pthread_key_t) };
    }
}

/// Registers this thread if that is atomseq's task. The slow path calls this when the thread's CPU
/// number is negative. Returns `true` if the thread is registered, so the fast path is worth a
/// retry. Async-signal-safe.
///
/// Does nothing before start-up has ended, which may still decide against sections, nor on a thread
/// that may be exiting.
pub fn register_this_thread() -> bool {
    if EXIT_KEY.load(Ordering::Relaxed) == 0 || !start::is_decided() {
        return false;
    }
    match registration().load(Ordering::Relaxed) {
        NOT_YET => !may_be_exiting() && register().is_ok(),
        REGISTERED => true,
        _ => false,
    }
}

/// Registers this thread. `Err` holds the kernel's error number.
#[cold]
pub(super) fn register() -> Result<(), i32> {
    // A signal handler in the middle would register too. One of `SIGSYS` may still run: it finds
    // `REGISTERING`, and does without.
    let _blocked = Blocked::enter();
    if registration().load(Ordering::Relaxed) == REGISTERED {
        return Ok(());
    }
    registration().store(REGISTERING, Ordering::Relaxed);
    let key = (EXIT_KEY.load(Ordering::Relaxed) - 1) as libc::pthread_key_t;
    // Sets the hook first: a registration without it would outlive the thread's storage.
    // SAFETY: the key exists; its value only has to differ from null, and is never dereferenced.
    let result = unsafe { libc::pthread_setspecific(key, block() as *const c_void) };
    if result != 0 {
        registration().store(REFUSED, Ordering::Relaxed);
        return Err(result);
    }
    // SAFETY: the block is aligned to 32 bytes, reserves 32 for the kernel, and stays until the
    // hook has unregistered it.
    let result = unsafe { syscall(libc::SYS_rseq, [block(), SIZE, 0, SIGNATURE as usize, 0, 0]) };
    if result < 0 {
        // SAFETY: the key exists; null only unsets its value.
        unsafe { libc::pthread_setspecific(key, core::ptr::null()) };
        registration().store(REFUSED, Ordering::Relaxed);
        return Err(-result as i32);
    }
    registration().store(REGISTERED, Ordering::Relaxed);
    Ok(())
}

/// Unregisters this thread if it is registered, and stores `state`. Returns `false` if a sandbox
/// set up later refuses; the kernel then continues to write to the thread's block.
#[must_use]
fn unregister(state: u32) -> bool {
    let _blocked = Blocked::enter();
    if registration().swap(state, Ordering::Relaxed) != REGISTERED {
        return true;
    }
    // SAFETY: the arguments name the very area that this thread registered; unregistering only
    // stops the kernel's writes.
    let result = unsafe {
        syscall(
            libc::SYS_rseq,
            [block(), SIZE, FLAG_UNREGISTER, SIGNATURE as usize, 0, 0],
        )
    };
    result == 0
}

/// Returns whether this thread's storage may go without a call of the exit hook.
///
/// The C library calls the destructors of keys in a few rounds. If the last round has passed the
/// hook's key, it does not call a hook set later. glibc's storage lasts nevertheless. musl disables
/// a thread's cancellation before the first round and never enables it again. So a thread whose
/// cancellation is disabled does without sections until it is enabled.
#[cfg(target_env = "musl")]
fn may_be_exiting() -> bool {
    unsafe extern "C" {
        fn pthread_setcancelstate(state: i32, before: *mut i32) -> i32;
    }
    const DISABLED: i32 = 1;
    let (mut before, mut disabled) = (DISABLED, DISABLED);
    // SAFETY: both words are valid for writes, and the state that was found is set again. musl only
    // reads and writes a word of this thread's. A request for cancellation that arrives in between
    // is kept.
    unsafe {
        pthread_setcancelstate(DISABLED, &mut before);
        pthread_setcancelstate(before, &mut disabled);
    }
    before == DISABLED
}

#[cfg(not(target_env = "musl"))]
fn may_be_exiting() -> bool {
    false
}

/// Unregisters this thread, which start-up has registered to decide, if it may be exiting.
pub(super) fn unregister_if_exiting() {
    if may_be_exiting() && !unregister(NOT_YET) {
        cannot_unregister();
    }
}

/// Unregisters this thread: start-up decided against sections after it had registered it.
pub(super) fn give_up() {
    if !unregister(REFUSED) {
        // Untrusted sections would otherwise run on this thread.
        cannot_unregister();
    }
    forget_exit_hook();
    use_own_block();
}

/// Whether a thread's storage stays until the kernel no longer writes to it. glibc unmaps or reuses
/// it only after the kernel has cleared the thread's number. musl's detached threads unmap their
/// own before their last system call.
const STORAGE_OUTLIVES_THREAD: bool = cfg!(target_env = "gnu");

unsafe extern "C" fn at_thread_exit(_block: *mut c_void) {
    // With lasting storage, a thread that stays registered may run sections until it exits.
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
