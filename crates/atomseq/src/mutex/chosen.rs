//! What each mechanism is in this process.

use std::fmt;

use super::{BiasedFlag, Interlocked, Masked, OnCpu, Restarting, Rolling, TestAndSet};
use crate::scope::Scope;
use crate::status::{Reason, status};

/// What a mechanism is in this process, from [`chosen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The mechanism's [name](TestAndSet::NAME).
    pub mechanism: &'static str,
    /// The locks that are made of it unless another one is asked for.
    pub locks: &'static [&'static str],
    /// The name of its scope.
    pub scope: &'static str,
    /// What runs when a flag is set.
    pub runs: Runs,
    /// Why nothing cheaper does; `None` if it is what the mechanism is named after.
    pub reason: Option<Reason>,
}

/// What runs when a flag is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Runs {
    /// An interlocked instruction.
    Instruction,
    /// A sequence that the kernel restarts; other CPUs come in by fences.
    KernelRestart,
    /// A sequence that signal handlers restart.
    HandlerRestart,
    /// A sequence that signal handlers run to its end.
    HandlerRollforward,
    /// A load and a store in a mask of the program's own, which costs no system call.
    UserMask,
    /// A load and a store with all signals blocked by the kernel, which costs two system calls.
    KernelMask,
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Runs::Instruction => "an interlocked instruction",
            Runs::KernelRestart => "a sequence that the kernel restarts",
            Runs::HandlerRestart => "a sequence that signal handlers restart",
            Runs::HandlerRollforward => "a sequence that signal handlers roll forward",
            Runs::UserMask => "a mask without a system call",
            Runs::KernelMask => "the kernel's signal mask",
        })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.mechanism)?;
        if !self.locks.is_empty() {
            write!(f, " ({})", self.locks.join(", "))?;
        }
        write!(f, ", {}: {}", self.scope, self.runs)?;
        match self.reason {
            Some(reason) => write!(f, ", for {reason}"),
            None => Ok(()),
        }
    }
}

/// What each mechanism is in this process, and why. It was decided at start-up, once (B91 3.1.1):
/// the same program does what is right on another kernel, without a test in any lock for it. (The
/// section of [`OnCpu`] and [`BiasedFlag`] compares the CPU's number with the flag's home in any
/// case; where sections do not run, no flag has a home.)
///
/// Starts atomseq up if nobody has; see [`status`].
///
/// ```
/// for choice in atomseq::mutex::chosen() {
///     println!("{choice}");
/// }
/// ```
pub fn chosen() -> [Choice; 6] {
    let status = status();
    let portable = status.reason() == Some(Reason::Portable);
    let on_cpu = match status.gates_active() {
        true => (Runs::KernelRestart, None),
        false => (Runs::Instruction, status.reason()),
    };
    let signals = |runs| match portable {
        true => (Runs::KernelMask, status.reason()),
        false => (runs, None),
    };
    [
        choice::<Interlocked>(&["SpinLock", "Mutex"], (Runs::Instruction, None)),
        choice::<BiasedFlag>(&["Biased"], on_cpu),
        choice::<OnCpu>(&[], on_cpu),
        choice::<Restarting>(&[], signals(Runs::HandlerRestart)),
        choice::<Rolling>(&[], signals(Runs::HandlerRollforward)),
        choice::<Masked>(&[], signals(Runs::UserMask)),
    ]
}

fn choice<M: TestAndSet>(
    locks: &'static [&'static str],
    (runs, reason): (Runs, Option<Reason>),
) -> Choice {
    Choice {
        mechanism: M::NAME,
        locks,
        scope: M::Scope::NAME,
        runs,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_what_start_up_found() {
        let (status, chosen) = (status(), chosen());
        for choice in chosen {
            let named = choice.runs != Runs::Instruction && choice.runs != Runs::KernelMask;
            assert_eq!(
                choice.reason.is_none(),
                named || choice.mechanism == Interlocked::NAME,
                "{choice}"
            );
        }
        let biased = chosen[1];
        assert_eq!(biased.locks, ["Biased"]);
        assert_eq!(
            biased.runs == Runs::KernelRestart,
            status.gates_active(),
            "{biased}"
        );
        let sentence = chosen[0].to_string();
        assert_eq!(
            sentence,
            "interlocked (SpinLock, Mutex), Machine: an interlocked instruction"
        );
    }
}
