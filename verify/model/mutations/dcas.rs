//! Mutations of OS-assisted changes and of k-CAS.
//!
//! A mutation is a name, a text that occurs once in the sources, and its replacement. A model must
//! detect each. The `…_IN_MODELS` lists only reduce the number of steps.

// assisted: OS-assisted changes with one protection removed.

/// All mutations; each must be detected.
pub const ASSISTED: &[(&str, &str, &str)] = &[
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
        "self.log[STAMP].store(free, Ordering::Release);",
        "",
    ),
    (
        "a_locked_change_is_logged_too_late",
        "self.log[STAMP].store(free, Ordering::Release);
            fence(Ordering::Release);
            a.store(first.new, Ordering::Relaxed);
            b.store(second.new, Ordering::Relaxed);",
        "a.store(first.new, Ordering::Relaxed);
            b.store(second.new, Ordering::Relaxed);
            self.log[STAMP].store(free, Ordering::Release);",
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
        ".compare_exchange(from, locked, Ordering::AcqRel, Ordering::Relaxed).is_ok();",
        ".swap(locked, Ordering::AcqRel) != locked;",
    ),
    (
        "recovery_does_not_lock",
        "if !lock::try_lock(&self.lock, claim, free) {\n            return;\n        }",
        "",
    ),
    (
        "a_call_returns_before_it_is_undone",
        "if self.wait_until_over(free) {",
        "if false && self.wait_until_over(free) {",
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

// kcas: k-CAS with one protection removed.

/// All mutations; each must be detected.
pub const KCAS: &[(&str, &str, &str)] = &[
    (
        "late_references_count",
        "false => Some(part.old),",
        "false => Some(part.new),",
    ),
    (
        "owners_that_come_late_count",
        "false => part.old,",
        "false => part.new,",
    ),
    (
        "owners_do_not_say_that_it_is_over",
        "descriptor.status.store(over, Ordering::Release);",
        "",
    ),
    (
        "helpers_do_not_say_that_it_is_over",
        "descriptor.mark_over(operation.sequence);",
        "",
    ),
    (
        "over_after_the_version_moves_on",
        "descriptor.status.store(over, Ordering::Release);",
        "end(version, operation_word, next_number);
         descriptor.status.store(over, Ordering::Release);",
    ),
    (
        "over_before_the_words_are_changed",
        "for entry in 1..count_of(status) {",
        "descriptor.mark_over(operation.sequence); for entry in 1..count_of(status) {",
    ),
    (
        "helpers_change_words_without_a_reference",
        "put_in_for(operation, word, part);",
        "replace(word, Reference::of(part.old | MARK), part.new);
         let _ = word.compare_exchange(part.old, part.new, Ordering::AcqRel, Ordering::Relaxed);",
    ),
    (
        "helpers_leave_out_the_last_word",
        "1..count_of(status)",
        "1..count_of(status) - 1",
    ),
    (
        "owners_leave_out_the_last_word",
        "parts.iter().enumerate()",
        "parts.iter().take(1).enumerate()",
    ),
    (
        "the_version_is_not_compared",
        "compare_exchange(number, operation_word, taken_by_this, by_another).is_ok()",
        "swap(operation_word, Ordering::SeqCst) > 0",
    ),
    (
        "readers_do_not_help",
        "help(version, content);",
        "return descriptors::sequence_of(content) * 0 + resolve(Reference::of(content)).unwrap_or(1);",
    ),
    (
        "descriptors_are_left_with_a_reference_in_a_word",
        "if put.is_ok() {\n        clear(word, own);\n    }\n    taken.leave();",
        "taken.leave();\n    if put.is_ok() {\n        clear(word, own);\n    }",
    ),
    ("descriptors_are_taken_twice", "taken.ok()?;", ""),
    (
        "sequence_numbers_stay",
        "(sequence_of(status) + 1) % SEQUENCE_NUMBERS",
        "1",
    ),
    (
        "old_values_are_read_at_an_earlier_version",
        "if version.load(Ordering::Acquire) != number {\n        return false;\n    }",
        "",
    ),
];

// kcas_loom: k-CAS with an ordering that is too weak, and homes with one protection removed.

/// All mutations; each must be detected. Acquiring a version without release is not among them:
/// helpers would follow addresses that were never filled in.
pub const KCAS_LOOM: &[(&str, &str, &str)] = &[
    (
        "the_version_is_read_without_acquire",
        "let content = version.load(Ordering::Acquire);",
        "let content = version.load(Ordering::Relaxed);",
    ),
    (
        "words_are_read_without_acquire",
        "let content = word.load(Ordering::Acquire);\n        if content & MARK == 0 {",
        "let content = word.load(Ordering::Relaxed);\n        if content & MARK == 0 {",
    ),
    (
        "values_are_read_without_acquire",
        "match word.load(Ordering::Acquire) {\n        value if",
        "match word.load(Ordering::Relaxed) {\n        value if",
    ),
    (
        "readers_do_not_look_again",
        "Some(value) if word.load(Ordering::Relaxed) == content => return value,",
        "Some(value) => return value,",
    ),
    (
        "owners_put_references_in_without_release",
        "own.word(), Ordering::AcqRel, Ordering::Acquire)",
        "own.word(), Ordering::Acquire, Ordering::Acquire)",
    ),
    (
        "over_without_release",
        "status.store(over, Ordering::Release)",
        "status.store(over, Ordering::Relaxed)",
    ),
    (
        "over_without_acquire",
        "blocks::at(self.index).status.load(Ordering::Acquire)",
        "blocks::at(self.index).status.load(Ordering::Relaxed)",
    ),
    (
        "the_version_moves_on_without_release",
        "let (ended, is_ended) = (Ordering::Release,",
        "let (ended, is_ended) = (Ordering::Relaxed,",
    ),
    (
        "filled_in_before_the_number",
        "fence(Ordering::Release);\n    descriptor.entries[0]",
        "descriptor.entries[0]",
    ),
    (
        "read_after_the_number",
        "fence(Ordering::Acquire);\n    let sequence",
        "let sequence",
    ),
    (
        "homes_of_the_living_are_taken",
        "platform::has_ended(name)",
        "true",
    ),
    (
        "moved_out_without_release",
        "let (success, failure) = (Ordering::AcqRel, ",
        "let (success, failure) = (Ordering::Relaxed, ",
    ),
    (
        "two_move_in",
        "self.word.compare_exchange(from, to, success, failure).is_ok()",
        "{ self.word.store(to, success); true }",
    ),
    (
        "asked_about_an_earlier_thread",
        "self.word.load(Ordering::Acquire)",
        "self.word.load(Ordering::Relaxed)",
    ),
    (
        "nobody_counts_who_moves_in",
        "before.wrapping_add(CLAIM)",
        "before",
    ),
    (
        "old_values_are_read_without_acquire",
        "if version.load(Ordering::Acquire) != number {",
        "if version.load(Ordering::Relaxed) != number {",
    ),
];
