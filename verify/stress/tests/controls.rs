//! What is lost without a part of the gate, on real CPUs: without the fence, and without the test
//! of the gate in the sequence. Each fault must be detected; the same rounds with both parts must
//! be correct.
#![cfg(atomseq_sections)]

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use atomseq::percpu::Area;
use verify_stress::exclusion::{cpus, stay_on};
use verify_stress::lengthened;

/// The sum of one CPU.
const SUM: usize = Area::FIRST_WORD;
/// Where a sequence copies words to, to take some time.
const SCRATCH: usize = Area::BULK;
const SCRATCH_WORDS: usize = 64;

atomseq::sequence! {
    /// Adds one, slowly.
    unsafe fn add(slot: Slot, from: Word, words: Word) {
        let sum = load(slot + SUM);
        prepare_copy(slot + (words ^ words) + SCRATCH, from, words);
        commit(slot + SUM, sum + 1);
    }

    /// Does the same without a slot, and so without a test of its gate.
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

    /// Adds one; retries while the gate is closed.
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

    /// Takes the sum of a CPU.
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
        // The gate is closed as a sequence sees it, without a fence.
        self.gate(cpu).store(1, Ordering::SeqCst);
        let sum = take();
        self.gate(cpu).store(0, Ordering::Release);
        sum
    }
}

/// Adds on one CPU while another one drains, for 10 ms; returns how many additions there were, and
/// how many were lost or duplicated.
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

/// Runs rounds until one is wrong, at most so long, and prints what happened. Returns how many
/// additions were wrong; `None` if this machine cannot test it.
fn rounds(name: &str, protocol: Protocol, max: Duration) -> Option<usize> {
    let status = atomseq::status();
    let cpus = cpus();
    let (true, [first, second, ..]) = (status.gates_active(), cpus) else {
        println!(
            "stress: {name}: not tested with {} CPUs, {status}",
            cpus.len()
        );
        return None;
    };
    let shared = Shared::new();
    let start = Instant::now();
    let (mut additions, mut wrong, mut rounds) = (0, 0, 0);
    while start.elapsed() < max && wrong == 0 {
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

/// The limit for the detection of a wrong protocol, which takes a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(100);

#[test]
fn with_both_parts_nothing_is_lost() {
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
        assert_ne!(wrong, 0, "not detected");
    }
}

#[test]
fn without_the_test_of_the_gate_additions_are_lost() {
    let protocol = Protocol {
        tests_the_gate: false,
        ..BOTH
    };
    if let Some(wrong) = rounds("no test of the gate", protocol, PATIENCE) {
        assert_ne!(wrong, 0, "not detected");
    }
}
