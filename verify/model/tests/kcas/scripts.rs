//! Orders by a script: which thread goes on, for how many steps, then which. Every number of steps is tried.

use std::ops::Range;

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

use crate::{Library, models};

/// The thread that the model begins with, and those that it makes, in order.
const OWNER: usize = 0;
const CHANGE: usize = 1;
const HELPER: usize = 2;

/// More steps than a model has.
const TO_THE_END: Range<usize> = usize::MAX - 1..usize::MAX;

/// With what has to hold in all of its orders.
pub fn all<L: Library>() -> [(&'static str, Script, fn()); 2] {
    [
        (
            "a helper that comes late, by the script",
            Script::new(vec![
                (OWNER, 10..40),
                (CHANGE, TO_THE_END),
                (HELPER, 10..50),
                (OWNER, TO_THE_END),
            ]),
            models::late_helper::<L>,
        ),
        (
            "an owner that comes late, by the script",
            Script::new(vec![
                (OWNER, 14..22),
                (HELPER, 10..40),
                (CHANGE, TO_THE_END),
                (OWNER, 1..20),
                (HELPER, TO_THE_END),
            ]),
            models::late_owner::<L>,
        ),
    ]
}

/// A thread and its numbers of steps, one after the other. A thread that has ended, or waits for another one, is passed over.
pub struct Script {
    stages: Vec<(usize, Range<usize>)>,
    /// The next order's.
    order: usize,
    /// What is left of this one.
    rest: Vec<(usize, usize)>,
}

impl Script {
    fn new(stages: Vec<(usize, Range<usize>)>) -> Script {
        Script {
            stages,
            order: 0,
            rest: Vec::new(),
        }
    }

    /// How many there are.
    pub fn orders(&self) -> usize {
        self.stages.iter().map(|(_, steps)| steps.len()).product()
    }
}

impl Scheduler for Script {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.order == self.orders() {
            return None;
        }
        let mut number = self.order;
        let stages = self.stages.iter().rev().map(|(thread, steps)| {
            let chosen = steps.start + number % steps.len();
            number /= steps.len();
            (*thread, chosen)
        });
        // The first stage comes last.
        self.rest = stages.collect();
        self.order += 1;
        Some(Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        _current: Option<TaskId>,
        _is_yielding: bool,
    ) -> Option<TaskId> {
        while let Some((thread, steps)) = self.rest.last_mut() {
            let task = runnable
                .iter()
                .find(|task| usize::from(task.id()) == *thread);
            match task {
                Some(task) if *steps > 0 => {
                    *steps -= 1;
                    return Some(task.id());
                }
                _ => self.rest.pop(),
            };
        }
        // The one that was made last, so that nobody waits for others in vain.
        runnable.last().map(|task| task.id())
    }

    fn next_u64(&mut self) -> u64 {
        0
    }
}
