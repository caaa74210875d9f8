//! A tick at every instruction of a region, one after the other: of the lock, of what it protects,
//! and of a switch; of a barrier, a park, and a turn that is given; of a clone and a drop of
//! handles; and several ticks in two pops by k-CAS. A trap after each instruction counts them, and
//! raises the tick's signal after the one that is due.

#![cfg(target_arch = "x86_64")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::arch::asm;
use std::cell::{Cell, UnsafeCell};
use std::hint::black_box;
use std::mem;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, compiler_fence};
use std::time::Duration;

use atomseq::nonblocking::Stack;
use atomseq_threads::coroutine::{
    self, Barrier, Builder, Condvar, Mutex, Semaphore, SharedMutex, channel,
};

use support::run_with;

/// The trap flag.
const TRAP: i64 = 1 << 8;

/// Without optimisation there are some 2,000 instructions, and each is reached from the first: this
/// visits every 97th, and controls every 31st. `.ci/run` visits each in release mode.
const STRIDE: usize = if cfg!(debug_assertions) { 97 } else { 1 };
/// At which instructions of a pop by k-CAS the first tick comes: in optimised code, it takes a
/// descriptor there.
const OF_A_TAKE: std::ops::Range<u64> = 60..160;
const STRIDE_OF_CONTROLS: usize = if cfg!(debug_assertions) { 31 } else { 1 };

thread_local! {
    /// Whether this thread is in the allocator.
    static ALLOCATES: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator, which says when it runs.
struct Noted;

impl Noted {
    fn during<R>(f: impl FnOnce() -> R) -> R {
        ALLOCATES.set(true);
        compiler_fence(SeqCst);
        let result = f();
        compiler_fence(SeqCst);
        ALLOCATES.set(false);
        result
    }
}

// SAFETY: that of the system.
unsafe impl GlobalAlloc for Noted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        Noted::during(|| unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        Noted::during(|| unsafe { System.dealloc(memory, layout) })
    }
}

#[global_allocator]
static ALLOCATOR: Noted = Noted;

/// How many instructions are left until the tick; 0: no more traps.
static LEFT: AtomicU64 = AtomicU64::new(0);
/// How many instructions later the next tick comes, whichever coroutine runs; 0: there is none.
static NEXT: AtomicU64 = AtomicU64::new(0);
/// How many ticks there were.
static TICKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn step(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let left = LEFT.load(Relaxed);
    LEFT.store(left.saturating_sub(1), Relaxed);
    if left > 1 {
        return;
    }
    let next = NEXT.swap(0, Relaxed);
    LEFT.store(next, Relaxed);
    // SAFETY: the context of a signal handler; `raise` may be called in one. The tick arrives when
    // this returns.
    unsafe {
        if next == 0 {
            let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
            registers[libc::REG_EFL as usize] &= !TRAP;
        }
        if left == 1 {
            TICKS.fetch_add(1, Relaxed);
            libc::raise(coroutine::DEFAULT_SIGNAL);
        }
    }
}

/// Calls `f` with traps, so that the tick comes after the `number`th instruction.
#[inline(always)]
fn with_tick_after(number: u64, f: impl FnOnce()) {
    LEFT.store(number, Relaxed);
    // SAFETY: sets the trap flag, which `step` clears; and clears it itself if `f` was shorter.
    unsafe {
        asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
        f();
        asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq");
    }
}

/// What two coroutines do under a lock.
trait Lock: 'static {
    fn new() -> Self;
    fn with(&self, f: impl FnOnce());
}

impl Lock for Mutex<()> {
    fn new() -> Self {
        Mutex::new(())
    }

    #[inline(always)]
    fn with(&self, f: impl FnOnce()) {
        let _guard = self.lock();
        f();
    }
}

impl Lock for SharedMutex<()> {
    fn new() -> Self {
        SharedMutex::new(())
    }

    #[inline(always)]
    fn with(&self, f: impl FnOnce()) {
        let _guard = self.lock();
        f();
    }
}

impl Lock for Semaphore {
    fn new() -> Self {
        Semaphore::new(1)
    }

    #[inline(always)]
    fn with(&self, f: impl FnOnce()) {
        let _permit = self.acquire();
        f();
    }
}

/// A channel with one message, which its holder takes out.
struct Token(channel::Sender<()>, channel::Receiver<()>);

