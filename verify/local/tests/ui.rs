//! What must not compile, a file each in `tests/ui` with what the compiler says beside it; and in
//! `tests/ui/pass`, what must.
//!
//! After a deliberate change: `TRYBUILD=overwrite cargo test -p verify-local --test ui`.
// On the portable build, statics are made otherwise, and some messages name that.
#![cfg(atomseq_sections)]

#[test]
fn what_would_be_unsound_or_useless_does_not_compile() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/ui/*.rs");
    // Also makes trybuild build what it checks: errors in constants of generic types come that
    // late.
    tests.pass("tests/ui/pass/*.rs");
}
