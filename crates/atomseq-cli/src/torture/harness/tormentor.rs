//! The thread that disturbs the workers: moves them between CPUs, interrupts them, aborts their
//! sections, and changes how often they may restart.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::Interruptions;
use super::shared::Shared;
use crate::torture::system::{self, Signal};

/// How often the tormentor did what.
#[derive(Clone, Copy, Debug, Default)]
pub struct Torments {
    /// Threads moved to a CPU other than the one they were last moved to.
    pub migrations: u64,
    /// Fences on a CPU, beside those that close gates.
    pub fences: u64,
}

/// A worker as the tormentor knows it.
#[derive(Clone, Copy, Default)]
struct Victim {
    /// The one CPU it was told to run on, unless it was let go since.
    cpu: Option<usize>,
}

/// How long it rests at most: it is to notice the end.
const LONGEST_REST: Duration = Duration::from_millis(50);

/// Restart limits to switch among: never, once, and the library's own.
const LIMITS: [usize; 3] = [0, 1, atomseq::sequence::DEFAULT_RESTART_LIMIT];

/// Disturbs the workers until there is an end.
pub fn torment(
    shared: &Shared,
    cpus: &[usize],
    interruptions: Interruptions,
    seed: u64,
) -> Torments {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut torments = Torments::default();
    let boards: Vec<_> = shared.workers().collect();
    let mut victims = vec![Victim::default(); boards.len()];
    while !shared.is_over() {
        for _ in 0..rng.u32(1..=8) {
            let index = rng.usize(..boards.len());
            let cpu = cpus[rng.usize(..cpus.len())];
            let choice = rng.u32(..100);
            let thread = boards[index].thread.load(Ordering::Relaxed);
            if thread == 0 {
                continue;
            }
            let victim = &mut victims[index];
            match choice {
                // In a storm there are signals before all.
                1.. if interruptions == Interruptions::Storm => {
                    for _ in 0..rng.u32(1..=16) {
                        let _ = system::interrupt(thread, Signal::Sent);
                    }
                }
                0..40 => {
                    if victim.cpu != Some(cpu) && system::move_thread(thread, &[cpu]) {
                        torments.migrations += u64::from(victim.cpu.is_some());
                        victim.cpu = Some(cpu);
                    }
                }
                40..50 => {
                    if system::move_thread(thread, cpus) {
                        victim.cpu = None;
                    }
                }
                50..85 => {
                    // Counted where it arrives.
                    let thread = boards[index].signalled.load(Ordering::Relaxed);
                    let _ = system::interrupt(thread, Signal::Sent);
                }
                85..95 => torments.fences += u64::from(system::fence(cpu)),
                _ => atomseq::set_restart_limit(LIMITS[rng.usize(..LIMITS.len())]),
            }
        }
        // The workers are to work, too: on a machine with few CPUs the tormentor takes their time.
        match (interruptions, shared.slowness()) {
            (Interruptions::Storm, 1) => {
                (0..rng.u32(..1_000)).for_each(|_| std::hint::spin_loop());
            }
            (_, slowness) => {
                let rest = Duration::from_micros(rng.u64(20..200)) * slowness;
                thread::sleep(rest.min(LONGEST_REST));
            }
        }
    }
    atomseq::set_restart_limit(atomseq::sequence::DEFAULT_RESTART_LIMIT);
    torments
}
