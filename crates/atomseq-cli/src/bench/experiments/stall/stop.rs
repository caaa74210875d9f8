//! Stopping a thread at any instruction, by a signal whose handler sleeps.
//!
//! ```text
//! state   RUNNING ──handler──> STOPPED ──director──> RUNNING     the handler sleeps on it
//!         any     ──director─> OVER                              the thread ends
//! ```

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use super::Failure;
use crate::error::{Error, Refused};
use crate::machine;
use crate::patience::Patience;

const RUNNING: u32 = 0;
const STOPPED: u32 = 1;
const OVER: u32 = 2;

/// How long the director waits for the thread at most, while it is awake to look: far longer than
/// that takes on the busiest machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// The maximum time that one look counts as: longer than the turns of a few other threads between
/// two looks, so that patience is a time on a busy machine as well, and far shorter than a stop.
const LOOK: Duration = Duration::from_millis(20);

/// One thread of the process at a time is stopped, so one of each will do.
static STATE: AtomicU32 = AtomicU32::new(RUNNING);
static STOPPED_INSIDE: AtomicBool = AtomicBool::new(false);
static TURNS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether this thread is inside an operation. Needs neither initialiser nor destructor, so a
    /// handler may look at it.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Marks that a thread is inside an operation.
pub struct Inside(());

impl Inside {
    /// This thread is, during `operation`.
    #[inline(always)]
    pub fn during<R>(&self, operation: impl FnOnce() -> R) -> R {
        INSIDE.set(true);
        compiler_fence(Ordering::SeqCst);
        let result = operation();
        compiler_fence(Ordering::SeqCst);
        INSIDE.set(false);
        result
    }
}

/// The right to stop threads: one at a time.
pub struct Stop {
    _only: MutexGuard<'static, ()>,
}

impl Stop {
    /// Installs the handler.
    ///
    /// # Errors
    ///
    /// If the system refuses it.
    pub fn prepare() -> Result<Self, Error> {
        static ONLY: Mutex<()> = Mutex::new(());
        let only = ONLY.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `sigaction` is numbers and a set of bits, for which zero is a value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: a valid action and a valid set; the handler is async-signal-safe, for it calls a
        // futex only.
        let result = unsafe {
            libc::sigfillset(&mut action.sa_mask);
            libc::sigaction(signal(), &action, ptr::null_mut())
        };
        if result != 0 {
            return Err(Refused::now("install a handler for a real-time signal").into());
        }
        STATE.store(RUNNING, Ordering::SeqCst);
        Ok(Self { _only: only })
    }

    /// Starts a thread that operates until the returned guard is dropped.
    pub fn victim<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        cpu: usize,
        operate: impl Fn(&Inside) + Send + 's,
    ) -> Result<Victim<'s>, Failure> {
        static NUMBER: AtomicI32 = AtomicI32::new(0);
        NUMBER.store(0, Ordering::SeqCst);
        let work = move || {
            machine::pin(cpu);
            // SAFETY: no argument, no precondition.
            NUMBER.store(unsafe { libc::gettid() }, Ordering::SeqCst);
            while STATE.load(Ordering::Relaxed) != OVER {
                operate(&Inside(()));
                TURNS.fetch_add(1, Ordering::Relaxed);
            }
        };
        let spawned = thread::Builder::new().spawn_scoped(scope, work);
        spawned.map_err(|source| Error::Thread {
            started: 0,
            wanted: 1,
            source,
        })?;
        let victim = Victim {
            number: &NUMBER,
            _stop: self,
        };
        wait_until(|| NUMBER.load(Ordering::SeqCst) != 0)?;
        Ok(victim)
    }
}

/// The thread that is stopped. It ends when this is dropped.
pub struct Victim<'s> {
    number: &'static AtomicI32,
    _stop: &'s Stop,
}

impl Victim<'_> {
    /// Waits until it has done an operation, and then about so long.
    pub fn runs_for(&self, time: Duration) -> Result<(), String> {
        let turns = TURNS.load(Ordering::Relaxed);
        wait_until(|| TURNS.load(Ordering::Relaxed) != turns)?;
        let start = Instant::now();
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Stops it at any instruction; returns whether it was inside an operation.
    pub fn stop(&self) -> Result<bool, Failure> {
        let number = self.number.load(Ordering::SeqCst);
        // SAFETY: numbers only; the thread lives until this is dropped.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), number, signal()) };
        if sent != 0 {
            return Err(Error::from(Refused::now("send a thread a signal")).into());
        }
        // Acquire: pairs with the Release of the handler.
        wait_until(|| STATE.load(Ordering::Acquire) == STOPPED)?;
        Ok(STOPPED_INSIDE.load(Ordering::Relaxed))
    }

    /// Lets it continue.
    pub fn resume(&self) {
        set_state(RUNNING);
    }
}

impl Drop for Victim<'_> {
    fn drop(&mut self) {
        set_state(OVER);
    }
}

fn set_state(state: u32) {
    STATE.store(state, Ordering::SeqCst);
    // SAFETY: an address of this process, and numbers.
    unsafe { libc::syscall(libc::SYS_futex, STATE.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Spins: what is waited for is measured, or takes a few microseconds.
fn wait_until(condition: impl Fn() -> bool) -> Result<(), String> {
    let mut patience = Patience::new(PATIENCE, LOOK);
    let mut rounds = 0_u32;
    while !condition() {
        rounds = rounds.wrapping_add(1);
        if rounds.is_multiple_of(1_000) {
            if patience.is_over() {
                return Err(format!(
                    "the thread to be stopped did nothing for {PATIENCE:?}"
                ));
            }
            // It may need this CPU.
            thread::yield_now();
        }
        std::hint::spin_loop();
    }
    Ok(())
}

fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 3
}

/// Notes where the thread is and sleeps until it may go on.
extern "C" fn handle(_signal: libc::c_int) {
    // SAFETY: errno of this thread; what the handler does must not change it for the code it
    // interrupted.
    let errno = unsafe { *libc::__errno_location() };
    STOPPED_INSIDE.store(INSIDE.get(), Ordering::Relaxed);
    // Release: pairs with the Acquire of the director. Not over an end that came meanwhile.
    let _ = STATE.compare_exchange(RUNNING, STOPPED, Ordering::Release, Ordering::Relaxed);
    while STATE.load(Ordering::Acquire) == STOPPED {
        // SAFETY: an address of this process, numbers, and no time limit.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                STATE.as_ptr(),
                libc::FUTEX_WAIT,
                STOPPED,
                ptr::null::<libc::timespec>(),
            )
        };
    }
    // SAFETY: errno of this thread.
    unsafe { *libc::__errno_location() = errno };
}
