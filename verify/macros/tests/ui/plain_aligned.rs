//! Padding behind the last field.
#![forbid(unsafe_code)]

atomseq::nonblocking::plain! {
    #[repr(align(16))]
    struct Aligned {
        key: u64,
    }
}

fn main() {}
