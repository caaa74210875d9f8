//! What a thread says about its work, and its own handler takes away at every tick.
//!
//! Only a thread and its handlers share it, so these are sequences in the forms for signals: the
//! thread pays for nothing but the loads and stores themselves.
//!
//! - Two words that must agree take two stores that everybody sees: a rollforward sequence. A
//!   handler never finds a word counted whose bytes are not.
//! - The longest word takes one store, its last instruction: a restartable sequence.

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

    /// Takes words and bytes.
    unsafe fn take(pace: Word) -> (Word, Word) {
        let words = load(pace + WORDS);
        let bytes = load(pace + BYTES);
        store(pace + WORDS, 0);
        store(pace + BYTES, 0);
        (words, bytes)
    }

    /// Remembers the longest: the larger of two is their sum less the smaller.
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
    /// Counts a word, on the thread.
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

    /// Takes the words and bytes since the last time, in a handler or on the thread.
    #[inline]
    pub fn take(&self) -> (usize, usize) {
        // SAFETY: as in `count`.
        unsafe { take::rolling(self.address()) }
    }

    /// The longest word so far.
    pub fn longest(&self) -> usize {
        // SAFETY: one of the words, which no handler is changing while this thread is here.
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
