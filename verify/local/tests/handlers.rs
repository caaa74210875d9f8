//! A thread and its handler change the same structure as fast as possible, and nothing is lost,
//! duplicated or torn. Without restart or rollforward, something is.
#![cfg(target_os = "linux")]

use verify_local::trials::{ALL, Trial};
use verify_support::processes::in_fresh_process;
use verify_support::this_test;

/// The number of signals in a trial.
const TIMES: usize = 10_000;

fn holds(name: &str) {
    let fired = trial(name)(TIMES).unwrap_or_else(|broken| panic!("{name}: {broken}"));
    eprintln!("{name}: {fired:?}");
    assert!(fired.deliveries >= TIMES);
    // Where sequences are emulated by blocking signals, none is ever interrupted.
    #[cfg(atomseq_sections)]
    assert!(fired.in_sequences > TIMES / 200, "{fired:?}");
}

fn trial(name: &str) -> Trial {
    let found = ALL.iter().find(|(of, _)| *of == name);
    found.expect("a trial of that name").1
}

macro_rules! trials {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            in_fresh_process(this_test!(), || holds(stringify!($name)));
        }
    )*};
}

trials! { counter stack queue ring batches map }

#[test]
fn every_trial_is_made() {
    assert_eq!(
        ALL.map(|(name, _)| name),
        ["counter", "stack", "queue", "ring", "batches", "map"]
    );
}

#[cfg(atomseq_sections)]
mod without_recovery {
    use atomseq::internals::signal_controls::{RESTART, ROLLFORWARD, set};
    use verify_support::processes::panics_and_hangs_count;

    use super::*;

    /// In a few trials, one must fail: by its counts, by an assertion of the structure's own, or by
    /// an operation that never ends. (Not for a stack, nor for batches: without protection they
    /// write beyond their memory, with undefined consequences. The model checker has their
    /// controls.)
    fn fails(test: &'static str, name: &str, off: u32) {
        in_fresh_process(test, || {
            // SAFETY: only integers can be lost or duplicated.
            unsafe { set(off) };
            let trials = || (0..20).find_map(|_| trial(name)(TIMES).err());
            let broken = panics_and_hangs_count(test, trials);
            let broken = broken.unwrap_or_else(|| panic!("{name}: 20 trials without a fault"));
            eprintln!("{name}: {broken}");
        });
    }

    macro_rules! controls {
        ($($name:ident: $off:expr;)*) => {$(
            #[test]
            fn $name() {
                fails(this_test!(), stringify!($name), $off);
            }
        )*};
    }

    controls! {
        counter: RESTART;
        queue: RESTART;
        ring: ROLLFORWARD;
        map: ROLLFORWARD;
    }
}
