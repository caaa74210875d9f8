//! A user's program: it installs a handler, and uses a structure of each module.
//!
//! With the feature `unstable-internals` it calls what only tests need, too. With
//! `--cfg reaches="…"` it tries to: that must not compile without the feature.

use atomseq::dcas::{Cell, Change, Domain};
use atomseq::nonblocking::{LinkedStack, List, Queue, Stack};
use atomseq::{local, mutex, percpu, signal, type_stable};

atomseq::local::per_thread! {
    static EVENTS: local::Counter = local::Counter::new();
}

type_stable::descriptor! {
    struct Task { number: std::sync::atomic::AtomicU64 }
}

fn on_signal(_event: &mut signal::Event<'_>) {
    EVENTS.with(local::Counter::increment);
}

fn main() {
    // SAFETY: the handler is async-signal-safe.
    unsafe { signal::install(libc::SIGUSR1, on_signal) }.expect("a handler");
    let masked = signal::mask();
    // SAFETY: a signal that has a handler.
    unsafe { libc::raise(libc::SIGUSR1) };
    drop(masked);

    let counter = percpu::Counter::new();
    counter.increment();
    let stack = percpu::Stack::with_capacity_per_cpu(4);
    _ = stack.push(1_u64);
    let lock = mutex::Biased::new(1);
    *lock.lock() += 1;
    let tasks = type_stable::Pool::<Task>::new();
    drop(tasks.allocate());

    let domain = Domain::new([Cell::new(1), Cell::new(2)]);
    let both = [Change::of(&domain[0], 1, 2), Change::of(&domain[1], 2, 1)];
    _ = domain.compare_exchange_pair(both[0], both[1]);
    let (list, linked) = (List::new(), LinkedStack::new());
    _ = list.try_insert(1_u64, 2_u64);
    _ = (list.get(&1), list.remove(&1), list.pop_first());
    _ = linked.push(1_u64);
    let (queue, array) = (Queue::with_capacity(4), Stack::with_capacity(4));
    _ = (queue.push(1_u64), array.push(1_u64));
    println!(
        "{} {} {:?} {:?} {:?} {:?}",
        counter.sum(),
        EVENTS.with(local::Counter::sum),
        stack.pop(),
        linked.pop(),
        queue.pop(),
        array.pop()
    );
    #[cfg(any(feature = "unstable-internals", reaches = "methods"))]
    methods(&domain, both, &list, &linked, &array);
    #[cfg(any(feature = "unstable-internals", reaches = "modules"))]
    modules();
}

/// Mechanisms that are forced, and operations that stop half way.
#[cfg(any(feature = "unstable-internals", reaches = "methods"))]
fn methods(
    domain: &Domain<[Cell; 2]>,
    both: [Change<'_>; 2],
    list: &List<u64, u64>,
    linked: &LinkedStack<u64>,
    array: &Stack<u64>,
) {
    use atomseq::dcas::{Adjacent, Mechanism::Kcas};
    use std::sync::atomic::AtomicU64;

    use atomseq::nonblocking::{
        ListCache, Member, OneVisitorList, PageMap, PriorityQueue, RefList, Unordered,
    };

    drop(Domain::forced([Cell::new(1)], Kcas));
    _ = Adjacent::by_kcas(1, 2);
    drop(List::<u64, u64>::forced(Kcas));
    drop(List::<u64, u64, Unordered>::unordered_forced(Kcas));
    drop(Queue::<u64>::by_kcas(4));
    drop(RefList::<u64>::forced(Kcas));
    drop(OneVisitorList::<u64>::forced(Kcas));
    let owner = |_: &Member<AtomicU64, 1>| ();
    drop(ListCache::forced(4, [1], owner, Kcas));
    let queue = PriorityQueue::<u64, u64>::forced(Kcas);
    if let Ok(handle) = queue.insert_between(1, 2, |version| version) {
        _ = queue.remove_between(handle, |version| version);
    }
    _ = queue.pop_between(|version| version);
    drop(PageMap::<u64, 48>::wide_forced(Kcas));
    let pages = PageMap::<u64>::forced(Kcas);
    _ = pages.insert_between(1, 2, |version| version);
    _ = pages.get_between(1, |version| version);
    _ = pages.remove_between(1, |version| version);
    drop(Stack::<u64>::forced(4, Kcas));
    drop(LinkedStack::<u64>::forced(Kcas));
    _ = linked.pop_between(|version| version);
    _ = list.try_insert_between(1, 2, |version| version);
    _ = list.get_between(&1, |version| version);
    _ = list.remove_between(&1, |version| version);
    _ = list.pop_first_between(|version| version);
    _ = array.abandon();
    // SAFETY: the domain stays where it is.
    _ = unsafe { domain.abandon(both[0], both[1]) };
    _ = domain.abandon_lock();
    domain.abandon_claim();
}

/// The switches of protections, and the rest of `internals`.
#[cfg(any(feature = "unstable-internals", reaches = "modules"))]
fn modules() {
    #[cfg(atomseq_sections)]
    // SAFETY: no signal comes any more.
    unsafe {
        atomseq::internals::signal_controls::set(atomseq::internals::signal_controls::RESTART);
    }
    println!("{}", atomseq::internals::set_pauses(1));
    _ = atomseq::dcas::Bare::<true>::default();
}
