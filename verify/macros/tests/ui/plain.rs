//! Declarations of plain structs whose struct differs from the declaration.
#![forbid(unsafe_code)]

use atomseq::nonblocking::plain;

plain! {
    #[verify_hostile::adds_a_field]
    struct FieldAdded {
        key: u64,
    }
}

// Seven bytes of padding, where the declaration shows a field.
plain! {
    struct Gap {
        small: u8,
        #[cfg(any())]
        gap: [u8; 7],
        large: u64,
    }
}

/// The same by an attribute that produces attributes.
mod by_cfg_attr {
    use super::plain;

    plain! {
        pub struct Gap {
            pub small: u8,
            #[cfg_attr(all(), cfg(any()))]
            pub gap: [u8; 7],
            pub large: u64,
        }
    }
}

// As large as the declared type, but not a number.
plain! {
    #[verify_hostile::replaces(u64, &'static u64)]
    struct TypeReplaced {
        key: u64,
    }
}

// A union has padding wherever its fields differ.
plain! {
    #[verify_hostile::replaces(struct, union)]
    struct Union {
        key: u64,
    }
}

fn main() {
    let _ = Gap { small: 1, large: 2 };
    let _ = by_cfg_attr::Gap { small: 1, large: 2 };
}
