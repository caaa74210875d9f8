//! What protects a thread against its own signal handlers. Where sequences are in a table, a child
//! process interrupts one sequence of each form and checks the result: no version number says
//! whether that works.

use serde::Serialize;

/// Protection against signal handlers on the same thread.
#[derive(Debug, Serialize)]
pub struct Signals {
    /// How many sequences of this program are in the table, by which signals find them; `null` if
    /// there is no table, and sequences run with all signals blocked.
    pub sequences: Option<usize>,
    /// Whether an interrupted sequence was restarted; `null` if there is no table, or this could
    /// not be tested.
    pub restart: Option<bool>,
    /// Whether an interrupted sequence was rolled forward; `null` if there is no table, or this
    /// could not be tested.
    pub rollforward: Option<bool>,
    /// Whether `signal::mask()` deferred a signal; `null` if it is the kernel's mask, or this could
    /// not be tested.
    pub mask: Option<bool>,
    /// Whether the deferred signal was queued again with its record; `null` if none was deferred.
    /// If not, a sandbox refuses `rt_tgsigqueueinfo`.
    pub queued: Option<bool>,
    /// Why not all could be tested although there is a table; `null` if there is none, or all was
    /// tested.
    pub untried: Option<String>,
    /// The signals that this program manages: none, unless it measures.
    pub managed: Vec<i32>,
}

impl Signals {
    /// Returns whether sequences are protected without an added instruction: they are in a table,
    /// and all tests passed.
    pub fn are_free(&self) -> bool {
        [self.restart, self.rollforward, self.mask] == [Some(true); 3]
    }

    /// Returns whether a test failed.
    pub fn have_failed(&self) -> bool {
        [self.restart, self.rollforward, self.mask].contains(&Some(false))
    }

    /// Returns a summary in one line.
    pub fn summary(&self) -> String {
        let Some(sequences) = self.sequences else {
            return "sequences run with all signals blocked; masks are the kernel's (portable)"
                .to_string();
        };
        if let Some(reason) = &self.untried
            && [self.restart, self.rollforward, self.mask] == [None; 3]
        {
            return format!(
                "{sequences} sequences of this program are in the table; not tested: {reason}"
            );
        }
        let tried = [
            ("restart", self.restart),
            ("rollforward", self.rollforward),
            ("mask", self.mask),
        ];
        let named = |works: bool| {
            let tried = tried.iter().filter(|(_, result)| *result == Some(works));
            let names: Vec<_> = tried.map(|(name, _)| *name).collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        let sent = match self.queued {
            Some(false) => {
                "; deferred signals are not queued again: a sandbox refuses rt_tgsigqueueinfo"
            }
            _ => "",
        };
        let untried = self.untried.as_ref();
        let untried = untried.map(|reason| format!("; others not tested: {reason}"));
        let good = named(true).map(|names| format!("; verified: {names}"));
        let bad = named(false).map(|names| format!("; FAILED: {names}"));
        let [good, bad, untried] = [good, bad, untried].map(Option::unwrap_or_default);
        let are = match self.are_free() {
            true => "protected",
            false => "in the table",
        };
        format!("{sequences} sequences of this program are {are}{good}{bad}{untried}{sent}")
    }

    /// Returns what to do, if a test failed or could not be made.
    pub fn advice(&self) -> Option<String> {
        if self.are_free() && self.queued == Some(false) {
            return Some(
                "A sandbox refuses rt_tgsigqueueinfo. Deferred signals are therefore sent again by tgkill, or kept by the \
                 thread if that is refused, too; the handler of a kept signal gets an artificial context. Allow the \
                 process to send rt_tgsigqueueinfo to itself."
                    .to_string(),
            );
        }
        if let Some(reason) = self.untried.as_ref().filter(|_| !self.have_failed()) {
            return Some(format!(
                "The protection against signal handlers was not tested: {reason}. Raise the limit on processes (`ulimit -u`, the \
                 container's pids limit) or on memory (`ulimit -v`), or allow that in the sandbox, and run this again."
            ));
        }
        self.have_failed().then(|| {
            "Sequences are not protected against signal handlers here: a tool or sandbox discards the context that a handler \
             changes. Run without it, or build with `--cfg atomseq_portable`."
                .to_string()
        })
    }
}

/// The local structures.
pub const LOCAL: [&str; 5] = [
    "local::Counter",
    "local::Stack",
    "local::Queue",
    "local::Ring",
    "local::Map",
];

pub use trial::take;

#[cfg(atomseq_sections)]
mod trial {
    use std::cell::Cell;
    use std::panic::set_hook;

