//! Software reservation: test-and-set from loads and stores alone (B91, section 2.2), by Lamport's
//! fast mutual exclusion algorithm.
//!
//! | type | B91 | what it is |
//! |---|---|---|
//! | [`Lamport`] | figure 1, "(a)" in table 1 | the algorithm itself: enter and leave, without a try |
//! | [`PerLock`] | "(a)" as a test-and-set | an instance for each variable |
//! | [`Bundled`] | figure 2, "(b)" in table 1 | one instance for all variables |
//!
//! Each comes with the fences that a multiprocessor needs ([`Fenced`]), or without, as B91 measured
//! it on one CPU ([`Unfenced`]).
//!
//! The algorithm needs thread numbers, and at most [`THREADS`] threads can have one at a time. The
//! operation of a further thread panics with the message of [`TooManyThreads`]; [`register`]
//! reports it in advance.
//!
//! # Differences from B91
//!
//! * Figure 1 holds the lock from line 19 to line 21 and cannot give up. A thread that collides
//!   (line 10) and finds its own name in `y` cannot distinguish the raised flag of a thread that is
//!   still deciding from that of the thread inside. In figure 1 it therefore waits for both, but a
//!   test-and-set must not wait for the holder. [`PerLock`] is therefore figure 2 with a meta-lock
//!   of its own: it waits only for threads inside for three instructions, or preempted there. It
//!   makes seven stores where figure 1 makes five. [`Lamport`] is (a) in B91's table 1.
//! * The text says that without contention the lines 1, 2, 3, 9, 19, 21 and 22 are executed. Line
//!   10 belongs to them too: it is the second of the "two loads". The text says that n - 1 of n
//!   colliding threads notice. All n do if one more overwrites `x` and then finds the lock taken.
//! * Figure 2 has `p = 1` for `p := 1`. Its result is 0 if test-and-set succeeded; here it is true.
//! * B91's processor needed no fences.
//!
//! # Limits
//!
//! The algorithm treats a signal handler as the thread that it interrupts. A handler that
//! interrupts a test-and-set finds every variable set, and would wait indefinitely if it waited.
//! Handlers may try, and a thread whose handlers do so calls [`register`] first. Handlers must not
//! use [`Lamport`] itself. In the child of a fork, the other threads' flags stay as they were, so
//! the child may wait indefinitely for a thread that was in the middle of an operation; and their
//! numbers stay taken. A preempted thread delays all threads that collide with it or, with
//! [`Bundled`], that use any variable.

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

/// Lamport's fast mutual exclusion algorithm as printed (B91, figure 1).
///
/// Scope: [`Machine`](atomseq::scope::Machine) if [`Fenced`], [`SameCpu`](atomseq::scope::SameCpu)
/// if [`Unfenced`]. Progress: blocking and deadlock-free, but a thread may starve; it waits by
/// yielding the processor. Cost without contention: no atomic instruction, two loads and five
/// stores to enter and leave, and two fences.
///
/// ```
/// use atomseq_papers::reservation::Lamport;
///
/// static LAMPORT: Lamport = Lamport::new();
///
/// LAMPORT.enter();
/// // no other thread is here
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
    /// Creates an instance that no thread has entered.
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
    /// Waits until no other thread is inside, then enters.
    ///
    /// # Panics
    ///
    /// If the thread gets no number ([`TooManyThreads`]), or has given its number back because it
    /// is exiting.
    #[inline(never)]
    #[track_caller]
    pub fn enter(&self) {
        let number = threads::number().expect(ENDING);
        self.words().enter(number, |_| S::fence());
    }

    /// Leaves.
    ///
    /// # Safety
    ///
    /// This thread must have [entered](Lamport::enter), and must not have left since.
    #[inline(never)]
    pub unsafe fn leave(&self) {
        let number = threads::number().expect(ENDING);
        self.words().leave(number);
    }

    /// Runs figure 2 inside this instance. Sets nothing and returns `false` in a handler that
    /// interrupts it.
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

/// The instance shared by all [`Bundled`] variables of one [`OneCpu`] group.
#[derive(Debug, Default)]
pub struct Bundle(Lamport<()>);

impl Bundle {
    /// Creates an instance that no thread has entered.
    pub const fn new() -> Bundle {
        Bundle(Lamport::new())
    }

    /// Returns the same instance for a strength.
    fn of<S>(&self) -> &Lamport<S> {
        // SAFETY: the strength is only a parameter of a marker, so with `repr(C)` both types have
        // the same layout and invariants.
        unsafe { &*(&raw const self.0).cast() }
    }
}

/// Test-and-set by software reservation, with an instance of [`Lamport`]'s algorithm for each
/// variable (B91's "(a)").
///
/// Scope: [`Machine`](atomseq::scope::Machine) if [`Fenced`], [`SameCpu`](atomseq::scope::SameCpu)
/// if [`Unfenced`]. Progress: blocking. It waits, yielding the processor, for threads in the middle
/// of a test-and-set of the same variable, but not for the holder. Cost: no atomic instruction;
/// three loads, seven stores and two fences to set and clear. The type has more than [`THREADS`]
/// bytes.
///
/// # Panics
///
/// [`test_and_set`](TestAndSet::test_and_set) panics if the thread gets no number
/// ([`TooManyThreads`]).
#[derive(Debug)]
pub struct PerLock<S = Fenced> {
    flag: AtomicU32,
    meta: Lamport<S>,
}

/// Test-and-set by software reservation, with one instance of [`Lamport`]'s algorithm for all
/// variables (B91's "(b)", figure 2).
///
/// Scope, progress and cost are as for [`PerLock`], but it takes one word. A thread preempted in
/// the middle of a test-and-set blocks all test-and-sets of any such variable, which B91 calls
/// "disastrous to performance".
///
/// # Panics
///
/// [`test_and_set`](TestAndSet::test_and_set) panics if the thread gets no number
/// ([`TooManyThreads`]).
#[derive(Debug)]
pub struct Bundled<S = Fenced> {
    flag: AtomicU32,
    _strength: PhantomData<fn() -> S>,
}

/// Implements test-and-set inside `$meta`.
macro_rules! by {
    ($mechanism:ident $name:ident $value:expr, |$this:ident| $meta:expr) => {
        // SAFETY: the check and the store are inside a critical section of Lamport's algorithm,
        // which handlers do not enter. A clear releases what was written before it, and the load
        // that finds the flag clear acquires it.
        unsafe impl<S: Strength> TestAndSet for $mechanism<S> {
            type Scope = S::Scope;
            type GuardMarker = lock_api::GuardSend;
            const NAME: &'static str = S::$name;
            const CLEAR: $mechanism<S> = $value;

            // Not inlined, because B91 measured it that way (section 4.1).
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
                // Relaxed: the result is a hint.
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
