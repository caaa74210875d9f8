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
//! row in the table: what the two are compared with. `dyn-jump`, `dyn-fault`, `hyb-jump` and
//! `designated` are the same template inside M94's schemes. The other subjects do the same in plain
//! Rust.

mod interlocked;
mod mechanisms;
mod programs;
mod sequences;

use std::sync::atomic::{AtomicU64, Ordering};

use atomseq_papers::rollforward::{Designated, DynFault, DynJump, HybJump};
use crossbeam_utils::CachePadded;

use self::interlocked::{TaggedFifo, TaggedLifo, TaggedNull};
use self::mechanisms::{By, Restarting, Rolling, Shielded, Unprotected};
pub use self::mechanisms::{KernelMask, Mask, Shield};
use self::programs::{Fifo, FifoStores, Lifo, Null};
use super::{Experiment, Method, Threads, cases};
use crate::bench::beside::Beside;
use crate::bench::engine::Subject;
use crate::bench::fault::Fault;
use crate::bench::signals;
use crate::error::Refused;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "signal-sequence",
    about: "M94's programs: what it costs to be atomic against this thread's signal handlers",
    cases: cases! {
        "null:none", "one store, unprotected",
            |threads| Running::<Null<Unprotected>>::boxed(threads);
        "null:restarting", "one store, restarted if interrupted",
            |threads| Running::<Null<Restarting>>::boxed(threads);
        "null:rolling", "one store, rolled forward if interrupted",
            |threads| Running::<Null<Rolling>>::boxed(threads);
        "null:dyn-jump", "one store, by M94's Dyn/Jump",
            |threads| Running::<Null<By<DynJump>>>::boxed(threads);
        "null:dyn-fault", "one store, by M94's Dyn/Fault",
            |threads| Running::<Null<By<DynFault>>>::boxed(threads);
        "null:hyb-jump", "one store, by M94's Hyb/Jump",
            |threads| Running::<Null<By<HybJump>>>::boxed(threads);
        "null:designated", "one store, by M94's designated sequences",
            |threads| Running::<Null<By<Designated>>>::boxed(threads);
        "null:mask", "one store, in plain Rust, under signal::mask()",
            |threads| Running::<Null<Shielded<Mask>>>::boxed(threads);
        "null:interlocked", "AtomicUsize::swap", |threads| Running::<TaggedNull>::boxed(threads);
        "null:sigprocmask", "one store, in plain Rust, between two calls of sigprocmask",
            |threads| Running::<Null<Shielded<KernelMask>>>::boxed(threads);
        "lifo:none", "a push and a pop on a linked stack, unprotected",
            |threads| Running::<Lifo<Unprotected>>::boxed(threads);
        "lifo:restarting", "a push and a pop on a linked stack, restarted if interrupted",
            |threads| Running::<Lifo<Restarting>>::boxed(threads);
        "lifo:rolling", "a push and a pop on a linked stack, rolled forward if interrupted",
            |threads| Running::<Lifo<Rolling>>::boxed(threads);
        "lifo:dyn-jump", "a push and a pop on a linked stack, by M94's Dyn/Jump",
            |threads| Running::<Lifo<By<DynJump>>>::boxed(threads);
        "lifo:dyn-fault", "a push and a pop on a linked stack, by M94's Dyn/Fault",
            |threads| Running::<Lifo<By<DynFault>>>::boxed(threads);
        "lifo:hyb-jump", "a push and a pop on a linked stack, by M94's Hyb/Jump",
            |threads| Running::<Lifo<By<HybJump>>>::boxed(threads);
        "lifo:designated", "a push and a pop on a linked stack, by M94's designated sequences",
            |threads| Running::<Lifo<By<Designated>>>::boxed(threads);
        "lifo:mask", "a push and a pop on a linked stack, in plain Rust, each under signal::mask()",
            |threads| Running::<Lifo<Shielded<Mask>>>::boxed(threads);
        "lifo:interlocked", "Treiber's stack with tags, compare-and-swap",
            |threads| Running::<TaggedLifo>::boxed(threads);
        "lifo:sigprocmask",
            "a push and a pop on a linked stack, in plain Rust, each between two calls of sigprocmask",
            |threads| Running::<Lifo<Shielded<KernelMask>>>::boxed(threads);
        "fifo:none", "an enqueue and a dequeue, one visible store each, unprotected",
            |threads| Running::<Fifo<Unprotected>>::boxed(threads);
        "fifo:restarting",
            "an enqueue and a dequeue, one visible store each, restarted if interrupted",
            |threads| Running::<Fifo<Restarting>>::boxed(threads);
        "fifo:rolling",
            "an enqueue and a dequeue, one visible store each, rolled forward if interrupted",
            |threads| Running::<Fifo<Rolling>>::boxed(threads);
        "fifo:dyn-jump", "an enqueue and a dequeue, one visible store each, by M94's Dyn/Jump",
            |threads| Running::<Fifo<By<DynJump>>>::boxed(threads);
        "fifo:dyn-fault", "an enqueue and a dequeue, one visible store each, by M94's Dyn/Fault",
            |threads| Running::<Fifo<By<DynFault>>>::boxed(threads);
        "fifo:hyb-jump", "an enqueue and a dequeue, one visible store each, by M94's Hyb/Jump",
            |threads| Running::<Fifo<By<HybJump>>>::boxed(threads);
        "fifo:designated", "an enqueue and a dequeue, one visible store each, by M94's designated sequences",
            |threads| Running::<Fifo<By<Designated>>>::boxed(threads);
        "fifo:mask",
            "an enqueue and a dequeue, one visible store each, in plain Rust, each under signal::mask()",
            |threads| Running::<Fifo<Shielded<Mask>>>::boxed(threads);
        "fifo:interlocked", "Michael and Scott's queue with tags, compare-and-swap",
            |threads| Running::<TaggedFifo>::boxed(threads);
        "fifo:sigprocmask",
            "an enqueue and a dequeue, one visible store each, in plain Rust, each between two calls of sigprocmask",
            |threads| Running::<Fifo<Shielded<KernelMask>>>::boxed(threads);
        "fifo-stores:none", "an enqueue and a dequeue with several visible stores, unprotected",
            |threads| Running::<FifoStores<Unprotected>>::boxed(threads);
        "fifo-stores:rolling",
            "an enqueue and a dequeue with several visible stores, rolled forward if interrupted",
            |threads| Running::<FifoStores<Rolling>>::boxed(threads);
        "fifo-stores:dyn-jump", "an enqueue and a dequeue with several visible stores, by M94's Dyn/Jump",
            |threads| Running::<FifoStores<By<DynJump>>>::boxed(threads);
        "fifo-stores:dyn-fault", "an enqueue and a dequeue with several visible stores, by M94's Dyn/Fault",
            |threads| Running::<FifoStores<By<DynFault>>>::boxed(threads);
        "fifo-stores:hyb-jump", "an enqueue and a dequeue with several visible stores, by M94's Hyb/Jump",
            |threads| Running::<FifoStores<By<HybJump>>>::boxed(threads);
        "fifo-stores:designated", "an enqueue and a dequeue with several visible stores, by M94's designated sequences",
            |threads| Running::<FifoStores<By<Designated>>>::boxed(threads);
        "fifo-stores:mask",
            "an enqueue and a dequeue with several visible stores, in plain Rust, each under signal::mask()",
            |threads| Running::<FifoStores<Shielded<Mask>>>::boxed(threads);
        "fifo-stores:sigprocmask",
            "an enqueue and a dequeue with several visible stores, in plain Rust, each between two calls of sigprocmask",
            |threads| Running::<FifoStores<Shielded<KernelMask>>>::boxed(threads);
    },
    peers: &["sigprocmask", "interlocked"],
    method: Method::Timed,
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
        counterparts: &[
            ("sigprocmask", "sigprocmask"),
            ("dyn-jump", "Dyn/Jump"),
            ("dyn-fault", "Dyn/Fault"),
            ("hyb-jump", "Hyb/Jump"),
        ],
        // Of LL/STC, M94 measured the move of one word only.
        nearest: &[("interlocked", "LL/STC")],
        absent: &[
            ("DI", KERNEL_MODE),
            ("CIPL", KERNEL_MODE),
            ("splx", KERNEL_MODE),
            ("PALcode", "not in user mode:\nthe Alpha's firmware"),
        ],
        baseline: Some("none"),
        arguments: &[
            ("sigprocmask", "Hyb/Jump"),
            ("sigprocmask", "Dyn/Jump"),
            ("LL/STC", "Hyb/Jump"),
            ("Dyn/Fault", "Dyn/Jump"),
            ("Dyn/Jump", "Hyb/Jump"),
        ],
        reasons: &[
            (
                ("LL/STC", "Dyn/Jump"),
                "this processor's interlocked instructions end in its own cache, where the Alpha's took over 100 cycles",
            ),
            (
                ("Dyn/Fault", "Dyn/Jump"),
                "around a single store, the jump alone takes as long, as Hyb/Jump shows; Dyn/Fault's loads run beside its stores",
            ),
        ],
        sections: &["3.1", "3.2", "3.3"],
        note: "Here, restarting and rolling add no instruction to a sequence.",
        ..Beside::NOTHING
    }),
};

