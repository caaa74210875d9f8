//! One trial: workers, those who interrupt them, and the reckoning.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::ledger::Ledger;
use crate::torment::{self, MAX_WORKERS, Victim, stage};

/// What a trial is like.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// How long.
    pub length: Duration,
    /// How many threads use the structures: more than there are CPUs.
    pub workers: usize,
    /// Does another thread fork meanwhile?
    pub forks: bool,
}

/// What happened in a trial.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Operations made by workers.
    pub operations: u64,
    /// Handlers run on them.
    pub signals: u64,
    /// How often one was moved.
    pub moves: u64,
    /// Children that came to their end.
    pub forks: u64,
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Figures {
            operations,
            signals,
            moves,
            forks,
        } = self;
        write!(
            f,
            "{operations} operations, {signals} signals, {moves} moves, {forks} forks"
        )
    }
}

/// Runs a trial, once in a process.
///
/// # Panics
///
/// If anything was lost, doubled or torn, or a child did not come to its end.
pub fn run(trial: Trial) -> Figures {
    assert!(trial.workers <= MAX_WORKERS);
    torment::install();
    let stage = stage();
    let victims: [Victim; MAX_WORKERS] = Default::default();
    let victims = &victims[..trial.workers];
    let over = AtomicBool::new(false);
    let (mut ledger, moves, forks) = thread::scope(|scope| {
        let working: Vec<_> = victims
            .iter()
            .enumerate()
            .map(|(number, victim)| {
                let over = &over;
                scope.spawn(move || work(number, victim, over))
            })
            .collect();
        let forking = trial.forks.then(|| scope.spawn(|| fork_until(&over)));
        let moves = torment_until(Instant::now() + trial.length, victims);
        over.store(true, Ordering::Relaxed);
        let forks = forking.map_or(0, |forking| forking.join().expect("all children ended"));
        let mut ledger = Ledger::default();
        for worker in working {
            ledger.merge(&worker.join().expect("no law was broken"));
        }
        (ledger, moves, forks)
    });
    for handlers in &stage.handlers {
        ledger.merge_handlers(handlers);
    }
    stage.structures.drain_into(&mut ledger);
    ledger.balance();
    stage.structures.end();
    Figures {
        operations: ledger.operations,
        signals: torment::signals(),
        moves,
        forks,
    }
}

fn work(number: usize, victim: &Victim, over: &AtomicBool) -> Ledger {
    let mut ledger = Ledger::default();
    victim.volunteer(number);
    let mut value = (number as u64) << 48;
    while !over.load(Ordering::Relaxed) {
        stage().structures.operate(&mut ledger, value);
        value += 16;
    }
    victim.resign();
    ledger
}

/// Interrupts and moves the victims; returns how often one was moved.
fn torment_until(end: Instant, victims: &[Victim]) -> u64 {
    let cpus = torment::cpus();
    let mut moves = 0;
    while Instant::now() < end {
        let victim = &victims[fastrand::usize(..victims.len())];
        match fastrand::u8(..4) {
            0 => {
                let cpu = cpus[fastrand::usize(..cpus.len())];
                moves += u64::from(victim.move_to(&[cpu]));
            }
            1 => thread::sleep(Duration::from_micros(fastrand::u64(..200))),
            _ => victim.interrupt(),
        }
    }
    for victim in victims {
        victim.move_to(&cpus);
    }
    moves
}

/// Portable builds do not watch forks.
#[cfg(not(atomseq_sections))]
fn fork_until(_over: &AtomicBool) -> u64 {
    0
}

/// Forks, one child after the other; returns how many came to their end.
#[cfg(atomseq_sections)]
fn fork_until(over: &AtomicBool) -> u64 {
    let mut forks = 0;
    while !over.load(Ordering::Relaxed) {
        // SAFETY: the child uses atomseq and the C library's allocator, both of which expect forks,
        // and leaves without the test harness's help.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "no child");
        if child == 0 {
            let lived = stage().structures.live_as_child();
            // SAFETY: ends this process.
            unsafe { libc::_exit(i32::from(!lived)) };
        }
        let code = verify_support::processes::exit_code(child);
        assert_eq!(
            code,
            Some(0),
            "None: a child found a gate closed for ever, or crashed"
        );
        forks += 1;
        thread::sleep(Duration::from_millis(5));
    }
    forks
}