impl Lock for Token {
    fn new() -> Self {
        let (sender, receiver) = channel::bounded(1);
        sender.send(()).unwrap();
        Token(sender, receiver)
    }

    #[inline(always)]
    fn with(&self, f: impl FnOnce()) {
        self.1.recv().unwrap();
        f();
        self.0.send(()).unwrap();
    }
}

/// A flag under a lock, and a condition variable for those that wait until it is clear.
struct Monitor(Mutex<bool>, Condvar);

impl Lock for Monitor {
    fn new() -> Self {
        Monitor(Mutex::new(false), Condvar::new())
    }

    #[inline(always)]
    fn with(&self, f: impl FnOnce()) {
        let mut is_taken = self.0.lock();
        self.1.wait_while(&mut is_taken, |is_taken| *is_taken);
        *is_taken = true;
        drop(is_taken);
        f();
        *self.0.lock() = false;
        self.1.notify_one();
    }
}

/// The control: a test and a set that a tick may come between.
struct Torn(Cell<bool>);

impl Lock for Torn {
    fn new() -> Self {
        Torn(Cell::new(false))
    }

    #[inline(always)]
    fn with(&self, f: impl FnOnce()) {
        while self.0.get() {
            coroutine::yield_now();
        }
        // SAFETY: an aligned flag.
        unsafe { ptr::write_volatile(self.0.as_ptr(), true) };
        f();
        self.0.set(false);
    }
}

/// Lets two coroutines add to a word under a lock that they hold during a switch, the first with a
/// tick at every instruction, until an addition is lost. Returns the number of instructions, and of
/// those at which one was.
fn lost<L: Lock>(stride: usize) -> (u64, u64) {
    let mut lost = 0;
    for number in (1..).step_by(stride) {
        let ticks = TICKS.load(Relaxed);
        let shared = Rc::new((L::new(), UnsafeCell::new(0u64)));
        let add = |shared: Rc<(L, UnsafeCell<u64>)>| {
            move || {
                shared.0.with(|| {
                    // SAFETY: one kernel thread; whether the lock excludes is what is tested.
                    unsafe {
                        let value = shared.1.get().read_volatile();
                        coroutine::yield_now();
                        shared.1.get().write_volatile(value + 1);
                    }
                });
            }
        };
        run_with(Builder::new().slice(Duration::from_secs(3600)), || {
            let mine = add(Rc::clone(&shared));
            let other = coroutine::spawn(add(Rc::clone(&shared)));
            // SAFETY: calls the lock and a switch, and adds to a word of its own.
            unsafe {
                coroutine::preemptible(|| {
                    with_tick_after(number, || {
                        mine();
                        coroutine::yield_now();
                    });
                });
            }
            other.join().unwrap();
        })
        .unwrap();
        // SAFETY: the coroutines have finished.
        lost += u64::from(unsafe { *shared.1.get() } != 2);
        if lost > 0 || TICKS.load(Relaxed) == ticks {
            return (number, lost);
        }
    }
    unreachable!();
}

/// Calls `f` in a run, with a tick after the `number`th instruction of what it passes to its
/// argument. Returns what `f` returns, and whether there was a tick.
fn ticked<R>(number: u64, f: impl FnOnce(&dyn Fn(&mut dyn FnMut())) -> R) -> (R, bool) {
    let ticks = TICKS.load(Relaxed);
    let result = run_with(Builder::new().slice(Duration::from_secs(3600)), || {
        f(&|region| {
            // SAFETY: the callers use handles, and no allocator.
            unsafe { coroutine::preemptible(|| with_tick_after(number, region)) }
        })
    })
    .unwrap();
    (result, TICKS.load(Relaxed) > ticks)
}

/// Two coroutines meet at a barrier twice, the first with a tick at every instruction. One of both
/// is the leader each time, and neither leaves before the other has arrived.
fn both_leave_a_barrier() {
    for number in (1..).step_by(STRIDE) {
        let ((arrived, leaders), is_ticked) = ticked(number, |region| {
            let shared = Rc::new((Barrier::new(2), Cell::new(0), Cell::new(0)));
            let meet = |shared: &(Barrier, Cell<u32>, Cell<u32>)| {
                let (barrier, arrived, leaders) = shared;
                for round in 1..=2 {
                    arrived.set(arrived.get() + 1);
                    if barrier.wait().is_leader() {
                        leaders.set(leaders.get() + 1);
                    }
                    // No panic in the region: a count that is wrong stays wrong.
                    if arrived.get() < 2 * round {
                        arrived.set(100);
                    }
                }
            };
            let theirs = Rc::clone(&shared);
            let other = coroutine::spawn(move || meet(&theirs));
            region(&mut || meet(&shared));
            other.join().unwrap();
            (shared.1.get(), shared.2.get())
        });
        assert_eq!((arrived, leaders), (4, 2), "after {number} instructions");
        if !is_ticked {
            return println!("Barrier: {number} instructions");
        }
    }
}

