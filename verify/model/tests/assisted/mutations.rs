//! OS-assisted changes with one protection less: a name, what is there once in the sources, and
//! what is there instead.

/// All of them; each has to be found out.
pub const MUTATIONS: &[(&str, &str, &str)] = &[
    (
        "who_locked_is_thrown_out",
        "LOCKED => return std::thread::yield_now(),",
        "LOCKED => |_| (),",
    ),
    (
        "locked_words_are_not_compared",
        "held == (first.old, second.old)",
        "true",
    ),
    (
        "a_locked_change_keeps_the_version",
        ".store(free.wrapping_add(VERSION), Ordering::Release);\n        is_as_wanted",
        ".store(free, Ordering::Release);\n        is_as_wanted",
    ),
    (
        "a_locked_change_is_not_logged",
        "self.log[4].store(free, Ordering::Release);",
        "",
    ),
    (
        "a_locked_change_is_logged_too_late",
        "self.log[4].store(free, Ordering::Release);
            fence(Ordering::Release);
            a.store(first.new, Ordering::Relaxed);
            b.store(second.new, Ordering::Relaxed);",
        "a.store(first.new, Ordering::Relaxed);
            b.store(second.new, Ordering::Relaxed);
            self.log[4].store(free, Ordering::Release);",
    ),
    (
        "whose_parent_locked_waits",
        "LOCKED if seen & ID != generation => |_| (),",
        "",
    ),
    (
        "a_locked_change_ignores_the_version",
        "if seen >> 16 != free >> 16 {\n                    return false;",
        "if false {\n                    return false;",
    ),
    (
        "the_lock_is_taken_blindly",
        ".compare_exchange(from, locked, Ordering::AcqRel, Ordering::Relaxed)\n        .is_ok();",
        ".swap(locked, Ordering::AcqRel) != locked;",
    ),
    (
        "recovery_does_not_lock",
        "if !lock::try_lock(&self.lock, claim, free) {\n            return;\n        }",
        "",
    ),
    (
        "a_call_returns_before_it_is_undone",
        "if self.is_over(free) {",
        "if false && self.is_over(free) {",
    ),
    (
        "readers_do_not_look_again",
        "self.lock.load(Ordering::Relaxed) == version << 16",
        "true",
    ),
    (
        "holders_are_not_fenced",
        "HELD => |cpu| platform::membarrier_rseq(cpu as usize),",
        "HELD => |_| (),",
    ),
    (
        "claims_are_not_fenced",
        "CLAIM => |_| platform::fence_all(),",
        "CLAIM => |_| (),",
    ),
    (
        "who_locked_a_stack_is_thrown_out",
        "LOCKED => std::thread::yield_now(),",
        "LOCKED => _ = replace(seen, free),",
    ),
    (
        "a_refusal_keeps_the_lock",
        "self.lock.store(free, Ordering::Release);\n            return false;",
        "return false;",
    ),
    (
        "a_locked_push_keeps_the_version",
        "let freed = free.wrapping_add(VERSION);\n        self.of(freed)",
        "let freed = free;\n        self.of(freed)",
    ),
    (
        "a_locked_push_stores_the_state_that_counts",
        "self.of(freed).store(next, Ordering::Relaxed);",
        "self.of(free).store(next, Ordering::Relaxed);",
    ),
    (
        "whose_parent_locked_a_stack_waits",
        "LOCKED if seen & ID != generation => {\n                replace(seen, free);\n            }",
        "",
    ),
];
