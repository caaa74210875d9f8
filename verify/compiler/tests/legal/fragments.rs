//! What the variables of a `macro_rules!` bring: types and expressions in invisible groups.

macro_rules! getter {
    ($name:ident, $result:ty, $value:expr_2021) => {
        atomseq::sequence! {
            /// Loads.
            pub unsafe fn $name(at: Word) -> $result { $value }
        }
    };
}

getter!(one, Word, load(at));
getter!(flag, bool, true);
getter!(both, (Word, Word), (load(at), load(at + 8)));
getter!(maybe, Option<Word>, Some(load(at)));
getter!(
    maybe_both,
    Option<(Word, Word)>,
    Some((load(at), load(at + 8)))
);

/// Types inside of types, and a type of a parameter and of a word.
macro_rules! nested {
    ($word:ty, $both:ty) => {
        atomseq::sequence! {
            /// Two words.
            pub unsafe fn pair(at: $word) -> ($word, $word) {
                let first: $word = load(at);
                (first, load(at + 8))
            }

            /// Two words, maybe.
            pub unsafe fn option_pair(at: $word) -> Option<$both> {
                Some((load(at), load(at + 8)))
            }
        }
    };
}

nested!(Word, (Word, Word));

/// Statements, the last without a semicolon.
macro_rules! stores {
    ($name:ident, $prepare:expr_2021, $commit:expr_2021) => {
        atomseq::sequence! {
            /// Commits.
            pub unsafe fn $name(at: Word, value: Word) {
                $prepare;
                $commit
            }
        }
    };
}

stores!(stored, prepare(at + 8, value), commit(at, value + 1));

/// The commit of an early return.
macro_rules! claim {
    ($name:ident, $early:expr_2021) => {
        atomseq::sequence! {
            /// Claims.
            pub unsafe fn $name(slot: Slot, lock: Word) -> Word {
                'abort: { return 0 }
                if cas(lock, 1, 2) != 1 { return 1 }
                if load(slot + 8) == 0 { $early; return 2 }
                commit(lock, 1);
                3
            }
        }
    };
}

claim!(claimed, commit(lock, 1));

#[test]
fn types_and_statements_of_fragments_are_as_written() {
    let area = [3_usize, 4];
    let at = area.as_ptr() as usize;
    // SAFETY: the sequences only load the two words, which outlive the calls.
    unsafe {
        assert_eq!(one::rolling(at), 3);
        assert!(flag::rolling(at));
        assert_eq!(both::rolling(at), (3, 4));
        assert_eq!(maybe::rolling(at), Some(3));
        assert_eq!(maybe_both::rolling(at), Some((3, 4)));
        assert_eq!(pair::rolling(at), (3, 4));
        assert_eq!(option_pair::rolling(at), Some((3, 4)));
    }
    let mut area = [0_usize, 0];
    let at = area.as_mut_ptr().expose_provenance();
    // SAFETY: both words are this thread's, and outlive the call.
    unsafe { stored::restarting(at, 5) };
    assert_eq!(area, [6, 5]);
    let _ = claimed::MODEL;
}
