//! What a thread is offered against its own signal handlers. Where sequences are in a table, a
//! child process interrupts one of each form and looks whether it was put right, which no version
//! number tells.

use serde::Serialize;

/// Protection against signal handlers on the same thread.
#[derive(Debug, Serialize)]
pub struct Signals {
    /// How many sequences of this program are in the table that signals are looked up in; `null`
    /// where there is no table and sequences run with all signals blocked.
    pub sequences: Option<usize>,
    /// Whether an interrupted sequence was restarted; `null` where there is no table, or where
    /// nothing could be tried.
    pub restart: Option<bool>,
    /// Whether an interrupted sequence was rolled forward; `null` where there is no table, or where
    /// nothing could be tried.
    pub rollforward: Option<bool>,
    /// Whether `signal::mask()` put a signal off; `null` where it is the kernel's mask, or where
    /// nothing could be tried.
    pub mask: Option<bool>,
    /// Whether the kernel took back, with its record, the signal that the mask deferred; `null`
    /// where the mask deferred none. If not, a sandbox refuses `rt_tgsigqueueinfo`.
    pub queued: Option<bool>,
    /// Why nothing could be tried although there is a table; `null` where there is none, and where
    /// all was tried.
    pub untried: Option<String>,
    /// The signals that this program manages. The command manages none but while it measures.
    pub managed: Vec<i32>,
}

impl Signals {
    /// Whether sequences are protected without an instruction added: they are in a table, and all
    /// was put right.
    pub fn are_free(&self) -> bool {
        [self.restart, self.rollforward, self.mask] == [Some(true); 3]
    }

    /// Whether something that was tried was not put right.
    pub fn have_failed(&self) -> bool {
        [self.restart, self.rollforward, self.mask].contains(&Some(false))
    }

    /// All of it in a line.
    pub fn summary(&self) -> String {
        let Some(sequences) = self.sequences else {
            return "sequences run with all signals blocked, masks are the kernel's (portable)"
                .to_string();
        };
        if let Some(reason) = &self.untried {
            if [self.restart, self.rollforward, self.mask] == [None; 3] {
                return format!(
                    "{sequences} sequences of this program are in the table; not tried: {reason}"
                );
            }
        }
        let tried = [
            ("restart", self.restart),
            ("rollforward", self.rollforward),
            ("the mask", self.mask),
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
        let untried = untried.map(|reason| format!("; others not tried: {reason}"));
        let good = named(true).map(|names| format!("; tried and good: {names}"));
        let bad = named(false).map(|names| format!("; tried and FAILED: {names}"));
        let [good, bad, untried] = [good, bad, untried].map(Option::unwrap_or_default);
        let are = match self.are_free() {
            true => "protected",
            false => "in the table",
        };
        format!("{sequences} sequences of this program are {are}{good}{bad}{untried}{sent}")
    }

    /// What to do, if anything is wrong.
    pub fn advice(&self) -> Option<String> {
        if self.are_free() && self.queued == Some(false) {
            return Some(
                "A sandbox refuses rt_tgsigqueueinfo: signals that a mask defers are sent again by tgkill, or kept by the \
                 thread where that is refused, too. One that is kept is called with a context that is made up. Allow \
                 rt_tgsigqueueinfo to the process itself."
                    .to_string(),
            );
        }
        if let Some(reason) = self.untried.as_ref().filter(|_| !self.have_failed()) {
            return Some(format!(
                "Whether sequences are protected against signal handlers was not tried: {reason}. Raise the limit on processes \
                 (`ulimit -u`, the container's pids limit) or on memory (`ulimit -v`), or allow that in the sandbox, and run \
                 this again."
            ));
        }
        self.have_failed().then(|| {
            "Sequences are not protected against signal handlers here: something keeps the context that a handler \
             changes from the process. Run without that tool or sandbox, or build with `--cfg atomseq_portable`."
                .to_string()
        })
    }
}

/// What each local structure is protected by.
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

