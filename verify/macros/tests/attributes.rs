//! The effect of attributes before a sequence: the same as before a function.
//!
//! Every lint is denied, so that an unfulfilled expectation, an unexpected warning, or a duplicate
//! attribute does not compile. Programs that must not compile are in `tests/ui/attributes.rs`.
#![deny(warnings, missing_docs, unused, unreachable_pub)]
#![deny(
    unfulfilled_lint_expectations,
    unused_attributes,
    dead_code,
    deprecated
)]

const STEP: usize = 8;

#[deprecated(note = "a constant of the caller's")]
const OLD: usize = 8;

atomseq::sequence! {
    #[expect(dead_code)]
    unsafe fn expected(slot: Slot) { commit(slot + 8, 1) }

    #[expect(dead_code, reason = "there are constants")]
    pub(crate) unsafe fn expected_with_constants(slot: Slot) -> Word {
        let old = load(slot + STEP);
        commit(slot + STEP, old + STEP);
        old
    }

    #[expect(unused)]
    unsafe fn expected_by_group(word: Word) -> Word { load(word) }

    #[expect(dead_code, deprecated, reason = "both at once")]
    unsafe fn expected_by_both(slot: Slot) { commit(slot + 8, OLD) }

    #[allow(dead_code)]
    unsafe fn allowed(slot: Slot) { commit(slot + 8, 1) }

    #[warn(dead_code)]
    unsafe fn used_by_one_form(slot: Slot) { commit(slot + 8, STEP) }

    #[expect(deprecated)]
    unsafe fn of_what_is_deprecated(word: Word) -> Word { load(word + OLD) }

    /// A deprecated sequence may use deprecated constants.
    #[deprecated]
    unsafe fn deprecated(word: Word) -> Word { load(word + OLD) }

    #[cfg(any())]
    unsafe fn absent(slot: Slot) { commit(slot + 8, NO_SUCH_CONSTANT) }

    #[cfg(all())]
    unsafe fn present(word: Word) -> Word { load(word + STEP) }

    #[must_use]
    #[inline]
    unsafe fn must_be_used(word: Word) -> Word { load(word) }

    #[must_use = "it says what was there"]
    #[inline(never)]
    unsafe fn must_be_used_because(slot: Slot) -> Word {
        let old = load(slot + 8);
        commit(slot + 8, STEP);
        old
    }
}

/// A public module.
pub mod seen {
    atomseq::sequence! {
        #[doc(hidden)]
        pub unsafe fn hidden(slot: Slot) { commit(slot + 8, 1) }

        #[expect(missing_docs)]
        pub unsafe fn not_documented(slot: Slot) { commit(slot + 8, 1) }
    }
}

/// From a macro of this crate, whose tokens are neither the caller's nor the procedural macro's.
macro_rules! from_a_macro {
    ($(#[$attribute:meta])* $name:ident) => {
        atomseq::sequence! {
            $(#[$attribute])*
            pub(crate) unsafe fn $name(slot: Slot) -> Word {
                let old = load(slot + STEP);
                commit(slot + STEP, old + STEP);
                old
            }
        }
    };
}

from_a_macro!(
    #[expect(dead_code)]
    unused_from_a_macro
);
from_a_macro!(used_from_a_macro);

#[test]
fn attributes_do_what_they_do_on_a_function() {
    let words = [1_usize, 2];
    let at = (&raw const words).expose_provenance();
    // SAFETY: they read words that belong to this thread.
    let found = unsafe {
        #[expect(deprecated)]
        let deprecated = deprecated::rolling(at);
        [
            of_what_is_deprecated::rolling(at),
            deprecated,
            present::rolling(at),
            must_be_used::rolling(at),
        ]
    };
    assert_eq!(found, [2, 2, 2, 1]);
    let mut word = [0_usize; 2];
    let at = (&raw mut word).expose_provenance();
    // SAFETY: they change words that belong to this thread, which has no handlers.
    let found = unsafe {
        used_by_one_form::restarting(at);
        (
            must_be_used_because::rolling(at),
            used_from_a_macro::rolling(at),
        )
    };
    assert_eq!((found, word[1]), ((8, 8), 16));
}
