//! The mechanism of each lock in this process, and the reason: chosen once, at start-up (B91
//! 3.1.1). [`chosen`] returns the mechanisms; this module explains them.

use atomseq::mutex::{BiasedFlag, Masked, Restarting, Runs, TestAndSet, chosen};
use serde::Serialize;

use super::signals::Signals;

/// A lock or a mechanism, and what implements it here.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Exclusion {
    /// Its name in a program.
    pub lock: &'static str,
    /// What it excludes.
    pub scope: &'static str,
    /// `interlocked`, `section`, `sequence`, `mask` or `blocked`.
    pub by: &'static str,
    /// The reason, a sentence.
    pub why: String,
}

/// What implements a test-and-set.
#[derive(Clone, Copy)]
pub struct Mechanisms {
    /// Of flags that have a home CPU: [`BiasedFlag`] and `OnCpu`.
    home: Runs,
    /// Of [`Restarting`] and `Rolling`.
    sequence: Runs,
    /// Of [`Masked`].
    mask: Runs,
}

impl Mechanisms {
    /// Returns what the library chose for this process.
    pub fn here() -> Mechanisms {
        let chosen = chosen();
        let runs = |name| {
            let choice = chosen.iter().find(|choice| choice.mechanism == name);
            choice.expect("a mechanism of the library").runs
        };
        Mechanisms {
            home: runs(BiasedFlag::NAME),
            sequence: runs(Restarting::NAME),
            mask: runs(Masked::NAME),
        }
    }
}

/// Returns its name in [`Exclusion::by`].
fn word(runs: Runs) -> &'static str {
    match runs {
        Runs::KernelRestart => "section",
        Runs::HandlerRestart | Runs::HandlerRollforward => "sequence",
        Runs::UserMask => "mask",
        Runs::KernelMask => "blocked",
        Runs::Instruction => "interlocked",
        _ => "another mechanism",
    }
}

/// What is known of this process.
pub struct Circumstances<'a> {
    /// What the library chose.
    pub mechanisms: Mechanisms,
    /// Why per-CPU sequences cannot be fenced; `None` if they can.
    pub unfenced: Option<&'a str>,
    /// How many CPUs the process may use.
    pub cpus: usize,
    /// What protects against signal handlers.
    pub signals: &'a Signals,
}

/// Returns all locks.
pub fn choose(here: &Circumstances<'_>) -> Vec<Exclusion> {
    let exclusion = |lock, scope, runs, why| Exclusion {
        lock,
        scope,
        by: word(runs),
        why,
    };
    let Mechanisms {
        home,
        sequence,
        mask,
    } = here.mechanisms;
    let (visits, handled) = (here.visits(), here.against_handlers());
    vec![
        exclusion(
            "mutex::Mutex, SpinLock, Semaphore, Condvar",
            "Machine",
            Runs::Instruction,
            here.everywhere(),
        ),
        exclusion("mutex::Biased", "Machine", home, visits.clone()),
        exclusion("mutex::OnCpu", "SameCpu", home, visits),
        exclusion("mutex::RwLock", "Machine", home, here.reads()),
        exclusion(
            "mutex::Restarting, Rolling",
            "SameThread",
            sequence,
            handled.clone(),
        ),
        exclusion("mutex::Masked", "SameThread", mask, handled),
    ]
}

impl Circumstances<'_> {
    fn everywhere(&self) -> String {
        match self.cpus {
            1 => "for threads on any CPU; there is only one, so mutex::OnCpu needs no atomic instruction"
                .to_string(),
            cpus => format!("for threads on any of {cpus} CPUs"),
        }
    }

    /// Returns why per-CPU sequences cannot be fenced, if they cannot.
    fn no_fence(&self) -> Option<String> {
        let reason = self.unfenced?;
        Some(format!("per-CPU sequences cannot be fenced: {reason}"))
    }

    fn reads(&self) -> String {
        self.no_fence().unwrap_or_else(|| {
            "per-CPU sequences can be fenced: readers count themselves by these while writes are rare"
                .to_string()
        })
    }

    fn visits(&self) -> String {
        if let Some(reason) = self.no_fence() {
            return reason;
        }
        match self.cpus {
            1 => "per-CPU sequences can be fenced; there is one CPU, so each acquisition is on the home CPU"
                .to_string(),
            cpus => format!(
                "per-CPU sequences can be fenced: no atomic instruction on the home CPU, a fence for each acquisition from {}",
                match cpus {
                    2 => "the other CPU".to_string(),
                    _ => format!("{} other CPUs", cpus - 1),
                }
            ),
        }
    }

    fn against_handlers(&self) -> String {
        match self.signals.sequences {
            None => {
                "this build has no table of sequences: all signals are blocked during each operation"
            }
            Some(_) if self.signals.are_free() => {
                "verified: a signal that interrupts a sequence restarts or completes it"
            }
            Some(_) if self.signals.have_failed() => {
                "FAILED: a signal that interrupted a sequence did not restart or complete it"
            }
            Some(_) => "not verified: whether a signal that interrupts a sequence restarts or completes it",
        }
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signals(works: Option<bool>) -> Signals {
        Signals {
            sequences: works.map(|_| 7),
            restart: works,
            rollforward: works,
            mask: works,
            queued: works,
            untried: None,
            managed: Vec::new(),
        }
    }

    fn chosen(unfenced: Option<&str>, cpus: usize, works: Option<bool>) -> Vec<Exclusion> {
        let (sequence, mask) = match works {
            Some(_) => (Runs::HandlerRestart, Runs::UserMask),
            None => (Runs::KernelMask, Runs::KernelMask),
        };
        let home = match unfenced {
            Some(_) => Runs::Instruction,
            None => Runs::KernelRestart,
        };
        choose(&Circumstances {
            mechanisms: Mechanisms {
                home,
                sequence,
                mask,
            },
            unfenced,
            cpus,
            signals: &signals(works),
        })
    }

    fn by(chosen: &[Exclusion]) -> Vec<&'static str> {
        chosen.iter().map(|exclusion| exclusion.by).collect()
    }

    #[test]
    fn each_lock_has_its_mechanism() {
        let chosen = chosen(None, 4, Some(true));
        assert_eq!(
            by(&chosen),
            [
                "interlocked",
                "section",
                "section",
                "section",
                "sequence",
                "mask"
            ]
        );
        assert!(chosen[0].why.ends_with("on any of 4 CPUs"));
        assert!(chosen[1].why.contains("from 3 other CPUs"));
    }

    #[test]
    fn without_rseq_locks_with_a_home_are_interlocked_for_a_reason() {
        let chosen = chosen(Some("ATOMSEQ_DISABLE_RSEQ is set"), 2, Some(true));
        assert_eq!(by(&chosen)[..4], ["interlocked"; 4]);
        for exclusion in &chosen[1..4] {
            let why = "per-CPU sequences cannot be fenced: ATOMSEQ_DISABLE_RSEQ is set";
            assert_eq!(exclusion.why, why);
        }
    }

    #[test]
    fn one_cpu_is_always_the_home() {
        let chosen = chosen(None, 1, Some(true));
        assert!(chosen[0].why.contains("mutex::OnCpu needs no atomic"));
        assert!(chosen[1].why.ends_with("is on the home CPU"));
    }

    #[test]
    fn a_portable_build_blocks_signals() {
        let chosen = chosen(Some("portable"), 2, None);
        assert_eq!(by(&chosen)[4..], ["blocked", "blocked"]);
    }

    #[test]
    fn a_failure_is_reported() {
        let chosen = chosen(None, 2, Some(false));
        assert!(chosen[4].why.starts_with("FAILED"));
    }
}
