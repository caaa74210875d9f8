//! Sequences that a thread and its signal handlers run on the same words, in each form.

use std::cell::Cell;

atomseq::sequence! {
    /// Adds to a word. The draft beside it keeps this from being one instruction, which no signal
    /// could interrupt.
    pub unsafe fn add(word: Word, amount: Word) {
        let old = load(word);
        prepare(word + 8, old);
        commit(word, old + amount);
    }

    /// Takes the first node of a list whose links are the nodes' first words.
    pub unsafe fn take(list: Word) -> Word {
        let first = load(list);
        if first == 0 { return 0 }
        let next = load(first);
        commit(list, next);
        first
    }

    /// Puts a node in front of the first one.
    pub unsafe fn put(list: Word, node: Word) {
        let first = load(list);
        prepare(node, first);
        commit(list, node);
    }

    /// Adds to three words; returns the old value of the first.
    pub unsafe fn triple(words: Word, amount: Word) -> Word {
        let first = load(words);
        store(words, first + amount);
        let second = load(words + 8);
        store(words + 8, second + amount);
        let third = load(words + 16);
        store(words + 16, third + amount);
        first
    }

    /// Appends a node, whose link is 0, to the last one.
    pub unsafe fn append(last: Word, node: Word) {
        let before = load(last);
        store(before, node);
        store(last, node);
    }

    /// Takes the front node, unless it is the only one.
    pub unsafe fn advance(front: Word) -> Word {
        let first = load(front);
        let next = load(first);
        if next == 0 { return 0 }
        commit(front, next);
        first
    }
}

/// Which forms are run.
pub trait Forms: 'static {
    /// For messages.
    const NAME: &'static str;
    /// [`add`], in one of two forms.
    ///
    /// # Safety
    ///
    /// For all of these: addresses of words that only this thread and its handlers use.
    unsafe fn add(word: usize, amount: usize, restarting: bool);
    /// [`take`], in one of two forms.
    ///
    /// # Safety
    ///
    /// As for `add`.
    unsafe fn take(list: usize, restarting: bool) -> usize;
    /// [`put`], in one of two forms.
    ///
    /// # Safety
    ///
    /// As for `add`.
    unsafe fn put(list: usize, node: usize, restarting: bool);
    /// [`triple`].
    ///
    /// # Safety
    ///
    /// As for `add`.
    unsafe fn triple(words: usize, amount: usize) -> usize;
    /// [`append`].
    ///
    /// # Safety
    ///
    /// As for `add`.
    unsafe fn append(last: usize, node: usize);
    /// [`advance`], in one of two forms.
    ///
    /// # Safety
    ///
    /// As for `add`.
    unsafe fn advance(front: usize, restarting: bool) -> usize;
}

/// The forms that signal handlers respect.
pub struct Protected;

/// The same instructions, which handlers do not know.
pub struct Unprotected;

macro_rules! forms {
    ($forms:ident, $name:literal, $restarting:ident, $rolling:ident) => {
        impl Forms for $forms {
            const NAME: &'static str = $name;
            #[inline(always)]
            unsafe fn add(word: usize, amount: usize, restarting: bool) {
                // SAFETY: by this function's contract.
                unsafe {
                    match restarting {
                        true => add::$restarting(word, amount),
                        false => add::$rolling(word, amount),
                    }
                }
            }
            #[inline(always)]
            unsafe fn take(list: usize, restarting: bool) -> usize {
                // SAFETY: by this function's contract.
                unsafe {
                    match restarting {
                        true => take::$restarting(list),
                        false => take::$rolling(list),
                    }
                }
            }
            #[inline(always)]
            unsafe fn put(list: usize, node: usize, restarting: bool) {
                // SAFETY: by this function's contract.
                unsafe {
                    match restarting {
                        true => put::$restarting(list, node),
                        false => put::$rolling(list, node),
                    }
                }
            }
            #[inline(always)]
            unsafe fn triple(words: usize, amount: usize) -> usize {
                // SAFETY: by this function's contract.
                unsafe { triple::$rolling(words, amount) }
            }
            #[inline(always)]
            unsafe fn append(last: usize, node: usize) {
                // SAFETY: by this function's contract.
                unsafe { append::$rolling(last, node) }
            }
            #[inline(always)]
            unsafe fn advance(front: usize, restarting: bool) -> usize {
                // SAFETY: by this function's contract.
                unsafe {
                    match restarting {
                        true => advance::$restarting(front),
                        false => advance::$rolling(front),
                    }
                }
            }
        }
    };
}

forms!(Protected, "restarting and rolling", restarting, rolling);
forms!(Unprotected, "unprotected", unprotected, unprotected);

/// Returns a word's address, for a sequence.
pub fn at(word: &Cell<usize>) -> usize {
    word.as_ptr() as usize
}
