//! Names that mean something else where the macros are used have no effect.
#![forbid(unsafe_code)]
#![allow(dead_code, unused_macros, non_camel_case_types)]

mod shadowed {
    struct usize;
    struct u64;
    struct Sized;
    struct Option;
    struct FnMut;

    macro_rules! assert {
        ($($anything:tt)*) => {
            compile_error!("the caller's");
        };
    }

    mod core {}
    mod std {}
    mod atomseq {}

    ::atomseq::nonblocking::plain! {
        struct Key {
            key: ::core::primitive::u64,
        }
    }

    ::atomseq::type_stable::descriptor! {
        struct Entry {
            key: ::std::sync::atomic::AtomicU64,
        }
    }

    #[derive(::atomseq::dcas::Covered)]
    struct Shelf {
        word: ::atomseq::dcas::Cell,
    }

    ::atomseq::local::per_thread! {
        static HITS: ::std::sync::atomic::AtomicU64 = ::std::sync::atomic::AtomicU64::new(0);
    }
}

/// Names in the caller's code that the macros' own items might have.
mod same {
    use atomseq::local::{Counter, Ring, per_thread};

    const IMAGE: usize = 64;
    const STORED: usize = 64;
    const STORAGE: usize = 64;
    const VALUE: usize = 64;

    const fn address() -> Counter {
        Counter::new()
    }

    per_thread! {
        static BY_IMAGE: Ring<u8, IMAGE> = Ring::new();
        static BY_STORED: Ring<u8, STORED> = Ring::new();
        static BY_STORAGE: Ring<u8, STORAGE> = Ring::new();
        static BY_VALUE: Ring<u8, VALUE> = Ring::new();
        static BY_ADDRESS: Counter = address();
    }

    pub fn use_all() {
        BY_IMAGE.with(|ring| ring.push(1)).unwrap();
        BY_STORED.with(|ring| ring.push(1)).unwrap();
        BY_STORAGE.with(|ring| ring.push(1)).unwrap();
        BY_VALUE.with(|ring| ring.push(1)).unwrap();
        BY_ADDRESS.with(|counter| counter.increment());
    }
}

/// Tokens of the first edition change nothing in what the macros expand to.
mod edition_2015 {
    mod honest {
        use atomseq::dcas::{Covered, Cell};

        type Held = Cell;

        verify_edition_2015::shelf! { #[derive(Covered)] Shelf }
    }

    pub mod thread {
        use atomseq::local::Counter;

        type Held = Counter;

        verify_edition_2015::per_thread! { HITS = Counter::new() }
    }

    mod sequences {
        const STEP: u16 = 3;

        verify_edition_2015::sequence! { adds }
    }
}

fn main() {
    same::use_all();
    edition_2015::thread::HITS.with(|count| count.increment());
    assert_eq!(edition_2015::thread::HITS.with(|count| count.sum()), 1);
}
