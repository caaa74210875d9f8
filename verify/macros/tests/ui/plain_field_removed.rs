//! Seven bytes of padding, where the declaration shows a field.
#![forbid(unsafe_code)]

atomseq::nonblocking::plain! {
    struct Gap {
        small: u8,
        #[cfg(any())]
        gap: [u8; 7],
        large: u64,
    }
}

fn main() {
    let _ = Gap { small: 1, large: 2 };
}
