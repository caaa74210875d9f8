//! `m94-paging`: M94 2.3.2: the cost of the three ways by which a page fault in the middle of a
//! sequence does no harm, and of such a fault.
//!
//! The sequence moves 1 from one word to another. Without a gate it is the same whether its pages
//! are pinned or both words lie on one page. The cost of those two ways lies elsewhere: in
//! `pin:atomseq`, and in the layout of objects. A `fault:…` moves the second word's page out, which
//! is a system call, and accesses it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use atomseq_papers::paging::{self, Gate, Pinned, Region};

use super::{Experiment, Method, Threads, cases};
use crate::bench::engine::Subject;
use crate::bench::fault::Fault;
use crate::error::Refused;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "m94-paging",
    about: "what keeps a page fault in a sequence from doing harm, and what such a fault costs",
    cases: cases! {
        "transfer:atomseq", "a sequence whose pages are pinned, or that stays on one page",
            |threads| Transfers::boxed(threads, Way::Pinned);
        "transfer:gate", "the sequence, which first tests its object's gate",
            |threads| Transfers::boxed(threads, Way::Gate);
        "fault:plain", "a page is moved out, and in again by a load in no sequence",
            |threads| Transfers::boxed(threads, Way::PlainFault);
        "fault:gate", "the same by a sequence: its fault closes the gate, and it is rolled forward",
            |threads| Transfers::boxed(threads, Way::FaultThroughGate);
        "pin:atomseq", "a page is pinned and unpinned",
            |threads| Transfers::boxed(threads, Way::Pin);
    },
    peers: &["plain"],
    method: Method::Timed,
    threads: Threads::Alone,
    beside: None,
};

atomseq::sequence! {
    /// Moves 1 from one word to another.
    unsafe fn transfer(from: Word, to: Word) {
        let had = load(from);
        let has = load(to);
        store(from, had - 1);
        store(to, has + 1);
    }

    /// The same. 0: the gate was closed, and nothing happened.
    unsafe fn transfer_through(gate: Word, from: Word, to: Word) -> Word {
        let closed = load(gate);
        if closed != 0 { return 0 }
        let had = load(from);
        let has = load(to);
        store(from, had - 1);
        store(to, has + 1);
        1
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Pinned,
    Gate,
    PlainFault,
    FaultThroughGate,
    Pin,
}

/// The number of ways.
const WAYS: usize = 5;

/// Threads that have pages of their own.
const THREADS: usize = 64;

/// Sent to the thread that has faulted in a sequence.
const SIGNAL: libc::c_int = libc::SIGUSR1;

static GATES: [Gate; THREADS] = [const { Gate::new() }; THREADS];

thread_local! {
    /// The faults of this thread.
    static FAULTS: Cell<u64> = const { Cell::new(0) };
}

/// Called by the handler of a fault.
fn count_fault() {
    FAULTS.set(FAULTS.get() + 1);
}

/// Returns the pages of all subjects: two for each way and thread.
fn region() -> Result<&'static Region, Refused> {
    static REGION: OnceLock<Result<&Region, Refused>> = OnceLock::new();
    *REGION.get_or_init(|| {
        paging::start(SIGNAL).map_err(refused)?;
        // SAFETY: the function changes a word of this thread's that needs no setting up.
        let region = unsafe { Region::map(2 * WAYS * THREADS, count_fault) }.map_err(refused)?;
        for (thread, gate) in GATES.iter().enumerate() {
            let gated = first_page(Way::FaultThroughGate, thread);
            region.guard(gated..gated + 2, gate);
        }
        Ok(region)
    })
}

fn refused(error: paging::Error) -> Refused {
    let errno = match error {
        paging::Error::Refused { error, .. } => error.raw_os_error().unwrap_or_default(),
        _ => 0,
    };
    let what = "let this process handle page faults of its own memory";
    Refused { what, errno }
}

fn first_page(way: Way, thread: usize) -> usize {
    2 * (way as usize * THREADS + thread)
}

