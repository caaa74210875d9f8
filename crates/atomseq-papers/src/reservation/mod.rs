//! Software reservation: test-and-set from loads and stores alone (B91 2.2), by Lamport's fast
//! mutual exclusion algorithm.
//!
//! | type | B91 | what it is |
//! |---|---|---|
//! | [`Lamport`] | figure 1, "(a)" in table 1 | the algorithm itself: enter and leave, no try |
//! | [`PerLock`] | "(a)" as a test-and-set | an instance a variable |
//! | [`Bundled`] | figure 2, "(b)" in table 1 | one instance for all variables |
//!
//! Each with the fences that a multiprocessor needs ([`Fenced`]), or without, as B91 measured it on
//! one CPU ([`Unfenced`]).
//!
//! Up to [`THREADS`] threads at a time have the number that the algorithm asks for; the operation
//! that would need one more panics with the sentence of [`TooManyThreads`], and [`register`] tells
//! beforehand.
//!
//! # Where this differs from B91
//!
//! * Figure 1 holds the lock from line 19 to line 21, and has no way to give up. A thread that
//!   collides (line 10) and finds its own name in `y` cannot tell whether a flag that is up belongs
//!   to a thread that is still deciding or to the one inside, so in figure 1 it waits for both; a
//!   test-and-set must not wait for the holder. [`PerLock`] therefore is figure 2 with a meta-lock
//!   of its own: what is waited for is inside for three instructions, or was preempted there. It
//!   makes seven stores where figure 1 makes five. What B91's table 1 has as (a) is [`Lamport`].
//! * The text says that without contention the lines 1, 2, 3, 9, 19, 21 and 22 are executed; line
//!   10 belongs there too, and is the second of the "two loads". It says that of n threads that
//!   collide n - 1 notice; all n do if one more overwrites `x` and then finds the lock taken.
//! * Figure 2 has `p = 1` for `p := 1`. Its result is 0 where test-and-set succeeded; here it is
//!   true.
//! * Fences: B91's processor had none to make.
//!
//! # Limits
//!
//! To the algorithm a signal handler is the thread that it interrupts. One that interrupts a
//! test-and-set finds every variable set, and one that waited for it would wait for ever: handlers
//! may try, and a thread whose handlers do calls [`register`] first. [`Lamport`] is not for
//! handlers at all. In the child of a fork, the other threads' flags stay as they were. A preempted
//! thread keeps all others waiting who collide with it or, with [`Bundled`], want any variable at
//! all.

mod lamport;
mod strength;
mod threads;

use std::fmt;
use std::marker::PhantomData;

use atomseq::mutex::TestAndSet;

use crate::sync::{AtomicBool, AtomicU32, Ordering};
use lamport::Words;
pub use strength::{Fenced, OneCpu, Strength, Unfenced};
pub use threads::{THREADS, TooManyThreads, register};

/// Lamport's fast mutual exclusion algorithm as printed (B91 figure 1).
///
/// Scope [`Machine`](atomseq::scope::Machine) when [`Fenced`], [`SameCpu`](atomseq::scope::SameCpu)
/// when [`Unfenced`]. No atomic instruction: two loads and five stores to enter and leave alone,
/// and two fences. Waits by giving the processor away. Free of deadlock; a thread may starve.
///
/// ```
/// use atomseq_papers::reservation::Lamport;
///
/// static LAMPORT: Lamport = Lamport::new();
///
/// LAMPORT.enter();
/// // nobody else is here
/// // SAFETY: this thread has entered.
/// unsafe { LAMPORT.leave() };
/// ```
#[repr(C)]
pub struct Lamport<S = Fenced> {
    x: AtomicU32,
    y: AtomicU32,
    b: [AtomicBool; THREADS],
    _strength: PhantomData<fn() -> S>,
}

impl<S> Lamport<S> {
    /// One that nobody is in.
    pub const fn new() -> Lamport<S> {
        Lamport {
            x: AtomicU32::new(0),
            y: AtomicU32::new(0),
            b: [const { AtomicBool::new(false) }; THREADS],
            _strength: PhantomData,
        }
    }

    #[inline(always)]
    fn words(&self) -> Words<'_, THREADS> {
        Words {
            x: &self.x,
            y: &self.y,
            b: &self.b,
        }
    }
}

impl<S: Strength> Lamport<S> {
    /// Waits until no other thread is inside, and is.
    ///
    /// # Panics
    ///
    /// If the thread gets no number ([`TooManyThreads`]), or has given it back since it ends.
    #[inline(never)]
    pub fn enter(&self) {
        let number = threads::number().expect(ENDING);
        self.words().enter(number, |_| S::fence());
    }

