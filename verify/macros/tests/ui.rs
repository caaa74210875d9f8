//! Programs that must not compile, for a macro would break its promise, a structure would be
//! unsound or useless, or a sequence breaks a rule; and what the compilers say.
//!
//! Each file in `tests/ui` holds the mistakes of one idea that the compiler reports in one phase;
//! beside it stands every message, and where it points. Files in `tests/ui/pass` must compile. With
//! one there, trybuild builds all files instead of checking them: errors in constants of generic
//! types are found only then.
//!
//! rustc reports the errors of one phase only: those of a macro come before name resolution, that
//! before types, those before the values of constants. Of the files about sequences, where each
//! `sequence!` is named after what is wrong, `rustc_*` hold what a later phase finds. What such
//! files break is legal in `tests/legal` of verify-compiler.
//!
//! After a deliberate change: `TRYBUILD=overwrite cargo test -p verify-macros --test ui`. Then read
//! the difference: a message that is gone is a check that is gone.
//!
//! All files are of one package, so that its dependencies are built once.
// On the portable build, statics are made in another way, and some messages name that.
#![cfg(atomseq_sections)]

#[test]
fn what_would_be_unsound_or_useless_does_not_compile() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/ui/*.rs");
    tests.pass("tests/ui/pass/*.rs");
}
