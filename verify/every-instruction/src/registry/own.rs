//! A user's own sequences, with the operations that the library's sequences do not use: half words,
//! an acquire, a release, the CPU's number, two words returned, a shift by a word, a constant that
//! no instruction holds, no slot. One is a plain `fn`. Then test-and-set flags with a home:
//! [`OnCpu`] and [`BiasedFlag`].

use atomseq::mutex::{BiasedFlag, OnCpu, TestAndSet};
use atomseq::percpu::Area;
use verify_support::cpus;

use super::on_both;
use crate::scenario::{Check, Operation, Scenario, Words};

const WORD: usize = Area::FIRST_WORD;
const HALF: usize = Area::FIRST_WORD + 8;
const SPARE: usize = Area::FIRST_WORD + 12;
/// Takes a register.
const KEPT: u64 = 0x7fff_ffff_ffff;

atomseq::sequence! {
    /// Exchanges the word; returns its old value and the CPU.
    fn exchange(slot: Slot, new: Word) -> (Word, Word) {
        let old = load_acquire(slot + WORD);
        let here = cpu();
        commit_release(slot + WORD, new);
        (old, here)
    }

    /// Computes a new half word from the old one, which it returns, unless that is too large.
    unsafe fn scramble(slot: Slot, factor: Word, shift: Word) -> Option<Word> {
        let old = load32(slot + HALF);
        if old > 10_000 { return None }
        prepare32(slot + SPARE, old);
        commit32(slot + HALF, max(min(((old * factor) << shift) ^ 5, 20_000), !old & 1) & KEPT);
        Some(old)
    }

    /// Adds one to a word of this CPU; `false` on another one.
    unsafe fn add_on(word: Word, home: Word) -> bool {
        if cpu() != home { return false }
        let value = load(word);
        commit(word, value + 1);
        true
    }
}

#[inline(never)]
fn run_exchange(area: &Area, new: usize) -> Words {
    let (old, here) = match exchange::on_cpu(area.slots(), new) {
        Ok(words) => words,
        Err(_) => area.on_slow_path(|held| (exchange::gated(held, new).0, held.cpu())),
    };
    vec![old as u64, here as u64]
}

#[inline(never)]
fn run_scramble(area: &Area, factor: usize, shift: usize) -> Words {
    // SAFETY: the half words are in the slot, and only this sequence uses them.
    let old = match unsafe { scramble::on_cpu(area.slots(), factor, shift) } {
        Ok(old) => old,
        Err(_) => {
            // SAFETY: the half words are in the slot, and the gate is held.
            area.on_slow_path(|held| unsafe { scramble::gated(held, factor, shift) })
        }
    };
    old.map(|old| old as u64).into_iter().collect()
}

/// Adds to the home CPU's word from any CPU; there is no gate, and so no slow path.
#[inline(never)]
fn run_add_on(area: &Area) -> Words {
    let home = cpus::Cpus::allowed().home;
    // The slots of one area lie at the same distance from each other.
    let word = area.slots().base() as usize + home * area.slots().stride() + WORD;
    loop {
        // SAFETY: the word of a live area, which no other CPU's sequence uses. Sections run here,
        // or an area with open gates could not exist.
        if let Ok(added) = unsafe { add_on::on_cpu(word, home) } {
            return vec![added.into()];
        }
    }
}

fn fresh() -> Area {
    let area = Area::try_new(0).expect("there is memory for one area");
    on_both(|cpu| {
        run_exchange(&area, cpu as usize + 7);
        run_scramble(&area, 3, 4);
    });
    area
}

/// Returns the committed words. The prepared word of an interrupted attempt may still be present,
/// and has no meaning.
fn content(area: &Area) -> Words {
    let half = |word: usize| word as u64 & u64::from(u32::MAX);
    cpus::both()
        .flat_map(|cpu| {
            [
                cpu as u64,
                area.peek(cpu, WORD) as u64,
                half(area.peek(cpu, HALF)),
            ]
        })
        .collect()
}

const INTERFERENCES: &[(&str, Operation<Area>)] = &[
    ("exchange", |area| run_exchange(area, 200)),
    ("scramble", |area| run_scramble(area, 5, 6)),
];

pub fn check(checker: &mut impl Check) {
    let base = Scenario {
        name: "exchange".to_string(),
        fresh,
        operation: |area| run_exchange(area, 100),
        interferences: INTERFERENCES,
        signal_safe: true,
        whole: true,
        content,
        total: content,
    };
    checker.check(&base);
    checker.check(&Scenario {
        name: "scramble".to_string(),
        operation: |area| run_scramble(area, 3, 2),
        ..base
    });
    checker.check(&Scenario {
        name: "scramble, too large".to_string(),
        operation: |area| run_scramble(area, 3, 2),
        fresh: || {
            let area = fresh();
            while !run_scramble(&area, 3, 2).is_empty() {}
            area
        },
        ..base
    });
    if !atomseq::status().is_active() {
        return;
    }
    checker.check(&Scenario {
        name: "add_on".to_string(),
        operation: run_add_on,
        interferences: &[("add_on", run_add_on)],
        // Without a gate there is no slow path.
        signal_safe: false,
        ..base
    });
}

#[inline(never)]
fn set<M: TestAndSet>(flag: &M) -> Words {
    vec![flag.test_and_set().into()]
}

fn is_set<M: TestAndSet>(flag: &M) -> Words {
    vec![flag.is_set().into()]
}

fn set_and_clear<M: TestAndSet>(flag: &M) {
    assert_eq!(set(flag), [1]);
    // SAFETY: this thread has set it.
    unsafe { flag.clear() };
}

/// Makes a flag whose home is this CPU, and which was used on the other CPU before if that takes
/// part.
fn used<M: TestAndSet>() -> M {
    let flag = M::CLEAR;
    set_and_clear(&flag);
    on_both(|_| set_and_clear(&flag));
    flag
}

/// Checks a flag whose home is this CPU, and one that has no home yet.
fn check_mechanism<M: TestAndSet>(
    checker: &mut impl Check,
    interferences: &'static [(&'static str, Operation<M>)],
) {
    let used = Scenario {
        name: format!("test-and-set {}", M::NAME),
        fresh: used::<M>,
        operation: set::<M>,
        interferences,
        signal_safe: true,
        whole: true,
        content: is_set::<M>,
        total: is_set::<M>,
    };
    checker.check(&used);
    checker.check(&Scenario {
        name: format!("test-and-set {}, the first", M::NAME),
        fresh: || M::CLEAR,
        ..used
    });
}

pub fn check_flags(checker: &mut impl Check) {
    check_mechanism::<OnCpu>(checker, &[("test-and-set", set)]);
    check_mechanism::<BiasedFlag>(checker, &[("test-and-set", set)]);
}
