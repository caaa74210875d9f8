//! The tests of what atomseq makes of Linux; all of them are in `tests/`, and what they share is in
//! verify-support.