    use atomseq::internals::table;
    use atomseq::signal;

    use super::Signals;
    use crate::bench::experiments::trial::{AHEAD, Stage, Stages, Trial, all};
    use crate::child::{self, Ending, What};

    /// The largest signal number there is on Linux.
    const LAST: i32 = 64;

    /// Makes all tests in a child process: if one fails badly, only the child dies.
    pub fn take() -> Signals {
        table::refresh();
        let (good, queued, untried) = match run_tests() {
            Ok(answer) => (answer.good(), answer.queued, answer.untried()),
            Err(reason) => ([None; 4], false, Some(reason)),
        };
        let of = |trial: Trial| good[trial as usize];
        Signals {
            sequences: Some(table::rows().count()),
            restart: of(Trial::Restart),
            rollforward: of(Trial::Rollforward),
            mask: of(Trial::Mask),
            queued: of(Trial::Mask).filter(|&good| good).map(|_| queued),
            untried,
            managed: (1..=LAST)
                .filter(|&signal| signal::is_managed(signal))
                .collect(),
        }
    }

    /// What the child leaves to its parent.
    #[derive(Clone, Copy)]
    struct Notes {
        stages: Stages,
        /// Whether every deferred signal was queued again.
        queued: bool,
    }

    /// The result of the child, and how it ended.
    pub struct Answer {
        /// The stage that each trial reached.
        pub stages: Stages,
        /// Whether every deferred signal was queued again.
        pub queued: bool,
        /// How it ended.
        pub ending: Ending,
    }

    impl Answer {
        /// Returns whether each trial passed, by [`Trial`]; `None` for those without a result.
        pub fn good(&self) -> [Option<bool>; 4] {
            // If the control failed, sequences are not the cause.
            if self.stages[Trial::Control as usize] != Stage::Good {
                return [None; 4];
            }
            let died = matches!(self.ending, Ending::Died(_) | Ending::Hung);
            self.stages.map(|stage| match stage {
                Stage::Good => Some(true),
                Stage::Bad => Some(false),
                Stage::Begun => died.then_some(false),
                Stage::Ahead | Stage::Refused(_) => None,
            })
        }

        /// Returns why some trials have no result, if any has none.
        pub fn untried(&self) -> Option<String> {
            let refused = self.stages.iter().find_map(|stage| match stage {
                Stage::Refused(refused) => Some(refused.to_string()),
                _ => None,
            });
            let ended = match self.ending {
                Ending::Done => String::new(),
                Ending::Panicked => "; the child process panicked".to_string(),
                Ending::OutOfMemory => "; the child process had no memory left".to_string(),
                Ending::Died(signal) => format!("; the child process was ended by signal {signal}"),
                Ending::Hung => "; the child process hung".to_string(),
            };
            let control = match self.stages[Trial::Control as usize] {
                Stage::Good => None,
                _ => Some(format!(
                    "a signal that interrupts no sequence is not handled correctly, either{ended}"
                )),
            };
            let ahead = self.good().contains(&None);
            refused
                .or(control)
                .or_else(|| ahead.then(|| format!("not all tests were made{ended}")))
        }
    }

