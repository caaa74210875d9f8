//! The self-test: start-up interrupts a section of its own and checks that the kernel aborts it.
//! Some kernels and sandboxes have accepted registrations and then aborted nothing.
//!
//! ```text
//! this thread                      helper (a child that shares memory, made and reaped here)
//!   arm; on the right CPU?           preemption: move to that CPU
//!   ready = 1           ──────>      sleep and look until ready
//!   spin until done                  fence: membarrier, from another CPU if there is one
//!                       <──────      done = 1; exit
//! ```
//! *Preemption*: the helper can see `ready` only while this thread does not run, so the section
//! must have been aborted by then. *Fence*: `membarrier` returns only after the abort. In both
//! cases a section that still runs and sees `done` proves that the abort is missing. An abort
//! proves that the fence works only if no other thread ran meanwhile. If the machine is too busy
//! for that (or has one CPU), it suffices that no abort was ever missing. The helper is no thread
//! of this process: once reaped, nothing of it remains, whereas a thread could make an `unshare`
//! fail.

use super::rseq;
use crate::arch::{KickWords, spawn_kicker, syscall, watch, watched};
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// The way to interrupt the section.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kick {
    Preemption = 0,
    Fence = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The kernel aborted the section.
    Aborted,
    /// The section was interrupted and not aborted.
    Missed,
    /// The section was not interrupted in time.
    Nothing,
    /// There was no helper, because the kernel refuses to start or reap one (an error number).
    Blocked(i32),
}

/// The max number of rounds that the section spins, about 20 ms: several scheduler slices. If the
/// machine is too busy to run the helper, another thread then interrupts the section.
const ROUNDS: u64 = 20_000_000;
/// How often the helper checks `ready`, and the time between two checks in nanoseconds. Together
/// this is longer than the section spins.
const LOOKS: u32 = 4_000;
const NAP: i64 = 20_000;
/// The helper's scheduler slice in nanoseconds, the shortest possible. Linux 6.12 and newer then
/// let it preempt a thread with a longer slice at once, instead of after up to 3 ms.
const SLICE: u64 = 100_000;
/// The max number of attempts. An attempt is void if the thread is moved meanwhile.
const ATTEMPTS: u32 = 8;

/// Interrupts a section. The caller has blocked all signals, and this thread is registered.
pub(super) fn interrupt(kick: Kick) -> Outcome {
    if let Err(errno) = may_reap() {
        return Outcome::Blocked(errno);
    }
    let attributes = Attributes::of_a_short_slice();
    let mut best = Outcome::Nothing;
    for _ in 0..ATTEMPTS {
        let switches = involuntary_switches();
        match attempt(kick, rseq::area(), &attributes) {
            Outcome::Nothing => {}
            Outcome::Aborted if kick == Kick::Fence && involuntary_switches() != switches => {
                best = Outcome::Aborted
            }
            outcome => return outcome,
        }
    }
    best
}

fn attempt(kick: Kick, area: *mut u8, attributes: &Attributes) -> Outcome {
    let cpu = rseq::cpu_id().max(0) as usize;
    let mut mask = [0u64; 1024];
    let Some(word) = mask.get_mut(cpu / 64) else {
        return Outcome::Nothing;
    };
    *word = 1 << (cpu % 64);
    let stay = match kick {
        Kick::Preemption => true,
        Kick::Fence => others(&mut mask, cpu),
    };
    let words = words(kick, cpu, if stay { &mask } else { &[] }, attributes);
    // SAFETY: signals are blocked, no section is armed, and `words` outlives the child, whose exit
    // `reap` waits for below.
    let child = unsafe { spawn_kicker(&words) };
    if child < 0 {
        return Outcome::Blocked(-child as i32);
    }
    // Sleeps first: spinning at once would keep the helper from this CPU for a whole slice.
    for _ in 0..LOOKS {
        if words.prepared.load(Ordering::Relaxed) != 0 {
            break;
        }
        sleep(&words.nap);
    }
    // SAFETY: `area` is this thread's `struct rseq`, or in tests one that the kernel does not know;
    // `words` is valid.
    let end = unsafe { watch(area, &words, ROUNDS) };
    // Releases the helper whatever happened. Release: pairs with the helper's Acquire load of
    // `ready`.
    words.ready.store(1, Ordering::Release);
    if let Err(errno) = reap(child as usize, &words) {
        return Outcome::Blocked(errno);
    }
    let kicked = words.result.load(Ordering::Relaxed) == 0;
    match end {
        watched::ABORTED => Outcome::Aborted,
        watched::MISSED if kicked => Outcome::Missed,
        end => {
            debug_assert!([watched::MISSED, watched::NOTHING, watched::MOVED].contains(&end));
            Outcome::Nothing
        }
    }
}

