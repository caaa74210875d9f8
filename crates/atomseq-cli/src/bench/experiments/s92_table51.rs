//! `s92-table51`: S92 5.2.4: what synchronization costs by locking and without locks, and without
//! locks when the first attempt fails.
//!
//! As there, the code under the lock is the code that is not synchronized, and an interference
//! comes between an operation's first look and its compare-and-swap. In atomseq's stack and queue
//! (`lock-free`) nothing can come between, and in its list a thread whose attempt failed first
//! backs off for another thread, which does not exist here; so `lock-free-retry` is the paper's
//! figure by `dcas::Domain` (`cas2` without the retry). Insertion and deletion are timed apart. The
//! objects stay in this processor's first cache.

mod figures;
mod lock_free;
mod locked;
mod plain;
mod run;
mod system;

use self::locked::{Locked, Open};
use self::run::{Measured, Timed};
use self::system::{NullCall, Posix};
use super::signal_sequence::{KernelMask, Mask};
use super::{Experiment, Method, Threads, cases};
use crate::bench::beside::Beside;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "s92-table51",
    about: "S92's table 5.1: an operation without synchronization, locked, and lock-free, on one thread",
    cases: cases! {
        "null-call:unsynchronized", "a procedure that does nothing is called";
        "counter:unsynchronized", "a counter is incremented, not synchronized";
        "counter:locked", "under signal::mask() and a SpinLock";
        "counter:locked-sigprocmask", "between two calls of sigprocmask, under a SpinLock";
        "counter:locked-open", "under a SpinLock alone";
        "counter:lock-free", "AtomicU64, compare_exchange";
        "counter:lock-free-retry", "AtomicU64, compare_exchange, whose first attempt fails";
        "list-insert:unsynchronized",
            "a free node is linked before the first of a list, not synchronized";
        "list-insert:locked", "under signal::mask() and a SpinLock";
        "list-insert:locked-sigprocmask", "between two calls of sigprocmask, under a SpinLock";
        "list-insert:locked-open", "under a SpinLock alone";
        "list-insert:lock-free", "nonblocking::LinkedStack::push";
        "list-insert:cas2", "figure 5.4 by dcas::Domain";
        "list-insert:lock-free-retry", "figure 5.4, whose first attempt fails";
        "list-delete:unsynchronized", "the first node of a list is taken off, not synchronized";
        "list-delete:locked", "under signal::mask() and a SpinLock";
        "list-delete:locked-sigprocmask", "between two calls of sigprocmask, under a SpinLock";
        "list-delete:locked-open", "under a SpinLock alone";
        "list-delete:lock-free", "nonblocking::LinkedStack::pop";
        "list-delete:cas2", "figure 5.4 by dcas::Domain";
        "list-delete:lock-free-retry", "figure 5.4, whose first attempt fails";
        "queue-put:unsynchronized", "a number is put into a circular queue, not synchronized";
        "queue-put:locked", "under signal::mask() and a SpinLock";
        "queue-put:locked-sigprocmask", "between two calls of sigprocmask, under a SpinLock";
        "queue-put:locked-open", "under a SpinLock alone";
        "queue-put:lock-free", "nonblocking::Queue::push";
        "queue-put:cas2", "figure 5.6 by dcas::Domain";
        "queue-put:lock-free-retry", "figure 5.6, whose first attempt fails";
        "queue-get:unsynchronized", "the oldest number is taken out, not synchronized";
        "queue-get:locked", "under signal::mask() and a SpinLock";
        "queue-get:locked-sigprocmask", "between two calls of sigprocmask, under a SpinLock";
        "queue-get:locked-open", "under a SpinLock alone";
        "queue-get:lock-free", "nonblocking::Queue::pop";
        "queue-get:cas2", "figure 5.6 by dcas::Domain";
        "queue-get:lock-free-retry", "figure 5.6, whose first attempt fails";
        "stack-push:unsynchronized", "a number is pushed on a stack in an array, not synchronized";
        "stack-push:locked", "under signal::mask() and a SpinLock";
        "stack-push:locked-sigprocmask", "between two calls of sigprocmask, under a SpinLock";
        "stack-push:locked-open", "under a SpinLock alone";
        "stack-push:lock-free", "nonblocking::Stack::push";
        "stack-push:cas2", "figure 5.5 by dcas::Domain";
        "stack-push:lock-free-retry", "figure 5.5, whose first attempt fails";
        "stack-pop:unsynchronized", "the top number is popped, not synchronized";
        "stack-pop:locked", "under signal::mask() and a SpinLock";
        "stack-pop:locked-sigprocmask", "between two calls of sigprocmask, under a SpinLock";
        "stack-pop:locked-open", "under a SpinLock alone";
        "stack-pop:lock-free", "nonblocking::Stack::pop";
        "stack-pop:cas2", "figure 5.5 by dcas::Domain";
        "stack-pop:lock-free-retry", "figure 5.5, whose first attempt fails";
        "semaphore:unsynchronized", "a permit is taken, not synchronized";
        "semaphore:locked", "under signal::mask() and a SpinLock";
        "semaphore:locked-sigprocmask", "between two calls of sigprocmask, under a SpinLock";
        "semaphore:locked-open", "under a SpinLock alone";
        "semaphore:lock-free", "mutex::Semaphore::acquire";
        "semaphore:posix", "sem_wait of the C library";
    },
    peers: &["unsynchronized", "posix"],
    method: Method::Own {
        threads: 1,
        run: run::run,
    },
    threads: Threads::Alone,
    beside: Some(&Beside {
        paper: "S92",
        table: Some("5.1"),
        programs: &[
            ("null-call", "null procedure call in C"),
            ("counter", "Increment counter"),
            ("list-insert", "Linked-list Insert"),
            ("list-delete", "Linked-list Delete"),
            ("queue-put", "Circular-Queue Insert"),
            ("queue-get", "Circular-Queue Delete"),
            ("stack-push", "Stack Push"),
            ("stack-pop", "Stack Pop"),
            ("semaphore", "get_semaphore Sony NEWS, Unix"),
        ],
        counterparts: &[
            ("unsynchronized", "Non Sync"),
            ("locked", "Locked"),
            ("lock-free", "Lock-free noretry"),
            ("lock-free-retry", "Lock-free oneretry"),
        ],
        arguments: &[
            ("Locked", "Lock-free noretry"),
            ("Lock-free oneretry", "Locked"),
        ],
        reasons: &REASONS,
        sections: &["5.2.4"],
        note: "Here caches are warm and the loop's time is included; a mask is against this thread's signal handlers, and not against \
               preemption, which no program can disable. S92's locked-open (its note 2) is very nearly as dear as lock-free, without a \
               figure. Its figure for a semaphore is that of a kernel: semaphore:posix is nearest to it.",
        ..Beside::NOTHING
    }),
};

