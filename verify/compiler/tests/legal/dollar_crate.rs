//! Constants by `$crate`, which read the same and are of different crates.

/// What `$crate::dollar_crate::SIZE` is in the macros of this crate.
pub const SIZE: usize = 1;

macro_rules! add {
    ($name:ident) => {
        verify_compiler::add_sizes!($name, $crate::dollar_crate::SIZE);
    };
}

add!(added);

/// The same constant by `$crate` everywhere.
macro_rules! claim {
    ($name:ident) => {
        atomseq::sequence! {
            /// Claims.
            pub unsafe fn $name(slot: Slot, lock: Word) -> Word {
                'abort: { return 0 }
                let found = cas(lock, $crate::dollar_crate::SIZE, 2);
                if found != $crate::dollar_crate::SIZE { return 1 }
                if load(slot + 8) == 0 { commit(lock, $crate::dollar_crate::SIZE); return 2 }
                commit(lock, $crate::dollar_crate::SIZE);
                3
            }
        }
    };
}

claim!(claimed);

#[test]
fn each_crate_has_constants_of_its_own() {
    let mut word = 5usize;
    // SAFETY: the word is this thread's, and lasts longer than the call.
    let sums = unsafe { added::restarting(&raw mut word as usize) };
    assert_eq!((word, sums), (6, (6, 1005)));
    let _ = claimed::MODEL;
}