/// Why nothing stands beside the rows of which each disables interrupts.
const KERNEL_MODE: &str = "not in user mode:\nprivileged instructions";

/// A program on the memory of one thread.
trait Program: Default + Sync + 'static {
    /// Called once, where the program's memory will stay.
    fn prepare(&self) {}

    /// Runs that many times; returns how often the output was the input.
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
    /// The subject for that many threads.
    fn boxed(threads: usize) -> Box<dyn Subject> {
        let programs = (0..threads).map(|_| CachePadded::default()).collect();
        let right = AtomicU64::new(0);
        Box::new(Self { programs, right })
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

    fn judge(subject: &dyn Subject) -> Result<(), String> {
        subject.prepare(0).unwrap();
        subject.run(0, GRAIN);
        subject.run(0, GRAIN);
        subject.check(2 * GRAIN).map_err(|fault| fault.sentence)
    }

    #[test]
    fn every_program_gives_back_what_it_was_given() {
        for case in EXPERIMENT.make(1, |_| true) {
            assert_eq!(judge(&*case.subject), Ok(()), "{}", case.name);
        }
    }

    #[test]
    fn the_check_tells_programs_that_lose_something() {
        let fault = judge(&*Running::<Forgetful>::boxed(1)).unwrap_err();
        assert_eq!(fault, "what went in came out 126 times of 128");
        let fault = judge(&*Running::<Leaking>::boxed(1)).unwrap_err();
        assert!(fault.contains("is lost"), "{fault}");
    }
}
