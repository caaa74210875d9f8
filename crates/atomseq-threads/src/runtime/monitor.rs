//! The two kernel threads that run no closures: the monitor takes roles from kernel threads that
//! block or use up their slices, and the nursery starts kernel threads.
//!
//! The monitor neither allocates nor waits for a lock: a thread that it would have to preempt may
//! hold it. So it leaves the start of kernel threads to the nursery.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use atomseq::signal::AlternateStack;

use super::linux::{self, Nanoseconds};
use super::role::{self, carrier_of, is_inside, is_orphan};
use super::shared::{Carrier, Shared, UNTIL_ENTERED, UNTIL_WORK};

/// What a handler takes of the alternate stack beside the kernel's frame, in bytes: the scheduler's
/// frames without optimisation, and those of the handlers of faults.
const HANDLER: usize = 64 * 1024;

/// The number of the monitor's looks in a slice, if those are not more than `LONGEST` apart, at
/// closures that have not computed since the last one.
const LOOKS: u64 = 8;

/// The maximum time between two looks while threads wait: a closure that blocks must not keep its
/// worker for an eighth of a slice that is meant never to end.
const LONGEST: Nanoseconds = 5_000_000;

/// The minimum time between two looks.
const SHORTEST: Nanoseconds = 100_000;

/// The time without work after which the monitor sleeps until there is some.
const PATIENCE: Nanoseconds = 50_000_000;

/// What the monitor saw of a closure.
#[derive(Clone, Copy)]
struct Sample {
    /// The worker's `owner`.
    owner: u64,
    /// The CPU time of its kernel thread at the first look and at the last one, and the time of the
    /// last one.
    first: Nanoseconds,
    last: Nanoseconds,
    time: Nanoseconds,
}

/// A closure that continues without the role.
#[derive(Clone, Copy)]
struct Detached {
    carrier: u32,
    value: u64,
    /// The CPU time that its kernel thread had used when it lost the role.
    used: Nanoseconds,
}

#[cfg(feature = "unstable-internals")]
thread_local! {
    /// Whether the calling kernel thread is a monitor that has begun to look.
    pub(super) static IS_MONITOR: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}

