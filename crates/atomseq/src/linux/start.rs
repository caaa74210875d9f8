//! Start-up: decides once for the process what can be used, and reports why not.
//!
//! The C library allocates with its own allocator in `pthread_atfork` (musl) and in a `dlsym` that
//! finds nothing (glibc). The first call must therefore not come from a signal handler, which may
//! have interrupted that allocator.

use super::cpus::{self, Source};
use super::futex::{wait, wake_all};
use super::kernel::{self, Verdict};
use super::selftest::{self, Kick, Outcome};
use super::signals::Blocked;
use super::{fork, membarrier, objects, process, rseq};
use crate::arch::syscall;
use crate::status::{Features, Reason, Registrant, Status};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

/// 0: undecided; 1: decided; above: 1 plus the identity of the process whose thread is deciding.
static STATE: AtomicU32 = AtomicU32::new(UNDECIDED);
const UNDECIDED: u32 = 0;
const DECIDED: u32 = 1;

static DECISION: Decision = Decision(UnsafeCell::new(STARTING_UP));
struct Decision(UnsafeCell<Status>);
// SAFETY: only the thread that moved STATE to its identity writes, before the Release store of
// `DECIDED`. Readers first load `DECIDED` with Acquire.
unsafe impl Sync for Decision {}

/// The result for a call from inside start-up: the C library's allocator, called by start-up, may
/// be built on atomseq. No structure is created from it, because its numbers are provisional.
static INSIDE: Status = STARTING_UP;
const STARTING_UP: Status = Status {
    sections: false,
    gates: false,
    registrant: None,
    reason: Some(Reason::StartingUp),
    features: Features {
        rseq_size: 0,
        rseq_alignment: 32,
        node_id: false,
        mm_cid: false,
        slice_ctrl: false,
        membarrier_rseq: false,
        cpus: 1,
        kernel: None,
    },
};

/// Decides on the first call, once for the process. Afterwards it costs one load.
#[inline]
pub fn start() -> &'static Status {
    // Acquire: pairs with the Release in `decide_once`.
    if STATE.load(Ordering::Acquire) != DECIDED {
        return decide_once(true);
    }
    // SAFETY: `DECIDED` was loaded or stored above.
    unsafe { decision() }
}

/// Returns what start-up has decided.
///
/// # Safety
///
/// The caller has loaded `DECIDED` from `STATE` with acquire, or has stored it.
#[inline(always)]
unsafe fn decision() -> &'static Status {
    // SAFETY: the value is written, and never changes again.
    unsafe { &*DECISION.0.get() }
}

/// Decides as [`start`] does, but does not wait for another thread that is just deciding: the
/// result is then the one for a call from inside start-up.
#[inline]
pub fn start_at_once() -> &'static Status {
    // Acquire: pairs with the Release in `decide_once`.
    let state = STATE.load(Ordering::Acquire);
    if state == DECIDED {
        // SAFETY: `DECIDED` was loaded above.
        return unsafe { decision() };
    }
    // Before anything else, since `decide_once` begins with what may wait as well.
    match state != UNDECIDED && state == process::identity() + 1 {
        true => &INSIDE,
        false => decide_once(false),
    }
}

/// Returns whether start-up has ended.
pub(super) fn is_decided() -> bool {
    // Acquire: pairs with the Release in `decide_once`.
    STATE.load(Ordering::Acquire) == DECIDED
}

