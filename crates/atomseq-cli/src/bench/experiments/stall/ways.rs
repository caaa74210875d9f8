//! The objects in whose operations a thread is stopped.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use atomseq::dcas::{self, Change, Domain, Mechanism};
use atomseq::nonblocking::{HashMap, List, MultiMap, PageMap, PriorityQueue, Queue, Server, Stack};

use super::stop::Inside;
use crate::bench::experiments::dcas::Padded;
use crate::bench::experiments::server::{Add, Words};
use crate::bench::fault::Fault;
use crate::bench::workloads::pair::Pair;

/// For how long a mutex is watched each time.
const WATCHED: Duration = Duration::from_millis(1);

/// How many times the holder of the mutex counts each time. The processor takes an interrupt behind
/// the instruction that locks rather than behind one addition.
const COUNTED: usize = 64;

/// What the thread that is stopped pushes, and what the other one does.
const STOPPED: u64 = 1;
const OTHER: u64 = 2;

/// An object, and what is expected of it.
#[derive(Clone, Copy)]
pub struct Way {
    /// Its case.
    pub case: &'static str,
    /// Whether others complete operations while a thread is stopped inside one.
    pub completes: bool,
    /// Makes one.
    pub make: fn() -> Box<dyn Object>,
}

/// All of them.
pub static WAYS: [Way; 11] = [
    Way {
        case: "os-assisted",
        completes: true,
        make: || Box::new(Counted::by(Mechanism::Assisted)),
    },
    Way {
        case: "k-cas",
        completes: true,
        make: || Box::new(Counted::by(Mechanism::Kcas)),
    },
    Way {
        case: "stack",
        completes: true,
        make: || Box::new(Stack::<u64>::with_capacity(8)),
    },
    Way {
        case: "queue",
        completes: true,
        make: || Box::new(Queue::<u64>::with_capacity(8)),
    },
    Way {
        case: "list",
        completes: true,
        make: || Box::new(List::<u64, u64>::new()),
    },
    Way {
        case: "map",
        completes: true,
        make: || Box::new(HashMap::<u64, u64>::new()),
    },
    Way {
        case: "multi-map",
        completes: true,
        make: || Box::new(MultiMap::<u64, u64>::with_buckets(1)),
    },
    Way {
        case: "priority-queue",
        completes: true,
        make: || Box::new(PriorityQueue::<u64, ()>::new()),
    },
    Way {
        case: "page-map",
        completes: true,
        make: || Box::new(PageMap::<u64>::new()),
    },
    Way {
        case: "server",
        completes: true,
        make: || Box::new(Served::default()),
    },
    Way {
        case: "watched:mutex",
        completes: false,
        make: || Box::<Mutexed>::default(),
    },
];

/// Something that two threads share.
pub trait Object: Sync {
    /// What the thread does that is stopped, saying when it is inside an operation.
    fn operate(&self, inside: &Inside);

    /// One operation by another thread: was it completed?
    fn attempt(&self) -> bool;

    /// What the other thread has to do when the stopped one goes on, after it has completed an
    /// operation or not.
    fn afterwards(&self, _completed: bool) {}

    /// How many operations were revoked so far; `None` where none ever is.
    fn revoked(&self) -> Option<u64>;

    /// Whether every operation is accounted for, now that all have ended.
    fn check(&self) -> Result<(), Fault>;
}

/// How many operations were revoked, if the mechanism revokes any.
fn revoked(mechanism: Mechanism) -> Option<u64> {
    (mechanism == Mechanism::Assisted).then(|| dcas::statistics().revocations)
}

/// Two words under DCAS, and how often they were counted up.
struct Counted {
    domain: Domain<[Padded; 2]>,
    operations: AtomicU64,
}

impl Counted {
    fn by(mechanism: Mechanism) -> Self {
        Self {
            domain: Domain::forced(Default::default(), mechanism),
            operations: AtomicU64::new(0),
        }
    }

    fn count(&self) {
        let words = [&*self.domain[0], &*self.domain[1]];
        loop {
            let [a, b] = self.domain.load_all(words);
            let first = Change::of(words[0], a, a + 1);
            let second = Change::of(words[1], b, b + 1);
            if self.domain.compare_exchange_pair(first, second).is_ok() {
                return;
            }
        }
    }
}

