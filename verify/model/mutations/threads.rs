//! What is taken out of the states of a runtime's threads, and of how one lends its stack, one at a
//! time.

/// A name, a text that occurs once in the source, and its replacement. Each must be detected.
pub const STATES: &[(&str, &str, &str)] = &[
    (
        "a_change_is_no_exchange",
        "match self.0.compare_exchange(word, new, SeqCst, SeqCst) {",
        "match { self.0.store(new, SeqCst); Ok::<u32, u32>(word) } {",
    ),
    (
        "a_wait_ignores_requests",
        "if word & requests != 0 {",
        "if false {",
    ),
    (
        "an_unpark_before_the_park_is_lost",
        "_ => (word | TOKEN, false),",
        "_ => (word, false),",
    ),
    (
        "an_event_before_the_wait_is_lost",
        "_ => (word | WOKEN, false),",
        "_ => (word, false),",
    ),
    (
        "two_unparks_push_twice",
        "PARKED => (word & !PHASE | READY | TOKEN, true),",
        "PARKED => (word | TOKEN, true),",
    ),
    (
        "a_waiting_thread_answers_no_request",
        "PARKED | WAITING => (new & !PHASE | READY, true),",
        "PARKED | WAITING => (new, false),",
    ),
    (
        "a_suspended_thread_is_not_destroyed",
        "STOPPED if request == KILLED => ready_if_stopped(new),",
        "",
    ),
    (
        "a_thread_is_suspended_that_is_to_end",
        "match word & (STOPME | KILLED) {",
        "match word & STOPME {",
    ),
    (
        "a_thread_is_taken_from_its_wait_twice",
        "WAITING => (word & !PHASE | RUNNING, true),",
        "WAITING => (word, true),",
    ),
    (
        "a_resume_does_not_push",
        "STOPPED => (word & !PHASE | phase, true),",
        "STOPPED => (word & !PHASE | phase, false),",
    ),
    (
        "a_resume_leaves_the_request",
        "ready_if_stopped(word & !(STOPME | ANYWHERE))",
        "ready_if_stopped(word)",
    ),
    (
        "a_preempted_thread_is_suspended_where_it_is",
        "STOPME => word & PREEMPTED == 0 || word & ANYWHERE != 0,",
        "STOPME => true,",
    ),
    (
        "a_step_resumes",
        "ready_if_stopped(word & !ANYWHERE | STEP)",
        "ready_if_stopped(word & !(ANYWHERE | STOPME))",
    ),
    (
        "a_step_makes_no_step",
        "ready_if_stopped(word & !ANYWHERE | STEP)",
        "ready_if_stopped(word & !ANYWHERE)",
    ),
];

/// Likewise, of both sources together.
pub const LENDING: &[(&str, &str, &str)] = &[
    (
        "an_offer_is_claimed_that_was_withdrawn",
        "self.offered.compare_exchange(awaited, CLAIMED, SeqCst, SeqCst).is_err()",
        "{ self.offered.store(CLAIMED, SeqCst); false }",
    ),
    (
        "a_claim_in_vain_ends_the_offer",
        "self.offered.store(awaited, SeqCst);\n        is_taken",
        "self.offered.store(ptr::null_mut(), SeqCst);\n        is_taken",
    ),
    (
        "a_waiter_goes_on_while_its_offer_is_claimed",
        "SeqCst) == Err(CLAIMED) {",
        "SeqCst) == Ok(CLAIMED) {",
    ),
    (
        "an_offer_is_not_withdrawn",
        "self.offered.compare_exchange(awaited, null, SeqCst, SeqCst) ==",
        "(match self.offered.load(SeqCst) { CLAIMED => Err(CLAIMED), _ => Ok::<*mut (), _>(null) }) ==",
    ),
    (
        "a_turn_that_brings_none_replaces_what_was_brought",
        "if !task.is_null() {",
        "if true {",
    ),
    (
        "what_was_brought_is_run_twice",
        "self.brought.swap(ptr::null_mut(), SeqCst)",
        "self.brought.load(SeqCst)",
    ),
    (
        "a_waiter_is_taken_and_stays_in_its_wait",
        "WAITING => (word & !PHASE | RUNNING, true),",
        "WAITING => (word, true),",
    ),
    (
        "a_thread_is_taken_that_does_not_wait",
        "WAITING => (word & !PHASE | RUNNING, true),",
        "READY | RUNNING | WAITING => (word & !PHASE | RUNNING, true),",
    ),
    (
        "a_suspended_thread_is_brought",
        "(true, _) => (word & !PHASE | STOPPED, Taken::Stopped),",
        "(true, _) => (word & !PHASE | STOPPED, Taken::New),",
    ),
];
