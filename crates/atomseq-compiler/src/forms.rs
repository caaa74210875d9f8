//! Which forms a sequence has: every one that its steps allow.

use crate::ir::*;

/// A form that is assembly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Against all that runs on this CPU.
    OnCpu,
    /// Against this thread's signal handlers: the same instructions, whatever the protection.
    Signal(Protection),
}

/// What a signal handler does about a sequence that it interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// Nothing: there is no row in the table.
    None,
    /// It starts again.
    Restart,
    /// It ends first, in a clone.
    Rollforward,
}

/// The forms of one sequence. All have a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forms {
    /// On this CPU, restarted by the kernel, or ended by it if there is a `cas`: there is a commit,
    /// and a slot or a CPU's number.
    pub on_cpu: bool,
    /// Under the gate of its slot.
    pub gated: bool,
    /// Restarted by a signal handler: there is a commit.
    pub restarting: bool,
    /// Run to its end for a signal handler.
    pub rolling: bool,
}

impl Forms {
    pub fn of(sequence: &Sequence) -> Forms {
        let any = |is: fn(&StepKind) -> bool| sequence.steps.iter().any(|step| is(&step.kind));
        let commits = sequence.steps.iter().any(Step::is_commit);
        let asks_cpu = any(|step| matches!(step, StepKind::Cpu { .. }));
        let copies = any(|step| matches!(step, StepKind::Copy { .. }));
        let has_slot = sequence.slots().next().is_some();
        let on_cpu = commits && (has_slot || asks_cpu);
        // Nothing keeps the thread on its CPU, and a clone has no backward branch.
        let signal = !asks_cpu && !copies && sequence.compare_exchange().is_none();
        Forms {
            on_cpu,
            gated: on_cpu && has_slot,
            restarting: signal && commits,
            rolling: signal,
        }
    }

    /// Those that are assembly, each once: the signal forms are the same instructions.
    pub fn assembled(self) -> impl Iterator<Item = Form> {
        let on_cpu = self.on_cpu.then_some(Form::OnCpu);
        let signal = self.rolling.then_some(Form::Signal(Protection::None));
        on_cpu.into_iter().chain(signal)
    }
}