/// Why the order of two ways may be another one.
const REASONS: [((&str, &str), &str); 2] = [
    (
        ("Locked", "Lock-free noretry"),
        "the mask and the unlocking are plain stores here, so a lock costs one atomic instruction, as a lock-free operation does, \
         which has to look and to prepare besides",
    ),
    (
        ("Locked", "Lock-free oneretry"),
        "a second attempt is a second atomic instruction; a lock takes one",
    ),
];

/// How many elements an object holds, and how many go in before as many come out: no more than the
/// free nodes that a CPU keeps for itself, since S92's operations do not allocate.
const CAPACITY: u64 = 32;

/// How many attempts something took; none if it was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts(pub u64);

/// An object of S92's table, with room for [`CAPACITY`] elements, and the two operations that fill
/// and empty it.
pub trait Pair: Default + 'static {
    /// Puts a number in.
    fn put(&self, value: u64) -> Attempts;

    /// Takes a number out. Objects without elements return how many there were before; the last is
    /// 1.
    fn take(&self) -> (u64, Attempts);
}

/// An object, and the cases that its operations are.
struct Row {
    put: &'static str,
    take: Option<&'static str>,
    /// How many attempts each operation is to take.
    attempts: u64,
    make: fn() -> Box<dyn Timed>,
}

