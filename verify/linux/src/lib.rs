//! The tests of atomseq on Linux; all of them are in `tests/`, and their shared helpers in
//! verify-support.
