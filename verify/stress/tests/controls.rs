//! What is lost without the gate's parts, on real CPUs: the fence, and the test of the gate in the
//! section. Each has to be found out in time; the same rounds with both have to be right.
#![cfg(atomseq_sections)]

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use atomseq::percpu::Area;
use verify_stress::lengthened;
use verify_stress::torment::{self, Victim};

/// The sum of one CPU.
const SUM: usize = Area::FIRST_WORD;
/// Where a section copies words to, to take its time.
const SCRATCH: usize = Area::BULK;
const SCRATCH_WORDS: usize = 64;

atomseq::sequence! {
    /// Adds one, slowly.
    unsafe fn add(slot: Slot, from: Word, words: Word) {
        let sum = load(slot + SUM);
        prepare_copy(slot + (words ^ words) + SCRATCH, from, words);
        commit(slot + SUM, sum + 1);
    }

    /// The same without a slot, and so without a test of its gate.
    unsafe fn add_untested(slots: Word, stride: Word, from: Word, words: Word) {
        let slot = slots + cpu() * stride;
        let sum = load(slot + SUM);
        prepare_copy(slot + SCRATCH, from, words);
        commit(slot + SUM, sum + 1);
    }
}

/// How one thread adds on its CPU, and another drains it.
#[derive(Clone, Copy)]
struct Protocol {
    tests_the_gate: bool,
    fences: bool,
}

struct Shared {
    area: Area,
    gates: Vec<usize>,
}

impl Shared {
    fn new() -> Shared {
        let area = Area::try_new(SCRATCH_WORDS * 8).expect("memory");
        let gates = (0..area.cpus())
            .map(|cpu| area.close_gate(cpu).address())
            .collect();
        Shared { area, gates }
    }

    fn gate(&self, cpu: usize) -> &AtomicU32 {
        // SAFETY: the first word of a slot is its gate, and lives as long as the area.
        unsafe { AtomicU32::from_ptr(self.gates[cpu] as *mut u32) }
    }

    fn sum(&self, cpu: usize) -> &AtomicUsize {
        // SAFETY: a word of a slot, which lives as long as the area.
        unsafe { AtomicUsize::from_ptr((self.gates[cpu] + SUM) as *mut usize) }
    }

    /// One addition; tries again for as long as the gate is closed.
    fn add(&self, protocol: Protocol) {
        let words = [0usize; SCRATCH_WORDS];
        let from = words.as_ptr() as usize;
        let slots = self.area.slots();
        loop {
            // SAFETY: both copy within the bulk memory and change only the sum.
            let added = unsafe {
                if protocol.tests_the_gate {
                    add::on_cpu(slots, from, SCRATCH_WORDS)
                } else {
                    let base = slots.base() as usize;
                    add_untested::on_cpu(base, slots.stride(), from, SCRATCH_WORDS)
                }
            };
            if added.is_ok() {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// Takes a CPU's sum out.
    fn drain(&self, protocol: Protocol, cpu: usize) -> usize {
        let take = || {
            let sum = self.sum(cpu).load(Ordering::Relaxed);
            (0..20).for_each(|_| std::hint::spin_loop());
            self.sum(cpu).store(0, Ordering::Relaxed);
            sum
        };
        if protocol.fences {
            let _held = self.area.close_gate(cpu);
            return take();
        }
        // The gate is closed as a section sees it, and nothing else happens.
        self.gate(cpu).store(1, Ordering::SeqCst);
        let sum = take();
        self.gate(cpu).store(0, Ordering::Release);
        sum
    }
}

/// Adds on one CPU and drains from another for a moment; returns how many additions there were, and
/// how many too few or too many came out.
fn round(shared: &Shared, protocol: Protocol, cpus: [usize; 2]) -> (usize, usize) {
    let over = AtomicBool::new(false);
    let (added, mut drained) = std::thread::scope(|scope| {
        let adding = scope.spawn(|| {
            stay_on(cpus[0]);
            let mut added = 0;
            while !over.load(Ordering::Relaxed) {
                shared.add(protocol);
                added += 1;
            }
            added
        });
        stay_on(cpus[1]);
        let end = Instant::now() + Duration::from_millis(10);
        let mut drained = 0;
        while Instant::now() < end {
            drained += shared.drain(protocol, cpus[0]);
        }
        over.store(true, Ordering::Relaxed);
        (adding.join().expect("the adding thread"), drained)
    });
    for cpu in 0..shared.area.cpus() {
        drained += shared.drain(protocol, cpu);
    }
    (added, added.abs_diff(drained))
}

fn stay_on(cpu: usize) {
    let this = Victim::default();
    this.volunteer(0);
    assert!(this.move_to(&[cpu]), "CPU {cpu} is not to be had");
}

/// Rounds until something is wrong, at most so long. Returns a line that says what happened, and
/// how many additions were wrong; `None` where it cannot be tried.
fn rounds(name: &str, protocol: Protocol, most: Duration) -> Option<usize> {
    let status = atomseq::status();
    let cpus = torment::cpus();
    let (true, [first, second, ..]) = (status.gates_active(), cpus.as_slice()) else {
        println!(
            "stress: {name}: not tried with {} CPUs, {status}",
            cpus.len()
        );
        return None;
    };
    let shared = Shared::new();
    let start = Instant::now();
    let (mut additions, mut wrong, mut rounds) = (0, 0, 0);
    while start.elapsed() < most && wrong == 0 {
        let (more, off) = round(&shared, protocol, [*first, *second]);
        (additions, wrong, rounds) = (additions + more, wrong + off, rounds + 1);
    }
    let time = start.elapsed().as_millis();
    println!("stress: {name}: {wrong} of {additions} additions wrong, {rounds} rounds, {time} ms");
    Some(wrong)
}

const BOTH: Protocol = Protocol {
    tests_the_gate: true,
    fences: true,
};

/// A wrong protocol has this long to be found out; it takes a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn with_both_nothing_is_lost() {
    let length = lengthened(Duration::from_millis(500));
    if let Some(wrong) = rounds("fence and test of the gate", BOTH, length) {
        assert_eq!(wrong, 0);
    }
}

#[test]
fn without_the_fence_additions_are_lost() {
    let protocol = Protocol {
        fences: false,
        ..BOTH
    };
    if let Some(wrong) = rounds("no fence", protocol, PATIENCE) {
        assert_ne!(wrong, 0, "not found out");
    }
}

#[test]
fn without_the_test_of_the_gate_additions_are_lost() {
    let protocol = Protocol {
        tests_the_gate: false,
        ..BOTH
    };
    if let Some(wrong) = rounds("no test of the gate", protocol, PATIENCE) {
        assert_ne!(wrong, 0, "not found out");
    }
}
