//! The same by an attribute that makes attributes.
#![forbid(unsafe_code)]

atomseq::nonblocking::plain! {
    struct Gap {
        small: u8,
        #[cfg_attr(all(), cfg(any()))]
        gap: [u8; 7],
        large: u64,
    }
}

fn main() {
    let _ = Gap { small: 1, large: 2 };
}
