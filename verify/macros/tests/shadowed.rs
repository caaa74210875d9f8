//! A crate that is called `core` and `std`, and contains nothing of either: the expansions of
//! atomseq's macros take nothing from it.
//!
//! On the portable build as well, where the same macros expand to something else.

extern crate self as core;
extern crate self as std;

/// The macros' callers, which define an `asm!` of their own as well.
#[forbid(unsafe_code)]
mod safe {
    use atomseq::dcas::{Cell, Covered};
    use atomseq::local::{Counter, per_thread};

    #[allow(unused_macros)]
    macro_rules! refuse {
        ($($anything:tt)*) => {
            compile_error!("the caller's")
        };
    }
    #[allow(unused_imports)]
    use {refuse as asm, refuse as assert, refuse as concat, refuse as thread_local};

    per_thread! {
        pub static COUNT: Counter = Counter::new();
    }

    atomseq::nonblocking::plain! {
        #[derive(PartialEq, Eq, PartialOrd, Ord)]
        pub struct Key {
            pub large: u64,
            pub small: [u8; 8],
        }
    }

    atomseq::type_stable::descriptor! {
        pub struct Nothing {}
    }

    #[derive(Covered)]
    pub struct Shelf {
        pub word: Cell,
    }
}

const STEP: usize = 3;

atomseq::sequence! {
    unsafe fn adds_to_slot(slot: Slot, amount: Word) -> Option<Word> {
        let old = load_acquire(slot + 8);
        if old == STEP { return None }
        commit(slot + 8, min(old, 7) + amount);
        Some(old)
    }
    unsafe fn claims(slot: Slot, lock: Word) -> Word {
        'abort: { return STEP }
        let found = cas(lock, 0, 1);
        if found != 0 { return found }
        commit(slot + 8, 1);
        STEP
    }
    unsafe fn adds(at: Word) -> Option<Word> {
        let old = load(at);
        if old == STEP { return None }
        commit(at, old + STEP);
        Some(old)
    }
}

#[test]
fn expansions_take_nothing_from_the_crate_that_is_called_core() {
    safe::COUNT.with(|count| count.increment());
    assert_eq!(safe::COUNT.with(|count| count.sum()), 1);

    let list = atomseq::nonblocking::List::<safe::Key, u64>::new();
    let key = safe::Key {
        large: 1,
        small: [2; 8],
    };
    assert!(list.try_insert(key, 3).is_ok() && list.contains(&key));
    drop(atomseq::type_stable::Pool::<safe::Nothing>::new());

    let shelf = atomseq::dcas::Domain::new(safe::Shelf {
        word: atomseq::dcas::Cell::new(7),
    });
    assert_eq!(shelf.load(&shelf.word), 7);

    let mut word = 0_usize;
    let at = (&raw mut word).expose_provenance();
    // SAFETY: the word belongs to this thread, which has no handlers.
    let found = unsafe { [adds::restarting(at), adds::rolling(at)] };
    assert_eq!(found, [Some(0), None]);
    let names = [
        adds_to_slot::MODEL.name,
        claims::MODEL.name,
        adds::MODEL.name,
    ];
    assert_eq!(names, ["adds_to_slot", "claims", "adds"]);
}
