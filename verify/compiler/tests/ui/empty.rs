//! At least one sequence.

atomseq::sequence! {}

fn main() {}
