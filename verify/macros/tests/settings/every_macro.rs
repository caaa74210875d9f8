//! Every exported macro in every place where it may stand, written with names that no setting
//! shadows: the crate `library` is atomseq, and `language` is `core`. `tests/settings.rs` compiles
//! this in crates of all editions.

#[allow(unused_imports)]
use crate::setting::*;

use crate::{language, library};

type Number = language::primitive::u64;

const STEP: language::primitive::u16 = 3;

fn check(holds: language::primitive::bool) {
    if !holds {
        language::panic!("an expansion does something else in this crate");
    }
}

library::sequence! {
    /// Returns in every way, and has named constants.
    pub(crate) unsafe fn takes(slot: Slot, amount: Word) -> Option<(Word, Word)> {
        let old = load_acquire(slot + 8);
        if old == 70000000000 { return None }
        if old < 1 { return Some((old, 0)) }
        prepare32(slot + 16, old ^ 1);
        prepare_copy(slot + 24, slot + 40, 2);
        commit(slot + 8, min(old, 700) - amount * (1 << STEP) + (old >> 1) + STEP);
        Some((old, STEP))
    }

    /// Is attempted once.
    unsafe fn claims(slot: Slot, lock: Word) -> Word {
        'abort: { return STEP }
        let found = cas(lock, 0, 1);
        if found != 0 { return found }
        if load(slot + 8) == 5 { commit_release(lock, 0); return 7 }
        store(slot + 16, 1);
        commit_release(lock, 0);
        STEP
    }

    /// Reads its CPU.
    unsafe fn asks(word: Word) -> bool {
        if cpu() > 100000 { return false }
        commit(word, 1);
        true
    }
}

/// The names are the caller's, and the words are the macro's.
macro_rules! wrapped {
    ($name:ident, $step:ident, $visibility:vis) => {
        crate::library::sequence! {
            $visibility unsafe fn $name(at: Word) -> Word {
                let old = load(at);
                commit(at, old + ($step << 1));
                old
            }
        }
    };
}

wrapped!(adds, STEP, pub(crate));

/// The same in a module of its own.
pub(crate) mod inner {
    #[allow(unused_imports)]
    use crate::setting::*;

    const STEP: crate::language::primitive::u8 = 1;

    wrapped!(adds, STEP, pub(in crate::every_macro));

    /// Passes its argument as the name of a struct that another macro declares.
    macro_rules! struct_of_words {
        ($name:ident) => {
            #[derive(crate::library::dcas::Covered)]
            #[allow(dead_code)]
            pub(crate) struct $name<'a, C, const N: crate::language::primitive::usize>
            where
                C: crate::language::marker::Send,
            {
                pub(crate) word: crate::library::dcas::Cell,
                pub(crate) more: [C; N],
                pub(crate) held: crate::language::marker::PhantomData<&'a ()>,
            }
        };
    }

    struct_of_words!(Shelf);
}

#[derive(library::dcas::Covered)]
struct Pair(library::dcas::Cell, library::dcas::Cell);

library::nonblocking::plain! {
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) struct Key {
        pub(crate) plain: Number,
        small: [language::primitive::u8; 8],
    }
}

library::type_stable::descriptor! {
    pub(crate) struct Entry {
        pub(crate) descriptor: language::sync::atomic::AtomicU64,
        pub(crate) value: language::sync::atomic::AtomicU64,
    }
}

library::local::per_thread! {
    /// Documented.
    pub(crate) static COUNT: library::local::Counter = library::local::Counter::new();
    static RING: library::local::Ring<Number, 8> = library::local::Ring::new();
}

fn per_thread() {
    library::local::PerThread::with(&COUNT, |count| library::local::Counter::increment(count));
    let sum = library::local::PerThread::with(&COUNT, |count| library::local::Counter::sum(count));
    check(sum == 1);
    library::local::PerThread::with(&RING, |ring| {
        check(matches(library::local::Ring::push(ring, 5)));
    });
}

fn matches<T, E>(result: language::result::Result<T, E>) -> language::primitive::bool {
    language::result::Result::is_ok(&result)
}

