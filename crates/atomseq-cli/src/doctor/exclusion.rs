//! Which mechanism each lock uses in this process, and why: decided at start-up, once (B91 3.1.1).
//! The library says which ([`chosen`]); this adds what tells people why.

use atomseq::mutex::{BiasedFlag, Masked, Restarting, Runs, TestAndSet, chosen};
use serde::Serialize;

use super::signals::Signals;

/// A lock or a mechanism, and what it is made of here.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Exclusion {
    /// What a program writes.
    pub lock: &'static str,
    /// Whom it excludes.
    pub scope: &'static str,
    /// `interlocked`, `section`, `sequence`, `mask` or `blocked`.
    pub by: &'static str,
    /// Why that, a sentence.
    pub why: String,
}

/// What runs when a flag is set.
#[derive(Clone, Copy)]
pub struct Mechanisms {
    /// Of flags that have a home: of [`BiasedFlag`], and of `OnCpu`.
    home: Runs,
    /// Of [`Restarting`] and `Rolling`.
    sequence: Runs,
    /// Of [`Masked`].
    mask: Runs,
}

impl Mechanisms {
    /// As the library chose them for this process.
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

/// In a word.
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
    /// Why sections cannot be fenced; `None` where they can.
    pub unfenced: Option<&'a str>,
    /// How many CPUs the process may use.
    pub cpus: usize,
    /// What is offered against signal handlers.
    pub signals: &'a Signals,
}

/// All of them.
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
            1 => "for threads wherever they run; with one CPU to run on, mutex::OnCpu does without the atomic \
                  instruction"
                .to_string(),
            cpus => format!("for threads wherever they run, on any of {cpus} CPUs"),
        }
    }

    fn visits(&self) -> String {
        if let Some(reason) = self.unfenced {
            return format!("sections cannot be fenced: {reason}");
        }
        match self.cpus {
            1 => "sections run and can be fenced; there is one CPU to run on, so nobody visits"
                .to_string(),
            cpus => format!(
                "sections run and can be fenced: at home without an atomic instruction, and visits from {} are a fence each",
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
                "there is no table of sequences in this build: all signals are blocked meanwhile"
            }
            Some(_) if self.signals.are_free() => {
                "signals that interrupt one were seen to put it right"
            }
            Some(_) if self.signals.have_failed() => {
                "but signals that interrupt one were NOT seen to put it right"
            }
            Some(_) => "whether signals that interrupt one put it right could not be tried",
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
    fn with_everything_each_has_its_own() {
        let chosen = chosen(None, 4, Some(true));
        assert_eq!(
            by(&chosen),
            ["interlocked", "section", "section", "sequence", "mask"]
        );
        assert!(chosen[0].why.ends_with("on any of 4 CPUs"));
        assert!(chosen[1].why.contains("from 3 other CPUs"));
    }

    #[test]
    fn without_rseq_what_has_a_home_is_interlocked_and_says_why() {
        let chosen = chosen(Some("ATOMSEQ_DISABLE_RSEQ is set"), 2, Some(true));
        assert_eq!(by(&chosen)[..3], ["interlocked"; 3]);
        for exclusion in &chosen[1..3] {
            let why = "sections cannot be fenced: ATOMSEQ_DISABLE_RSEQ is set";
            assert_eq!(exclusion.why, why);
        }
    }

    #[test]
    fn one_cpu_is_visited_by_nobody() {
        let chosen = chosen(None, 1, Some(true));
        assert!(chosen[0].why.contains("mutex::OnCpu does without"));
        assert!(chosen[1].why.ends_with("so nobody visits"));
    }

    #[test]
    fn a_portable_build_blocks_signals() {
        let chosen = chosen(Some("portable"), 2, None);
        assert_eq!(by(&chosen)[3..], ["blocked", "blocked"]);
    }

    #[test]
    fn what_does_not_work_is_told() {
        let chosen = chosen(None, 2, Some(false));
        assert!(chosen[3].why.contains("NOT"));
    }
}
