//! Every structure by each mechanism.

use super::*;
use crate::dcas::Mechanism;

mod arrays;
mod linked;
mod list;
mod one_visitor;
mod panics;
mod plain;
mod ref_list;
mod values;

const MECHANISMS: [Mechanism; 2] = [Mechanism::Assisted, Mechanism::Kcas];

/// Without optimization, and under k-CAS, the portable build's only mechanism, everything takes longer.
const SCALE: usize = if cfg!(any(not(atomseq_sections), debug_assertions)) {
    1
} else {
    8
};

/// How long the threads of a test go on without an end.
struct Patience(std::time::Instant);

impl Patience {
    fn new() -> Patience {
        Patience(std::time::Instant::now())
    }

    /// Lets others run.
    ///
    /// # Panics
    ///
    /// After a minute: what is waited for is lost, or another thread of the test has failed.
    fn wait(&self) {
        assert!(self.0.elapsed().as_secs() < 60, "it does not come");
        std::thread::yield_now();
    }
}
