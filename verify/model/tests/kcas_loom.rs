//! k-CAS under a weak memory model: loom tries every value that a load may return. The models are
//! small: two threads and two words; `tests/kcas` has larger ones. Runs the library's own sources,
//! and each ordering that is weakened in them (`mutations/`) must be detected.
//!
//! Loom treats sequentially consistent loads as acquiring ones; here they consist of a fence and a
//! load.

/// The modules on which the library's sources are built.
mod sync {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicUsize, Ordering, fence};

    /// How often a thread looks again before it helps.
    pub const SPINS: usize = 0;

    #[derive(Debug)]
    pub struct AtomicU64(loom::sync::atomic::AtomicU64);

    impl AtomicU64 {
        pub fn new(value: u64) -> AtomicU64 {
            AtomicU64(loom::sync::atomic::AtomicU64::new(value))
        }

        pub fn load(&self, order: Ordering) -> u64 {
            if order == Ordering::SeqCst {
                fence(Ordering::SeqCst);
                return self.0.load(Ordering::Acquire);
            }
            self.0.load(order)
        }

        pub fn store(&self, value: u64, order: Ordering) {
            self.0.store(value, order);
        }

        pub fn compare_exchange(
            &self,
            from: u64,
            to: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            self.0.compare_exchange(from, to, success, failure)
        }
    }
}

mod platform {
    use std::cell::RefCell;
    use std::sync::Arc;

    use loom::sync::atomic::{AtomicU64, Ordering};

    pub const NAME_BITS: u32 = 52;

    thread_local! {
        /// The exited thread, as the kernel reports it. All threads of a model run on one
        /// operating-system thread.
        static ENDED: RefCell<Option<Arc<AtomicU64>>> = const { RefCell::new(None) };
    }

    /// Begins an execution in which no thread has exited.
    pub fn anew() {
        ENDED.set(Some(Arc::new(AtomicU64::new(0))));
    }

    fn ended() -> Arc<AtomicU64> {
        ENDED.with_borrow(|ended| ended.clone().expect("an execution has begun"))
    }

    /// Marks a thread as exited; its last action.
    pub fn end(name: u64) {
        ended().store(name, Ordering::Release);
    }

    /// Starts a new thread with the number of the exited one.
    pub fn reuse_number() {
        ended().store(0, Ordering::Release);
    }

    pub fn has_ended(name: u64) -> bool {
        ended().load(Ordering::Acquire) == name
    }
}

use std::sync::Arc;

use loom::cell::UnsafeCell;
use verify_model::controls::loom_thread as thread;

use sync::AtomicU64;
use verify_model::controls;
use verify_model::controls::Attempt;
use verify_model::controls::Executions;
use verify_support::number_from_env;

/// k-CAS, unchanged or weakened.
trait Library: 'static {
    /// Begins an execution with this number of descriptors.
    fn anew(descriptors: usize);

    fn begin(version: &AtomicU64) -> u64;

    fn is_still(version: &AtomicU64, number: u64) -> bool;

    fn load(word: &AtomicU64) -> u64;

    fn load_acquire(word: &AtomicU64) -> u64;

    /// Exchanges both words: each word, its expected value at this version, its new value.
    fn exchange(version: &AtomicU64, number: u64, parts: [(&AtomicU64, u64, u64); 2]) -> bool;

    /// Stores both words: each word and its new value.
    fn store_pair_if(version: &AtomicU64, number: u64, words: [(&AtomicU64, u64); 2]) -> bool;

    type Owner: Owner;
}

/// The owner of a block.
trait Owner: Send + Sync + 'static {
    fn anew() -> Self;
    fn is(&self, word: u64) -> bool;
    fn claim(&self, me: u64) -> Option<u64>;
    fn release(&self, word: u64);
    /// Makes the block a shared one; returns the previous owner.
    fn share(&self) -> Option<u64>;
}

