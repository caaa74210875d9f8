//! Models under shuttle: a great many orders of steps. Memory is sequentially consistent there.

use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::controls::Explorer;

/// The orders of several schedulers, none of them longer than so many steps.
pub struct Orders {
    pub schedulers: Vec<Box<dyn Scheduler + Send>>,
    /// One who waits for what nobody will do is found out by that.
    pub most_steps: usize,
    /// Of each thread, in bytes.
    pub stack_size: usize,
}

/// So many orders, half of them drawn at random, half with few changes of thread.
pub fn drawn(most: usize) -> Vec<Box<dyn Scheduler + Send>> {
    vec![
        Box::new(RandomScheduler::new_from_seed(1, most / 2)),
        Box::new(PctScheduler::new_from_seed(1, 4, most / 2)),
    ]
}

impl Explorer for Orders {
    fn run(self, model: impl Fn() + Send + Sync + 'static) {
        let model = Arc::new(model);
        for scheduler in self.schedulers {
            let mut config = Config::new();
            config.silence_warnings = true;
            config.failure_persistence = FailurePersistence::None;
            config.max_steps = MaxSteps::FailAfter(self.most_steps);
            config.stack_size = self.stack_size;
            let model = Arc::clone(&model);
            Runner::new(scheduler, config).run(move || model());
        }
    }
}