    /// Leaves.
    ///
    /// # Safety
    ///
    /// This thread has [entered](Lamport::enter), and not left since.
    #[inline(never)]
    pub unsafe fn leave(&self) {
        let number = threads::number().expect(ENDING);
        self.words().leave(number);
    }

    /// Figure 2, inside this. Nothing is set by a handler that interrupts it.
    #[inline(always)]
    fn test_and_set(&self, flag: &AtomicU32) -> bool {
        let set = threads::with_number(|number| {
            let words = self.words();
            words.test_and_set(number, flag, |_| S::fence())
        });
        set.unwrap_or(false)
    }
}

const ENDING: &str =
    "the thread ends and has given its number back; leave before, and enter no more";

impl<S> Default for Lamport<S> {
    fn default() -> Lamport<S> {
        Lamport::new()
    }
}

impl<S> fmt::Debug for Lamport<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lamport")
            .field("x", &self.x)
            .field("y", &self.y)
            .finish_non_exhaustive()
    }
}

/// What all [`Bundled`] variables of one [`OneCpu`] group go through.
#[derive(Debug, Default)]
pub struct Bundle(Lamport<()>);

impl Bundle {
    /// One that nobody is in.
    pub const fn new() -> Bundle {
        Bundle(Lamport::new())
    }

    /// The same for a strength.
    fn of<S>(&self) -> &Lamport<S> {
        // SAFETY: the strength is a type parameter of a marker only, so with `repr(C)` the two have
        // the same layout.
        unsafe { &*(&raw const self.0).cast() }
    }
}

/// Test-and-set by software reservation, with an instance of [`Lamport`]'s algorithm for each
/// variable (B91's "(a)").
///
/// Scope [`Machine`](atomseq::scope::Machine) when [`Fenced`], [`SameCpu`](atomseq::scope::SameCpu)
/// when [`Unfenced`]. No atomic instruction: three loads, seven stores and two fences to set and
/// clear. Blocking: waits, giving the processor away, for threads that are in the middle of a
/// test-and-set of the same variable, but not for the one that holds it. Over [`THREADS`] bytes
/// large.
///
/// # Panics
///
/// [`test_and_set`](TestAndSet::test_and_set), if the thread gets no number: [`TooManyThreads`].
#[derive(Debug)]
pub struct PerLock<S = Fenced> {
    flag: AtomicU32,
    meta: Lamport<S>,
}

/// Test-and-set by software reservation, with one instance of [`Lamport`]'s algorithm for all
/// variables (B91's "(b)", figure 2).
///
/// As [`PerLock`], but one word large; and a thread that is preempted in the middle of a
/// test-and-set keeps every other from any of them, "disastrous to performance", as B91 says.
///
/// # Panics
///
/// [`test_and_set`](TestAndSet::test_and_set), if the thread gets no number: [`TooManyThreads`].
#[derive(Debug)]
pub struct Bundled<S = Fenced> {
    flag: AtomicU32,
    _strength: PhantomData<fn() -> S>,
}

/// Test-and-set inside `$meta`.
macro_rules! by {
    ($mechanism:ident $name:ident $value:expr, |$this:ident| $meta:expr) => {
        // SAFETY: looking and setting are inside a critical section of Lamport's algorithm, which
        // handlers keep out of. What is written before a clear is released by it, and acquired by
        // the look that finds it.
        unsafe impl<S: Strength> TestAndSet for $mechanism<S> {
            type Scope = S::Scope;
            type GuardMarker = lock_api::GuardSend;
            const NAME: &'static str = S::$name;
            const CLEAR: $mechanism<S> = $value;

            // Not inlined, as B91 measured it (4.1).
            #[inline(never)]
            fn test_and_set(&self) -> bool {
                let $this = self;
                $meta.test_and_set(&self.flag)
            }

            #[inline(always)]
            unsafe fn clear(&self) {
                lamport::clear(&self.flag);
            }

            #[inline(always)]
            fn is_set(&self) -> bool {
                // Relaxed: a hint.
                self.flag.load(Ordering::Relaxed) != 0
            }

            #[inline(always)]
            unsafe fn clear_then_look(&self) {
                lamport::clear(&self.flag);
                // Pairs with the fence in `waiter_barrier`.
                S::fence();
            }

            #[inline(always)]
            fn waiter_barrier(&self) {
                // Pairs with the fence in `clear_then_look`.
                S::fence();
            }
        }
    };
}

by! {
    PerLock PER_LOCK
    PerLock { flag: AtomicU32::new(0), meta: Lamport::new() },
    |this| this.meta
}

by! {
    Bundled BUNDLED
    Bundled { flag: AtomicU32::new(0), _strength: PhantomData },
    |_this| S::bundle()
}

#[cfg(test)]
mod tests;
