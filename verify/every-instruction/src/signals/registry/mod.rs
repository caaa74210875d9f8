//! A scenario for each sequence in this program that is atomic against signal handlers.
//!
//! Every new sequence needs one here: without it the test reports instructions that no signal
//! reached. Sequences are run through wrappers that are never inlined, so that each operation has
//! one copy of its sequence in the program.

mod local;
mod own;

use std::cell::Cell;

use atomseq::mutex::{Restarting, Rolling, TestAndSet};

use crate::scenario::{Check, Fresh, Named, Words, each};

/// Checks all scenarios.
pub fn check(checker: &mut impl Check) {
    local::check(checker);
    restarting::check(checker);
    rolling::check(checker);
    own::check(checker);
}

/// Returns a word or none, as words.
fn found(word: Option<u64>) -> Words {
    word.into_iter().collect()
}

/// A few words at fixed addresses, which a thread and its handlers change.
#[derive(Debug)]
pub struct Memory<const WORDS: usize>([Cell<usize>; WORDS]);

impl<const WORDS: usize> Memory<WORDS> {
    /// Makes a memory with these contents.
    pub fn holding(words: [usize; WORDS]) -> Memory<WORDS> {
        Memory(words.map(Cell::new))
    }

    /// Returns a word's address.
    pub fn at(&self, index: usize) -> usize {
        self.0[index].as_ptr() as usize
    }

    /// Returns a word's value.
    pub fn word(&self, index: usize) -> usize {
        self.0[index].get()
    }

    /// Changes a word.
    pub fn set(&self, index: usize, word: usize) {
        self.0[index].set(word);
    }

    /// Returns all words.
    pub fn words(&self) -> Vec<u64> {
        self.0.iter().map(|word| word.get() as u64).collect()
    }
}

/// Wrappers, states and scenarios of test-and-set by a mechanism that is atomic against handlers.
macro_rules! mechanism {
    ($module:ident: $mechanism:ident, $set:literal) => {
        mod $module {
            use super::*;

            #[inline(never)]
            fn set(flag: &$mechanism) -> Words {
                vec![flag.test_and_set().into()]
            }

            /// Sets and clears the flag if it is free, as a handler would.
            fn set_and_clear(flag: &$mechanism) -> Words {
                let taken = set(flag);
                if taken == [1] {
                    // SAFETY: it was set above.
                    unsafe { flag.clear() };
                }
                taken
            }

            fn clear() -> $mechanism {
                $mechanism::CLEAR
            }

            fn held() -> $mechanism {
                let flag = clear();
                assert_eq!(set(&flag), [1]);
                flag
            }

            const INTERFERENCES: &[Named<$mechanism>] =
                &[("set", set), ("set and clear", set_and_clear)];

            pub fn check(checker: &mut impl Check) {
                let states: [(&str, Fresh<$mechanism>); 2] = [("clear", clear), ("held", held)];
                let operations: [Named<$mechanism>; 1] = [($set, set)];
                each(checker, &states, &operations, INTERFERENCES, |flag| {
                    vec![flag.is_set().into()]
                });
            }
        }
    };
}

mechanism!(restarting: Restarting, "mutex::Restarting::test_and_set");
mechanism!(rolling: Rolling, "mutex::Rolling::test_and_set");