/// Two coroutines wake each other, the first with a tick at every instruction. Were an unpark lost,
/// both would wait, and the call would panic.
fn no_unpark_is_lost() {
    for number in (1..).step_by(STRIDE) {
        let (turns, is_ticked) = ticked(number, |region| {
            let first = coroutine::current();
            let turns = Rc::new(Cell::new(0));
            let theirs = Rc::clone(&turns);
            let other = coroutine::spawn(move || {
                for _ in 0..2 {
                    coroutine::park();
                    theirs.set(theirs.get() + 1);
                    first.unpark();
                }
            });
            region(&mut || {
                for _ in 0..2 {
                    other.coroutine().unpark();
                    coroutine::park();
                }
            });
            let turns = turns.get();
            other.join().unwrap();
            turns
        });
        assert_eq!(turns, 2, "after {number} instructions");
        if !is_ticked {
            return println!("park and unpark: {number} instructions");
        }
    }
}

/// A coroutine gives its turn to another one, with a tick at every instruction.
fn a_turn_is_given() {
    for number in (1..).step_by(STRIDE) {
        let ((is_given, ran), is_ticked) = ticked(number, |region| {
            let ran = Rc::new(Cell::new(0));
            let theirs = Rc::clone(&ran);
            let between = coroutine::spawn(coroutine::yield_now);
            let other = coroutine::spawn(move || {
                for _ in 0..8 {
                    theirs.set(theirs.get() + 1);
                    coroutine::yield_now();
                }
            });
            let mut seen = (false, 0);
            region(&mut || {
                let is_given = other.coroutine().yield_to();
                seen = (is_given, ran.get());
            });
            between.join().unwrap();
            other.join().unwrap();
            seen
        });
        assert!(is_given && ran >= 1, "after {number} instructions: {ran}");
        if !is_ticked {
            return println!("yield_to: {number} instructions");
        }
    }
}

/// Two coroutines clone a reference, the first with a tick at every instruction. The memory that it
/// leads to is not reused while one of the references is left.
fn references_are_counted() {
    let address = || {
        let local = 0u8;
        black_box(&raw const local).addr()
    };
    for number in (1..).step_by(STRIDE) {
        let (is_reused, is_ticked) = ticked(number, |region| {
            let spawned = coroutine::spawn(address);
            let left = spawned.coroutine().clone();
            let before = spawned.join().unwrap();
            let (theirs, also) = (Rc::new(Cell::new(None)), left.clone());
            let others = Rc::clone(&theirs);
            let other = coroutine::spawn(move || others.set(Some((also.clone(), also))));
            let mut mine = None;
            region(&mut || mine = Some(left.clone()));
            other.join().unwrap();
            drop((mine, theirs.take()));
            let is_reused = coroutine::spawn(address).join().unwrap() == before;
            mem::forget(left);
            is_reused
        });
        assert!(!is_reused, "after {number} instructions");
        if !is_ticked {
            return println!("Coroutine::clone: {number} instructions");
        }
    }
}

/// A coroutine finishes at every instruction of the drop of its handle. One of both drops what it
/// returned.
fn an_outcome_is_dropped_once() {
    /// The address of a count of drops, twice.
    struct Counted([*const Cell<u32>; 2]);
    impl Drop for Counted {
        fn drop(&mut self) {
            // SAFETY: the count outlives the run.
            let count = unsafe { &*self.0[0] };
            count.set(count.get() + 1);
        }
    }
    for number in (1..).step_by(STRIDE) {
        let drops = Cell::new(0);
        let ((), is_ticked) = ticked(number, |region| {
            // Where the outcome lies later. Taken for one, this would be one to drop.
            let captured = [ptr::null(), &raw const drops, &raw const drops];
            let mut handle = Some(coroutine::spawn(move || {
                let [_, rest @ ..] = black_box(captured);
                Counted(rest)
            }));
            region(&mut || drop(handle.take()));
        });
        assert_eq!(drops.get(), 1, "after {number} instructions");
        if !is_ticked {
            return println!("JoinHandle::drop: {number} instructions");
        }
    }
}

