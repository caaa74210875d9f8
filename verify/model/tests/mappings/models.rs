//! The models: threads that make and drop structures of one mapping each.

use std::ptr::NonNull;
use std::sync::Arc;

use verify_model::controls::shuttle_thread as thread;

use crate::Library;
use crate::platform::{self, BYTES};

/// The values of `mutations/memory.rs`.
const FIRST_SLOTS: usize = 2;
const TABLE_SLOTS: usize = 2;

/// The model that is tried in every order.
pub const SMALLEST: &str = "two take, of two that are kept";

/// A structure in a mapping: its words are the mapping's address.
struct Thing(NonNull<u8>);

// SAFETY: it owns a mapping.
unsafe impl Send for Thing {}

struct Memory<L: Library>(L::Kept);

impl<L: Library> Memory<L> {
    /// Returns the memory of a system that discards contents, or does not. It takes no mapping back
    /// at first.
    fn new(discards: bool) -> Arc<Memory<L>> {
        platform::restart(discards);
        Arc::new(Memory(L::kept()))
    }

    /// Makes this number at one time, and drops them.
    fn keep(self: &Arc<Self>, count: usize) {
        let all: Vec<_> = (0..count).map(|_| self.make()).collect();
        all.into_iter().for_each(|thing| self.free(thing));
    }

    fn make(&self) -> Thing {
        platform::need();
        let start = L::map(&self.0);
        platform::used(start, true);
        let words = start.cast::<usize>();
        for index in 0..BYTES / size_of::<usize>() {
            // SAFETY: within the mapping, which is this thread's.
            unsafe {
                assert_eq!(words.add(index).read(), 0, "it is not zeroed");
                words.add(index).write(start.addr().get());
            }
        }
        Thing(start)
    }

    fn free(&self, thing: Thing) {
        let start = thing.0;
        let words = start.cast::<usize>();
        for index in 0..BYTES / size_of::<usize>() {
            // SAFETY: within the mapping, which is this thread's.
            let word = unsafe { words.add(index).read() };
            assert_eq!(word, start.addr().get(), "another thread wrote to it");
        }
        platform::used(start, false);
        // SAFETY: no longer used.
        unsafe { L::unmap(&self.0, start) };
        platform::need_no_more();
    }

    fn beside(
        self: &Arc<Self>,
        work: impl FnOnce(&Memory<L>) + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let memory = Arc::clone(self);
        thread::spawn(move || work(&memory))
    }

    /// Makes and drops this many times.
    fn make_and_drop(&self, times: usize) {
        for _ in 0..times {
            let thing = self.make();
            self.free(thing);
        }
    }

    /// Asserts that no more was mapped than was needed at one time, plus tables; and that all
    /// mappings except these are found.
    fn assert_all_found(&self) {
        let (mapped, needed) = platform::mapped_and_needed();
        let found = std::iter::from_fn(|| L::take(&self.0)).count();
        let most_tables = (needed.saturating_sub(FIRST_SLOTS)).div_ceil(TABLE_SLOTS);
        assert!(
            found <= needed,
            "{found} were mapped where {needed} were needed"
        );
        let tables = mapped - found;
        assert!(tables <= most_tables, "{tables} tables, or lost");
    }
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("it does not panic");
    }
}

/// Returns all models by name.
pub fn all<L: Library>() -> [(&'static str, fn()); 9] {
    [
        (SMALLEST, || {
            let memory = Memory::<L>::new(true);
            memory.keep(2);
            let other = memory.beside(|memory| _ = memory.make());
            memory.make();
            join([other]);
            assert_eq!(platform::mapped_and_needed(), (2, 2));
        }),
        ("three make and drop, of three that are kept", || {
            let memory = Memory::<L>::new(true);
            // One of them becomes a table.
            memory.keep(4);
            let others = [(); 2].map(|()| memory.beside(|memory| memory.make_and_drop(3)));
            memory.make_and_drop(3);
            join(others);
            let (mapped, _) = platform::mapped_and_needed();
            assert_eq!(mapped, 4, "what is kept was not found");
            memory.assert_all_found();
        }),
        ("four make and drop, of none", || {
            let memory = Memory::<L>::new(true);
            let others = [(); 3].map(|()| memory.beside(|memory| memory.make_and_drop(2)));
            memory.make_and_drop(2);
            join(others);
            memory.assert_all_found();
        }),
        (
            "three hold two at a time, and memory is not discarded",
            || {
                let memory = Memory::<L>::new(false);
                let holds_two = |memory: &Memory<L>| {
                    for _ in 0..2 {
                        let things = [(); 2].map(|()| memory.make());
                        things.into_iter().for_each(|thing| memory.free(thing));
                    }
                };
                let others = [(); 2].map(|()| memory.beside(holds_two));
                holds_two(&memory);
                join(others);
                memory.assert_all_found();
            },
        ),
        (
            "five drop at the same time, where a table is needed",
            || {
                let memory = Memory::<L>::new(true);
                let things = [(); 5].map(|()| memory.make());
                let others = things.map(|thing| {
                    memory.beside(move |memory| {
                        memory.free(thing);
                        memory.make_and_drop(1);
                    })
                });
                join(others);
                memory.assert_all_found();
            },
        ),
        ("the system takes back, while three make and drop", || {
            let memory = Memory::<L>::new(true);
            let others = [2, 3].map(|times| {
                memory.beside(move |memory| {
                    memory.make_and_drop(times);
                })
            });
            memory.make_and_drop(1);
            platform::take_all();
            memory.make_and_drop(2);
            join(others);
            memory.assert_all_found();
        }),
        ("the system takes every other one back", || {
            let memory = Memory::<L>::new(true);
            memory.keep(2);
            platform::take_every_other();
            let other = memory.beside(|memory| memory.make_and_drop(3));
            memory.make_and_drop(3);
            join([other]);
            memory.assert_all_found();
        }),
        ("two hold seven at a time, in turn and together", || {
            let memory = Memory::<L>::new(true);
            memory.keep(8);
            memory.keep(6);
            let other = memory.beside(|memory| {
                let things = [(); 3].map(|()| memory.make());
                things.into_iter().for_each(|thing| memory.free(thing));
            });
            memory.keep(4);
            join([other]);
            memory.assert_all_found();
        }),
        ("two look while a table is made", || {
            let memory = Memory::<L>::new(true);
            let mut things: Vec<_> = (0..5).map(|_| memory.make()).collect();
            things.drain(..2).for_each(|thing| memory.free(thing));
            let others = [(); 2].map(|()| memory.beside(|memory| _ = memory.make()));
            // One becomes a table, and holds the others.
            things.into_iter().for_each(|thing| memory.free(thing));
            let _both = [(); 2].map(|()| memory.make());
            join(others);
            let (mapped, needed) = platform::mapped_and_needed();
            assert!(mapped <= needed + 1, "{mapped} where {needed} were needed");
        }),
    ]
}
