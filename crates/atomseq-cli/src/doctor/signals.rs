//! What a thread is offered against its own signal handlers. Where sequences are in a table, a child process interrupts one
//! of each form and looks whether it was put right, which no version number tells.

use serde::Serialize;

/// Protection against signal handlers on the same thread.
#[derive(Debug, Serialize)]
pub struct Signals {
    /// How many sequences of this program are in the table that signals are looked up in; `null` where there is no table and
    /// sequences run with all signals blocked.
    pub sequences: Option<usize>,
    /// Whether an interrupted sequence was restarted; `null` where there is no table.
    pub restart: Option<bool>,
    /// Whether an interrupted sequence was rolled forward; `null` where there is no table.
    pub rollforward: Option<bool>,
    /// Whether `signal::mask()` put a signal off; `null` where it is the kernel's mask.
    pub mask: Option<bool>,
    /// Whether the kernel took back, with its record, the signal that the mask deferred; `null` where the mask deferred none.
    /// If not, a sandbox refuses `rt_tgsigqueueinfo`.
    pub queued: Option<bool>,
    /// The signals that this program manages. The command manages none but while it measures.
    pub managed: Vec<i32>,
}

impl Signals {
    /// Whether sequences are protected without an instruction added: they are in a table, and all was put right.
    pub fn are_free(&self) -> bool {
        [self.restart, self.rollforward, self.mask] == [Some(true); 3]
    }

    /// All of it in a line.
    pub fn summary(&self) -> String {
        let Some(sequences) = self.sequences else {
            return "sequences run with all signals blocked, masks are the kernel's (portable)"
                .to_string();
        };
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
        (self.sequences.is_some() && !self.are_free()).then(|| {
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
    use std::panic::catch_unwind;

    use atomseq::internals::table;
    use atomseq::signal;

    use super::Signals;
    use crate::bench::experiments::trial::{Trial, all};

    /// The largest signal number there is on Linux.
    const LAST: i32 = 64;

    /// Tries everything in a child process: should it end badly, it is the child that dies.
    pub fn take() -> Signals {
        table::refresh();
        let good = tried();
        let works = |trial| Some(good & (1 << trial as u8) != 0);
        Signals {
            sequences: Some(table::rows().count()),
            restart: works(Trial::Restart),
            rollforward: works(Trial::Rollforward),
            mask: works(Trial::Mask),
            queued: works(Trial::Mask)
                .filter(|&works| works)
                .map(|_| good & REFUSED == 0),
            managed: (1..=LAST)
                .filter(|&signal| signal::is_managed(signal))
                .collect(),
        }
    }

    /// Set beside the bits of trials if a deferred signal was not queued again.
    const REFUSED: u8 = 32;

    /// A bit for each trial that came out well, and [`REFUSED`]; none when the child ended in another way than by saying so.
    fn tried() -> u8 {
        /// Marks an answer: a child that fails otherwise exits with less.
        const ANSWER: i32 = 64;
        // SAFETY: the command has no other thread yet, and the child ends by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let good = catch_unwind(all).unwrap_or_default();
            let mut good = good.iter().fold(0, |bits, &trial| bits | 1 << trial as u8);
            if signal::statistics().refused > 0 {
                good |= i32::from(REFUSED);
            }
            // SAFETY: ends this process without running what belongs to the parent.
            unsafe { libc::_exit(ANSWER | good) }
        }
        let mut status = 0;
        // SAFETY: our own child, and room for its status.
        let ended = child > 0 && unsafe { libc::waitpid(child, &mut status, 0) } == child;
        match ended && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) & ANSWER != 0 {
            true => (libc::WEXITSTATUS(status) & !ANSWER) as u8,
            false => 0,
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
            managed: Vec::new(),
        };
        assert!(signals.summary().contains("all signals blocked"));
        assert_eq!((signals.advice(), signals.are_free()), (None, false));
    }
}