    /// Makes all tests in a child.
    ///
    /// # Errors
    ///
    /// Why there are no results.
    fn run_tests() -> Result<Answer, String> {
        let first = Notes {
            stages: AHEAD,
            queued: true,
        };
        let work = |notes: &Cell<Notes>| {
            // The parent reports it, in a sentence.
            set_hook(Box::new(|_| ()));
            all(&|trial, stage| {
                let mut stages = notes.get().stages;
                stages[trial as usize] = stage;
                let queued = signal::statistics().refused == 0;
                notes.set(Notes { stages, queued });
            });
        };
        let (ending, Notes { stages, queued }) =
            child::fork(first, work).map_err(|refused| match refused.what {
                What::Memory | What::Fork => {
                    format!("no child process could be started: {}", refused.source)
                }
                What::Wait => {
                    format!(
                        "the child process could not be waited for: {}",
                        refused.source
                    )
                }
            })?;
        Ok(Answer {
            stages,
            queued,
            ending,
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::error::Refused;

        const REFUSED: Stage = Stage::Refused(Refused {
            what: "send a signal",
            errno: libc::EPERM,
        });

        fn answer(stages: Stages, ending: Ending) -> ([Option<bool>; 4], Option<String>) {
            let queued = true;
            let answer = Answer {
                stages,
                queued,
                ending,
            };
            (answer.good(), answer.untried())
        }

        #[test]
        fn a_refusal_is_no_result() {
            use Stage::{Ahead, Bad, Begun, Good};
            let (good, untried) = answer([REFUSED, Ahead, Ahead, Ahead], Ending::Done);
            assert_eq!(good, [None; 4]);
            let untried = untried.unwrap();
            assert!(untried.starts_with("the system refused to send a signal: "));
            let (good, untried) = answer([Good, Good, REFUSED, Bad], Ending::Done);
            assert_eq!(good, [Some(true), Some(true), None, Some(false)]);
            assert!(untried.is_some());
            // The controls: a trial that failed, and one that killed the child.
            let (good, untried) = answer([Good, Bad, Good, Good], Ending::Done);
            assert_eq!((good[1], untried), (Some(false), None));
            let (good, untried) = answer([Good, Good, Begun, Ahead], Ending::Died(11));
            assert_eq!(good, [Some(true), Some(true), Some(false), None]);
            assert!(untried.unwrap().contains("signal 11"));
        }

        #[test]
        fn where_no_handler_returns_there_is_no_result() {
            use Stage::{Ahead, Bad, Begun};
            for (control, ending) in [(Begun, Ending::Died(11)), (Bad, Ending::Done)] {
                let (good, untried) = answer([control, Ahead, Ahead, Ahead], ending);
                assert_eq!(good, [None; 4]);
                assert!(untried.unwrap().contains("interrupts no sequence"));
            }
        }
    }
}

#[cfg(not(atomseq_sections))]
mod trial {
    use super::Signals;

    /// Returns that there is nothing to test.
    pub fn take() -> Signals {
        Signals {
            sequences: None,
            restart: None,
            rollforward: None,
            mask: None,
            queued: None,
            untried: None,
            managed: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signals(rollforward: bool) -> Signals {
        Signals {
            sequences: Some(7),
            restart: Some(true),
            rollforward: Some(rollforward),
            mask: Some(true),
            queued: Some(true),
            untried: None,
            managed: Vec::new(),
        }
    }

    #[test]
    fn what_works_needs_no_advice() {
        let signals = signals(true);
        assert_eq!(
            signals.summary(),
            "7 sequences of this program are protected; verified: restart, rollforward, mask"
        );
        assert_eq!(signals.advice(), None);
    }

    #[test]
    fn what_fails_is_named() {
        let signals = signals(false);
        assert!(
            signals
                .summary()
                .ends_with("verified: restart, mask; FAILED: rollforward")
        );
        assert!(
            signals
                .advice()
                .is_some_and(|advice| advice.contains("are not protected"))
        );
    }

    #[test]
    fn what_could_not_be_tested_neither_passed_nor_failed() {
        let signals = Signals {
            restart: None,
            rollforward: None,
            mask: None,
            queued: None,
            untried: Some("no child process could be started: try later".to_string()),
            ..signals(true)
        };
        assert_eq!(
            signals.summary(),
            "7 sequences of this program are in the table; not tested: no child process could be started: try later"
        );
        let advice = signals.advice().expect("there is something to do");
        assert!(advice.contains("was not tested: no child process could be started: try later."));
        assert!(!signals.are_free() && !signals.have_failed());
    }

    #[test]
    fn a_sandbox_that_refuses_to_queue_is_named() {
        let signals = Signals {
            queued: Some(false),
            ..signals(true)
        };
        assert!(signals.summary().contains("refuses rt_tgsigqueueinfo"));
        let advice = signals.advice().expect("there is something to do");
        assert!(advice.contains("to send rt_tgsigqueueinfo"));
        assert!(signals.are_free(), "no signal is lost");
    }

    #[test]
    fn a_portable_build_says_so() {
        let signals = Signals {
            sequences: None,
            restart: None,
            rollforward: None,
            mask: None,
            queued: None,
            untried: None,
            managed: Vec::new(),
        };
        assert!(signals.summary().contains("all signals blocked"));
        assert_eq!((signals.advice(), signals.are_free()), (None, false));
    }
}
