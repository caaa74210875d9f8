//! Readers that count themselves per CPU against a writer: no reader beside it, wherever readers
//! leave, and none for whom it waits indefinitely.

use std::sync::Arc;

use crate::homes::Cpu;
use crate::machine::Aborted;
use crate::readers::{ON, Parts, Readers};
use crate::sync::Size::{Huge, Large};
use crate::sync::{AtomicU32, AtomicUsize, Mutex, Ordering, Plain, fails, holds, thread, wait};

/// The protections in force. The library has all of them.
#[derive(Clone, Copy)]
pub struct Protections {
    /// Whether the fence aborts.
    pub fence: bool,
    /// Whether there is a barrier before a writer sleeps.
    pub barrier: bool,
    /// Whether the section reads the bias inside.
    pub looks_inside: bool,
    /// Whether the writer adds up the counts of all CPUs.
    pub adds_up: bool,
    /// Whether readers find out that the writer sleeps.
    pub announces: bool,
}

impl Protections {
    pub const ALL: Protections = Protections {
        fence: true,
        barrier: true,
        looks_inside: true,
        adds_up: true,
        announces: true,
    };
}

/// A CPU: the attempt that runs there, and its count.
type Part = (Cpu, AtomicUsize);

/// The parts of two CPUs, as a thread on one of them uses them.
struct On<'a> {
    cpus: &'a [Part; 2],
    here: usize,
    rules: Protections,
}

impl On<'_> {
    /// Adds to this CPU's count in one attempt, if the bias is on or does not matter. Fails if
    /// the attempt was aborted.
    fn add(&self, bias: Option<&AtomicUsize>, amount: usize) -> Result<bool, Aborted> {
        let (current, count) = &self.cpus[self.here];
        let is_biased = || bias.is_none_or(|bias| bias.load(Ordering::Acquire) == ON);
        if !self.rules.looks_inside && !is_biased() {
            return Ok(false);
        }
        let attempt = current.next();
        if self.rules.looks_inside && !current.step(attempt, is_biased)? {
            return Ok(false);
        }
        let before = current.step(attempt, || count.load(Ordering::Relaxed))?;
        let after = before.wrapping_add(amount);
        // Release: that of the section that leaves. The other has none.
        current.step(attempt, || count.store(after, Ordering::Release))?;
        Ok(true)
    }
}

impl Parts for On<'_> {
    fn enter(&self, bias: &AtomicUsize) -> bool {
        self.add(Some(bias), 1).unwrap_or(false)
    }

    fn leave(&self) -> bool {
        self.add(None, usize::MAX).unwrap_or(false)
    }

    fn sum(&self) -> usize {
        let cpus = if self.rules.adds_up { 2 } else { 1 };
        let counts = self.cpus[..cpus].iter();
        counts.fold(0, |sum, (_, count)| {
            sum.wrapping_add(count.load(Ordering::Acquire))
        })
    }

    fn fence(&self) {
        for (current, _) in self.cpus {
            if self.rules.fence {
                current.next();
            } else {
                current.on(|| ());
            }
        }
    }

    fn barrier(&self) {
        if self.rules.barrier {
            self.cpus.iter().for_each(|(current, _)| current.on(|| ()));
        }
    }
}

/// The library's algorithm, and data that its lock protects.
pub struct Lock {
    readers: Readers,
    writers: Mutex<()>,
    cpus: [Part; 2],
    /// Even, except while it is being written.
    data: Plain,
    rules: Protections,
}

impl Lock {
    fn on(&self, here: usize) -> On<'_> {
        On {
            cpus: &self.cpus,
            here,
            rules: self.rules,
        }
    }
}

/// Enters on one CPU and leaves on another.
fn read(lock: &Lock, [enters, leaves]: [usize; 2]) {
    let readers = &lock.readers;
    let entered = readers.is_biased() && lock.on(enters).enter(&readers.bias);
    if !entered && !readers.count() {
        let _alone = lock.writers.lock().unwrap();
        readers.count_without_writer();
    }
    let before = lock.data.get();
    lock.data.pause();
    assert!(
        before.is_multiple_of(2) && lock.data.get() == before,
        "{BESIDE}"
    );
    readers.leave(Some(&lock.on(leaves)));
}

/// What a reader finds that is inside together with the writer.
const BESIDE: &str = "a reader beside a writer";

