//! Other ways to change two words together: under locks that spin, and by multi-word
//! compare-and-swap from other crates.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use crossbeam_utils::CachePadded;
use kcas::{ArcStateWrapper, Error, KCasWord, State, is_value_a_kcas_marker};

use crate::arguments::MAX_THREADS;
use crate::bench::workloads::pair::Pair;

/// A sequence lock: two words whose writer makes a number odd while it changes them. Readers never
/// store; a preempted writer makes all other threads wait.
#[derive(Default)]
pub struct SequenceLock {
    sequence: CachePadded<AtomicU64>,
    words: [CachePadded<AtomicU64>; 2],
}

impl Pair for SequenceLock {
    type Hand = ();

    fn hand(&self) {}

    #[inline(always)]
    fn add(&self, _hand: &mut (), amount: u64) {
        loop {
            // Acquire: pairs with the Release of the last writer.
            let seen = self.sequence.load(Ordering::Acquire);
            if seen.is_multiple_of(2) {
                let taken = self.sequence.compare_exchange_weak(
                    seen,
                    seen + 1,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                if taken.is_ok() {
                    // Release: pairs with a reader's acquire fence.
                    fence(Ordering::Release);
                    for word in &self.words {
                        word.store(word.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
                    }
                    self.sequence.store(seen + 2, Ordering::Release);
                    return;
                }
            }
            spin_loop();
        }
    }

    fn both(&self) -> (u64, u64) {
        let [a, b] = [0, 1].map(|index: usize| self.words[index].load(Ordering::Relaxed));
        (a, b)
    }
}

/// A test-and-test-and-set lock that only spins, as a kernel's does, where holders are not
/// preempted. A program's holders are, and then all waiters spin until the holder's next turn.
#[cfg(target_os = "linux")]
#[derive(Default)]
pub struct Spinning {
    held: std::sync::atomic::AtomicBool,
    words: [CachePadded<AtomicU64>; 2],
}

#[cfg(target_os = "linux")]
impl Pair for Spinning {
    type Hand = ();

    fn hand(&self) {}

    #[inline(always)]
    fn add(&self, _hand: &mut (), amount: u64) {
        // Acquire: pairs with the Release of the previous holder.
        while self.held.swap(true, Ordering::Acquire) {
            while self.held.load(Ordering::Relaxed) {
                spin_loop();
            }
        }
        for word in &self.words {
            word.store(word.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
        }
        self.held.store(false, Ordering::Release);
    }

    fn both(&self) -> (u64, u64) {
        let [a, b] = [0, 1].map(|index: usize| self.words[index].load(Ordering::Relaxed));
        (a, b)
    }
}

/// The crate kcas (0.1.0): multi-word compare-and-swap after Harris, Fraser and Pratt (2002), whose
/// descriptors belong to their threads and are used again, so that it neither allocates nor
/// reclaims. Each thread has its own wrapper, as its documentation asks, made once.
///
/// It has no read: a reader that finds another operation's mark knows no value. A thread that adds
/// then tries with the last value that it knew, which lets it help that operation, and reads again.
pub struct CrateKcas {
    state: Arc<State<MAX_THREADS, 2>>,
    words: [CachePadded<AtomicUsize>; 2],
}

/// A thread's wrapper, and the last values of the words that it knew.
pub struct Wrapped {
    wrapper: ArcStateWrapper<MAX_THREADS, 2>,
    known: [usize; 2],
}

impl Default for CrateKcas {
    fn default() -> Self {
        Self {
            state: Arc::new(State::new()),
            words: Default::default(),
        }
    }
}

impl Pair for CrateKcas {
    type Hand = Wrapped;

    fn hand(&self) -> Wrapped {
        let wrapper = ArcStateWrapper::construct(Arc::clone(&self.state));
        Wrapped {
            wrapper: wrapper.expect("there are no more threads than numbers for them"),
            known: [0; 2],
        }
    }

    #[inline(always)]
    fn add(&self, hand: &mut Wrapped, amount: u64) {
        let amount = amount as usize;
        loop {
            for (known, word) in hand.known.iter_mut().zip(&self.words) {
                // Relaxed: the operation compares what was read.
                let value = word.load(Ordering::Relaxed);
                if !is_value_a_kcas_marker::<MAX_THREADS>(value) {
                    *known = value;
                }
            }
            let [a, b] = hand.known;
            let done = hand.wrapper.kcas([
                KCasWord::new(&self.words[0], a, a + amount),
                KCasWord::new(&self.words[1], b, b + amount),
            ]);
            match done {
                Ok(()) => return,
                Err(Error::ValueWasNotExpectedValue) => {}
                Err(fatal) => panic!("{fatal:?}"),
            }
        }
    }

    fn both(&self) -> (u64, u64) {
        let [a, b] = [0, 1].map(|index: usize| self.words[index].load(Ordering::SeqCst) as u64);
        (a, b)
    }
}