/// Calls `f` with a tick at every instruction. Returns whether another coroutine has run in the
/// middle of the allocator.
fn interrupts_the_allocator(f: impl Fn()) -> bool {
    for number in (1..).step_by(STRIDE_OF_CONTROLS) {
        let (is_inside, is_ticked) = ticked(number, |region| {
            let is_inside = Rc::new(Cell::new(false));
            let seen = Rc::clone(&is_inside);
            let other = coroutine::spawn(move || seen.set(ALLOCATES.get()));
            region(&mut || f());
            other.join().unwrap();
            is_inside.get()
        });
        if is_inside || !is_ticked {
            return is_inside;
        }
    }
    unreachable!();
}

/// Two coroutines pop, each from a stack of its own, by k-CAS. The first is preempted, then the
/// second, then the first again: neither waits until the other has finished, as what a handler
/// interrupts does. Returns in how many trials a pop was lost.
fn lost_pops() -> u64 {
    const ENOUGH: u64 = 1 << 20;
    let stacks = Rc::new([(); 2].map(|()| Stack::with_capacity(4)));
    run_with(Builder::new().slice(Duration::from_secs(3600)), || {
        let mut lost = 0;
        for first in OF_A_TAKE {
            // The first stops before it marks its descriptors, the second where it takes one.
            let second = first + 18;
            for again in (80..400).step_by(80) {
                stacks.iter().for_each(|stack| stack.push(7).unwrap());
                let theirs = Rc::clone(&stacks);
                let other = coroutine::spawn(move || {
                    // SAFETY: a stack of numbers, as `preemptible` allows.
                    unsafe {
                        coroutine::preemptible(|| {
                            NEXT.store(again, Relaxed);
                            with_tick_after(second, || _ = theirs[1].pop());
                        });
                    }
                });
                // SAFETY: as above.
                unsafe {
                    coroutine::preemptible(|| {
                        NEXT.store(ENOUGH, Relaxed);
                        with_tick_after(first, || _ = stacks[0].pop());
                    });
                }
                LEFT.store(0, Relaxed);
                NEXT.store(0, Relaxed);
                other.join().unwrap();
                let is_lost = stacks.each_ref().map(|stack| stack.drain().count() > 0);
                lost += u64::from(is_lost != [false; 2]);
            }
        }
        lost
    })
    .unwrap()
}

#[test]
fn no_addition_is_lost() {
    // The first installation takes over the handlers of traps, so it comes before this one.
    run_with(Builder::new().slice(Duration::from_secs(3600)), || ()).unwrap();
    // SAFETY: plain old data; `step` is a handler.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = step as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaddset(&mut action.sa_mask, coroutine::DEFAULT_SIGNAL);
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()), 0);
    }
    if !cfg!(debug_assertions) {
        atomseq::dcas::force_kcas().unwrap();
        assert_eq!(lost_pops(), 0);
    }
    for (name, (instructions, torn)) in [
        ("Mutex", lost::<Mutex<()>>(STRIDE)),
        ("SharedMutex", lost::<SharedMutex<()>>(STRIDE)),
        ("Semaphore", lost::<Semaphore>(STRIDE)),
        ("channel", lost::<Token>(STRIDE)),
        ("Condvar", lost::<Monitor>(STRIDE)),
    ] {
        println!("{name}: {instructions} instructions");
        assert_eq!(torn, 0, "{name}");
        assert!(instructions > 40, "{name}: {instructions} instructions");
    }
    let (_, torn) = lost::<Torn>(STRIDE_OF_CONTROLS);
    assert!(torn > 0, "the control");
    both_leave_a_barrier();
    no_unpark_is_lost();
    a_turn_is_given();
    references_are_counted();
    an_outcome_is_dropped_once();
    let channel = || {
        let (sender, receiver) = channel::bounded(1);
        sender.send(1).unwrap();
        drop((receiver, sender));
    };
    assert!(!interrupts_the_allocator(channel));
    let control = || drop(black_box(Box::new(1)));
    assert!(interrupts_the_allocator(control), "the control");
}
