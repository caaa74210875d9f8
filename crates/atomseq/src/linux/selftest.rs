//! The self-test: start-up interrupts a section of its own and sees whether the kernel aborts it.
//! Kernels and sandboxes have accepted registrations and then aborted nothing.
//!
//! ```text
//! this thread                      helper (a child that shares memory, made and reaped here)
//!   arm; on the right CPU?           preemption: move to that CPU
//!   ready = 1           ──────>      sleep and look until ready
//!   spin until done                  fence: membarrier, from another CPU if there is one
//!                       <──────      done = 1; exit
//! ```
//! *Preemption*: the helper can look only while this thread does not run, so by then the section
//! must have been aborted. *Fence*: `membarrier` returns only after the abort. So in both, a
//! section that still runs and sees `done` is proof that an abort is missing. An abort is proof of
//! a working fence only if no other thread ran meanwhile; where the machine is too busy to see one
//! without (or has one CPU), it counts that none was ever missing. The helper is no thread of this
//! process: once reaped, nothing of it is left, where a thread could still stand in the way of an
//! `unshare`.

use super::rseq;
use crate::arch::{KickWords, spawn_kicker, syscall, watch, watched};
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// How to interrupt the section.
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
    /// No helper, for the kernel refuses to start one, or to reap one (an error number).
    Blocked(i32),
}

/// Rounds that the section spins at most, about 20 ms: several scheduler slices, so that on a
/// machine too busy to run the helper, another thread interrupts the section.
const ROUNDS: u64 = 20_000_000;
/// How often, and in what distance (in nanoseconds), the helper looks: together longer than the
/// section spins.
const LOOKS: u32 = 4_000;
const NAP: i64 = 20_000;
/// The helper's scheduler slice in nanoseconds, the shortest there is: Linux 6.12 and newer let it
/// interrupt a thread with a longer slice at once, instead of after up to 3 ms.
const SLICE: u64 = 100_000;
/// An attempt comes to nothing when the thread is moved meanwhile.
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
    // SAFETY: signals are blocked, no section is armed, and `words` outlives the child, whose end
    // is waited for below.
    let child = unsafe { spawn_kicker(&words) };
    if child < 0 {
        return Outcome::Blocked(-child as i32);
    }
    // Spinning right away would keep the helper from this CPU for a whole slice.
    for _ in 0..LOOKS {
        if words.prepared.load(Ordering::Relaxed) != 0 {
            break;
        }
        sleep(&words.nap);
    }
    // SAFETY: `area` is a struct rseq, this thread's own outside tests; `words` is valid.
    let end = unsafe { watch(area, &words, ROUNDS) };
    // Whatever happened, the helper must not wait on.
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

/// What the helper is told, before it has done anything; it may move to the CPUs in `mask`, to any
/// if there is none.
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

/// Fills `mask` with the CPUs that this thread may run on, but for `cpu`; whether there are any.
fn others(mask: &mut [u64; 1024], cpu: usize) -> bool {
    *mask = [0; 1024];
    // SAFETY: the kernel writes at most the size given.
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
    /// This thread's, but for the slice.
    fn of_a_short_slice() -> Attributes {
        let mut attributes = Attributes::default();
        let size = size_of::<Attributes>();
        // SAFETY: the kernel writes at most the size given.
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

/// How often another thread took this thread's CPU from it.
fn involuntary_switches() -> i64 {
    const THREAD: usize = libc::RUSAGE_THREAD as usize;
    // SAFETY: plain old data.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel fills in the structure given.
    unsafe {
        syscall(
            libc::SYS_getrusage,
            [THREAD, &raw mut usage as usize, 0, 0, 0, 0],
        )
    };
    usage.ru_nivcsw
}

const CHILDREN_OF_ANY_KIND: usize = libc::__WALL as usize;

/// Whether helpers may be reaped, asked about this process, which is no child of its own.
fn may_reap() -> Result<(), i32> {
    // SAFETY: no arguments, cannot fail.
    let this_process = unsafe { syscall(libc::SYS_getpid, [0; 6]) } as usize;
    match wait4(this_process) {
        ECHILD => Ok(()),
        refused => Err(-refused as i32),
    }
}

const ECHILD: isize = -(libc::ECHILD as isize);

/// Waits for a child's end, as far as the kernel lets this process.
fn wait4(child: usize) -> isize {
    loop {
        let arguments = [child, 0, CHILDREN_OF_ANY_KIND, 0, 0, 0];
        // SAFETY: no status and no usage are asked for.
        let result = unsafe { syscall(libc::SYS_wait4, arguments) };
        if result != -(libc::EINTR as isize) {
            return result;
        }
    }
}

/// Waits for the helper's end, whatever `wait4` says: the helper uses `words` until then. It ends
/// by itself within a few milliseconds. An error number if the kernel does not let it be reaped; a
/// debugger may have reaped it first.
fn reap(child: usize, words: &KickWords) -> Result<(), i32> {
    let result = wait4(child);
    // Acquire: what the helper did with `words` was before; the kernel clears the word as the
    // helper's last access.
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
    // SAFETY: the kernel reads the time given, and reports no rest.
    unsafe { syscall(libc::SYS_nanosleep, [nap.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// Whether the CPU number that the kernel keeps for this thread is the one it tells; an error
/// number if it tells none.
pub(super) fn cpu_number_is_right() -> Result<bool, i32> {
    // A thread may be moved between the two looks, but not every time.
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

    /// A `struct rseq` that the kernel knows nothing of: sections armed in it are never aborted.
    #[repr(C, align(32))]
    struct Unregistered([AtomicU64; 4]);

    /// Does the kernel, or the environment, refuse sections or their fence? Then there is nothing
    /// to test. A self-test that failed is no refusal.
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

    /// Runs this on a thread that can run sections, and that stays on one CPU, whose number it is
    /// given.
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
            // SAFETY: pins the calling thread; the kernel reads the set.
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

    /// The helper uses this thread's memory. Here `wait4` says that there is no such child, as it
    /// does where a sandbox refuses it or a debugger was first, while the helper still looks for a
    /// word that nobody sets.
    #[test]
    fn the_helpers_end_is_waited_for_whatever_wait4_says() {
        let _blocked = Blocked::enter();
        let attributes = Attributes::of_a_short_slice();
        let words = KickWords {
            rounds: 200,
            ..words(Kick::Fence, 0, &[], &attributes)
        };
        // SAFETY: as in `attempt`.
        let child = unsafe { spawn_kicker(&words) };
        assert!(child > 0, "{child}");
        // SAFETY: no arguments, cannot fail.
        let no_child = unsafe { syscall(libc::SYS_getpid, [0; 6]) } as usize;
        assert_eq!(reap(no_child, &words), Ok(()));
        assert_eq!(words.alive.load(Ordering::Relaxed), 0);
        assert_eq!(reap(child as usize, &words), Ok(()));
    }
}
