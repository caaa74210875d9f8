//! A user's own sequences: each operation of the language, in both forms.

use std::ops::Deref;

use super::Memory;
use crate::scenario::{Check, Operation, Scenario, Words};

/// Takes a register.
const KEPT: u64 = 0x7fff_ffff_ffff;

atomseq::sequence! {
    /// Adds, unless the sum would exceed the limit; returns the old value.
    unsafe fn count(word: Word, amount: Word, max: Word) -> Option<Word> {
        let old = load(word);
        let new = old + amount;
        if new > max { return None }
        commit(word, new);
        Some(old)
    }

    /// Adds to a word, and returns nothing.
    unsafe fn add(word: Word, amount: Word) {
        let old = load(word);
        commit(word, old + amount);
    }

    /// Removes the first node of a list whose links are the nodes' first words.
    unsafe fn take(list: Word) -> Word {
        let first = load(list);
        if first == 0 { return 0 }
        let next = load(first);
        commit(list, next);
        first
    }

    /// Pushes a node at the front.
    unsafe fn put(list: Word, node: Word) {
        let first = load(list);
        prepare(node, first);
        commit(list, node);
    }

    /// Uses half words, an acquire, a release and a shift, and returns two words.
    unsafe fn scramble(whole: Word, half: Word, factor: Word, shift: Word) -> (Word, Word) {
        let old = load_acquire(whole);
        let small = load32(half);
        prepare32(half + 4, small);
        commit_release(whole, max(min(((old * factor) << shift) ^ small, 20_000), !small & KEPT & 1));
        (old, small)
    }

    /// The same with a half word as the commit.
    unsafe fn halve(half: Word) -> Word {
        let old = load32(half);
        commit32(half, old >> 1);
        old
    }

    /// Appends a node after the last one: two visible stores.
    unsafe fn append(last: Word, node: Word) {
        let before = load(last);
        store(before, node);
        store(last, node);
    }

    /// Moves an amount between two accounts, unless the first holds too little; counts the tries.
    unsafe fn transfer(from: Word, to: Word, tries: Word, amount: Word) -> Option<Word> {
        let all = load(tries);
        store(tries, all + 1);
        let source = load(from);
        if source < amount { return None }
        store(from, source - amount);
        let target = load(to);
        store(to, target + amount);
        let left = load(from);
        Some(left)
    }

    /// Stores three copies of one number.
    unsafe fn triple(a: Word, b: Word, c: Word) -> Word {
        let old = load(a);
        store(a, old + 1);
        let second = load(b);
        store(b, second + 1);
        let third = load(c);
        store(c, third + 1);
        old
    }
}

/// The words: a sum, a list's first link, two half words, a queue's last link, two accounts, tries,
/// three copies, and four nodes.
struct Own(Box<Memory<18>>);

impl Deref for Own {
    type Target = Memory<18>;
    fn deref(&self) -> &Memory<18> {
        &self.0
    }
}

const SUM: usize = 0;
const LIST: usize = 1;
const HALF: usize = 2;
const LAST: usize = 3;
const FROM: usize = 4;
const TO: usize = 5;
const TRIES: usize = 6;
const COPIES: usize = 7;
const WHOLE: usize = 10;
const QUEUE: usize = 11;
const NODES: usize = 12;

/// Makes a list of two nodes, and an empty queue to which two nodes can be added; the last two
/// nodes belong to the operations that add.
fn fresh() -> Own {
    let own = Own(Box::new(Memory::holding([0; 18])));
    own.set(SUM, 7);
    own.set(LIST, own.at(NODES));
    own.set(NODES, own.at(NODES + 1));
    own.set(HALF, 0x1234_0000_0567);
    own.set(LAST, own.at(QUEUE));
    own.set(FROM, 100);
    own.set(TO, 5);
    own.set(WHOLE, 3);
    own
}

/// Returns every word; addresses as distances, so that two memories can be compared.
fn content(own: &Own) -> Words {
    let base = own.at(0);
    let relative = |word: u64| match (word as usize).wrapping_sub(base) {
        distance @ 0..=512 => 1 << 40 | distance as u64,
        _ => word,
    };
    own.words().into_iter().map(relative).collect()
}

fn found(own: &Own, node: usize) -> Words {
    vec![match node {
        0 => 0,
        node => (node - own.at(0)) as u64,
    }]
}

fn option(word: Option<usize>) -> Words {
    word.into_iter().map(|word| word as u64).collect()
}

/// A wrapper for each form; `$call` is the sequence's call.
macro_rules! operations {
    ($($restarting:ident, $rolling:ident: $sequence:ident($own:ident) = ($($argument:expr),*) => |$result:pat_param| $words:expr;)*) => {$(
        #[inline(never)]
        fn $restarting($own: &Own) -> Words {
            // SAFETY: words of one memory, which this thread and its handlers alone change, by
            // sequences.
            let $result = unsafe { $sequence::restarting($($argument),*) };
            $words
        }
        operations!(@rolling $rolling: $sequence($own) = ($($argument),*) => |$result| $words);
    )*};
    (@rolling $rolling:ident: $sequence:ident($own:ident) = ($($argument:expr),*) => |$result:pat_param| $words:expr) => {
        #[inline(never)]
        fn $rolling($own: &Own) -> Words {
            // SAFETY: as for the restarting form.
            let $result = unsafe { $sequence::rolling($($argument),*) };
            $words
        }
    };
}

