//! Programs that must not compile (see `verify_support::check_compile_failures`).
// On the portable build, statics are made in another way, and some messages name that.
#![cfg(atomseq_sections)]

#[test]
fn no_promise_is_made_for_a_type_that_breaks_it() {
    verify_support::check_compile_failures!();
}
