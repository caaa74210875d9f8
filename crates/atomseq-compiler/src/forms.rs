//! Which forms a sequence has: every one that its steps allow.
//!
//! | form | needs | must not have |
//! |---|---|---|
//! | `on_cpu` | a commit, and a `Slot` or `cpu()` | |
//! | `gated` | the same, with a `Slot` | |
//! | `restarting` | a commit | `cpu()`, `prepare_copy`, `cas` |
//! | `rolling` | | `cpu()`, `prepare_copy`, `cas` |

use crate::ir::*;

/// A form that is written in assembly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Atomic against every thread and handler on this CPU, with the kernel's help.
    OnCpu,
    /// Atomic against this thread's signal handlers. The instructions are the same whatever the
    /// protection.
    Signal(Protection),
}

/// What a signal handler does with a sequence that it interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// Nothing: there is no row in the table of sequences.
    None,
    /// It restarts the sequence from its first instruction.
    Restart,
    /// It first runs the rest of the sequence, in a clone.
    Rollforward,
}

/// The forms of one sequence. Every sequence has a model besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forms {
    /// Restarted by the kernel, or with a `cas` ended by it.
    pub on_cpu: bool,
    /// Plain Rust, for a caller that holds the gate of the slot.
    pub gated: bool,
    /// Restarted by a signal handler.
    pub restarting: bool,
    /// Run to its end by a signal handler.
    pub rolling: bool,
}

impl Forms {
    /// Returns the forms that the steps of a sequence allow.
    pub fn of(sequence: &Sequence) -> Forms {
        let any = |is: fn(&StepKind) -> bool| sequence.steps.iter().any(|step| is(&step.kind));
        let commits = sequence.steps.iter().any(Step::is_commit);
        let asks_cpu = any(|step| matches!(step, StepKind::Cpu { .. }));
        let copies = any(|step| matches!(step, StepKind::Copy { .. }));
        let has_slot = sequence.slots().next().is_some();
        let on_cpu = commits && (has_slot || asks_cpu);
        // A handler cannot keep the thread on a CPU, and a clone has no backward branch: a copy is
        // a loop. A `cas` cannot be repeated, and only the kernel ends an attempt.
        let signal = !asks_cpu && !copies && sequence.compare_exchange().is_none();
        Forms {
            on_cpu,
            gated: on_cpu && has_slot,
            restarting: signal && commits,
            rolling: signal,
        }
    }

    /// Returns the distinct templates: one for `on_cpu`, one for all signal forms.
    pub fn assembled(self) -> impl Iterator<Item = Form> {
        let on_cpu = self.on_cpu.then_some(Form::OnCpu);
        let signal = self.rolling.then_some(Form::Signal(Protection::None));
        on_cpu.into_iter().chain(signal)
    }
}