/// Creates the initial words for the helper. It may move to the CPUs in `mask`, or to any if that
/// is empty.
fn words(kick: Kick, cpu: usize, mask: &[u64], attributes: &Attributes) -> KickWords {
    KickWords {
        ready: AtomicU32::new(0),
        done: AtomicU32::new(0),
        cpu: cpu as u32,
        kick: kick as u32,
        result: AtomicI32::new(0),
        rounds: LOOKS,
        nap: [0, NAP],
        mask_bytes: size_of_val(mask),
        mask: mask.as_ptr().cast(),
        attributes: (&raw const *attributes).cast(),
        prepared: AtomicU32::new(0),
        alive: AtomicU32::new(1),
    }
}

/// Fills `mask` with the CPUs that this thread may run on, except `cpu`. Returns whether there are
/// any.
fn others(mask: &mut [u64; 1024], cpu: usize) -> bool {
    *mask = [0; 1024];
    // SAFETY: the kernel writes at most the size given to the mask.
    unsafe {
        syscall(
            libc::SYS_sched_getaffinity,
            [0, size_of_val(mask), mask.as_mut_ptr() as usize, 0, 0, 0],
        )
    };
    mask[cpu / 64] &= !(1 << (cpu % 64));
    mask.iter().any(|&word| word != 0)
}

/// The kernel's `struct sched_attr`, first version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

impl Attributes {
    /// Returns this thread's attributes with a short slice.
    fn of_a_short_slice() -> Attributes {
        let mut attributes = Attributes::default();
        let size = size_of::<Attributes>();
        // SAFETY: the kernel writes at most the size given to the structure.
        unsafe {
            syscall(
                libc::SYS_sched_getattr,
                [0, &raw mut attributes as usize, size, 0, 0, 0],
            )
        };
        attributes.runtime = SLICE;
        attributes
    }
}

/// Returns how often another thread has taken the CPU from this thread.
fn involuntary_switches() -> i64 {
    const THREAD: usize = libc::RUSAGE_THREAD as usize;
    // SAFETY: `rusage` is plain data, for which zero is valid.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the structure is valid for writes of a whole `rusage`.
    unsafe {
        syscall(
            libc::SYS_getrusage,
            [THREAD, &raw mut usage as usize, 0, 0, 0, 0],
        )
    };
    usage.ru_nivcsw
}

const CHILDREN_OF_ANY_KIND: usize = libc::__WALL as usize;

/// Returns whether helpers may be reaped. Tries `wait4` on this process, which is no child of its
/// own.
fn may_reap() -> Result<(), i32> {
    // SAFETY: the call takes no arguments and accesses no memory.
    let this_process = unsafe { syscall(libc::SYS_getpid, [0; 6]) } as usize;
    match wait4(this_process) {
        ECHILD => Ok(()),
        refused => Err(-refused as i32),
    }
}

const ECHILD: isize = -(libc::ECHILD as isize);

/// Waits for a child to exit, as far as the kernel allows this process to.
fn wait4(child: usize) -> isize {
    loop {
        let arguments = [child, 0, CHILDREN_OF_ANY_KIND, 0, 0, 0];
        // SAFETY: the pointers for status and usage are null, so the kernel writes nothing.
        let result = unsafe { syscall(libc::SYS_wait4, arguments) };
        if result != -(libc::EINTR as isize) {
            return result;
        }
    }
}

/// Waits for the helper to exit, whatever `wait4` returns, because the helper uses `words` until
/// then. It exits by itself within a few milliseconds. Returns an error number if the kernel does
/// not let it be reaped. A debugger may have reaped it first.
fn reap(child: usize, words: &KickWords) -> Result<(), i32> {
    let result = wait4(child);
    // Acquire: orders the helper's accesses to `words` before this. Pairs with the kernel clearing
    // the word as the helper's last access.
    while words.alive.load(Ordering::Acquire) != 0 {
        sleep(&words.nap);
    }
    match result {
        ECHILD => Ok(()),
        result if result == child as isize => Ok(()),
        refused => Err(-refused as i32),
    }
}

