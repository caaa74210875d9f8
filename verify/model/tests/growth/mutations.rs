//! What models change in the source, so that waiting takes few steps; and the source with something
//! wrong.

/// What is there once, and what is there instead.
pub const IN_MODELS: &[(&str, &str)] = &[
    ("const ROUNDS: u32 = 128;", "const ROUNDS: u32 = 30;"),
    (
        "const MILLISECONDS: u32 = 100;",
        "const MILLISECONDS: u32 = 400;",
    ),
];

/// A name, what is there once in the source, and what is there instead. All of them have to be
/// found out.
pub const MUTATIONS: &[(&str, &str, &str)] = &[
    (
        "no_thread_waits",
        "if is_taken && rounds < ROUNDS {",
        "if false {",
    ),
    (
        "turns_are_never_taken_over",
        "if is_taken && rounds < ROUNDS {",
        "if is_taken {",
    ),
    (
        "turns_are_taken_without_an_exchange",
        "self.0.compare_exchange(seen, mine, success, failure);\n            if begun",
        "{ self.0.store(mine, success); Ok::<u64, u64>(seen) };\n            if begun",
    ),
    (
        "turns_do_not_end",
        "mine - GROWING, success",
        "mine, success",
    ),
    (
        "who_takes_a_turn_does_not_look_again",
        "let grown = find().or_else(&mut grow);",
        "let grown = grow();",
    ),
    (
        "who_is_refused_does_not_look_again",
        "return find();",
        "return None;",
    ),
    (
        "who_is_refused_does_not_wait_for_a_thread_that_was_held_up",
        "if ended.is_ok() && overtaken == 0 {",
        "if true {",
    ),
    (
        "who_was_overtaken_is_forgotten_with_the_next_turn",
        "(false, true) => seen & OVERTAKEN,",
        "(false, true) => 0,",
    ),
];
