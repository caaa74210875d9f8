//! A plain `fn`: its forms for its CPU are safe, so a crate without `unsafe` may use them.
#![forbid(unsafe_code)]

use atomseq::percpu::Area;
use atomseq::sequence::Closed;

const COUNT: usize = Area::FIRST_WORD;
const LAST: usize = Area::BULK - 8;

atomseq::sequence! {
    /// Whole words at constant offsets, among them the first and the last.
    pub fn record(slot: Slot, value: Word) -> (Word, Word) {
        let count = load_acquire(slot + COUNT);
        if value == 0 { return (count, 0) }
        let sum = load(slot + 16) + value;
        prepare(slot + LAST, sum);
        prepare((slot + 16) + 8, max(value, load(slot + 32)));
        commit_release(slot + COUNT, count + 1);
        (count, sum)
    }

    /// A compare-and-swap of a word of the slot.
    pub fn claim(slot: Slot, owner: Word) -> bool {
        'abort: { return false }
        let found = cas(slot + 40, 0, owner);
        if found != 0 { return false }
        store(slot + 48, cpu());
        commit(slot + COUNT, owner);
        true
    }

    /// Nothing but a store.
    pub fn reset(slot: Slot) { commit(slot + COUNT, 0); }
}

/// Runs it without `unsafe`.
fn run(area: &Area, value: usize) -> (usize, usize) {
    record::on_cpu(area.slots(), value)
        .unwrap_or_else(|Closed| area.on_slow_path(|held| record::gated(held, value)))
}

#[test]
fn safe_code_calls_a_plain_function() {
    let area = Area::try_new(0).unwrap();
    let total: usize = (1..=100).map(|value| run(&area, value).0 + 1).sum();
    assert!(total >= 100);
    let sum = |offset| {
        (0..area.cpus())
            .map(|cpu| area.peek(cpu, offset))
            .sum::<usize>()
    };
    assert_eq!(sum(COUNT), 100);
    assert_eq!(run(&area, 0).1, 0);
    let held = area.close_gate(0);
    assert!(claim::gated(&held, 7) && !claim::gated(&held, 8));
    reset::gated(&held);
    drop(held);
    assert_eq!(
        (area.peek(0, COUNT), area.peek(0, 40), area.peek(0, 48)),
        (0, 7, 0)
    );
    let _ = claim::on_cpu(area.slots(), 9);
    let _ = reset::on_cpu(area.slots());
}