/// Runs the monitor until all is over.
pub(super) fn monitor(shared: &Shared) {
    const NOTHING: Sample = Sample {
        owner: role::NEVER,
        first: 0,
        last: 0,
        time: 0,
    };
    let mut samples = vec![NOTHING; shared.workers.len()];
    // Full length at once: see the module's comment.
    let mut detached: Vec<Detached> = Vec::with_capacity(shared.carriers.len());
    let longest = (shared.slice / LOOKS).clamp(SHORTEST, LONGEST);
    // Between two looks at closures that compute: the second one finds the slice over, although
    // that begins a moment after the preemption before it.
    let half = (shared.slice.min(2 * LONGEST) / 64 * 33).max(SHORTEST);
    let mut pause = longest;
    let mut last_work = linux::now();
    #[cfg(feature = "unstable-internals")]
    IS_MONITOR.set(true);
    while !shared.is_over() {
        // When something ends: a thread's sleep, or a slice.
        let mut next_time = Nanoseconds::MAX;
        let now = linux::now();
        let (mut waits, mut is_idle, mut has_detached) = (false, true, false);
        // Whether all closures have computed since the last look, or would have, and go on.
        let mut computes = true;
        // Whether all have used up a slice already, so that they probably do not block.
        let mut is_steady = true;
        for (index, (worker, sample)) in shared.workers.iter().zip(&mut samples).enumerate() {
            let time = worker.next_time().unwrap_or(Nanoseconds::MAX);
            let has_work = worker.has_work() || time <= now;
            if worker.sleeping.load(SeqCst) != 0 {
                if has_work {
                    shared.poke(index);
                }
                continue;
            }
            is_idle = false;
            if time > now {
                next_time = next_time.min(time);
            }
            waits |= has_work;
            let owner = worker.owner.load(SeqCst);
            if is_orphan(owner) {
                (computes, is_steady) = (false, false);
                if has_work {
                    shared.adopt(index as u32);
                }
                continue;
            }
            let Some(carrier) = carrier_of(owner).filter(|_| is_inside(owner)) else {
                *sample = NOTHING;
                (computes, is_steady) = (false, false);
                continue;
            };
            let carrier = shared.carrier(carrier);
            let used = linux::cpu_time(carrier.number.load(SeqCst));
            let is_resumed = is_resumed(shared, owner);
            if sample.owner != owner {
                // One that goes on after a preemption is known since then.
                let (used, time) = match is_resumed {
                    true => (carrier.used.load(SeqCst), carrier.since.load(SeqCst)),
                    false => (used, now),
                };
                *sample = Sample {
                    owner,
                    first: used,
                    last: used,
                    time,
                };
                if !is_resumed {
                    (computes, is_steady) = (false, false);
                    continue;
                }
            }
            // Saturating: the system reports 0 of a thread that has exited since.
            let computed = used.saturating_sub(sample.last);
            let elapsed = now.saturating_sub(sample.time);
            let is_busy = computed > elapsed / 2;
            // It may have blocked after the half, and waits for the next look then.
            let has_paused = !is_busy || is_resumed && computed < elapsed / 8 * 7;
            (sample.last, sample.time) = (used, now);
            if !has_work {
                is_steady &= is_resumed && !has_paused;
                computes &= is_busy;
                continue;
            }
            let has_blocked = shared.options.hands_off()
                && has_paused
                && shared.threads.is_blocked(carrier.number.load(SeqCst));
            let is_blocked = has_blocked && !is_busy;
            // One that is neither waits for a CPU, which other processes use.
            computes &= (is_busy || shared.options.hands_off()) && !has_blocked;
            // An idle worker can take it at once.
            if shared.options.steals() && shared.sleeping.load(SeqCst) > 0 {
                let _ = (0..shared.workers.len()).any(|other| shared.poke(other));
            }
            let used_of_slice = used.saturating_sub(sample.first);
            let slice_is_over = used_of_slice >= shared.slice;
            let is_preempted = slice_is_over && !is_blocked && shared.options.preempts();
            // If another one goes on than what was preempted before, it wakes this.
            is_steady &= is_resumed && !has_blocked || is_preempted;
            if !slice_is_over {
                let end = now + (shared.slice - used_of_slice).max(SHORTEST);
                next_time = next_time.min(end);
            }
            if is_blocked {
                if shared.detach(index as u32, owner) {
                    has_detached = true;
                    let value = owner - 1;
                    if detached.len() < detached.capacity() {
                        let carrier = carrier.index;
                        detached.push(Detached {
                            carrier,
                            value,
                            used,
                        });
                    }
                }
            } else if is_preempted {
                computes = false;
                tick(shared, carrier, owner - 1);
            }
        }
        detached.retain_mut(|entry| {
            let carrier = shared.carrier(entry.carrier);
            // Relaxed: an old value is looked at again.
            let is_there = carrier.value.load(Relaxed) == entry.value;
            if is_there && waits && shared.options.preempts() {
                let used = linux::cpu_time(carrier.number.load(SeqCst));
                if used.saturating_sub(entry.used) >= shared.slice {
                    tick(shared, carrier, entry.value);
                }
            }
            is_there
        });
        // Soon after a closure has blocked, the next one may.
        is_steady &= waits && detached.is_empty();
        pause = match (has_detached, waits) {
            (true, _) => SHORTEST,
            // A look wakes a CPU, and what has computed probably goes on.
            (false, true) if is_steady || computes => half,
            (false, true) => (pause * 2).min(longest),
            (false, false) => (pause * 2).min(shared.slice.max(longest)),
        };
        if !is_idle {
            last_work = now;
        }
        if is_idle && now - last_work > PATIENCE {
            sleep_until_work(shared, None);
            pause = longest;
            last_work = linux::now();
            continue;
        }
        // A worker that does not sleep leaves it to the monitor to see that a time has come.
        let limit = pause.min(next_time - now);
        match waits || limit <= longest {
            true if is_steady => sleep_until_entered(shared, &samples, limit.min(longest), limit),
            // What is pushed meanwhile can wait for that.
            true => linux::wait(&shared.ended, 0, Some(limit)),
            false => sleep_until_work(shared, Some(limit)),
        }
    }
    #[cfg(feature = "unstable-internals")]
    IS_MONITOR.set(false);
}