/// Decides, or waits for another thread that is just deciding. If `waits` is false, the result is
/// provisional then.
#[cold]
fn decide_once(waits: bool) -> &'static Status {
    if is_inside().load(Ordering::Relaxed) != 0 {
        return &INSIDE;
    }
    is_inside().store(1, Ordering::Relaxed);
    // Runs without a lock and with all signals open: another thread may hold the dynamic linker's
    // lock and wait for this thread's decision, or for a handler on it.
    let symbols = rseq::glibc_symbols();
    objects::pin();
    // A handler that needed the decision while its own thread makes it would wait indefinitely.
    let blocked = Blocked::enter();
    process::set_up();
    // Needed even without sections: slow paths close gates, and a fork must not copy a closed one.
    let fork_handlers = fork::install();
    let me = process::identity() + 1;
    let is_decided = loop {
        // Acquire: pairs with the Release below.
        let state = STATE.load(Ordering::Acquire);
        if state == DECIDED {
            break true;
        }
        // A state of another process: this child was forked in the middle of its parent's start-up
        // and takes over. Acquire: as in the load above. Relaxed: a failure loads again.
        if state != me {
            if STATE
                .compare_exchange(state, me, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
            {
                continue;
            }
            let status = decide(fork_handlers, symbols);
            // SAFETY: this thread won STATE, so it alone writes, and no thread reads before the
            // Release store below.
            unsafe { *DECISION.0.get() = status };
            STATE.store(DECIDED, Ordering::Release);
            wake_all(&STATE);
            break true;
        }
        if !waits {
            break false;
        }
        wait(&STATE, state);
    };
    is_inside().store(0, Ordering::Relaxed);
    drop(blocked);
    if !is_decided {
        return &INSIDE;
    }
    // SAFETY: `DECIDED` was loaded or stored above.
    unsafe { decision() }
}

/// Returns the word that is set while this thread is inside `decide_once`. It belongs to the
/// thread: a fork copies it together with the thread's progress.
fn is_inside() -> &'static AtomicU32 {
    let inside: *const AtomicU32 = crate::__thread_storage!(AtomicU32, AtomicU32::new(0));
    // SAFETY: this is storage of the calling thread, an atomic word, and callers use it only before
    // the thread ends.
    unsafe { &*inside }
}

/// Returns the kernel's number of this process. A cached number may be the parent's, in a child
/// that shares memory. If a sandbox returns an error, this is a number that no process has.
pub fn own_process() -> u32 {
    // SAFETY: the call takes no arguments and accesses no memory.
    unsafe { syscall(libc::SYS_getpid, [0; 6]) as u32 }
}

/// Returns whether an environment variable is set to anything but the empty text or 0.
fn is_set(name: &core::ffi::CStr) -> bool {
    // SAFETY: the name is null-terminated, and the result is null or a null-terminated text. The
    // look-up does not allocate. As for every reader of the environment, no other thread may change
    // it meanwhile.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        !value.is_null() && *value != 0 && (*value != b'0' as libc::c_char || *value.add(1) != 0)
    }
}

fn decide(fork_handlers: Result<(), i32>, symbols: Option<(isize, u32)>) -> Status {
    rseq::use_own_block();
    let mut status = STARTING_UP;
    let (cpus, source) = cpus::count();
    status.features.cpus = cpus;
    status.features.kernel = kernel::version();
    let fence = membarrier::available();
    status.features.membarrier_rseq = fence.is_ok();

    match sections(&mut status, source, symbols) {
        Ok(registrant) => {
            status.sections = true;
            status.registrant = Some(registrant);
            status.reason = gates(&status, fence, fork_handlers).err();
            status.gates = status.reason.is_none();
            rseq::unregister_if_exiting();
        }
        Err(reason) => {
            rseq::give_up();
            status.reason = Some(reason);
        }
    }
    status
}

/// Decides whether sections run, and which code registers threads.
fn sections(
    status: &mut Status,
    source: Source,
    symbols: Option<(isize, u32)>,
) -> Result<Registrant, Reason> {
    let adopted = rseq::adopt(symbols);
    describe(&mut status.features, adopted);
    if is_set(c"ATOMSEQ_DISABLE_RSEQ") {
        return Err(Reason::Disabled);
    }
    if source == Source::Guess {
        return Err(Reason::CpusUnknown);
    }
    if let Some(version) = status.features.kernel {
        match kernel::judge(version, cfg!(target_arch = "aarch64")) {
            Verdict::TooOld => return Err(Reason::KernelTooOld(version)),
            Verdict::SectionsFaulty(why) if !is_set(c"ATOMSEQ_TRUST_KERNEL") => {
                return Err(Reason::SectionsFaulty(version, why));
            }
            _ => {}
        }
    }
    let registrant = match adopted {
        Some(_) => Registrant::Glibc,
        None => {
            rseq::create_exit_hook().map_err(Reason::NoThreadExitHook)?;
            rseq::register().map_err(Reason::RegistrationRefused)?;
            Registrant::Atomseq
        }
    };
    match selftest::cpu_number_is_right() {
        Ok(true) => {}
        Ok(false) => return Err(Reason::CpuNumberWrong),
        Err(errno) => return Err(Reason::CpuNumberUnchecked(errno)),
    }
    match selftest::interrupt(Kick::Preemption) {
        Outcome::Aborted => Ok(registrant),
        Outcome::Missed => Err(Reason::SelfTestFailed),
        Outcome::Blocked(errno) => Err(Reason::SelfTestBlocked(errno)),
        // A helper of the same priority does not interrupt a real-time thread, but a fence does.
        Outcome::Nothing if membarrier::register().is_ok() => {
            match selftest::interrupt(Kick::Fence) {
                Outcome::Aborted => Ok(registrant),
                Outcome::Missed => Err(Reason::SelfTestFailed),
                Outcome::Blocked(errno) => Err(Reason::SelfTestBlocked(errno)),
                Outcome::Nothing => Err(Reason::SelfTestInconclusive),
            }
        }
        Outcome::Nothing => Err(Reason::SelfTestInconclusive),
    }
}

