//! Interrupts the forms that are atomic against signal handlers, by signals that arrive at each of
//! their instructions.
//!
//! [`rows`] finds the sequences of the running program by its table. `stepper` stops at one
//! instruction and lets signals arrive there, whose handlers ([`deliver`]) run a scenario's
//! interferences. `interruption` defines the signals that arrive, and which outcomes are correct.
//! [`checker`] runs it all, and [`registry`] holds the scenarios. [`nested`] interrupts deliveries,
//! [`faults`] those of faults, [`jumps`] leaves them, and [`ends`] interrupts the code that begins
//! and ends masks. In this file: what interruptions of deliveries have found.

pub mod checker;
pub mod deliver;
pub mod ends;
pub mod faults;
mod interruption;
pub mod jumps;
pub mod nested;
pub mod registry;
pub mod rows;
pub(crate) mod stepper;

use verify_support::code::table::Program;

use rows::Row;

/// What interruptions of this program's deliveries have found.
pub struct Findings {
    program: Program,
    rows: Vec<Row>,
    /// The number of instructions at which a signal arrived.
    pub places: usize,
    /// The number of interrupted runs.
    pub runs: usize,
    /// The violations found.
    pub violations: Vec<String>,
}

impl Findings {
    /// Returns none yet, of this program, in which the handlers are installed already.
    pub fn of_this_program() -> Findings {
        let program = Program::this();
        let rows = rows::of(&program);
        rows::unlock(&program, &rows);
        Findings {
            program,
            rows,
            places: 0,
            runs: 0,
            violations: Vec::new(),
        }
    }

    /// Returns the first sequence that `body` reaches.
    fn first_row(&self, body: impl FnOnce()) -> Option<Row> {
        let trace = stepper::trace(body);
        let row_at = |at: &usize| self.rows.iter().find(|row| row.start == *at);
        trace.iter().find_map(row_at).cloned()
    }

    /// Returns whether an instruction is the library's. A breakpoint may be there, since the
    /// harness executes none of it.
    fn is_ours(&self, at: usize) -> bool {
        let function = self.program.function_at(at);
        function.is_some_and(|(_, name)| name.contains("atomseq"))
    }

    /// Counts a run, and records each condition that does not hold. `run` says what was
    /// interrupted, and by which signal; `at` is the instruction.
    fn record(&mut self, run: &str, at: usize, wrong: &[(bool, &str)]) {
        self.runs += 1;
        for (_, what) in wrong.iter().filter(|(is_right, _)| !is_right) {
            let place = self.program.place(at);
            self.violations.push(format!("{run} at {place}: {what}"));
        }
    }
}
