//! Tests of the sequence compiler; see `tests/`.
