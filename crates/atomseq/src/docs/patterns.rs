//! A guide: builds a per-CPU structure from nothing with [`sequence!`](crate::sequence!).
//!
//! The structure is a cache of page numbers, such as an allocator keeps: a thread takes a page that
//! was released on its CPU, most likely still in that CPU's cache, and pays no atomic instruction
//! for it. If that CPU has none, the thread takes a new page; other CPUs can collect unused pages.
//!
//! The code below is compiled and run as it stands.
//!
//! # 1. Choose the commit word
//!
//! A sequence may be interrupted anywhere and then restarts from its beginning. So it has exactly
//! one visible store: its last instruction, the **commit** (B91 2.4). Designing a per-CPU structure
//! is finding a layout in which every operation changes one word.
//!
//! Pages in a list can do that: an array holds, for each page, the number of the next one in its
//! list, and the slot of a CPU holds the first. Taking and releasing change only the slot's word.
//! But other CPUs should see how many pages a CPU holds, and a list and its length are two words.
//! There are four ways to avoid the second word:
//!
//! * **Derive** the second from the first. [`Stack`](crate::percpu::Stack) has a length because its
//!   one word is an address in an array.
//! * **Pack** both into one word. This guide does that: page numbers have sixteen bits, and the
//!   count lies above them.
//! * **Point**: prepare a record in memory that no other thread reads, and commit its address.
//! * **Publish less**: keep two words that one operation never changes together, as head and tail
//!   of [`Ring`](crate::percpu::Ring).
//!
//! # 2. Write the sequences
//!
//! ```
#![doc = include_str!("patterns/sequences.rs")]
//! ```
//!
//! `links` is the address of the array. A page that is being released belongs to the caller, so no
//! other thread reads its link: that store is a `prepare`. A restart may repeat it, or no commit
//! may follow it; either way no other thread has seen it.
//!
//! `take` needs no tag against the ABA problem. If another thread took a page on this CPU between
//! the load of `head` and the commit, this thread was interrupted, and its sequence restarts.
//!
//! Each function became a type with the forms `on_cpu`, `gated` and
//! [`MODEL`](crate::sequence::model). `take_all` reaches nothing but a word of its slot: it is a
//! [plain `fn`](crate::sequence!#plain-functions), whose forms are safe. The others are `unsafe`;
//! their caller must ensure:
//!
//! * Every address that any step reaches is valid for that access, also in an attempt that will be
//!   restarted.
//! * No other thread reads a prepared word before the commit.
//! * Other CPUs read only the committed word, and only as a value. To follow it as a pointer from
//!   outside the gate, commit with `commit_release`, and keep the memory alive for the reader.
//!
//! # 3. Fast path and slow path
//!
//! An [`Area`](crate::percpu::Area) is the memory: one zeroed slot a CPU. `on_cpu` works on the
//! slot of the CPU that the thread is on, and returns `Err(Closed)` if it changed nothing: because
//! the slot's gate is closed, because this thread cannot run sections, or because it was
//! interrupted too often in a row. Then [`on_slow_path`](crate::percpu::Area::on_slow_path) closes
//! the gate of this CPU, and `gated` runs the same steps.
//!
//! ```
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/docs/patterns/sequences.rs"));
#![doc = include_str!("patterns/pages.rs")]
//!
//! fn main() {
//!     let pages = Pages::<1000>::try_new().unwrap();
//!     let first = pages.take().unwrap();
//!     let second = pages.take().unwrap();
//!     assert_ne!(first, second);
//!     pages.release(first);
//! }
//! ```
//!
//! Note what `take` does not do: it does not ask whether the fast path works, and it does not pin
//! the thread. On a system without rseq, every `on_cpu` is `Err(Closed)` and the same program runs
//! on locks.
//!
//! Three rules for the closure under the gate. It runs with all signals blocked while other threads
//! may wait, so it does the steps and nothing else: here, even `take_new` comes after it. It closes
//! no second gate and does not fork ([why](super::limitations#hold-one-gate-at-a-time)). And it
//! touches no memory that a handler of `SIGSEGV` opens: if callers pass addresses in, copy from
//! there before the closure, and to there after it.
//!
//! # 4. Other CPUs
//!
//! A thread on another CPU may look at a committed word with [`peek`](crate::percpu::Area::peek).
//! To change anything it closes the gate with [`close_gate`](crate::percpu::Area::close_gate):
//! sequences on that CPU that are in progress are restarted and find the gate closed, and later
//! ones find it closed at once. A plain atomic instruction on a sequence's word is never a
//! substitute: a sequence that has loaded the word already would overwrite what the instruction
//! wrote.
//!
//! ```
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/docs/patterns/sequences.rs"));
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/docs/patterns/pages.rs"));
#![doc = include_str!("patterns/remote.rs")]
//!
//! fn main() {
//!     let pages = Pages::<1000>::try_new().unwrap();
//!     let taken: Vec<_> = std::iter::from_fn(|| pages.take()).collect();
//!     assert_eq!(taken.len(), 999);
//!     taken.into_iter().for_each(|page| pages.release(page));
//!
//!     let mut collected = 0;
//!     for cpu in 0..atomseq::status().features().cpus {
//!         pages.reclaim(cpu, |_page| collected += 1);
//!         assert_eq!(pages.free_on(cpu), 0);
//!     }
//!     assert_eq!(collected, 999);
//! }
//! ```
//!
//! `take_all` removes the whole list with one store, so the gate is closed for the same short time,
//! however long the list is. `reclaim` follows the links after the gate is open again: by then the
//! pages are its own.
//!
//! # 5. What the compiler refuses
//!
//! Two words changed at once: a restart between the two stores would repeat the first.
//!
//! ```compile_fail
//! # use atomseq::percpu::Area;
//! # const HEAD: usize = Area::FIRST_WORD;
//! # const COUNT: usize = Area::FIRST_WORD + 8;
//! atomseq::sequence! {
//!     unsafe fn release(slot: Slot, links: Word, page: Word) {
//!         let count = load(slot + COUNT);
//!         prepare(links + (page << 3), load(slot + HEAD));
//!         commit(slot + COUNT, count + 1);
//!         commit(slot + HEAD, page);
//!     }
//! }
//! ```
//!
//! ```text
//! error: a second commit: a restart between the two would repeat the first; use `prepare` for all
//! but the last
//! ```
//!
//! The address of a slot returned: the caller may be on another CPU by the time it receives it.
//!
//! ```compile_fail
//! # const HEAD: usize = atomseq::percpu::Area::FIRST_WORD;
//! atomseq::sequence! {
//!     unsafe fn head_of(slot: Slot) -> Word {
//!         commit(slot + HEAD, 0);
//!         slot + HEAD
//!     }
//! }
//! ```
//!
//! ```text
//! error: the address of a `Slot` is returned, but the caller may be on another CPU by then: return
//! `cpu()` instead
//! ```
//!
//! It also refuses loops, calls, anything after the commit, a prepared word that is loaded first or
//! committed as well, and more than 32 instructions. These are the restrictions that M94 2.3.1
//! proposes to check before code is run as a sequence; [`sequence!`](crate::sequence!) lists all of
//! them. It cannot see that two addresses from different words are equal, nor which other threads
//! read a prepared word. The model can.
//!
//! # 6. Check it
//!
//! `MODEL` is the sequence as data. A test can interrupt it after every step, overwrite what was
//! prepared, run other operations on the CPU, and restart it, as the kernel would:
//!
//! ```
//! # mod pages {
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/docs/patterns/sequences.rs"));
//! use atomseq::sequence::model::{Attempt, Memory, Program, Value};
//!
//! const SLOT: usize = 0x1000;
//! const LINKS: usize = 0x2000;
//!
//! fn run(program: &Program, memory: &mut Memory, arguments: &[usize]) -> Value {
//!     Attempt::new(program, arguments).run(program, memory, 0)
//! }
//!
//! /// The pages in the list, checked against the count beside the first of them.
//! fn list(memory: &Memory) -> Vec<usize> {
//!     let head = memory.load(SLOT + HEAD);
//!     let next = |page: &usize| Some(memory.load(LINKS + page * LINK));
//!     let pages: Vec<usize> = std::iter::successors(Some(head & PAGE), next)
//!         .take_while(|page| *page != 0)
//!         .collect();
//!     assert_eq!(pages.len(), head >> 16);
//!     pages
//! }
//!
//! pub fn an_interrupted_take_is_a_take() {
//!     for interrupted_after in 0.. {
//!         let mut memory = Memory::default();
//!         for page in [5, 4, 3] {
//!             run(&release::MODEL, &mut memory, &[SLOT, LINKS, page]);
//!         }
//!
//!         let mut attempt = Attempt::new(&take::MODEL, &[SLOT, LINKS]);
//!         for _ in 0..interrupted_after {
//!             attempt.step(&take::MODEL, &mut memory, 0);
//!         }
//!         if attempt.committed() {
//!             return;
//!         }
//!         for span in attempt.prepared() {
//!             memory.store_bytes(span.address, 0xdead, span.bytes);
//!         }
//!         // Meanwhile: take 3 and 4, and put 3 back. The word's page is as before.
//!         run(&take::MODEL, &mut memory, &[SLOT, LINKS]);
//!         run(&take::MODEL, &mut memory, &[SLOT, LINKS]);
//!         run(&release::MODEL, &mut memory, &[SLOT, LINKS, 3]);
//!
//!         let taken = run(&take::MODEL, &mut memory, &[SLOT, LINKS]);
//!         assert_eq!(taken.words, [3]);
//!         assert_eq!(list(&memory), [5]);
//!     }
//! }
//! # }
//! # fn main() { pages::an_interrupted_take_is_a_take() }
//! ```
//!
//! # 7. In a signal handler
//!
//! The kernel restarts a sequence that a signal interrupts as well, so handler and thread may use
//! the same structure, and nothing above needs to change: the fast path is atomic against handlers,
//! and the slow path blocks signals before it closes a gate. What a handler calls must not allocate
//! or take locks, which is why structures are made outside:
//! [`OnceLock::get`](std::sync::OnceLock::get) is one load.
//!
//! ```
//! # mod pages {
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/docs/patterns/sequences.rs"));
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/docs/patterns/pages.rs"));
//! # }
//! # use pages::Pages;
//! use std::sync::OnceLock;
//!
//! static PAGES: OnceLock<Pages<1000>> = OnceLock::new();
//!
//! extern "C" fn on_signal(_signal: i32) {
//!     let Some(pages) = PAGES.get() else { return };
//!     if let Some(page) = pages.take() {
//!         pages.release(page);
//!     }
//! }
//!
//! PAGES.get_or_init(|| Pages::try_new().unwrap());
//! # #[cfg(unix)]
//! # {
//! let handler = on_signal as extern "C" fn(i32);
//! // SAFETY: the handler allocates nothing and takes no lock.
//! unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
//! // SAFETY: the handler is in place.
//! unsafe { libc::raise(libc::SIGUSR1) };
//! # }
//! ```
//!
//! Data that only one thread and its handlers share needs no slot and no slow path. Its sequences
//! are called by `restarting`, or with several visible stores by `rolling`, with a plain address:
//!
//! ```
//! use std::sync::atomic::{AtomicUsize, Ordering};
//!
//! const BYTES: usize = size_of::<usize>();
//! atomseq::sequence! {
//!     unsafe fn count(totals: Word, bytes: Word) {
//!         store(totals, load(totals) + 1);
//!         store(totals + BYTES, load(totals + BYTES) + bytes);
//!     }
//! }
//! atomseq::local::per_thread! {
//!     static TOTALS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
//! }
//! // SAFETY: two words, which only this thread and its handlers change, by this sequence.
//! TOTALS.with(|totals| unsafe { count::rolling(totals.as_ptr().expose_provenance(), 1500) });
//! TOTALS.with(|totals| assert_eq!(totals[1].load(Ordering::Relaxed), 1500));
//! ```
//!
//! # 8. Inside an allocator
//!
//! An area's memory comes from the operating system, and no operation calls the global allocator, a
//! lock of the standard library or a thread-local that is set up on first use. So a structure may
//! stand behind `#[global_allocator]`, in a static that is made on the first allocation. Two things
//! are left to its author: the structure's own memory must not come from the allocator either (here
//! the links lie in `Pages` itself), and nothing may panic with a message, which allocates.
//!
//! ```standalone_crate
//! # mod pages {
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/docs/patterns/sequences.rs"));
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/docs/patterns/pages.rs"));
//! # impl<const N: usize> Page<N> {
//! #     pub fn number(&self) -> usize { self.0 }
//! #     pub unsafe fn from_number(number: usize) -> Page<N> { Page(number) }
//! # }
//! # }
//! # use pages::{Page, Pages};
//! use std::alloc::{GlobalAlloc, Layout, System};
//! use std::cell::UnsafeCell;
//! use std::sync::OnceLock;
//!
//! const COUNT: usize = 64;
//!
//! #[repr(align(4096))]
//! struct Arena(UnsafeCell<[[u8; 4096]; COUNT]>);
//! // SAFETY: only the owner of a page's number uses that page.
//! unsafe impl Sync for Arena {}
//!
//! static ARENA: Arena = Arena(UnsafeCell::new([[0; 4096]; COUNT]));
//! static PAGES: OnceLock<Option<Pages<COUNT>>> = OnceLock::new();
//!
//! /// Serves whole pages from the arena, and everything else from the system.
//! struct PageAllocator;
//!
//! #[global_allocator]
//! static ALLOCATOR: PageAllocator = PageAllocator;
//!
//! // SAFETY: memory comes from a page that was taken, or from the system, and goes back there.
//! unsafe impl GlobalAlloc for PageAllocator {
//!     unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
//!         let fits = layout.size() == 4096 && layout.align() <= 4096;
//!         let pages = PAGES.get_or_init(|| Pages::try_new().ok()).as_ref();
//!         match pages.filter(|_| fits).and_then(|pages| pages.take()) {
//!             Some(page) => ARENA.0.get().cast::<u8>().wrapping_add(4096 * page.number()),
//!             // SAFETY: the caller's promise.
//!             None => unsafe { System.alloc(layout) },
//!         }
//!     }
//!
//!     unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
//!         let number = (memory as usize).wrapping_sub(ARENA.0.get() as usize) / 4096;
//!         match PAGES.get() {
//!             Some(Some(pages)) if number < COUNT => {
//!                 // SAFETY: this page was taken in `alloc`, and its owner gives it up.
//!                 pages.release(unsafe { Page::from_number(number) });
//!             }
//!             // SAFETY: the caller's promise, and not the arena's memory.
//!             _ => unsafe { System.dealloc(memory, layout) },
//!         }
//!     }
//! }
//!
//! let buffer = vec![7u8; 4096];
//! let start = ARENA.0.get() as usize;
//! assert!((start..start + 4096 * COUNT).contains(&(buffer.as_ptr() as usize)));
//! ```
//!
//! # 9. Several words, several numbers
//!
//! A slot has fifteen words after its gate, from
//! [`Area::FIRST_WORD`](crate::percpu::Area::FIRST_WORD) on, eight bytes apart. Fifteen counters in
//! one area cost no more memory than one [`Counter`](crate::percpu::Counter).
//! ([`Counters`](crate::percpu::Counters) is that for any number of them.) If that is not enough,
//! [`Area::try_new`](crate::percpu::Area::try_new) adds as many zeroed bytes behind each slot as it
//! is asked for. A sequence finds them at `slot + Area::BULK`; other code asks
//! [`Area::bulk`](crate::percpu::Area::bulk), whose example is a ring.
//!
//! ```
//! use atomseq::percpu::Area;
//!
//! atomseq::sequence! {
//!     /// Adds to the counter at a byte offset.
//!     unsafe fn add(slot: Slot, offset: Word, amount: Word) {
//!         let counter = slot + offset;
//!         commit(counter, load(counter) + amount);
//!     }
//! }
//!
//! struct Traffic(Area);
//! #[derive(Clone, Copy)]
//! enum Kind { Requests, Errors, Bytes }
//!
//! impl Kind {
//!     fn offset(self) -> usize { Area::FIRST_WORD + 8 * self as usize }
//! }
//!
//! impl Traffic {
//!     fn add(&self, kind: Kind, amount: usize) {
//!         let offset = kind.offset();
//!         // SAFETY: the offset of one of the first three words of a slot.
//!         if unsafe { add::on_cpu(self.0.slots(), offset, amount) }.is_err() {
//!             // SAFETY: the offset of one of these words, and the gate is held.
//!             self.0.on_slow_path(|held| unsafe { add::gated(held, offset, amount) });
//!         }
//!     }
//!
//!     fn total(&self, kind: Kind) -> usize {
//!         (0..self.0.cpus()).map(|cpu| self.0.peek(cpu, kind.offset())).sum()
//!     }
//! }
//!
//! let traffic = Traffic(Area::try_new(0).unwrap());
//! traffic.add(Kind::Requests, 2);
//! traffic.add(Kind::Errors, 1);
//! traffic.add(Kind::Bytes, 1500);
//! assert_eq!(traffic.total(Kind::Requests), 2);
//! assert_eq!(traffic.total(Kind::Bytes), 1500);
//! ```
//!
//! # 10. Readers without reference counts
//!
//! Memory that other threads may be reading cannot be freed. Usually readers therefore count
//! themselves, or announce what they read, or the memory waits for the end of an epoch.
//! [Type-stable memory](crate::type_stable) is freed at once, and readers check afterwards whether
//! what they have read is valid. Below, a setting is replaced as a whole. Readers execute no atomic
//! instruction, and memory does not grow however slow they are.
//!
//! ```
//! use atomseq::type_stable::{Allocated, Pool, descriptor};
//! use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
//!
//! descriptor! {
//!     struct Setting {
//!         size: AtomicU64,
//!         // Always twice the size.
//!         limit: AtomicU64,
//!     }
//! }
//!
//! struct Current {
//!     pool: Pool<Setting>,
//!     address: AtomicUsize,
//! }
//!
//! impl Current {
//!     /// Called by one thread at a time.
//!     fn replace(&self, size: u64) {
//!         let next = self.pool.allocate().expect("memory");
//!         next.size.store(size, Ordering::Relaxed);
//!         next.limit.store(2 * size, Ordering::Relaxed);
//!         // Release: pairs with the Acquire in `read`.
//!         let old = self.address.swap(next.address(), Ordering::AcqRel);
//!         next.into_raw();
//!         if let Some(old) = self.pool.descriptor_at(old) {
//!             // SAFETY: it came out of `into_raw`, and is replaced once.
//!             drop(unsafe { self.pool.adopt(old) });
//!         }
//!     }
//!
//!     fn read(&self) -> (u64, u64) {
//!         loop {
//!             let address = self.address.load(Ordering::Acquire);
//!             // Get a reference to the allocation, then check that it is still the current
//!             // one: if so, it is complete.
//!             let Some(setting) = self.pool.reference_at(address) else { continue };
//!             if self.address.load(Ordering::Acquire) != address {
//!                 continue;
//!             }
//!             let both = setting.read(|setting| {
//!                 (setting.size.load(Ordering::Relaxed), setting.limit.load(Ordering::Relaxed))
//!             });
//!             if let Some(both) = both {
//!                 return both;
//!             }
//!         }
//!     }
//! }
//!
//! let current = Current { pool: Pool::new(), address: AtomicUsize::new(0) };
//! current.replace(1);
//! std::thread::scope(|scope| {
//!     scope.spawn(|| (2..5000).for_each(|size| current.replace(size)));
//!     for _ in 0..5000 {
//!         let (size, limit) = current.read();
//!         assert_eq!(limit, 2 * size);
//!     }
//! });
//! assert_eq!(current.pool.allocated().count(), 1);
//! ```
//!
//! # 11. Two words shared by all CPUs
//!
//! Data that threads of all CPUs change, and that must stay usable when one of them is stopped in
//! the middle, is a matter for [`dcas`](crate::dcas). Design it as you would with one lock around
//! it, and count the words that an operation changes: at most two. A stack in an array changes its
//! height and a cell (S92 figure 5.5).
//!
//! The words belong to a [`Domain`](crate::dcas::Domain), which gives them one version number, and
//! every operation has one form (GC96 5.1). Where a lock would be acquired, read the version. Where
//! it would be released, make the change if the version is still the same, and retry otherwise.
//!
//! ```
//! use atomseq::dcas::{Covered, Domain, Cell};
//!
//! #[derive(Covered)]
//! struct Words<const N: usize> {
//!     height: Cell,
//!     cells: [Cell; N],
//! }
//!
//! pub struct Stack<const N: usize>(Domain<Words<N>>);
//!
//! impl<const N: usize> Stack<N> {
//!     pub fn new() -> Stack<N> {
//!         let cells = std::array::from_fn(|_| Cell::new(0));
//!         Stack(Domain::new(Words { height: Cell::new(0), cells }))
//!     }
//!
//!     pub fn push(&self, value: u64) -> Result<(), u64> {
//!         let Words { height, cells } = &*self.0;
//!         loop {
//!             let ([old], version) = self.0.snapshot([height]);
//!             let Some(cell) = cells.get(old as usize) else { return Err(value) };
//!             if self.0.store_pair_if(version, (cell, value), (height, old + 1)).is_ok() {
//!                 return Ok(());
//!             }
//!         }
//!     }
//!
//!     pub fn pop(&self) -> Option<u64> {
//!         let Words { height, cells } = &*self.0;
//!         loop {
//!             let ([old], version) = self.0.snapshot([height]);
//!             let cell = &cells[old.checked_sub(1)? as usize];
//!             // Valid only if nothing has changed since the version: `store_pair_if` checks.
//!             let value = self.0.load(cell);
//!             if self.0.store_pair_if(version, (cell, 0), (height, old - 1)).is_ok() {
//!                 return Some(value);
//!             }
//!         }
//!     }
//! }
//!
//! let stack = Stack::<1000>::new();
//! std::thread::scope(|scope| {
//!     for first in [1, 501] {
//!         let stack = &stack;
//!         scope.spawn(move || (first..first + 500).for_each(|value| stack.push(value).unwrap()));
//!     }
//! });
//! assert_eq!(stack.push(0), Err(0));
//! let sum: u64 = std::iter::from_fn(|| stack.pop()).sum();
//! assert_eq!(sum, 1000 * 1001 / 2);
//! ```
//!
//! Read before you store, never the other way round: what lies between the two may run again. Do
//! not wait for another operation there. A change of more than two words uses a duplicate: build
//! the new one in private memory, and exchange the word that points to it, as
//! [`List::replace`](crate::nonblocking::List::replace) does. Allocate nodes in [type-stable
//! memory](crate::type_stable), so that a late reader reads an old value and never another type.
//! [`nonblocking::Stack`](crate::nonblocking::Stack) is this stack with less to check and to store.
