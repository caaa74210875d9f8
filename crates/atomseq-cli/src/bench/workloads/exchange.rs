//! The workload of stacks and queues: a thread pushes an element and pops one.
//!
//! There are `HELD + LAID` elements a thread, all different. A thread holds `HELD` of them and
//! pushes each in turn, taking the popped one in its place, so that no push waits for the pop just
//! before it; the other `LAID` lie in the container from the start, so that it is never at the edge
//! of empty. In the end every element must be in exactly one place.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use crossbeam_utils::CachePadded;

use crate::bench::engine::{GRAIN, Subject};
use crate::bench::fault::Fault;
use crate::error::Refused;

/// How many elements a thread holds.
pub const HELD: usize = 16;
/// How many elements a thread lays into the container before the first run.
pub const LAID: usize = 16;

/// How many elements there are with that many threads.
pub const fn elements(threads: usize) -> usize {
    threads * (HELD + LAID)
}

/// Something elements are pushed to and popped from.
pub trait Container: Sync {
    /// Called once by every thread, with its number, before it calls anything else.
    fn enter(&self, _thread: usize) {}

    /// Adds an element; gives it back when there is no room.
    ///
    /// # Safety
    ///
    /// The element is one of `0..elements(threads)`, and has not been pushed since it was last
    /// popped: containers whose elements are their own nodes may rely on that.
    unsafe fn push(&self, element: u64) -> Result<(), u64>;

    /// Takes an element.
    fn pop(&self) -> Option<u64>;

    /// Takes an element from wherever there is one; for containers where `pop` looks in one place
    /// only.
    fn pop_anywhere(&self) -> Option<u64> {
        self.pop()
    }
}

/// A container under this workload.
pub struct Exchange<C> {
    container: C,
    held: Vec<CachePadded<Mutex<[u64; HELD]>>>,
}

impl<C: Container + 'static> Exchange<C> {
    /// The subject for that many threads; the container has room for all `elements(threads)` in
    /// every place.
    pub fn boxed(threads: usize, container: C) -> Box<dyn Subject> {
        let held = |thread| std::array::from_fn(|index| (thread * HELD + index) as u64);
        let held = (0..threads)
            .map(|thread| CachePadded::new(Mutex::new(held(thread))))
            .collect();
        Box::new(Self { container, held })
    }

    /// Pushes each held element in turn and takes a popped one in its place, that many times.
    ///
    /// A function of its own, so that what surrounds the loop takes none of its registers.
    ///
    /// # Safety
    ///
    /// The elements are this thread's alone.
    #[inline(never)]
    unsafe fn exchange(&self, held: &mut [u64; HELD], rounds: u64) {
        for _ in 0..rounds {
            for place in &mut *held {
                // SAFETY: the caller's promise; what was popped is this thread's as well.
                if unsafe { self.container.push(*place) }.is_err() {
                    full();
                }
                *place = match self.container.pop() {
                    Some(element) => element,
                    None => self.search(),
                };
            }
            black_box(&mut *held);
        }
    }

    /// The rare case: this place is empty, because the thread could not be pinned and was moved, or
    /// because the elements are in another thread's hands.
    #[cold]
    #[inline(never)]
    fn search(&self) -> u64 {
        loop {
            if let Some(element) = self.container.pop_anywhere() {
                return element;
            }
            std::thread::yield_now();
        }
    }
}

impl<C: Container + 'static> Subject for Exchange<C> {
    fn prepare(&self, thread: usize) -> Result<(), Refused> {
        self.container.enter(thread);
        let first = self.held.len() * HELD + thread * LAID;
        for element in first..first + LAID {
            // SAFETY: no other thread lays this one, and none holds it.
            if unsafe { self.container.push(element as u64) }.is_err() {
                full();
            }
        }
        Ok(())
    }

    fn run(&self, thread: usize, operations: u64) {
        const { assert!(GRAIN.is_multiple_of(HELD as u64)) };
        let mut held = self.held[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // SAFETY: held elements are this thread's alone: it started with its own, and keeps what it
        // pops.
        unsafe { self.exchange(&mut held, operations / HELD as u64) };
    }

    fn check(&self, _operations: u64) -> Result<(), Fault> {
        let mut seen = vec![0_u32; elements(self.held.len())];
        let left = std::iter::from_fn(|| self.container.pop_anywhere());
        let held = self
            .held
            .iter()
            .flat_map(|held| *held.lock().unwrap_or_else(PoisonError::into_inner));
        for element in held.chain(left) {
            let count = usize::try_from(element)
                .ok()
                .and_then(|element| seen.get_mut(element));
            *count.ok_or_else(|| format!("element {element} came out, which never went in"))? += 1;
        }
        let lost = seen.iter().filter(|&&count| count == 0).count();
        let doubled = seen.iter().filter(|&&count| count > 1).count();
        if lost + doubled == 0 {
            return Ok(());
        }
        let elements = seen.len();
        let sentence = format!(
            "of {elements} elements {lost} were lost and {doubled} came out more than once"
        );
        let once = elements - lost - doubled;
        Err(Fault::count(elements as u64, [once as u64], sentence))
    }
}

#[cold]
fn full() -> ! {
    panic!("the container was full although it has room for every element");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::peers::mutexed::Mutexed;

    /// Loses the first named element and doubles the second.
    struct Faulty(Mutexed<Vec<u64>>, Option<u64>, Option<u64>);

    impl Container for Faulty {
        unsafe fn push(&self, element: u64) -> Result<(), u64> {
            if self.1 == Some(element) {
                return Ok(());
            }
            if self.2 == Some(element) {
                // SAFETY: a vector takes anything.
                unsafe { self.0.push(element) }?;
            }
            // SAFETY: a vector takes anything.
            unsafe { self.0.push(element) }
        }

        fn pop(&self) -> Option<u64> {
            self.0.pop()
        }
    }

    fn judge(lost: Option<u64>, doubled: Option<u64>) -> Result<(), Fault> {
        let case = Exchange::boxed(1, Faulty(Mutexed::default(), lost, doubled));
        case.prepare(0).unwrap();
        case.run(0, GRAIN);
        case.check(GRAIN)
    }

    #[test]
    fn the_check_tells_a_whole_container_from_a_leaking_and_a_doubling_one() {
        assert_eq!(judge(None, None), Ok(()));
        let lost = judge(Some(0), None).unwrap_err();
        assert!(lost.sentence.contains("1 were lost"));
        assert_eq!((lost.expected, lost.found), (Some(32), vec![31]));
        assert!(
            judge(None, Some(20))
                .unwrap_err()
                .sentence
                .contains("1 came out more than once")
        );
    }
}