/// Macros in the body of a function whose type parameter is not visible to them.
fn generic<T: language::marker::Copy>(own: T) -> T {
    library::local::per_thread! {
        static HERE: library::local::Counter = library::local::Counter::new();
    }
    library::nonblocking::plain! {
        struct Local {
            value: Number,
        }
    }
    library::type_stable::descriptor! {
        struct Nothing {}
    }
    library::sequence! {
        unsafe fn stores(at: Word, word: Word) { store(at, word); store32(at + 8, word); }
    }
    #[derive(library::dcas::Covered)]
    struct Unit;

    library::local::PerThread::with(&HERE, |count| library::local::Counter::increment(count));
    let sum = library::local::PerThread::with(&HERE, |count| library::local::Counter::sum(count));
    check(sum == 1);
    let local = Local { value: 7 };
    check(local.value == 7);
    drop_pool(library::type_stable::Pool::<Nothing>::new());
    let mut words = [0; 2];
    let at = exposed(&mut words);
    // SAFETY: the words belong to this thread, and it has no handlers.
    unsafe { stores::rolling(at, 9) };
    check(words[0] == 9 && words[1] == 9);
    drop_shelf(library::dcas::Domain::new(Unit));
    own
}

fn drop_pool<D: library::type_stable::Descriptor>(_: library::type_stable::Pool<D>) {}

fn drop_shelf<C: library::dcas::Covered>(_: library::dcas::Domain<C>) {}

fn exposed(words: &mut [language::primitive::usize]) -> language::primitive::usize {
    words as *mut [language::primitive::usize] as *mut () as language::primitive::usize
}

fn sequences() {
    let mut words = [4, 5];
    let at = exposed(&mut words);
    // SAFETY: as in `generic`.
    let found = unsafe { (adds::restarting(at), adds::rolling(at), inner::adds::rolling(at)) };
    check(found.0 == 4 && found.1 == 10 && found.2 == 16);
    check(words[0] == 18);

    let area = match library::percpu::Area::try_new(64) {
        language::result::Result::Ok(area) => area,
        language::result::Result::Err(_) => language::panic!("a few pages"),
    };
    let mut lock = [0];
    let lock = exposed(&mut lock);
    // SAFETY: they access words of the slot, and a lock that only this thread uses.
    let claimed = unsafe { claims::on_cpu(library::percpu::Area::slots(&area), lock) };
    if let language::result::Result::Ok(claimed) = claimed {
        check(claimed == 3);
    }
    // SAFETY: it accesses words of the slot, and a lock that only this thread uses.
    let taken = unsafe { takes::on_cpu(library::percpu::Area::slots(&area), 2) };
    if let language::result::Result::Ok(taken) = taken {
        check(language::option::Option::is_some(&taken));
    }
    let mut word = [0];
    // SAFETY: the word belongs to this thread.
    let asked = unsafe { asks::on_cpu(exposed(&mut word)) };
    check(!matches(asked) || word[0] == 1);

    let held = library::percpu::Area::close_gate(&area, 0);
    let at = library::percpu::GateGuard::address(&held);
    let mut lock = [0];
    // SAFETY: the gate is held, and the first word lies behind it.
    let taken = unsafe {
        (at as *mut language::primitive::usize).add(1).write(100);
        check(claims::gated(&held, exposed(&mut lock)) == 3);
        takes::gated(&held, 2)
    };
    match taken {
        language::option::Option::Some((old, step)) => check(old == 100 && step == 3),
        language::option::Option::None => check(false),
    }
    check(takes::MODEL.steps.len() > 8 && claims::MODEL.abort.is_some());
}

fn structures() {
    let list = library::nonblocking::List::<Key, Number>::new();
    let key = Key {
        plain: 1,
        small: [2; 8],
    };
    check(matches(library::nonblocking::List::insert(&list, key, 3)));
    drop_pool(library::type_stable::Pool::<Entry>::new());
    let pair = library::dcas::Domain::new(Pair(
        library::dcas::Cell::new(7),
        library::dcas::Cell::new(8),
    ));
    check(library::dcas::Domain::load(&pair, &pair.1) == 8);
    drop_shelf(library::dcas::Domain::new(inner::Shelf {
        word: library::dcas::Cell::new(7),
        more: [library::dcas::Cell::new(7), library::dcas::Cell::new(8)],
        held: language::marker::PhantomData,
    }));
}

pub(crate) fn all() {
    per_thread();
    check(generic(3) == 3);
    sequences();
    structures();
}
