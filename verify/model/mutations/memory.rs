//! Mutations of kept mappings, and of the turns of threads that grow a structure.
//!
//! A mutation is a name, a text that occurs once in the sources, and its replacement. A model must
//! detect each. The `…_IN_MODELS` lists only reduce the number of steps.

// mappings: the changes for all models, so that few mappings fill all slots; and the mutations.

/// A text that occurs once, and its replacement.
pub const MAPPINGS_IN_MODELS: &[(&str, &str)] = &[
    (
        "const SIZES: usize =\n    TO_A_DOUBLING * (usize::BITS - UNIT.ilog2() - TO_A_DOUBLING.ilog2() + 1) as usize;",
        "const SIZES: usize = 2;",
    ),
    (
        "const FIRST_SLOTS: usize = 14;",
        "const FIRST_SLOTS: usize = 2;",
    ),
    (
        "const TABLE_SLOTS: usize = 509;",
        "const TABLE_SLOTS: usize = 2;",
    ),
    // Models name the type and construct it.
    ("\nstruct Kept", "\npub struct Kept"),
    ("const fn new() -> Kept", "pub const fn new() -> Kept"),
    ("    fn map(&self", "    pub fn map(&self"),
    ("    unsafe fn unmap(&self", "    pub unsafe fn unmap(&self"),
    (
        "    fn take(&self, bytes: usize)",
        "    pub fn take(&self, bytes: usize)",
    ),
];

/// A name, a text that occurs once in the source, and its replacement. Each must be detected.
pub const MAPPINGS: &[(&str, &str, &str)] = &[
    (
        "takers_go_without_while_another_takes",
        "        let from_tables =",
        "        static TAKING: AtomicUsize = AtomicUsize::new(0);\n\
         struct Last;\n\
         impl Drop for Last { fn drop(&mut self) { TAKING.fetch_sub(1, SeqCst); } }\n\
         let before = TAKING.fetch_add(1, SeqCst);\n\
         let _last = Last;\n\
         if before > 0 { return None; }\n\
         let from_tables =",
    ),
    (
        "takers_do_not_exchange",
        "NonNull::new(slot.swap(null_mut(), SeqCst))",
        "{ let seen = slot.load(SeqCst); slot.store(null_mut(), SeqCst); NonNull::new(seen) }",
    ),
    (
        "putters_do_not_exchange",
        "slot.compare_exchange(null_mut(), mapping.as_ptr(), SeqCst, SeqCst).is_ok()",
        "slot.load(SeqCst).is_null() && { slot.store(mapping.as_ptr(), SeqCst); true }",
    ),
    (
        "takers_give_up_where_another_was_faster",
        "        NonNull::new(slot.swap(null_mut(), SeqCst))\n    })",
        "        Some(NonNull::new(slot.swap(null_mut(), SeqCst)))\n    })?",
    ),
    (
        "takers_subtract_before_they_have_taken",
        "        let from_tables =",
        "        self.kept.fetch_sub(1, SeqCst); self.kept.fetch_add(1, SeqCst);\n        let from_tables =",
    ),
    (
        "a_table_does_not_count",
        "(kept < TABLE_SLOTS).then_some(kept + 1)",
        "(kept < TABLE_SLOTS).then_some(kept)",
    ),
    (
        "a_table_counts_beyond_its_slots",
        "(kept < TABLE_SLOTS).then_some(kept + 1)",
        "Some(kept + 1)",
    ),
    (
        "a_table_does_not_notice_what_is_taken",
        "let taken = take(&self.slots)?;\n        self.kept.fetch_sub(1, SeqCst);",
        "let taken = take(&self.slots)?;",
    ),
    (
        "newer_tables_replace_each_other",
        "let extended = self.newest.compare_exchange(newest, place, SeqCst, SeqCst);",
        "self.newest.store(place, SeqCst); let extended = Ok::<*mut Table, *mut Table>(newest);",
    ),
    (
        "a_table_that_came_second_stays_written",
        "if extended.is_err() {",
        "if false {",
    ),
    (
        "tables_are_made_early",
        "if kept <= room {",
        "if kept < room {",
    ),
    (
        "a_table_counts_as_kept",
        "                self.kept.fetch_sub(1, SeqCst);\n                return false;",
        "                return false;",
    ),
    (
        "what_was_not_discarded_counts_as_zeros",
        "false => address | DIRTY,",
        "false => address,",
    ),
    (
        "what_is_refused_again_is_lost",
        "return self.put_again(index, mapping);",
        "return;",
    ),
    (
        "the_newest_table_is_asked_for_first",
        "let from_tables = || self.tables().find_map(Table::take);",
        "let mut tables = self.tables(); let from_tables = || tables.find_map(Table::take);",
    ),
];

// growth: the changes for all models, so that waiting takes few steps; and the mutations.

/// A text that occurs once, and its replacement.
pub const GROWTH_IN_MODELS: &[(&str, &str)] = &[
    ("const ROUNDS: u32 = 128;", "const ROUNDS: u32 = 30;"),
    (
        "const MILLISECONDS: u32 = 100;",
        "const MILLISECONDS: u32 = 400;",
    ),
];

/// A name, a text that occurs once in the source, and its replacement. Each must be detected.
pub const GROWTH: &[(&str, &str, &str)] = &[
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
        "self.turn.compare_exchange(seen, mine, success, failure);\n        begun",
        "{ self.turn.store(mine, success); Ok::<u64, u64>(seen) };\n        begun",
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
        "if has_ended && overtaken == 0 {",
        "if true {",
    ),
    (
        "who_was_overtaken_is_forgotten_with_the_next_turn",
        "(false, true) => seen & OVERTAKEN,",
        "(false, true) => 0,",
    ),
];
