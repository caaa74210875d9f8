//! Programs that must not compile (see `verify_support::check_compile_failures`).
// On the portable build, statics are made in another way, and some messages name that.
#![cfg(atomseq_sections)]

#[test]
fn what_would_be_unsound_or_useless_does_not_compile() {
    verify_support::check_compile_failures!();
}
