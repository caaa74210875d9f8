//! Functions only.

atomseq::sequence! {
    const A: usize = 1;
}

fn main() {}
