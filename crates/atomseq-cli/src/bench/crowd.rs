//! A thousand threads that are alive at once and do almost nothing: each joins every member's
//! structure, then waits until the crowd is dismissed. The memory that structures and joining take
//! is metered.

use std::fs;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use super::heap;
use crate::error::Error;

/// A structure that threads join.
pub trait Member: Sync {
    /// Called once by every thread of the crowd.
    fn join(&self);
}

/// How much stack a thread of a crowd gets; it needs little.
const STACK: usize = 128 << 10;

/// Makes the members, lets `threads` threads join each of them, and while all of those threads are
/// alive calls `visit` with the members and the bytes each holds.
pub fn gather<M: Member + ?Sized>(
    threads: usize,
    makers: &[fn() -> Box<M>],
    visit: impl FnOnce(&[Box<M>], &[i64]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut members = Vec::with_capacity(makers.len());
    let mut held = Vec::with_capacity(makers.len());
    for make in makers {
        let mapped = mapped();
        let (member, allocated) = heap::kept_by(make);
        members.push(member);
        held.push(AtomicI64::new(allocated + (self::mapped() - mapped)));
    }
    let joined = Turnstile::default();
    let gate = Turnstile::default();
    thread::scope(|scope| {
        let mut crowd = Dismissed {
            gate: &gate,
            threads: Vec::with_capacity(threads),
        };
        for started in 0..threads {
            let (members, held, joined, gate) = (&members, &held, &joined, &gate);
            let body = move || {
                for (member, held) in members.iter().zip(held) {
                    let ((), bytes) = heap::kept_by(|| member.join());
                    // Relaxed: read after the turnstile's mutex.
                    held.fetch_add(bytes, Ordering::Relaxed);
                }
                joined.pass();
                gate.wait(1);
            };
            let thread = thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, body);
            crowd.threads.push(thread.map_err(|source| Error::Thread {
                started,
                wanted: threads,
                source,
            })?);
        }
        joined.wait(threads);
        let held: Vec<i64> = held
            .iter()
            .map(|bytes| bytes.load(Ordering::Relaxed))
            .collect();
        visit(&members, &held)
    })
}

/// Counts passers, and lets others wait for that many.
#[derive(Default)]
struct Turnstile {
    passed: Mutex<usize>,
    changed: Condvar,
}

impl Turnstile {
    fn pass(&self) {
        *self.passed.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    fn wait(&self, wanted: usize) {
        let passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(passed, |passed| *passed < wanted);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Dismisses all threads when dropped, however the visit ended, and waits until they have exited
/// and unmapped their stacks. The end of a scope only waits until they have nothing left to do;
/// memory that they return later would be metered as the next crowd's.
struct Dismissed<'s, 'g> {
    gate: &'g Turnstile,
    threads: Vec<ScopedJoinHandle<'s, ()>>,
}

impl Drop for Dismissed<'_, '_> {
    fn drop(&mut self) {
        self.gate.pass();
        for thread in self.threads.drain(..) {
            // The scope itself panics when one of them has.
            let _ = thread.join();
        }
    }
}

/// The bytes of the process's mappings but for the allocator's heap, which is metered by itself; 0
/// where the system does not report it.
pub fn mapped() -> i64 {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let sizes = maps
        .lines()
        .filter(|line| !line.ends_with("[heap]"))
        .filter_map(|line| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            let address = |digits| i64::from_str_radix(digits, 16).ok();
            Some(address(end)? - address(start)?)
        });
    // The vsyscall page's addresses do not fit and drop out; it never changes.
    sizes.sum()
}
