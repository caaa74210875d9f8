//! Names that mean something else where the macros are used do no harm.
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

    ::atomseq::memory::descriptor! {
        struct Entry {
            key: ::std::sync::atomic::AtomicU64,
        }
    }

    #[derive(::atomseq::dcas::Covered)]
    struct Shelf {
        word: ::atomseq::dcas::Word,
    }

    ::atomseq::local::per_thread! {
        static HITS: ::std::sync::atomic::AtomicU64 = ::std::sync::atomic::AtomicU64::new(0);
    }
}

fn main() {}