fn sleep(nap: &[i64; 2]) {
    // SAFETY: the kernel reads the time given and writes no remainder.
    unsafe { syscall(libc::SYS_nanosleep, [nap.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// Returns whether the CPU number that the kernel keeps for this thread is the one that `getcpu`
/// returns. `Err` holds an error number if that fails.
pub(super) fn cpu_number_is_right() -> Result<bool, i32> {
    // The thread may be moved between the two reads, but not every time.
    for _ in 0..64 {
        let mut cpu = u32::MAX;
        let before = rseq::cpu_id();
        // SAFETY: the kernel writes one word of ours; the other two arguments are null.
        let result = unsafe { syscall(libc::SYS_getcpu, [&raw mut cpu as usize, 0, 0, 0, 0, 0]) };
        if result != 0 || cpu == u32::MAX {
            return Err(-result as i32);
        }
        if before >= 0 && before as u32 == cpu && rseq::cpu_id() == before {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::membarrier;
    use crate::linux::signals::Blocked;
    use core::sync::atomic::AtomicU64;

    /// A `struct rseq` unknown to the kernel: sections armed in it are never aborted.
    #[repr(C, align(32))]
    struct Unregistered([AtomicU64; 4]);

    /// Returns whether the kernel or the environment refuses sections or their fence. Then there is
    /// nothing to test. A failed self-test is no refusal.
    fn refused() -> bool {
        use crate::status::Reason::*;
        let status = crate::status();
        let refused = matches!(
            status.reason(),
            Some(
                Disabled
                    | KernelTooOld(_)
                    | RegistrationRefused(_)
                    | NoThreadExitHook(_)
                    | FenceUnavailable(_)
            )
        );
        if refused {
            println!("skipped: {status}");
        }
        refused
    }

    /// Calls `run` with the CPU number, on a thread that can run sections and stays on that CPU.
    fn on_one_cpu<T: Send>(run: impl FnOnce(u32) -> T + Send) -> T {
        let on_thread = || {
            let status = crate::status();
            assert!(status.is_active(), "needs rseq: {status}");
            assert!(rseq::cpu_id() >= 0 || rseq::register_this_thread());
            membarrier::register().expect("needs the rseq fence");
            let cpu = rseq::cpu_id() as u32;
            let mut mask = [0u64; 16];
            mask[cpu as usize / 64] = 1 << (cpu % 64);
            let set = [0, size_of_val(&mask), mask.as_ptr() as usize, 0, 0, 0];
            // SAFETY: the kernel reads the set, which is valid for its size; the call affects only
            // this thread.
            assert_eq!(unsafe { syscall(libc::SYS_sched_setaffinity, set) }, 0);
            run(cpu)
        };
        std::thread::scope(|scope| scope.spawn(on_thread).join().unwrap())
    }

    #[test]
    fn a_kernel_that_aborts_nothing_is_found_out() {
        if refused() {
            return;
        }
        let misses = on_one_cpu(|cpu| {
            let _blocked = Blocked::enter();
            let unregistered = Unregistered([
                AtomicU64::new(u64::from(cpu) | u64::from(cpu) << 32),
                AtomicU64::new(0),
                AtomicU64::new(0),
                AtomicU64::new(0),
            ]);
            let area = (&raw const unregistered).cast_mut().cast();
            let attributes = Attributes::of_a_short_slice();
            [Kick::Preemption, Kick::Fence].map(|kick| {
                (0..20).any(|_| match attempt(kick, area, &attributes) {
                    Outcome::Missed => true,
                    Outcome::Nothing => false,
                    other => panic!("{other:?}"),
                })
            })
        });
        assert_eq!(misses, [true, true]);
    }

    #[test]
    fn a_kernel_that_aborts_is_believed() {
        if refused() {
            return;
        }
        let outcomes = on_one_cpu(|_| {
            let _blocked = Blocked::enter();
            [interrupt(Kick::Preemption), interrupt(Kick::Fence)]
        });
        assert_eq!(outcomes, [Outcome::Aborted, Outcome::Aborted]);
    }

    /// The helper uses this thread's memory. Here `wait4` reports no such child, as under a sandbox
    /// that refuses it or a debugger that reaped first, while the helper still checks a word that
    /// is never set.
    #[test]
    fn the_helpers_end_is_waited_for_whatever_wait4_says() {
        let _blocked = Blocked::enter();
        let attributes = Attributes::of_a_short_slice();
        let words = KickWords {
            rounds: 200,
            ..words(Kick::Fence, 0, &[], &attributes)
        };
        // SAFETY: signals are blocked, no section is armed, and `words` outlives the child, whose
        // exit `reap` waits for.
        let child = unsafe { spawn_kicker(&words) };
        assert!(child > 0, "{child}");
        // SAFETY: the call takes no arguments and accesses no memory.
        let no_child = unsafe { syscall(libc::SYS_getpid, [0; 6]) } as usize;
        assert_eq!(reap(no_child, &words), Ok(()));
        assert_eq!(words.alive.load(Ordering::Relaxed), 0);
        assert_eq!(reap(child as usize, &words), Ok(()));
    }
}