/// Decides whether the fence can be trusted, if sections run.
fn gates(
    status: &Status,
    fence: Result<(), i32>,
    fork_handlers: Result<(), i32>,
) -> Result<(), Reason> {
    fork_handlers.map_err(Reason::NoForkHandlers)?;
    fence
        .and_then(|()| membarrier::register())
        .map_err(Reason::FenceUnavailable)?;
    if !is_set(c"ATOMSEQ_TRUST_KERNEL") {
        let version = status.features.kernel.ok_or(Reason::KernelUnknown)?;
        if let Verdict::FenceFaulty(why) = kernel::judge(version, cfg!(target_arch = "aarch64")) {
            return Err(Reason::FenceFaulty(version, why));
        }
    }
    match selftest::interrupt(Kick::Fence) {
        Outcome::Aborted => Ok(()),
        Outcome::Missed => Err(Reason::FenceFailed),
        Outcome::Blocked(errno) => Err(Reason::SelfTestBlocked(errno)),
        Outcome::Nothing => Err(Reason::SelfTestInconclusive),
    }
}

/// Determines the fields of `struct rseq` that the kernel fills in. glibc reports 20 or 32 to mean
/// the size that every kernel knows.
fn describe(features: &mut Features, adopted: Option<u32>) {
    const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
    const AT_RSEQ_ALIGN: libc::c_ulong = 28;
    // SAFETY: reads a number that the kernel passed at program start, or 0.
    let kernel = unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) } as u32;
    // SAFETY: reads a number that the kernel passed at program start, or 0.
    let alignment = unsafe { libc::getauxval(AT_RSEQ_ALIGN) } as u32;
    features.rseq_alignment = alignment.max(32);
    features.rseq_size = usable_size(adopted, kernel);
    features.node_id = features.rseq_size >= 24;
    features.mm_cid = features.rseq_size >= 28;
    features.slice_ctrl = features.rseq_size >= 32;
}

/// Returns the usable size. `adopted` is glibc's `__rseq_size`; `kernel` is the feature size from
/// the auxiliary vector, 0 before Linux 6.3.
fn usable_size(adopted: Option<u32>, kernel: u32) -> u32 {
    let kernel = if kernel == 0 { 20 } else { kernel };
    match adopted {
        None | Some(20 | 32) => kernel.min(32),
        Some(size) => size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usable_sizes() {
        assert_eq!(usable_size(Some(32), 0), 20, "old kernel, glibc 2.35");
        assert_eq!(
            usable_size(Some(20), 28),
            28,
            "newer kernel, glibc that names the oldest size"
        );
        assert_eq!(usable_size(Some(32), 28), 28);
        assert_eq!(usable_size(Some(32), 33), 32, "glibc keeps 32 bytes");
        assert_eq!(usable_size(Some(28), 28), 28);
        assert_eq!(
            usable_size(Some(33), 33),
            33,
            "newer glibc keeps as many as the kernel asks for"
        );
        assert_eq!(usable_size(None, 33), 32, "our own block");
        assert_eq!(usable_size(None, 0), 20);
    }

    #[test]
    fn calls_agree() {
        let first = start();
        let others: Vec<_> = (0..8)
            .map(|_| std::thread::spawn(|| start() as *const Status as usize))
            .collect();
        for other in others {
            assert_eq!(other.join().unwrap(), first as *const Status as usize);
        }
    }
}