    /// Tries everything in a child process: should it end badly, it is the child that dies.
    pub fn take() -> Signals {
        table::refresh();
        let (good, queued, untried) = match tried() {
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

    /// What the child leaves.
    #[derive(Clone, Copy)]
    struct Notes {
        stages: Stages,
        /// Whether every deferred signal was queued again.
        queued: bool,
    }

    /// What the child left, and how it ended.
    pub struct Answer {
        /// How far each trial had come.
        pub stages: Stages,
        /// Whether every deferred signal was queued again.
        pub queued: bool,
        /// How it ended.
        pub ending: Ending,
    }

    impl Answer {
        /// Whether each trial came out well, by [`Trial`]; `None` of those that say nothing.
        pub fn good(&self) -> [Option<bool>; 4] {
            // A fault of the control is not the sequences'.
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

        /// Why some trials say nothing, if there are any.
        pub fn untried(&self) -> Option<String> {
            let refused = self.stages.iter().find_map(|stage| match stage {
                Stage::Refused(refused) => Some(refused.to_string()),
                _ => None,
            });
            let ended = match self.ending {
                Ending::Done => String::new(),
                Ending::Panicked => "; the child process panicked".to_string(),
                Ending::Starved => "; the child process had no memory left".to_string(),
                Ending::Died(signal) => format!("; the child process was ended by signal {signal}"),
                Ending::Hung => "; the child process hung".to_string(),
            };
            let control = match self.stages[Trial::Control as usize] {
                Stage::Good => None,
                _ => Some(format!(
                    "a signal that interrupts no sequence is not handled as it should be, either{ended}"
                )),
            };
            let ahead = self.good().contains(&None);
            refused
                .or(control)
                .or_else(|| ahead.then(|| format!("not all trials were made{ended}")))
        }
    }

    /// Lets a child try all.
    ///
    /// # Errors
    ///
    /// Why nothing is known.
    fn tried() -> Result<Answer, String> {
        let first = Notes {
            stages: AHEAD,
            queued: true,
        };
        let work = |notes: &Cell<Notes>| {
            // The parent says it, in a sentence.
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
                    format!("there can be no child process: {}", refused.source)
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
        fn what_was_refused_says_nothing_of_sequences() {
            use Stage::{Ahead, Bad, Begun, Good};
            let (good, untried) = answer([REFUSED, Ahead, Ahead, Ahead], Ending::Done);
            assert_eq!(good, [None; 4]);
            let untried = untried.unwrap();
            assert!(untried.starts_with("the system refused to send a signal: "));
            let (good, untried) = answer([Good, Good, REFUSED, Bad], Ending::Done);
            assert_eq!(good, [Some(true), Some(true), None, Some(false)]);
            assert!(untried.is_some());
            // The control: what has failed, and what died of it.
            let (good, untried) = answer([Good, Bad, Good, Good], Ending::Done);
            assert_eq!((good[1], untried), (Some(false), None));
            let (good, untried) = answer([Good, Good, Begun, Ahead], Ending::Died(11));
            assert_eq!(good, [Some(true), Some(true), Some(false), None]);
            assert!(untried.unwrap().contains("signal 11"));
        }

        #[test]
        fn where_no_handler_returns_nothing_is_said_of_sequences() {
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

    /// There is nothing to try.
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
    fn what_works_is_told_and_needs_no_advice() {
        let signals = signals(true);
        assert_eq!(
            signals.summary(),
            "7 sequences of this program are protected; tried and good: restart, rollforward, the mask"
        );
        assert_eq!(signals.advice(), None);
    }

    #[test]
    fn what_fails_is_named() {
        let signals = signals(false);
        assert!(
            signals
                .summary()
                .ends_with("good: restart, the mask; tried and FAILED: rollforward")
        );
        assert!(
            signals
                .advice()
                .is_some_and(|advice| advice.contains("are not protected"))
        );
    }

    #[test]
    fn what_could_not_be_tried_is_neither_good_nor_bad() {
        let signals = Signals {
            restart: None,
            rollforward: None,
            mask: None,
            queued: None,
            untried: Some("there can be no child process: try later".to_string()),
            ..signals(true)
        };
        assert_eq!(
            signals.summary(),
            "7 sequences of this program are in the table; not tried: there can be no child process: try later"
        );
        let advice = signals.advice().expect("there is something to do");
        assert!(advice.contains("was not tried: there can be no child process: try later."));
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
        assert!(advice.contains("Allow rt_tgsigqueueinfo"));
        assert!(signals.are_free(), "nothing is lost");
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
