//! What a thread is offered against its own signal handlers. Where sequences are in a table, a child process interrupts one
//! of each form and looks whether it was put right, which no version number tells.

use serde::Serialize;

/// Protection against signal handlers on the same thread.
#[derive(Debug, Serialize)]
pub struct Signals {
    /// How many sequences of this program are in the table that signals are looked up in; `null` where there is no table and
    /// sequences run with all signals blocked.
    pub sequences: Option<usize>,
    /// Whether an interrupted sequence was restarted; `null` where there is no table, or where nothing could be tried.
    pub restart: Option<bool>,
    /// Whether an interrupted sequence was rolled forward; `null` where there is no table, or where nothing could be tried.
    pub rollforward: Option<bool>,
    /// Whether `signal::mask()` put a signal off; `null` where it is the kernel's mask, or where nothing could be tried.
    pub mask: Option<bool>,
    /// Whether the kernel took back, with its record, the signal that the mask deferred; `null` where the mask deferred none.
    /// If not, a sandbox refuses `rt_tgsigqueueinfo`.
    pub queued: Option<bool>,
    /// Why nothing could be tried although there is a table; `null` where there is none, and where all was tried.
    pub untried: Option<String>,
    /// The signals that this program manages. The command manages none but while it measures.
    pub managed: Vec<i32>,
}

impl Signals {
    /// Whether sequences are protected without an instruction added: they are in a table, and all was put right.
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
            return format!(
                "{sequences} sequences of this program are in the table; not tried: {reason}"
            );
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
        let good = named(true).map(|names| format!("; tried and good: {names}"));
        let bad = named(false).map(|names| format!("; tried and FAILED: {names}"));
        let [good, bad] = [good, bad].map(Option::unwrap_or_default);
        format!("{sequences} sequences of this program are protected{good}{bad}{sent}")
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
        if let Some(reason) = &self.untried {
            return Some(format!(
                "Whether sequences are protected against signal handlers was not tried: {reason}. Raise the limit on processes \
                 (`ulimit -u`, the container's pids limit) or on memory (`ulimit -v`), or allow fork in the sandbox, and run \
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
    use std::io;
    use std::panic::{catch_unwind, set_hook};

    use atomseq::internals::table;
    use atomseq::signal;

    use super::Signals;
    use crate::bench::experiments::trial::{Trial, all};

    /// The largest signal number there is on Linux.
    const LAST: i32 = 64;

    /// Tries everything in a child process: should it end badly, it is the child that dies.
    pub fn take() -> Signals {
        table::refresh();
        let (good, untried) = match tried() {
            Ok(good) => (Some(good), None),
            Err(reason) => (None, Some(reason)),
        };
        let works = |trial| Some(good? & (1 << trial as u8) != 0);
        Signals {
            sequences: Some(table::rows().count()),
            restart: works(Trial::Restart),
            rollforward: works(Trial::Rollforward),
            mask: works(Trial::Mask),
            queued: works(Trial::Mask)
                .filter(|&works| works)
                .and(good)
                .map(|good| good & REFUSED == 0),
            untried,
            managed: (1..=LAST)
                .filter(|&signal| signal::is_managed(signal))
                .collect(),
        }
    }

    /// Set beside the bits of trials if a deferred signal was not queued again.
    const REFUSED: u8 = 32;

    /// A bit for each trial that came out well, and [`REFUSED`]; none when a signal ended the child.
    ///
    /// # Errors
    ///
    /// Why nothing was tried: there was no child, its end is not known, or it found no way to begin.
    fn tried() -> Result<u8, String> {
        /// Marks an answer: a child that has none exits with less.
        const ANSWER: i32 = 64;
        let said = |what: &str| format!("{what}: {}", io::Error::last_os_error());
        // SAFETY: the command has no other thread yet, and the child ends by `_exit`.
        let child = unsafe { libc::fork() };
        if child == -1 {
            return Err(said("there can be no child process"));
        }
        if child == 0 {
            // The parent says it, in a sentence.
            set_hook(Box::new(|_| ()));
            let Ok(good) = catch_unwind(all) else {
                // SAFETY: ends this process without running what belongs to the parent.
                unsafe { libc::_exit(0) }
            };
            let mut good = good.iter().fold(0, |bits, &trial| bits | 1 << trial as u8);
            if signal::statistics().refused > 0 {
                good |= i32::from(REFUSED);
            }
            // SAFETY: ends this process without running what belongs to the parent.
            unsafe { libc::_exit(ANSWER | good) }
        }
        let mut status = 0;
        // SAFETY: our own child, and room for its status.
        while unsafe { libc::waitpid(child, &mut status, 0) } != child {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return Err(said("the child process could not be waited for"));
            }
        }
        match libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)) {
            Some(code) if code & ANSWER != 0 => Ok((code & !ANSWER) as u8),
            Some(_) => {
                Err("the child process had no handler or no memory to begin with".to_string())
            }
            None => Ok(0),
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
