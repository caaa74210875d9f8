//! The crate kcas (0.1.0): multi-word compare-and-swap after Harris, Fraser and Pratt (2002), whose
//! descriptors are a thread's own and are used again, so that it neither allocates nor reclaims.
//! Each thread has its own wrapper, as its documentation asks, made once.
//!
//! It reads no words: a reader that finds another operation's mark knows no value. Whoever adds
//! here then tries with what it knew before, which lets it help that operation, and reads again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use kcas::{ArcStateWrapper, Error, KCasWord, State, is_value_a_kcas_marker};

use crate::arguments::MAX_THREADS;
use crate::bench::experiments::Pair;

/// Two words, and what the threads that change them share.
pub struct CrateKcas {
    state: Arc<State<MAX_THREADS, 2>>,
    words: [CachePadded<AtomicUsize>; 2],
}

/// A thread's wrapper, and what it last knew of the words.
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