/// Sleeps until `wake_monitor`; for a length of time at most.
fn sleep_until_work(shared: &Shared, limit: Option<Nanoseconds>) {
    shared.monitor.store(UNTIL_WORK, SeqCst);
    let mut workers = shared.workers.iter();
    let is_needed = workers.any(|worker| {
        let runs = limit.is_none() && worker.sleeping.load(SeqCst) == 0;
        worker.has_work() || runs
    });
    match is_needed || shared.is_over() {
        true => linux::wait(&shared.ended, 0, Some(SHORTEST)),
        false => linux::wait(&shared.monitor, UNTIL_WORK, limit),
    }
    shared.monitor.store(0, SeqCst);
}

/// Sleeps while the closures of the samples go on, or others that were preempted; for a length of
/// time at most. If another one has begun, sleeps for the shorter one.
fn sleep_until_entered(
    shared: &Shared,
    samples: &[Sample],
    shorter: Nanoseconds,
    limit: Nanoseconds,
) {
    shared.monitor.store(UNTIL_ENTERED, SeqCst);
    let is_expected = shared.workers.iter().zip(samples).all(|(worker, sample)| {
        let owner = worker.owner.load(SeqCst);
        worker.sleeping.load(SeqCst) != 0 || owner == sample.owner || is_resumed(shared, owner)
    });
    match is_expected && !shared.is_over() {
        true => linux::wait(&shared.monitor, UNTIL_ENTERED, Some(limit)),
        false => linux::wait(&shared.ended, 0, Some(shorter)),
    }
    shared.monitor.store(0, SeqCst);
}

/// Returns whether a worker is in a closure that goes on after it was preempted.
fn is_resumed(shared: &Shared, owner: u64) -> bool {
    carrier_of(owner)
        .filter(|_| is_inside(owner))
        .is_some_and(|carrier| shared.carrier(carrier).resumed.load(SeqCst) == owner - 1)
}

fn tick(shared: &Shared, carrier: &Carrier, value: u64) {
    carrier.tick.store(value, SeqCst);
    linux::send(carrier.number.load(SeqCst), shared.options.signal);
}

/// Starts another kernel thread.
///
/// # Errors
///
/// That of the system: there are too many.
pub(super) fn start(shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let index = shared.created.load(SeqCst);
    let of_thread = Arc::clone(shared);
    let name = format!("{}-{index}", shared.options.name);
    let builder = std::thread::Builder::new().name(name);
    // Before the thread that uses it; if there is none, the next attempt uses it.
    let carrier = &shared.carriers[index];
    carrier.get_or_init(|| Carrier::new(index as u32, Arc::as_ptr(shared)));
    let thread = builder
        .stack_size(shared.options.stack_size)
        .spawn(move || {
            let carrier = of_thread.carrier(index as u32);
            let top = 0u8;
            carrier.top.store(&raw const top as usize, SeqCst);
            carrier.number.store(linux::thread_number(), SeqCst);
            carrier.set();
            // If there is no memory, the one of std remains, which holds a frame without AMX.
            let _stack = AlternateStack::new(HANDLER);
            // Whatever mask it has inherited.
            super::change_mask(libc::SIG_UNBLOCK, of_thread.options.signal);
            of_thread.run_carrier(carrier);
            // Destructors of thread-locals run after this.
            Carrier::reset();
        })?;
    shared.created.store(index + 1, SeqCst);
    Ok(thread)
}

/// Starts kernel threads as they are needed, until all is over; then waits for all to exit.
pub(super) fn nursery(shared: &Arc<Shared>, mut threads: Vec<JoinHandle<()>>) {
    while !shared.is_over() {
        linux::wait(&shared.wanted, 0, None);
        shared.wanted.store(0, SeqCst);
        while !shared.is_over()
            && shared.spares.load(SeqCst) < shared.workers.len() as isize
            && shared.created.load(SeqCst) < shared.carriers.len()
        {
            match start(shared) {
                Ok(thread) => {
                    threads.push(thread);
                    // It becomes a spare in a moment; more are started only if that is too few.
                    linux::wait(&shared.wanted, 0, Some(SHORTEST));
                }
                // A limit of the system. The next one that finds no spare asks again.
                Err(_) => break,
            }
        }
    }
    for thread in threads {
        // Closures do not unwind out of it.
        let _ = thread.join();
    }
    // Entries keep the runtime's memory.
    shared.free_unused();
}
