//! The report of what each mechanism is in this process.

use std::fmt;

use super::{BiasedFlag, Interlocked, Masked, OnCpu, Restarting, Rolling, TestAndSet};
use crate::scope::Scope;
use crate::status::{Reason, status};

/// What a mechanism is in this process, as reported by [`chosen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The mechanism's [name](TestAndSet::NAME).
    pub mechanism: &'static str,
    /// The locks that use it by default.
    pub locks: &'static [&'static str],
    /// The name of its scope.
    pub scope: &'static str,
    /// What sets a flag.
    pub runs: Runs,
    /// Why no cheaper way is used; `None` if the mechanism runs what it is named after.
    pub reason: Option<Reason>,
}

/// What sets a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Runs {
    /// An interlocked instruction.
    Instruction,
    /// A sequence that the kernel restarts. Other CPUs gain access with fences.
    KernelRestart,
    /// A sequence that signal handlers restart.
    HandlerRestart,
    /// A sequence that signal handlers run to its end.
    HandlerRollforward,
    /// A load and a store under a user-level signal mask, without a system call.
    UserMask,
    /// A load and a store with all signals blocked by the kernel, at two system calls.
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

/// Returns what each mechanism is in this process, and why.
///
/// Start-up decides this once (B91, section 3.1.1). The same program thus uses the right mechanism
/// on every kernel, without a test in any lock. (The sequence of [`OnCpu`] and [`BiasedFlag`]
/// compares the CPU's number with the flag's home anyway. Where sections do not run, no flag has a
/// home.)
///
/// Starts atomseq if it has not been started; see [`status`].
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
    fn the_report_agrees_with_the_status() {
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
