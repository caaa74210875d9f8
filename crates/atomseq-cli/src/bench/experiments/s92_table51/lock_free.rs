//! The same objects without locks: atomseq's. With `RETRY`, the first attempt of a counter's
//! operation finds that something has changed since it looked: S92's *interfering memory reference
//! between the initial read and the Compare-&-Swap*.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use atomseq::mutex::Semaphore;
use atomseq::nonblocking;

use super::{Attempts, CAPACITY, Pair};

/// A counter: compare-and-swap of one word (figure 5.1).
#[derive(Default)]
pub struct Counter<const RETRY: bool>(AtomicU64);

impl<const RETRY: bool> Counter<RETRY> {
    /// Adds one, or takes it off; the value before.
    #[inline(always)]
    fn add(&self, amount: u64) -> (u64, Attempts) {
        let mut attempts = 0;
        loop {
            let old = self.0.load(Relaxed);
            let stale = u64::from(RETRY && attempts == 0);
            attempts += 1;
            let (expected, new) = (old.wrapping_sub(stale), old.wrapping_add(amount));
            // Relaxed on failure: read again.
            let exchanged = self.0.compare_exchange(expected, new, SeqCst, Relaxed);
            if exchanged.is_ok() {
                return (old, Attempts(attempts));
            }
        }
    }
}

impl<const RETRY: bool> Pair for Counter<RETRY> {
    #[inline(always)]
    fn put(&self, _value: u64) -> Attempts {
        self.add(1).1
    }

    #[inline(always)]
    fn take(&self) -> (u64, Attempts) {
        self.add(u64::MAX)
    }
}

/// A semaphore: `put` gets a permit, `take` gives it back.
pub struct Permits(Semaphore);

impl Default for Permits {
    fn default() -> Self {
        Self(Semaphore::new(CAPACITY as u32))
    }
}

impl Pair for Permits {
    #[inline(always)]
    fn put(&self, _value: u64) -> Attempts {
        self.0.acquire().forget();
        Attempts(1)
    }

    #[inline(always)]
    fn take(&self) -> (u64, Attempts) {
        let released = self.0.release();
        (
            u64::from(self.0.permits()),
            Attempts(u64::from(released.is_ok())),
        )
    }
}

/// A stack in an array.
pub struct Stack(nonblocking::Stack<usize>);

/// A queue in an array.
pub struct Queue(nonblocking::Queue<usize>);

macro_rules! array {
    ($($name:ident)*) => {$(
        impl Default for $name {
            fn default() -> Self {
                Self(nonblocking::$name::with_capacity(CAPACITY as usize))
            }
        }

        impl Pair for $name {
            #[inline(always)]
            fn put(&self, value: u64) -> Attempts {
                Attempts(u64::from(self.0.push(value as usize).is_ok()))
            }

            #[inline(always)]
            fn take(&self) -> (u64, Attempts) {
                match self.0.pop() {
                    Some(value) => (value as u64, Attempts(1)),
                    None => (0, Attempts(0)),
                }
            }
        }
    )*};
}

array!(Stack Queue);

/// A linked list, pushed to and popped from at its head.
#[derive(Default)]
pub struct List(nonblocking::LinkedStack<u64>);

impl Pair for List {
    #[inline(always)]
    fn put(&self, value: u64) -> Attempts {
        Attempts(u64::from(self.0.push(value).is_ok()))
    }

    #[inline(always)]
    fn take(&self) -> (u64, Attempts) {
        match self.0.pop() {
            Some(value) => (value, Attempts(1)),
            None => (0, Attempts(0)),
        }
    }
}
