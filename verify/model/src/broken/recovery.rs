//! Right sequences with the wrong recovery: what becomes of them if the mechanism is another one.

use atomseq::sequence::model::{Memory, Program, Step};

use super::Broken;
use crate::report::Fault;
use crate::structure::{Answer, Call, Content, Recovery, Structure};
use crate::structures::{Fifo, List, program};

/// A structure whose sequences recover as is said here.
pub(super) struct Recovering<S>(pub(super) S, pub(super) fn(&Program) -> Recovery);

impl<S: Structure> Structure for Recovering<S> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn cpus(&self) -> usize {
        1
    }

    fn nodes(&self) -> std::ops::Range<usize> {
        self.0.nodes()
    }

    fn bulk_bytes(&self) -> usize {
        self.0.bulk_bytes()
    }

    fn longest_history(&self) -> usize {
        self.0.longest_history()
    }

    fn recovery(&self, program: &Program) -> Recovery {
        (self.1)(program)
    }

    fn empty(&self) -> Memory {
        self.0.empty()
    }

    fn calls(&self, memory: &Memory) -> Vec<Call> {
        self.0.calls(memory)
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        let mut content = self.0.content(memory)?;
        // The others' CPUs; what has one may have several rows.
        if self.0.cpus() > 1 {
            content.truncate(1);
        }
        Ok(content)
    }

    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer {
        self.0.meaning(content, call, cpu)
    }
}

/// The sequence with its last store as a commit, so that its shape is that of one that restarts.
fn restartable(program: &'static Program) -> &'static Program {
    let mut steps = program.steps.to_vec();
    match steps.last_mut() {
        Some(last @ Step::Store { .. }) => {
            let Step::Store { to, value, bytes } = *last else {
                unreachable!("it was matched above");
            };
            *last = Step::Commit { to, value, bytes };
        }
        other => panic!("no store at the end: {other:?}"),
    }
    Box::leak(Box::new(Program {
        steps: Vec::leak(steps),
        ..*program
    }))
}

/// Restarts what has a commit, whatever else it stores.
fn what_commits(program: &Program) -> Recovery {
    let commits = |step: &Step| matches!(step, Step::Commit { .. });
    match program.steps.iter().any(commits) {
        true => Recovery::Restart,
        false => Recovery::Rollforward,
    }
}

/// What was under way when another call came in between is wrong.
pub(super) fn torn(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::WrongContent { .. } | Fault::Broken(_) | Fault::WrongAnswer { .. }
    )
}

/// A handler could see, or would repeat, a part of it.
fn seen(fault: &Fault) -> bool {
    matches!(fault, Fault::VisibleBeforeCommit { .. } | Fault::Broken(_))
}

pub fn all() -> Vec<Broken> {
    let [enqueue, dequeue] = ["enqueue", "dequeue"].map(|name| program("fifo", name));
    vec![
        Broken::new(
            "visible stores are restarted",
            Recovering(Fifo, what_commits),
            restartable(enqueue),
            seen,
        ),
        Broken::new(
            "visible stores before an early return are restarted",
            Recovering(Fifo, what_commits),
            restartable(dequeue),
            seen,
        ),
        Broken::new(
            "what has no commit is restarted",
            Recovering(Fifo, |_| Recovery::Restart),
            enqueue,
            |fault| *fault == Fault::Shape,
        ),
        Broken::new(
            "nothing rolls a queue forward",
            Recovering(Fifo, |_| Recovery::Nothing),
            enqueue,
            torn,
        ),
        Broken::new(
            "nothing restarts a list",
            Recovering(List, |_| Recovery::Nothing),
            program("list", "pop"),
            torn,
        ),
    ]
}
