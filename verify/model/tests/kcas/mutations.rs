//! k-CAS with one protection less: a name, what is there once in the sources, and what is there
//! instead.

/// All of them; each has to be found out.
pub const MUTATIONS: &[(&str, &str, &str)] = &[
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
        "descriptor.is_over(operation.sequence);",
        "",
    ),
    (
        "over_after_the_version_moves_on",
        "descriptor.status.store(over, Ordering::Release);",
        "end(version, operation_word, number + 1);
         descriptor.status.store(over, Ordering::Release);",
    ),
    (
        "over_before_the_words_are_changed",
        "for entry in 1..count_of(status) {",
        "descriptor.is_over(operation.sequence); for entry in 1..count_of(status) {",
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
        "changing().enumerate()",
        "changing().take(1).enumerate()",
    ),
    (
        "the_version_is_not_compared",
        "compare_exchange(number, operation_word, taken_by_this, by_another)\n        .is_ok()",
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
        "(sequence_of(status) + 1) % SEQUENCES",
        "1",
    ),
    (
        "old_values_are_read_at_an_earlier_version",
        "if version.load(Ordering::Acquire) != number {\n        return false;\n    }",
        "",
    ),
];
