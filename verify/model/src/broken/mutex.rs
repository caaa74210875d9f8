//! Test-and-set that is wrong, and right one that nothing protects.

use super::Broken;
use super::recovery::{Recovering, torn};
use crate::report::Fault;
use crate::structure::Recovery;
use crate::structures::{Flags, Homes, program};

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

mod homes {
    pub(super) mod unheld {
        atomseq::sequence! {
            /// Does not look whether it is held.
            pub(in super::super) unsafe fn take(flag: Word) -> bool {
                let here = cpu();
                let home = load_acquire(flag);
                if here != home { return false }
                commit(flag + 8, 1);
                true
            }
        }
    }

    pub(super) mod elsewhere {
        atomseq::sequence! {
            /// Takes a lower home for its own.
            pub(in super::super) unsafe fn take(flag: Word) -> bool {
                let here = cpu();
                let home = load_acquire(flag);
                if here < home { return false }
                let held = load_acquire(flag + 8);
                if held != 0 { return false }
                commit(flag + 8, 1);
                true
            }
        }
    }

    pub(super) mod moving {
        atomseq::sequence! {
            /// Sets the home instead of the flag.
            pub(in super::super) unsafe fn take(flag: Word) -> bool {
                let here = cpu();
                let home = load_acquire(flag);
                if here != home { return false }
                let held = load_acquire(flag + 8);
                if held != 0 { return false }
                commit(flag, 1);
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
        Broken::new(
            "a flag with a home is set though it is held",
            Homes,
            &homes::unheld::take::MODEL,
            wrong,
        ),
        Broken::new(
            "a flag is set on a CPU that is not its home",
            Homes,
            &homes::elsewhere::take::MODEL,
            wrong,
        ),
        Broken::new(
            "the home is changed instead of the flag",
            Homes,
            &homes::moving::take::MODEL,
            |fault| matches!(fault, Fault::Broken(_) | Fault::WrongContent { .. }),
        ),
        Broken::new(
            "nothing restarts a test-and-set at home",
            Recovering(Homes, |_| Recovery::Nothing),
            program("mutex/home", "take"),
            torn,
        ),
    ]
}