impl Object for Counted {
    fn operate(&self, inside: &Inside) {
        inside.during(|| self.count());
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    fn attempt(&self) -> bool {
        self.count();
        true
    }

    fn afterwards(&self, _completed: bool) {
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    fn revoked(&self) -> Option<u64> {
        revoked(self.domain.mechanism())
    }

    fn check(&self) -> Result<(), Fault> {
        let operations = self.operations.load(Ordering::Relaxed);
        let [a, b] = self.domain.load_all([&*self.domain[0], &*self.domain[1]]);
        if (a, b) == (operations, operations) {
            return Ok(());
        }
        let sentence = format!("the words are {a} and {b} where {operations} were added");
        Err(Fault::count(operations, [a, b], sentence))
    }
}

/// A server, and how many operations it has had.
struct Served {
    server: Server<Words, Add>,
    operations: AtomicU64,
}

impl Default for Served {
    fn default() -> Self {
        Self {
            server: Server::new(Words::default()),
            operations: AtomicU64::new(0),
        }
    }
}

impl Object for Served {
    fn operate(&self, inside: &Inside) {
        inside.during(|| self.server.add(&mut (), 1));
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    fn attempt(&self) -> bool {
        self.server.add(&mut (), 1);
        true
    }

    fn afterwards(&self, _completed: bool) {
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    /// Most stops are outside of DCAS, where the operation runs; nothing is revoked then.
    fn revoked(&self) -> Option<u64> {
        None
    }

    fn check(&self) -> Result<(), Fault> {
        let operations = self.operations.load(Ordering::Relaxed);
        let (sum, additions) = self.server.both();
        if (sum, additions) == (operations, operations) {
            return Ok(());
        }
        let sentence = format!(
            "the words add up to {sum} after {additions} additions, where {operations} were made"
        );
        Err(Fault::count(operations, [sum, additions], sentence))
    }
}

/// Something that elements are pushed to and taken from: the pushed one where it can be identified,
/// else any.
trait Store: Sync {
    fn push(&self, element: u64) -> bool;
    fn take(&self, element: u64) -> bool;
    fn len(&self) -> usize;

    /// As [`Object::revoked`].
    fn revoked(&self) -> Option<u64> {
        revoked(dcas::mechanism())
    }
}

impl Store for Stack<u64> {
    fn push(&self, element: u64) -> bool {
        Self::push(self, element).is_ok()
    }

    fn take(&self, _element: u64) -> bool {
        self.pop().is_some()
    }

    fn len(&self) -> usize {
        Self::len(self)
    }
}

impl Store for Queue<u64> {
    fn push(&self, element: u64) -> bool {
        Self::push(self, element).is_ok()
    }

    fn take(&self, _element: u64) -> bool {
        self.pop().is_some()
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    /// A change is one instruction.
    fn revoked(&self) -> Option<u64> {
        None
    }
}

impl Store for List<u64, u64> {
    fn push(&self, element: u64) -> bool {
        self.try_insert(element, 0).is_ok()
    }

    fn take(&self, element: u64) -> bool {
        matches!(self.remove(&element), Ok(Some(_)))
    }

    fn len(&self) -> usize {
        Self::len(self)
    }
}

impl Store for MultiMap<u64, u64> {
    fn push(&self, element: u64) -> bool {
        self.insert(0, element) == Ok(true)
    }

    fn take(&self, element: u64) -> bool {
        self.remove(&0, &element)
    }

    fn len(&self) -> usize {
        Self::len(self)
    }
}

impl Store for PriorityQueue<u64, ()> {
    fn push(&self, element: u64) -> bool {
        self.insert(element, ()).is_ok()
    }

    fn take(&self, _element: u64) -> bool {
        self.pop().is_some()
    }

    fn len(&self) -> usize {
        Self::len(self)
    }
}

/// Each element is a page, all of them in one leaf.
impl Store for PageMap<u64> {
    fn push(&self, element: u64) -> bool {
        self.insert(element, element) == Ok(None)
    }

    fn take(&self, element: u64) -> bool {
        self.remove(element) == Some(element)
    }

    fn len(&self) -> usize {
        self.snapshot(STOPPED).iter().flatten().count()
    }
}

impl Store for HashMap<u64, u64> {
    fn push(&self, element: u64) -> bool {
        self.try_insert(element, 0).is_ok()
    }

    fn take(&self, element: u64) -> bool {
        self.remove(&element).is_some()
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    /// Nothing revokes a stopped thread's operation: others use another entry.
    fn revoked(&self) -> Option<u64> {
        None
    }
}

impl<S: Store> Object for S {
    fn operate(&self, inside: &Inside) {
        inside.during(|| {
            assert!(self.push(STOPPED), "there is room for one each");
            assert!(self.take(STOPPED), "what was pushed is there");
        });
    }

    fn attempt(&self) -> bool {
        self.push(OTHER)
    }

    fn afterwards(&self, completed: bool) {
        assert!(!completed || self.take(OTHER), "what was pushed is there");
    }

    fn revoked(&self) -> Option<u64> {
        self.revoked()
    }

    fn check(&self) -> Result<(), Fault> {
        match self.len() {
            0 => Ok(()),
            left => {
                let sentence = format!("{left} elements are left of as many pushes as pops");
                Err(Fault::count(0, [left as u64], sentence))
            }
        }
    }
}

/// A count under a mutex.
#[derive(Default)]
struct Mutexed(Mutex<u64>);

impl Object for Mutexed {
    fn operate(&self, inside: &Inside) {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inside.during(|| (0..COUNTED).for_each(|_| *count = black_box(*count + 1)));
    }

    fn attempt(&self) -> bool {
        let start = Instant::now();
        while start.elapsed() < WATCHED {
            if !matches!(self.0.try_lock(), Err(TryLockError::WouldBlock)) {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    fn revoked(&self) -> Option<u64> {
        None
    }

    fn check(&self) -> Result<(), Fault> {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            0 => Err("nothing was ever counted".into()),
            _ => Ok(()),
        }
    }
}
