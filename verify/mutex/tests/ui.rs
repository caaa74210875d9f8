//! What must not compile, a file each in `tests/ui` with what the compiler says beside it; and in
//! `tests/ui/pass`, what must.
//!
//! After a deliberate change: `TRYBUILD=overwrite cargo test -p verify-mutex --test ui`.
// On the portable build, statics are made otherwise, and some messages name that.
#![cfg(atomseq_sections)]

#[test]
fn a_lock_whose_scope_is_too_small_does_not_compile() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/ui/*.rs");
    // Also makes trybuild build what it checks: errors in constants come that late.
    tests.pass("tests/ui/pass/*.rs");
}
