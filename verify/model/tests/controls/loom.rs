//! Models under loom: every value that a load may return.

use crate::controls::Explorer;

/// All orders with so many preemptions, or with any number of them.
pub struct Executions {
    pub preemptions: Option<usize>,
}

impl Explorer for Executions {
    fn run(self, model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = self.preemptions;
        builder.max_branches = 10_000;
        builder.check(model);
    }
}
