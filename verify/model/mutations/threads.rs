//! What is taken out of the states of a runtime's threads, one at a time.

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
