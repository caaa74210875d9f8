//! The progress of a thread, which its own handler takes over at every tick.
//!
//! Only a thread and its handlers share it, so the sequences here are in the forms against signal
//! handlers: the thread executes the loads and stores and nothing else.
//!
//! - Two words that must agree take two visible stores, so their update is a rollforward sequence.
//!   A handler never finds a word counted whose bytes are not.
//! - The longest word takes one store, the last instruction: a restartable sequence.

use std::cell::UnsafeCell;

const WORDS: usize = 0;
const BYTES: usize = size_of::<usize>();
const LONGEST: usize = 2 * size_of::<usize>();

atomseq::sequence! {
    /// Counts a word and its bytes.
    unsafe fn add(pace: Word, bytes: Word) {
        let words = load(pace + WORDS);
        let before = load(pace + BYTES);
        store(pace + WORDS, words + 1);
        store(pace + BYTES, before + bytes);
    }

    /// Takes words and bytes, and leaves zeros.
    unsafe fn take(pace: Word) -> (Word, Word) {
        let words = load(pace + WORDS);
        let bytes = load(pace + BYTES);
        store(pace + WORDS, 0);
        store(pace + BYTES, 0);
        (words, bytes)
    }

    /// Keeps the longest: the larger of two is their sum less the smaller.
    unsafe fn lengthen(pace: Word, bytes: Word) {
        let longest = load(pace + LONGEST);
        commit(pace + LONGEST, longest + bytes - min(longest, bytes));
    }
}

/// Words and bytes counted since a handler last took them.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Pace {
    words: UnsafeCell<[usize; 3]>,
}

impl Pace {
    /// Counts a word. For the thread, not for its handlers.
    #[inline]
    pub fn count(&self, bytes: usize) {
        let pace = self.address();
        // SAFETY: three words that only this thread and its handlers use (not `Sync`), and only by
        // these sequences.
        unsafe {
            add::rolling(pace, bytes);
            lengthen::restarting(pace, bytes);
        }
    }

    /// Takes the words and bytes counted since the last call. For the thread and its handlers.
    #[inline]
    pub fn take(&self) -> (usize, usize) {
        // SAFETY: three words that only this thread and its handlers use (not `Sync`), and only by
        // these sequences.
        unsafe { take::rolling(self.address()) }
    }

    /// Returns the length of the longest word so far.
    pub fn longest(&self) -> usize {
        // SAFETY: one of the three words. Handlers do not change this one.
        unsafe {
            self.words
                .get()
                .cast::<usize>()
                .byte_add(LONGEST)
                .read_volatile()
        }
    }

    #[inline]
    fn address(&self) -> usize {
        self.words.get().expose_provenance()
    }
}