macro_rules! library {
    () => {
        pub struct This;

        impl crate::Library for This {
            fn anew(count: usize) {
                blocks::anew(count);
            }

            fn begin(version: &crate::sync::AtomicU64) -> u64 {
                kcas::begin(version)
            }

            fn is_still(version: &crate::sync::AtomicU64, number: u64) -> bool {
                kcas::is_still(version, number)
            }

            fn load(word: &crate::sync::AtomicU64) -> u64 {
                kcas::load(word)
            }

            fn load_acquire(word: &crate::sync::AtomicU64) -> u64 {
                kcas::load_acquire(word)
            }

            fn exchange(
                version: &crate::sync::AtomicU64,
                number: u64,
                parts: [(&crate::sync::AtomicU64, u64, u64); 2],
            ) -> bool {
                let parts = parts.map(|(word, old, new)| part::Part { word, old, new });
                // SAFETY: a model's words live as long as its threads, and change in no other way.
                unsafe { kcas::exchange(version, number, &parts) }
            }

            fn store_pair_if(
                version: &crate::sync::AtomicU64,
                number: u64,
                words: [(&crate::sync::AtomicU64, u64); 2],
            ) -> bool {
                // SAFETY: a model's words live as long as its threads, and change in no other way.
                unsafe { kcas::store_pair_if(version, number, words) }
            }

            type Owner = Owner;
        }

        pub struct Owner(owner::Owner);

        impl crate::Owner for Owner {
            fn anew() -> Self {
                Owner(owner::Owner::new())
            }

            fn is(&self, word: u64) -> bool {
                self.0.is(word)
            }

            fn claim(&self, me: u64) -> Option<u64> {
                self.0.claim(me)
            }

            fn release(&self, word: u64) {
                self.0.release(word);
            }

            fn share(&self) -> Option<u64> {
                self.0.reserve(owner::SHARED).then_some(owner::SHARED)
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/kcas_loom.rs"));

/// Returns all models by name.
fn all<L: Library>() -> [(&'static str, fn()); 9] {
    [
        ("a block whose owner releases it", claims::<L, false>),
        ("a block whose owner exits", claims::<L, true>),
        (
            "a block that is shared when its owner has exited",
            shared::<L>,
        ),
        ("a number that is had again", again::<L>),
        ("a number that the version reaches later", later::<L>),
        ("a reader of what changes often", reuse::<L>),
        ("a reader of what a value stands for", used::<L>),
        ("a reader of both words", read::<L>),
        ("two that change both words", change::<L>),
    ]
}

/// Two words, and the version that covers them.
struct Words {
    version: AtomicU64,
    words: [AtomicU64; 2],
}

impl Words {
    fn new() -> Arc<Words> {
        Arc::new(Words {
            version: AtomicU64::new(1),
            words: [0, 0].map(AtomicU64::new),
        })
    }

    /// Returns the values of one time, and the version of that time. The first word alternates, the
    /// second one counts how often.
    fn snapshot<L: Library>(&self) -> ([u64; 2], u64) {
        loop {
            let number = L::begin(&self.version);
            let values = [0, 1].map(|word: usize| L::load(&self.words[word]));
            if L::is_still(&self.version, number) {
                assert_eq!(values, [(number - 1) % 2, number - 1]);
                return (values, number);
            }
        }
    }

    /// Changes both words.
    fn change<L: Library>(&self) {
        loop {
            let ([side, count], number) = self.snapshot::<L>();
            let [first, second] = &self.words;
            let parts = [(first, side, 1 - side), (second, count, count + 1)];
            if L::exchange(&self.version, number, parts) {
                return;
            }
        }
    }
}

/// Two threads change both words.
fn change<L: Library>() {
    L::anew(2);
    let words = Words::new();
    let other = {
        let words = words.clone();
        thread::spawn(move || words.change::<L>())
    };
    words.change::<L>();
    other.join().unwrap();
    assert_eq!(words.snapshot::<L>().1, 3);
}

/// A reader loads both words while they change.
fn read<L: Library>() {
    L::anew(2);
    let words = Words::new();
    let reader = {
        let words = words.clone();
        thread::spawn(move || assert!(words.snapshot::<L>().1 <= 2))
    };
    words.change::<L>();
    reader.join().unwrap();
}

/// While both words change, a thread stores them at the version after that, which it knows from
/// elsewhere.
fn later<L: Library>() {
    L::anew(2);
    let words = Words::new();
    let other = {
        let words = words.clone();
        thread::spawn(move || {
            let [first, second] = &words.words;
            L::store_pair_if(&words.version, 2, [(first, 0), (second, 2)])
        })
    };
    words.change::<L>();
    let number = 2 + u64::from(other.join().unwrap());
    assert_eq!(words.snapshot::<L>().1, number);
}

/// While one word grows, each time by the same descriptor, a reader loads it without regard to the
/// version.
fn reuse<L: Library>() {
    L::anew(1);
    let words = Words::new();
    let reader = {
        let words = words.clone();
        thread::spawn(move || {
            let [first, second] = [0, 1].map(|_| L::load(&words.words[1]));
            assert!(first <= second && second <= 2, "{first}, {second}");
        })
    };
    for count in 0..2 {
        let [other, word] = &words.words;
        let parts = [(other, 0, 0), (word, count, count + 1)];
        assert!(L::exchange(&words.version, 1 + count, parts));
    }
    reader.join().unwrap();
}

/// Data that a thread writes before it stores a value. Reading it is a race unless the reader
/// acquires the value.
struct Data(UnsafeCell<u32>);

// SAFETY: loom panics where two threads touch the data at once.
unsafe impl Sync for Data {}
// SAFETY: loom panics where two threads touch the data at once.
unsafe impl Send for Data {}

/// A reader finds a value, without regard to the version, and uses the data that it stands for.
fn used<L: Library>() {
    L::anew(1);
    let words = Words::new();
    let data = Arc::new(Data(UnsafeCell::new(0)));
    let reader = {
        let (words, data) = (words.clone(), data.clone());
        thread::spawn(move || {
            if L::load_acquire(&words.words[1]) == 1 {
                // SAFETY: loom panics if another thread may be writing.
                assert_eq!(data.0.with(|data| unsafe { *data }), 7);
            }
        })
    };
    // SAFETY: loom panics if another thread may be reading.
    data.0.with_mut(|data| unsafe { *data = 7 });
    words.change::<L>();
    reader.join().unwrap();
}

/// A block, and how often a thread was its owner. Counting is a race unless the thread that
/// counted last has left.
struct Owned<L: Library> {
    owner: L::Owner,
    count: UnsafeCell<u32>,
}

// SAFETY: loom panics where two threads touch the count at once.
unsafe impl<L: Library> Sync for Owned<L> {}
// SAFETY: loom panics where two threads touch the count at once.
unsafe impl<L: Library> Send for Owned<L> {}

impl<L: Library> Owned<L> {
    fn build() -> Arc<Owned<L>> {
        platform::anew();
        let (owner, count) = (L::Owner::anew(), UnsafeCell::new(0));
        Arc::new(Owned { owner, count })
    }

    /// Uses the block once as its owner, if the thread still is; returns how often that has
    /// happened.
    fn stay(&self, word: u64) -> u32 {
        let is_owner = self.owner.is(word);
        if is_owner {
            // SAFETY: loom panics if another thread may be reading or writing.
            self.count.with_mut(|count| unsafe { *count += 1 });
        }
        u32::from(is_owner)
    }

    fn counted(&self, done: u32) {
        // SAFETY: the other threads have exited.
        assert_eq!(self.count.with(|count| unsafe { *count }), done);
    }
}

/// A block's owner releases it; two other threads want the block.
fn claims<L: Library, const ENDS: bool>() {
    let block = Owned::<L>::build();
    let stay = |block: &Owned<L>, me: u64, word: u64| {
        let done = block.stay(word);
        match ENDS {
            true => platform::end(me),
            false => block.owner.release(word),
        }
        done
    };
    let word = block.owner.claim(1 << 30).unwrap();
    let others = [2 << 30, 3 << 30].map(|me| {
        let block = block.clone();
        thread::spawn(move || {
            let moved = block.owner.claim(me).or_else(|| block.owner.claim(me));
            moved.map_or(0, |word| stay(&block, me, word))
        })
    });
    let mut done = stay(&block, 1 << 30, word);
    for other in others {
        done += other.join().unwrap();
    }
    block.counted(done);
}

/// A block's owner exits; another thread wants the block, and a third one wants it to be
/// shared.
fn shared<L: Library>() {
    let block = Owned::<L>::build();
    let word = block.owner.claim(1 << 30).unwrap();
    let other = {
        let block = block.clone();
        thread::spawn(move || {
            let moved = block.owner.claim(2 << 30);
            moved.map_or(0, |word| block.stay(word))
        })
    };
    let sharer = {
        let block = block.clone();
        thread::spawn(move || {
            let shared = block.owner.share();
            shared.map_or(0, |word| block.stay(word))
        })
    };
    let mut done = block.stay(word);
    platform::end(1 << 30);
    done += other.join().unwrap();
    done += sharer.join().unwrap();
    block.counted(done);
}

/// A block's owner exits; another thread wants the block, and so does a new thread that has
/// the first one's number.
fn again<L: Library>() {
    let block = Owned::<L>::build();
    let word = block.owner.claim(1 << 30).unwrap();
    let other = {
        let block = block.clone();
        thread::spawn(move || {
            let moved = block.owner.claim(2 << 30);
            moved.map_or(0, |word| block.stay(word))
        })
    };
    let mut done = block.stay(word);
    platform::end(1 << 30);
    platform::reuse_number();
    let moved = block.owner.claim(1 << 30);
    done += moved.map_or(0, |word| block.stay(word));
    done += other.join().unwrap();
    block.counted(done);
}

/// Returns executions with this number of preemptions.
fn with(preemptions: usize) -> Executions {
    Executions {
        preemptions: Some(preemptions),
    }
}

#[test]
fn no_order_and_no_stale_value_does_harm() {
    // The environment variable allows more, after changes to k-CAS.
    let max = number_from_env("ATOMSEQ_KCAS_PREEMPTIONS", 1);
    for (name, model) in all::<as_it_is::This>() {
        let runs = controls::holds("loom: k-CAS", (name, with(max), model));
        assert!(runs >= 10, "{name}: hardly anything was tried");
    }
}

fn attempts<L: Library>() -> impl Iterator<Item = Attempt<Executions>> {
    // With two preemptions, two threads that both change words have too many orders.
    let models = [(1, 8), (2, 7)].map(|(max, models)| {
        let some = all::<L>().into_iter().take(models);
        some.map(move |(name, model)| (name, with(max), model))
    });
    models.into_iter().flatten()
}
