//! The sequence compiler.