/// Threads that each transfer between two pages of their own.
struct Transfers {
    way: Way,
    /// The pages that are pinned while this lives.
    pinned: Mutex<Vec<Pinned>>,
    /// The number of operations that moved a word or faulted, as they should.
    right: AtomicU64,
}

impl Transfers {
    fn boxed(_threads: usize, way: Way) -> Box<dyn Subject> {
        Box::new(Self {
            way,
            pinned: Mutex::default(),
            right: AtomicU64::new(0),
        })
    }
}

/// Returns the first word of a page.
fn word(address: usize) -> *mut usize {
    std::ptr::with_exposed_provenance_mut(address)
}

impl Subject for Transfers {
    fn prepare(&self, thread: usize) -> Result<(), Refused> {
        if thread >= THREADS {
            let what = "give more than 64 threads pages of their own";
            return Err(Refused { what, errno: 0 });
        }
        let region = region()?;
        let pages = first_page(self.way, thread)..first_page(self.way, thread) + 2;
        for page in pages.clone() {
            // SAFETY: a word of this thread's own pages. It is moved in here, if it never was.
            unsafe { word(region.address(page)).read_volatile() };
        }
        if matches!(self.way, Way::Pinned | Way::Gate) {
            let pinned = region.pin(pages).map_err(refused)?;
            let mut all = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(pinned);
        }
        Ok(())
    }

    fn run(&self, thread: usize, operations: u64) {
        let region = region().expect("prepared");
        let first = first_page(self.way, thread);
        let [from, to] = [first, first + 1].map(|page| region.address(page));
        let gate = &GATES[thread];
        let faults = FAULTS.get();
        // SAFETY: words of this thread's own pages. None is out, but where a fault is wanted.
        let before = unsafe { word(to).read_volatile() };
        let through_gate = || {
            // SAFETY: words of this thread's own pages, and of its gate.
            while unsafe { transfer_through::rolling(gate.word(), from, to) } == 0 {
                gate.wait();
            }
        };
        for _ in 0..operations {
            match self.way {
                // SAFETY: words of this thread's own pages.
                Way::Pinned => unsafe { transfer::rolling(from, to) },
                Way::Gate => through_gate(),
                Way::PlainFault => {
                    region.page_out(first + 1).expect("it was moved in");
                    // SAFETY: a word of this thread's own page, which the load moves in.
                    unsafe { word(to).read_volatile() };
                }
                Way::FaultThroughGate => {
                    region.page_out(first + 1).expect("it was moved in");
                    through_gate();
                }
                Way::Pin => drop(region.pin(first..first + 1).expect("it was pinned before")),
            }
        }
        // SAFETY: a word of this thread's own page, which is in.
        let moved = unsafe { word(to).read_volatile() } - before;
        let faults = FAULTS.get() - faults;
        let right = match self.way {
            Way::Pinned | Way::Gate => moved as u64,
            Way::PlainFault => faults,
            Way::FaultThroughGate => faults.min(moved as u64),
            Way::Pin => operations,
        };
        // Relaxed: a count, read after the threads have met at the crew's mutex.
        self.right.fetch_add(right, Ordering::Relaxed);
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        let right = self.right.load(Ordering::Relaxed);
        if right != operations {
            let sentence = format!("{right} of {operations} moved a word or faulted");
            return Err(Fault::count(operations, [right], sentence));
        }
        match GATES.iter().any(Gate::is_closed) {
            true => Err("a gate is closed after its sequence".into()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::GRAIN;

    #[test]
    fn every_way_moves_or_faults_each_time() {
        for case in EXPERIMENT.make(1, |_| true) {
            case.subject.prepare(0).unwrap();
            case.subject.run(0, GRAIN);
            assert_eq!(case.subject.check(GRAIN), Ok(()), "{}", case.name);
            // The control: as many again were not done.
            case.subject.check(2 * GRAIN).unwrap_err();
        }
    }
}
