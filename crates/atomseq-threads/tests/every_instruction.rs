//! A tick at every instruction of a region, one after the other: of the lock, of what it protects,
//! and of a switch. A trap after each instruction counts them, and raises the tick's signal after
//! the one that is due.

#![cfg(target_arch = "x86_64")]

use std::arch::asm;
use std::cell::{Cell, UnsafeCell};
use std::mem;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use atomseq_threads::coroutine::{self, Builder, Condvar, Mutex, Semaphore, channel};

/// The trap flag.
const TRAP: i64 = 1 << 8;

/// Without optimisation there are some 2,000 instructions, and each is reached from the first: this
/// visits every 31st.
const STRIDE: usize = if cfg!(debug_assertions) { 31 } else { 1 };

/// How many instructions are left until the tick; 0: no more traps.
static LEFT: AtomicU64 = AtomicU64::new(0);
/// How many ticks there were.
static TICKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn step(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let left = LEFT.load(Relaxed);
    LEFT.store(left.saturating_sub(1), Relaxed);
    if left > 1 {
        return;
    }
    // SAFETY: the context of a signal handler; `raise` may be called in one. The tick arrives when
    // this returns.
    unsafe {
        (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP;
        if left == 1 {
            TICKS.fetch_add(1, Relaxed);
            libc::raise(libc::SIGURG);
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
/// tick at every instruction. Returns the number of instructions, and of those at which an addition
/// was lost.
fn lost<L: Lock>() -> (u64, u64) {
    let mut lost = 0;
    for number in (1..).step_by(STRIDE) {
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
        Builder::new()
            .slice(Duration::from_secs(3600))
            .run(|| {
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
        if TICKS.load(Relaxed) == ticks {
            return (number, lost);
        }
    }
    unreachable!();
}

#[test]
fn no_addition_is_lost() {
    // The first installation takes over the handlers of traps, so it comes before this one.
    Builder::new()
        .slice(Duration::from_secs(3600))
        .run(|| ())
        .unwrap();
    // SAFETY: plain old data; `step` is a handler.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = step as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaddset(&mut action.sa_mask, libc::SIGURG);
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()), 0);
    }
    for (name, (instructions, torn)) in [
        ("Mutex", lost::<Mutex<()>>()),
        ("Semaphore", lost::<Semaphore>()),
        ("channel", lost::<Token>()),
        ("Condvar", lost::<Monitor>()),
    ] {
        println!("{name}: {instructions} instructions");
        assert!(instructions > 40, "{name}: {instructions} instructions");
        assert_eq!(torn, 0, "{name}");
    }
    let (_, torn) = lost::<Torn>();
    assert!(torn > 0, "the control");
}
