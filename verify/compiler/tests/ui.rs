//! What the compiler refuses, and what it says. Each file of `tests/ui` breaks one group of rules
//! in many ways, a `sequence!` for each, named after what is wrong; the `.stderr` file beside it
//! holds every message and where it points. `tests/legal` uses what the language has.
//!
//! rustc reports the errors of one phase only: those of the macro come before name resolution, that
//! before types, those before the values of constants. So the files `rustc_*` hold what a later
//! phase finds, and each file stays within one.
//!
//! After a deliberate change: `TRYBUILD=overwrite cargo test -p verify-compiler --test ui`. Then
//! read the difference: a message that is gone is a check that is gone.
//!
//! The portable build has the same compiler: once is enough.
#![cfg(atomseq_sections)]

#[test]
fn broken_rules_are_refused_at_their_line() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/ui/*.rs");
}
