//! What must not compile, a file each in `tests/ui` with what the compiler says beside it; and in
//! `tests/ui/pass`, what must.
//!
//! After a deliberate change: `TRYBUILD=overwrite cargo test -p verify-macros --test ui`.
// On the portable build, statics are made otherwise, and some messages name that.
#![cfg(atomseq_sections)]

#[test]
fn no_promise_is_made_for_a_type_that_breaks_it() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/ui/*.rs");
    // Also makes trybuild build what it checks.
    tests.pass("tests/ui/pass/*.rs");
}
