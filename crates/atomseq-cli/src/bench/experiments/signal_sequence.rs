//! `signal-sequence`: M94's three programs (4.1) by each way of keeping this thread's signal
//! handlers out of a sequence.
//!
//! * NULL, the empty sequence. The smallest legal sequence is not quite empty: it is one store, its
//!   commit. As one instruction it needs no protection, so all that a mechanism adds to it is the
//!   mechanism's own price.
//! * LIFO: a node is pushed on a singly linked stack and popped off it, two sequences.
//! * FIFO: a node is enqueued in an empty singly linked queue and dequeued, two sequences. Where
//!   head and tail are both words of the queue, as usual, enqueuing has two visible stores, which
//!   cannot be restarted but only rolled forward: that is `fifo-stores`. `fifo` is a queue with a
//!   node to spare, of which enqueuing and dequeuing have one visible store each, so that there is
//!   one template for all forms.
//!
//! `none` is the template of `restarting` and `rolling`, instruction for instruction, without its
//! row in the table: what the two are compared with. The other subjects do the same in plain Rust.

mod interlocked;
mod mechanisms;
mod programs;
mod sequences;

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use self::interlocked::{TaggedFifo, TaggedLifo, TaggedNull};
pub use self::mechanisms::{KernelMask, Mask, Shield};
use self::mechanisms::{Restarting, Rolling, Shielded, Unprotected};
use self::programs::{Fifo, FifoStores, Lifo, Null};
use super::{Experiment, Method, Threads};
use crate::bench::beside::Beside;
use crate::bench::engine::{Case, Subject};
use crate::bench::fault::Fault;
use crate::bench::signals;
use crate::error::Refused;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "signal-sequence",
    about: "M94's programs: what it costs to be atomic against this thread's signal handlers",
    cases: &[
        ("null:none", "one store"),
        ("null:restarting", "the same, restarted if interrupted"),
        ("null:rolling", "the same, rolled forward if interrupted"),
        ("null:mask", "a store under signal::mask()"),
        ("null:interlocked", "AtomicUsize::swap"),
        (
            "null:sigprocmask",
            "a store between two calls of sigprocmask",
        ),
        (
            "lifo:none",
            "a push and a pop on a linked stack, unprotected",
        ),
        ("lifo:restarting", "the same, restarted if interrupted"),
        ("lifo:rolling", "the same, rolled forward if interrupted"),
        ("lifo:mask", "in plain Rust, each under signal::mask()"),
        (
            "lifo:interlocked",
            "Treiber's stack with tags, compare-and-swap",
        ),
        (
            "lifo:sigprocmask",
            "in plain Rust, each between two calls of sigprocmask",
        ),
        (
            "fifo:none",
            "an enqueue and a dequeue, one visible store each, unprotected",
        ),
        ("fifo:restarting", "the same, restarted if interrupted"),
        ("fifo:rolling", "the same, rolled forward if interrupted"),
        ("fifo:mask", "in plain Rust, each under signal::mask()"),
        (
            "fifo:interlocked",
            "Michael and Scott's queue with tags, compare-and-swap",
        ),
        (
            "fifo:sigprocmask",
            "in plain Rust, each between two calls of sigprocmask",
        ),
        (
            "fifo-stores:none",
            "an enqueue and a dequeue with several visible stores, unprotected",
        ),
        (
            "fifo-stores:rolling",
            "the same, rolled forward if interrupted",
        ),
        (
            "fifo-stores:mask",
            "in plain Rust, each under signal::mask()",
        ),
        (
            "fifo-stores:sigprocmask",
            "in plain Rust, each between two calls of sigprocmask",
        ),
    ],
    peers: &["sigprocmask", "interlocked"],
    method: Method::Timed(cases),
    threads: Threads::Alone,
    beside: Some(&Beside {
        paper: "M94",
        table: Some("1"),
        programs: &[
            ("null", "NULL"),
            ("lifo", "LIFO"),
            ("fifo", "FIFO"),
            ("fifo-stores", "FIFO"),
        ],
        // M94's own user-level mask, of which it gives no figures, is made of its Dyn/Jump (6);
        // rolling pays as little on the fast path as any of its schemes, as Hyb/Jump does there.
        // Its other rows need a privileged processor mode, but Dyn/Fault, which nothing here
        // resembles.
        counterparts: &[
            ("sigprocmask", "sigprocmask"),
            ("mask", "Dyn/Jump"),
            ("rolling", "Hyb/Jump"),
            ("interlocked", "LL/STC"),
        ],
        baseline: Some("none"),
        differences: &[],
        arguments: &[
            ("sigprocmask", "Hyb/Jump"),
            ("sigprocmask", "Dyn/Jump"),
            ("LL/STC", "Hyb/Jump"),
        ],
        reasons: &[(
            ("LL/STC", "Dyn/Jump"),
            "this processor's interlocked instructions end in its own cache, where the Alpha's took over 100 cycles",
        )],
        sections: &["3.1", "3.2", "3.3"],
        note: "Here, restarting and rolling add no instruction to a sequence.",
    }),
};