/// Writes, unless it gives up at once because readers are inside. Then lets readers enter by
/// sections again, or not.
fn write(lock: &Lock, here: usize, gives_up: bool, biases: bool) {
    let _alone = lock.writers.lock().unwrap();
    let sleep = |word: &AtomicU32, expected| {
        if gives_up {
            return false;
        }
        if lock.rules.announces {
            wait(word, expected);
        } else {
            word.fetch_and(!1, Ordering::Relaxed);
            wait(word, expected & !1);
        }
        true
    };
    if !lock.readers.exclude(Some(&lock.on(here)), sleep) {
        assert!(!lock.readers.has_writer(), "a writer that gave up");
        return;
    }
    lock.data.set(lock.data.get() + 1);
    lock.data.pause();
    lock.data.set(lock.data.get() + 1);
    lock.readers.admit();
    if biases {
        lock.readers.turn_on();
    }
}

/// A thread's part.
pub type Work = fn(&Lock);

/// Each does its work, on one lock, and all come to an end.
pub fn meet(rules: Protections, work: &[Work]) {
    let lock = Arc::new(Lock {
        readers: Readers {
            bias: AtomicUsize::new(ON),
            shared: AtomicUsize::new(0),
            departures: AtomicU32::new(0),
        },
        writers: Mutex::new(()),
        cpus: [0, 1].map(|_| (Cpu::new(), AtomicUsize::new(0))),
        data: Plain::new(0),
        rules,
    });
    let others: Vec<_> = work[1..]
        .iter()
        .map(|work| {
            let (lock, work) = (lock.clone(), *work);
            thread::spawn(move || work(&lock))
        })
        .collect();
    work[0](&lock);
    for other in others {
        other.join().unwrap();
    }
    let rules = Protections::ALL;
    let all = On {
        rules,
        ..lock.on(0)
    };
    assert!(!lock.readers.has_readers(Some(&all)), "still counted");
}

pub const READS: Work = |lock| read(lock, [0, 0]);
pub const READS_AND_MIGRATES: Work = |lock| read(lock, [1, 0]);
const READS_TWICE: Work = |lock| (READS(lock), READS_AND_MIGRATES(lock)).0;
const WRITES: Work = |lock| write(lock, 1, false, false);
const WRITES_AND_BIASES: Work = |lock| write(lock, 1, false, true);
const WRITES_TWICE: Work = |lock| (WRITES_AND_BIASES(lock), WRITES(lock)).0;
/// The second time, the bias is off already: there is no fence, which would be a barrier too.
pub const TRIES_THEN_WRITES: Work = |lock| (GIVES_UP(lock), WRITES(lock)).0;
const GIVES_UP: Work = |lock| write(lock, 1, true, false);

#[test]
fn a_writer_excludes_readers_and_is_woken() {
    let model = |name: &str, size, work: &'static [Work]| {
        holds(&format!("readers: {name}"), size, move || {
            meet(Protections::ALL, work);
        });
    };
    model("one and a writer", Large, &[READS, WRITES]);
    model("one that migrates", Large, &[READS_AND_MIGRATES, WRITES]);
    model("two reads and a writer", Huge, &[READS_TWICE, WRITES]);
    model(
        "two and a writer",
        Huge,
        &[READS, READS_AND_MIGRATES, WRITES],
    );
    model("biased again", Huge, &[READS_TWICE, WRITES_TWICE]);
    model("two writers", Huge, &[READS, WRITES_AND_BIASES, WRITES]);
    model("a writer gives up", Large, &[READS_AND_MIGRATES, GIVES_UP]);
    model("and tries again", Large, &[READS, TRIES_THEN_WRITES]);
}

#[test]
fn without_its_protections_a_reader_is_beside_a_writer() {
    let model = |name: &str, rules, work: &'static [Work]| {
        fails(&format!("readers: {name}"), BESIDE, Large, move || {
            meet(rules, work);
        });
    };
    let all = Protections::ALL;
    model(
        "no fence",
        Protections {
            fence: false,
            ..all
        },
        &[READS, WRITES],
    );
    let outside = Protections {
        looks_inside: false,
        ..all
    };
    model("read outside the section", outside, &[READS, WRITES]);
    let one = Protections {
        adds_up: false,
        ..all
    };
    model("one CPU's count", one, &[|lock| read(lock, [1, 1]), WRITES]);
}

#[test]
fn without_its_announcement_a_writer_is_not_woken() {
    let silent = Protections {
        announces: false,
        ..Protections::ALL
    };
    let name = "readers: a writer that sleeps unannounced";
    fails(name, "deadlock", Large, move || {
        meet(silent, &[READS, WRITES]);
    });
}
