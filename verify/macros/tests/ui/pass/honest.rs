//! Uses that the macros must accept.
#![forbid(unsafe_code)]
#![allow(dead_code, unused_imports)]

use std::sync::atomic::{AtomicU8, AtomicU64};

use atomseq::dcas::{Covered, Cell};
use atomseq::type_stable::{Pool, descriptor};
use atomseq::nonblocking::{List, plain};

plain! {
    /// Documented, derived, allowed.
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[allow(non_snake_case)]
    pub struct Key {
        /// A field.
        #[cfg(all())]
        pub Large: u64,
        small: [u8; 8],
        r#type: std::num::Wrapping<i64>,
        plain: (),
        value: [u16; 4],
    }
}

plain! {
    #[repr(packed)]
    struct Packed {
        small: u8,
        large: u64,
    }
}

#[cfg(any())]
plain! {
    struct Absent {
        small: u8,
        large: u64,
    }
}

descriptor! {
    #[derive(Debug, Default)]
    struct Entry {
        /// Named like an item of the macro's own.
        descriptor: AtomicU64,
        #[cfg(all())]
        value: [AtomicU8; 3],
    }
}

descriptor! {
    struct Nothing {}
}

#[derive(Covered)]
#[repr(C)]
struct Shelf<'a, C, const N: usize>
where
    C: Copy,
{
    field_0: [C; N],
    visit: Cell,
    _name: &'static str,
    _borrowed: std::marker::PhantomData<&'a ()>,
}

atomseq::local::per_thread! {
    /// Documented.
    #[allow(dead_code)]
    pub static HITS: AtomicU64 = AtomicU64::new(0);
    static MORE: [AtomicU8; 2] = [const { AtomicU8::new(0) }; 2];
}

/// The control of types that are smaller at one place: the macro names the type at fewer than four
/// places, so that it is the same at each.
trait Initial {
    const INITIAL: Self;
}

impl Initial for AtomicU64 {
    const INITIAL: AtomicU64 = AtomicU64::new(7);
}

impl Initial for [AtomicU64; 64] {
    const INITIAL: [AtomicU64; 64] = [const { AtomicU64::new(7) }; 64];
}

atomseq::local::per_thread! {
    static WORDS: verify_hostile::smaller_at!(3) = Initial::INITIAL;
}

/// The name `derive` of this module is not the one that the macro uses.
mod adds_a_field {
    use verify_hostile::adds_a_field as derive;

    atomseq::nonblocking::plain! {
        pub struct Named {
            pub key: u64,
        }
    }
}

mod replaces {
    use verify_hostile::replaces as derive;

    atomseq::nonblocking::plain! {
        pub struct Named {
            pub key: u64,
        }
    }
}

fn is_plain<P: atomseq::nonblocking::Plain>() -> usize {
    size_of::<P>()
}

fn main() {
    let list = List::<Key, Packed>::new();
    let key = Key { Large: 1, small: [2; 8], r#type: std::num::Wrapping(-3), plain: (), value: [4; 4] };
    list.insert(key, Packed { small: 1, large: 2 }).unwrap();
    assert!(list.contains(&key));
    let _ = (Pool::<Entry>::new(), Pool::<Nothing>::new());
    WORDS.with(|_| ());
    assert_eq!(is_plain::<adds_a_field::Named>() + is_plain::<replaces::Named>(), 16);
}
