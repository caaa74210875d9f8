//! Test-and-set that is wrong, and right one that nothing protects.

use super::Broken;
use super::recovery::{Recovering, torn};
use crate::report::Fault;
use crate::structure::Recovery;
use crate::structures::{Flags, program};

mod flags {
    atomseq::sequence! {
        /// Sets it, and says that it was clear, without having looked.
        pub(super) unsafe fn set(flag: Word) -> bool {
            let held = load32(flag);
            if held == 2 { return false }
            commit32(flag, 1);
            true
        }
    }

    pub(super) mod wide {
        atomseq::sequence! {
            /// Sets a whole word, and so the next flag.
            pub(in super::super) unsafe fn set(flag: Word) -> bool {
                let held = load32(flag);
                if held != 0 { return false }
                commit(flag & 0xfff_fff8, 1);
                true
            }
        }
    }
}

pub fn all() -> Vec<Broken> {
    let wrong = |fault: &Fault| {
        matches!(
            fault,
            Fault::WrongContent { .. } | Fault::WrongAnswer { .. }
        )
    };
    vec![
        Broken::new(
            "a flag that is set is set again",
            Flags,
            &flags::set::MODEL,
            wrong,
        ),
        Broken::new(
            "setting a flag changes the flag beside it",
            Flags,
            &flags::wide::set::MODEL,
            wrong,
        ),
        Broken::new(
            "nothing restarts a test-and-set",
            Recovering(Flags, |_| Recovery::Nothing),
            program("mutex/signals", "set"),
            torn,
        ),
    ]
}
