//! Every rule of the language has a file in `tests/ui` that breaks it; beside it stands what the
//! compiler says, pointing at the line. `tests/legal` uses what the language has.
//!
//! After a deliberate change: `TRYBUILD=overwrite cargo test -p verify-compiler --test ui`.
//!
//! The portable build has the same compiler: once is enough.
#![cfg(atomseq_sections)]

#[test]
fn broken_rules_are_refused_at_their_line() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/ui/*.rs");
}