const fn row<P: Pair>(put: &'static str, take: Option<&'static str>, attempts: u64) -> Row {
    Row {
        put,
        take,
        attempts,
        make: Measured::<P>::boxed,
    }
}

static ROWS: &[Row] = &[
    row::<NullCall>("null-call:unsynchronized", None, 1),
    row::<plain::Counter>("counter:unsynchronized", None, 1),
    row::<Locked<plain::Counter, Mask>>("counter:locked", None, 1),
    row::<Locked<plain::Counter, KernelMask>>("counter:locked-sigprocmask", None, 1),
    row::<Locked<plain::Counter, Open>>("counter:locked-open", None, 1),
    row::<lock_free::Counter<false>>("counter:lock-free", None, 1),
    row::<lock_free::Counter<true>>("counter:lock-free-retry", None, 2),
    row::<plain::List>(
        "list-insert:unsynchronized",
        Some("list-delete:unsynchronized"),
        1,
    ),
    row::<Locked<plain::List, Mask>>("list-insert:locked", Some("list-delete:locked"), 1),
    row::<Locked<plain::List, KernelMask>>(
        "list-insert:locked-sigprocmask",
        Some("list-delete:locked-sigprocmask"),
        1,
    ),
    row::<Locked<plain::List, Open>>(
        "list-insert:locked-open",
        Some("list-delete:locked-open"),
        1,
    ),
    row::<lock_free::List>("list-insert:lock-free", Some("list-delete:lock-free"), 1),
    row::<figures::List<false>>("list-insert:cas2", Some("list-delete:cas2"), 1),
    row::<figures::List<true>>(
        "list-insert:lock-free-retry",
        Some("list-delete:lock-free-retry"),
        2,
    ),
    row::<plain::Queue>(
        "queue-put:unsynchronized",
        Some("queue-get:unsynchronized"),
        1,
    ),
    row::<Locked<plain::Queue, Mask>>("queue-put:locked", Some("queue-get:locked"), 1),
    row::<Locked<plain::Queue, KernelMask>>(
        "queue-put:locked-sigprocmask",
        Some("queue-get:locked-sigprocmask"),
        1,
    ),
    row::<Locked<plain::Queue, Open>>("queue-put:locked-open", Some("queue-get:locked-open"), 1),
    row::<lock_free::Queue>("queue-put:lock-free", Some("queue-get:lock-free"), 1),
    row::<figures::Queue<false>>("queue-put:cas2", Some("queue-get:cas2"), 1),
    row::<figures::Queue<true>>(
        "queue-put:lock-free-retry",
        Some("queue-get:lock-free-retry"),
        2,
    ),
    row::<plain::Stack>(
        "stack-push:unsynchronized",
        Some("stack-pop:unsynchronized"),
        1,
    ),
    row::<Locked<plain::Stack, Mask>>("stack-push:locked", Some("stack-pop:locked"), 1),
    row::<Locked<plain::Stack, KernelMask>>(
        "stack-push:locked-sigprocmask",
        Some("stack-pop:locked-sigprocmask"),
        1,
    ),
    row::<Locked<plain::Stack, Open>>("stack-push:locked-open", Some("stack-pop:locked-open"), 1),
    row::<lock_free::Stack>("stack-push:lock-free", Some("stack-pop:lock-free"), 1),
    row::<figures::Stack<false>>("stack-push:cas2", Some("stack-pop:cas2"), 1),
    row::<figures::Stack<true>>(
        "stack-push:lock-free-retry",
        Some("stack-pop:lock-free-retry"),
        2,
    ),
    row::<plain::Permits>("semaphore:unsynchronized", None, 1),
    row::<Locked<plain::Permits, Mask>>("semaphore:locked", None, 1),
    row::<Locked<plain::Permits, KernelMask>>("semaphore:locked-sigprocmask", None, 1),
    row::<Locked<plain::Permits, Open>>("semaphore:locked-open", None, 1),
    row::<lock_free::Permits>("semaphore:lock-free", None, 1),
    row::<Posix>("semaphore:posix", None, 1),
];
