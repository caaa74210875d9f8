//! Orders by a script: which thread goes on, for how many steps, then which. Every number of steps
//! is tried.

use std::ops::Range;

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

use crate::{Library, models};

/// The thread that the model begins with, and those that it makes, in order.
const FIRST: usize = 0;
const SECOND: usize = 1;
const THIRD: usize = 2;

/// More steps than a model has.
const TO_THE_END: Range<usize> = usize::MAX - 1..usize::MAX;

/// With what has to hold in all of its orders. A thread takes its operation's version, or is about
/// to put its first reference in as a helper, after some twenty steps.
pub fn all<L: Library>() -> [(&'static str, Script, fn()); 3] {
    [
        // The second thread begins its change, the third one helps and changes more, and the second
        // one comes late.
        (
            "an owner that comes late, by the script",
            Script::new(vec![
                (FIRST, 2..4),
                (SECOND, 1..40),
                (THIRD, 20..120),
                (SECOND, 1..4),
                (FIRST, TO_THE_END),
            ]),
            models::come_back::<L>,
        ),
        // The second thread begins its change, the third one begins to help, the second one goes
        // on, perhaps to its end, and the first one changes the word back; then the third one comes
        // late.
        (
            "a helper that comes late, by the script",
            Script::new(vec![
                (FIRST, 2..4),
                (SECOND, 12..30),
                (THIRD, 12..40),
                (SECOND, 1..16),
                (FIRST, TO_THE_END),
                (THIRD, TO_THE_END),
            ]),
            models::come_back_once::<L>,
        ),
        // The first thread will take a descriptor, and in vain, while the third one helps the
        // second one.
        (
            "a descriptor that is taken at once, by the script",
            Script::new(vec![
                (FIRST, 5..14),
                (SECOND, 17..30),
                (THIRD, 20..40),
                (FIRST, TO_THE_END),
            ]),
            models::come_back_once::<L>,
        ),
    ]
}

/// A thread and its numbers of steps, one after the other. A thread that has ended, or waits for
/// another one, is passed over.
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
