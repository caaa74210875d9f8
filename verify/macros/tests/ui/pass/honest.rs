//! What the macros must go on to take.
#![forbid(unsafe_code)]
#![allow(dead_code)]

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
        /// Named as the macro's own.
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

fn main() {
    let list = List::<Key, Packed>::new();
    let key = Key { Large: 1, small: [2; 8], r#type: std::num::Wrapping(-3), plain: (), value: [4; 4] };
    list.insert(key, Packed { small: 1, large: 2 }).unwrap();
    assert!(list.contains(&key));
    let _ = (Pool::<Entry>::new(), Pool::<Nothing>::new());
}
