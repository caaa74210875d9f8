//! Test-and-set by the mechanisms of `atomseq::mutex` that are atomic against handlers.

use atomseq::mutex::{Restarting, Rolling, TestAndSet};

use super::{Named, each};
use crate::scenario::{Check, Fresh};

/// Wrappers, states and scenarios of a mechanism.
macro_rules! mechanism {
    ($module:ident: $mechanism:ident, $set:literal) => {
        mod $module {
            use super::*;
            use crate::scenario::Words;

            #[inline(never)]
            fn set(flag: &$mechanism) -> Words {
                vec![flag.test_and_set().into()]
            }

            /// As a handler does that finds it free.
            fn set_and_clear(flag: &$mechanism) -> Words {
                let taken = set(flag);
                if taken == [1] {
                    // SAFETY: it was set here.
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

pub fn check(checker: &mut impl Check) {
    restarting::check(checker);
    rolling::check(checker);
}