operations! {
    count_restarting, count_rolling: count(own) = (own.at(SUM), 3, 12) => |old| option(old);
    add_restarting, add_rolling: add(own) = (own.at(SUM), 1) => |()| vec![];
    take_restarting, take_rolling: take(own) = (own.at(LIST)) => |node| found(own, node);
    put_restarting, put_rolling: put(own) = (own.at(LIST), own.at(NODES + 2)) => |()| vec![];
    scramble_restarting, scramble_rolling: scramble(own) = (own.at(WHOLE), own.at(HALF), 5, 2)
        => |(old, small)| vec![old as u64, small as u64];
    halve_restarting, halve_rolling: halve(own) = (own.at(HALF)) => |old| vec![old as u64];
}

macro_rules! rolling {
    ($($rolling:ident: $sequence:ident($own:ident) = ($($argument:expr),*) => |$result:pat_param| $words:expr;)*) => {$(
        operations!(@rolling $rolling: $sequence($own) = ($($argument),*) => |$result| $words);
    )*};
}

rolling! {
    append_rolling: append(own) = (own.at(LAST), own.at(NODES + 2)) => |()| vec![];
    append_other: append(own) = (own.at(LAST), own.at(NODES + 3)) => |()| vec![];
    transfer_rolling: transfer(own) = (own.at(FROM), own.at(TO), own.at(TRIES), 30) => |left| option(left);
    triple_rolling: triple(own) = (own.at(COPIES), own.at(COPIES + 1), own.at(COPIES + 2)) => |old| vec![old as u64];
}

#[inline(never)]
fn put_other(own: &Own) -> Words {
    // SAFETY: words of one memory, which this thread and its handlers alone change, by sequences.
    unsafe { put::restarting(own.at(LIST), own.at(NODES + 3)) };
    vec![]
}

/// An operation, its initial state, and its interferences.
type Case = (
    &'static str,
    fn() -> Own,
    Operation<Own>,
    &'static [(&'static str, Operation<Own>)],
);

const COUNTS: &[(&str, Operation<Own>)] = &[
    ("a restarting count", count_restarting),
    ("a rolling count", count_rolling),
    ("an addition", add_restarting),
];
const LISTS: &[(&str, Operation<Own>)] = &[
    ("a restarting take", take_restarting),
    ("a put", put_other),
    ("a rolling take", take_rolling),
];
const SCRAMBLES: &[(&str, Operation<Own>)] = &[
    ("a scramble", scramble_restarting),
    ("a halving", halve_rolling),
];
const QUEUES: &[(&str, Operation<Own>)] = &[("an appended node", append_other)];
const TRANSFERS: &[(&str, Operation<Own>)] = &[("a transfer", transfer_rolling)];
const TRIPLES: &[(&str, Operation<Own>)] = &[("a triple", triple_rolling)];

fn full() -> Own {
    let own = fresh();
    own.set(SUM, 11);
    own
}

fn empty() -> Own {
    let own = fresh();
    own.set(LIST, 0);
    own
}

fn poor() -> Own {
    let own = fresh();
    own.set(FROM, 40);
    own
}

const CASES: &[Case] = &[
    ("count, restarting", fresh, count_restarting, COUNTS),
    ("count, restarting, no room", full, count_restarting, COUNTS),
    ("count, rolling", fresh, count_rolling, COUNTS),
    ("count, rolling, no room", full, count_rolling, COUNTS),
    ("add, restarting", fresh, add_restarting, COUNTS),
    ("add, rolling", fresh, add_rolling, COUNTS),
    ("take, restarting", fresh, take_restarting, LISTS),
    ("take, restarting, empty", empty, take_restarting, LISTS),
    ("take, rolling", fresh, take_rolling, LISTS),
    ("take, rolling, empty", empty, take_rolling, LISTS),
    ("put, restarting", fresh, put_restarting, LISTS),
    ("put, rolling", fresh, put_rolling, LISTS),
    (
        "put of an interference",
        fresh,
        put_other,
        &[("a restarting take", take_restarting)],
    ),
    (
        "scramble, restarting",
        fresh,
        scramble_restarting,
        SCRAMBLES,
    ),
    ("scramble, rolling", fresh, scramble_rolling, SCRAMBLES),
    ("halve, restarting", fresh, halve_restarting, SCRAMBLES),
    ("halve, rolling", fresh, halve_rolling, SCRAMBLES),
    ("append", fresh, append_rolling, QUEUES),
    (
        "append of an interference",
        fresh,
        append_other,
        &[("an appended node", append_rolling)],
    ),
    ("transfer", fresh, transfer_rolling, TRANSFERS),
    (
        "transfer, refused after one more",
        poor,
        transfer_rolling,
        TRANSFERS,
    ),
    ("triple", fresh, triple_rolling, TRIPLES),
];

pub fn check(checker: &mut impl Check) {
    for (name, fresh, operation, interferences) in CASES {
        checker.check(&Scenario {
            name: name.to_string(),
            fresh: *fresh,
            operation: *operation,
            interferences,
            signal_safe: true,
            whole: true,
            content,
            total: content,
        });
    }
}
