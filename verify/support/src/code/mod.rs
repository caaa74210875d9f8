//! The code of the running program: its sequences, and stops at any of its instructions (x86-64).
//!
//! [`table`] finds the windows of sections by the descriptors that the kernel itself uses.
//! `breakpoints` are `int3` instructions over the code; [`trap`] stops at some of them, in
//! windows and outside; [`steps`] go from instruction to instruction; [`trace`] follows an
//! operation by both and records its way. No handler runs while signals are blocked: [`blocked`]
//! does the blocking call on the thread's behalf, and lets a signal wait for the end of the
//! stretch.

use std::os::unix::process::CommandExt;

use atomseq::status::Reason;

pub mod blocked;
mod breakpoints;
pub mod steps;
pub mod table;
pub mod trace;
pub mod trap;

/// Takes every breakpoint out of the program, for a thread that ends it.
pub(crate) fn give_up() {
    breakpoints::give_up();
}

const TRIES: &str = "ATOMSEQ_VERIFY_TRIES";

/// Returns whether sections and gates are active; prints why not.
///
/// On a machine too busy for a decision, the program starts again: start-up decides once a process.
pub fn sections_run(test: &str) -> bool {
    let status = atomseq::status();
    if status.gates_active() {
        return true;
    }
    let tries = crate::number_from_env(TRIES, 0);
    if status.reason() == Some(Reason::SelfTestInconclusive) && tries < 50 {
        let error = crate::processes::this_program()
            .args(std::env::args_os().skip(1))
            .env(TRIES, (tries + 1).to_string())
            .exec();
        panic!("cannot start again: {error}");
    }
    println!("{test}: does not apply, for sections do not run here ({status})");
    false
}
