//! Programs that must not compile, for a macro would break its promise or a structure would be
//! unsound or useless.
//!
//! Each file in `tests/ui` holds the mistakes of one idea that the compiler reports in one phase;
//! beside it stands what the compiler says. Files in `tests/ui/pass` must compile. With one there,
//! trybuild builds all files instead of checking them: errors in constants of generic types are
//! found only then.
//!
//! After a deliberate change: `TRYBUILD=overwrite cargo test -p verify-macros --test ui`.
// On the portable build, statics are made in another way, and some messages name that.
#![cfg(atomseq_sections)]

#[test]
fn what_would_be_unsound_or_useless_does_not_compile() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/ui/*.rs");
    tests.pass("tests/ui/pass/*.rs");
}