fn cases(threads: usize) -> Vec<Case> {
    vec![
        Running::<Null<Unprotected>>::case("null:none", threads),
        Running::<Null<Restarting>>::case("null:restarting", threads),
        Running::<Null<Rolling>>::case("null:rolling", threads),
        Running::<Null<Shielded<Mask>>>::case("null:mask", threads),
        Running::<TaggedNull>::case("null:interlocked", threads),
        Running::<Null<Shielded<KernelMask>>>::case("null:sigprocmask", threads),
        Running::<Lifo<Unprotected>>::case("lifo:none", threads),
        Running::<Lifo<Restarting>>::case("lifo:restarting", threads),
        Running::<Lifo<Rolling>>::case("lifo:rolling", threads),
        Running::<Lifo<Shielded<Mask>>>::case("lifo:mask", threads),
        Running::<TaggedLifo>::case("lifo:interlocked", threads),
        Running::<Lifo<Shielded<KernelMask>>>::case("lifo:sigprocmask", threads),
        Running::<Fifo<Unprotected>>::case("fifo:none", threads),
        Running::<Fifo<Restarting>>::case("fifo:restarting", threads),
        Running::<Fifo<Rolling>>::case("fifo:rolling", threads),
        Running::<Fifo<Shielded<Mask>>>::case("fifo:mask", threads),
        Running::<TaggedFifo>::case("fifo:interlocked", threads),
        Running::<Fifo<Shielded<KernelMask>>>::case("fifo:sigprocmask", threads),
        Running::<FifoStores<Unprotected>>::case("fifo-stores:none", threads),
        Running::<FifoStores<Rolling>>::case("fifo-stores:rolling", threads),
        Running::<FifoStores<Shielded<Mask>>>::case("fifo-stores:mask", threads),
        Running::<FifoStores<Shielded<KernelMask>>>::case("fifo-stores:sigprocmask", threads),
    ]
}

/// A program on the memory of one thread.
trait Program: Default + Sync + 'static {
    /// Called once, where the program's memory will stay.
    fn prepare(&self) {}

    /// Runs so many times; how often what came out was what went in.
    fn run(&self, times: u64) -> u64;

    /// Whether the memory is as it was before the first run.
    fn is_whole(&self) -> bool;
}

/// A program, run by every thread on memory of its own: of what is atomic on one thread, two
/// threads can share nothing.
struct Running<P> {
    programs: Vec<CachePadded<P>>,
    right: AtomicU64,
}

impl<P: Program> Running<P> {
    /// The case of that name for so many threads.
    fn case(name: &'static str, threads: usize) -> Case {
        let programs = (0..threads).map(|_| CachePadded::default()).collect();
        let right = AtomicU64::new(0);
        Case::new(name, Self { programs, right })
    }
}

impl<P: Program> Subject for Running<P> {
    fn prepare(&self, thread: usize) -> Result<(), Refused> {
        signals::prove()?;
        self.programs[thread].prepare();
        Ok(())
    }

    fn run(&self, thread: usize, operations: u64) {
        let right = self.programs[thread].run(operations);
        // Relaxed: a count, read after the threads have met at the crew's mutex.
        self.right.fetch_add(right, Ordering::Relaxed);
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        let right = self.right.load(Ordering::Relaxed);
        if right != operations {
            let sentence = format!("what went in came out {right} times of {operations}");
            return Err(Fault::count(operations, [right], sentence));
        }
        match self.programs.iter().all(|program| program.is_whole()) {
            true => Ok(()),
            false => Err("what lay in the structure from the start is lost".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::GRAIN;

    /// Gives back what it was given but once.
    #[derive(Default)]
    struct Forgetful;

    impl Program for Forgetful {
        fn run(&self, times: u64) -> u64 {
            times - 1
        }

        fn is_whole(&self) -> bool {
            true
        }
    }

    /// Loses what lay there.
    #[derive(Default)]
    struct Leaking;

    impl Program for Leaking {
        fn run(&self, times: u64) -> u64 {
            times
        }

        fn is_whole(&self) -> bool {
            false
        }
    }

    fn judge(case: &Case) -> Result<(), String> {
        case.subject.prepare(0).unwrap();
        case.subject.run(0, GRAIN);
        case.subject.run(0, GRAIN);
        case.subject
            .check(2 * GRAIN)
            .map_err(|fault| fault.sentence)
    }

    #[test]
    fn every_program_gives_back_what_it_was_given() {
        for case in cases(1) {
            assert_eq!(judge(&case), Ok(()), "{}", case.name);
        }
    }

    #[test]
    fn the_check_tells_programs_that_lose_something() {
        let fault = judge(&Running::<Forgetful>::case("forgetful", 1)).unwrap_err();
        assert_eq!(fault, "what went in came out 126 times of 128");
        let fault = judge(&Running::<Leaking>::case("leaking", 1)).unwrap_err();
        assert!(fault.contains("is lost"), "{fault}");
    }
}
