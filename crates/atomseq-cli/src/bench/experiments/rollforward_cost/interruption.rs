//! Interrupting a sequence on purpose, at the same instruction every time.
//!
//! The sequence below loads an address from memory, then loads from that address. The word holds
//! the address of a page that may not be touched, so the second load faults. A handler for that
//! fault, which atomseq does not manage, repairs the address and sends this thread a signal. The
//! handler has all signals blocked, so the signal arrives when it returns, and finds the thread at
//! the second load:
//!
//! ```text
//!   the thread                   the fault's handler              what is measured
//!   ──────────                   ───────────────────              ────────────────
//!   address = load(word)
//!   value = load(address) ─────> word, register = a good address
//!                                tgkill(signal): it is pending
//!                                return ────────────────────────> the signal's delivery,
//!   value = load(address) <─────────────────────────────────────  and all that follows from it
//!   commit(counted, value + 1)
//! ```
//!
//! All but the last column is the same whatever the sequence's form is.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::error::Refused;

atomseq::sequence! {
    /// Counts one more than what the word's address leads to.
    pub unsafe fn count(word: Word, counted: Word) {
        let address = load(word);
        let value = load(address);
        commit(counted, value + 1);
    }
}

/// A form of the sequence.
pub type Form = unsafe fn(usize, usize);

/// A signal without a handler that is ignored.
pub const IGNORED: c_int = libc::SIGURG;

/// No signal.
pub const NONE: c_int = 0;

// Relaxed throughout: what the thread and its own handlers share, in the order of one thread.

/// What a thread interrupts itself with.
pub struct Snare {
    /// What the sequence loads: the page's address, then that of `counted`.
    word: AtomicUsize,
    /// What the sequence counts.
    counted: AtomicUsize,
    /// What the fault's handler sends.
    signal: AtomicI32,
    /// The receiver: the thread that made the snare, and its process.
    thread: libc::pid_t,
    process: libc::pid_t,
    /// Why that was refused, if it ever was: an error number.
    refused: AtomicI32,
}

thread_local! {
    /// The snare that this thread is about to run into.
    static LAID: Cell<*const Snare> = const { Cell::new(ptr::null()) };
}

impl Snare {
    /// One for the calling thread.
    ///
    /// # Errors
    ///
    /// If the system does not say which thread that is.
    pub fn new() -> Result<Self, Refused> {
        // SAFETY: they take no argument and have no precondition.
        let [thread, process] = unsafe { [libc::gettid(), libc::getpid()] };
        if thread <= 0 || process <= 0 {
            // These calls leave errno as it was.
            let what = "say which thread this is";
            return Err(Refused { what, errno: 0 });
        }
        Ok(Self {
            word: AtomicUsize::new(0),
            counted: AtomicUsize::new(0),
            signal: AtomicI32::new(IGNORED),
            thread,
            process,
            refused: AtomicI32::new(0),
        })
    }

    /// Whether every signal so far could be sent.
    pub fn all_sent(&self) -> Result<(), Refused> {
        match self.refused.load(Ordering::Relaxed) {
            0 => Ok(()),
            errno => Err(Refused {
                what: "let a thread send itself a signal",
                errno,
            }),
        }
    }

    /// How many sequences have run to their end.
    pub fn counted(&self) -> u64 {
        self.counted.load(Ordering::Relaxed) as u64
    }

    /// Makes it the one that this thread's faults belong to, until [`take_up`](Snare::take_up).
    pub fn lay(&self) {
        LAID.set(self);
    }

    /// Ends what `lay` began.
    pub fn take_up(&self) {
        LAID.set(ptr::null());
    }

    /// Says what is to be sent next.
    pub fn send(&self, signal: c_int) {
        self.signal.store(signal, Ordering::Relaxed);
    }

    /// The addresses of the two words that a form works on.
    pub fn words(&self) -> [usize; 2] {
        [&self.word, &self.counted].map(|word| word.as_ptr().expose_provenance())
    }

    /// Lets the word lead to the page that may not be touched, until the next fault, or to where a
    /// sequence may load.
    #[inline(always)]
    pub fn set(&self, is_set: bool) {
        // From memory, so that no register need hold it: the fault's handler changes those that do.
        let address = match is_set {
            true => PAGE_ADDRESS.load(Ordering::Relaxed),
            false => self.counted.as_ptr().expose_provenance(),
        };
        self.word.store(address, Ordering::Relaxed);
    }

    /// Runs the sequence, interrupted once.
    ///
    /// # Safety
    ///
    /// `form` is one of [`count`]'s, the snare is laid, on the thread that made it, and a
    /// [`Catcher`] lives.
    #[inline(always)]
    pub unsafe fn run_into(&self, form: Form) {
        let [word, counted] = self.words();
        self.set(true);
        // SAFETY: both words live as long as `self`; the page is the catcher's, whose handler
        // repairs the fault.
        unsafe { form(word, counted) };
    }
}

/// The address of the page that may not be touched. A word that is never changed once a catcher
/// lives, but that the compiler may not keep in a register.
static PAGE_ADDRESS: AtomicUsize = AtomicUsize::new(0);

/// Maps that page, once a process.
fn page() -> Result<usize, Refused> {
    static PAGE: LazyLock<Result<usize, Refused>> = LazyLock::new(|| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, at an address of the kernel's choice, replaces no other mapping.
        let page = unsafe { libc::mmap(ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0) };
        match page {
            libc::MAP_FAILED => Err(Refused::now("map a page")),
            page => Ok(page.expose_provenance()),
        }
    });
    *PAGE
}

/// The handler for the fault, as long as one of these lives.
pub struct Catcher(());

/// How many live, and what handled the fault before them.
static CATCHERS: Mutex<usize> = Mutex::new(0);
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

fn catchers() -> MutexGuard<'static, usize> {
    CATCHERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Catcher {
    /// Installs the handler. Signals that are to be managed are so already: installing one looks at
    /// all handlers.
    ///
    /// # Errors
    ///
    /// If the system refuses a page or a handler.
    pub fn new() -> Result<Self, Refused> {
        let mut catchers = catchers();
        if *catchers == 0 {
            PAGE_ADDRESS.store(page()?, Ordering::Relaxed);
            // SAFETY: all zero is an action.
            let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            action.sa_sigaction = catch as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            // SAFETY: the set is this function's. A signal that arrives now waits for the handler's
            // return.
            unsafe { libc::sigfillset(&mut action.sa_mask) };
            // SAFETY: all zero is an action.
            let mut before: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            // SAFETY: `catch` has the signature that SA_SIGINFO asks for and is async-signal-safe.
            let installed = unsafe { libc::sigaction(libc::SIGSEGV, &action, &mut before) };
            if installed != 0 {
                return Err(Refused::now("install a handler for SIGSEGV"));
            }
            // Leaked: a handler may use it indefinitely. Release: pairs with the Acquire in
            // `give_up`.
            BEFORE.store(Box::leak(Box::new(before)), Ordering::Release);
        }
        *catchers += 1;
        Ok(Self(()))
    }
}

impl Drop for Catcher {
    fn drop(&mut self) {
        let mut catchers = catchers();
        *catchers -= 1;
        if *catchers == 0 {
            give_up();
        }
    }
}

/// Restores the handler from before.
fn give_up() {
    // Acquire: pairs with the Release in `Catcher::new`.
    let before = BEFORE.load(Ordering::Acquire);
    // SAFETY: leaked, and filled in by the kernel.
    unsafe { libc::sigaction(libc::SIGSEGV, before, ptr::null_mut()) };
}

/// Handles the fault.
extern "C" fn catch(_signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a handler its signal's information.
    let address = unsafe { (*info).si_addr() }.addr();
    let page = PAGE_ADDRESS.load(Ordering::Relaxed);
    let laid = LAID.get();
    if laid.is_null() || address != page {
        // Not this experiment's fault: it repeats under the handler from before.
        return give_up();
    }
    // SAFETY: a snare lives while it is laid.
    let snare = unsafe { &*laid };
    let good = snare.counted.as_ptr().addr();
    snare.word.store(good, Ordering::Relaxed);
    // SAFETY: the kernel gives a handler its context. The only register that holds the page's
    // address for anything is the one that the sequence has just loaded it to, which is the
    // sequence's own.
    for register in unsafe { registers(context) } {
        if *register as usize == page {
            *register = good as _;
        }
    }
    let signal = snare.signal.load(Ordering::Relaxed);
    if signal != NONE {
        // SAFETY: errno of this thread; what the handler does must not change it for the code it
        // interrupted.
        let errno = unsafe { *libc::__errno_location() };
        // SAFETY: a thread may always send itself a signal that has a handler or is ignored.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, snare.process, snare.thread, signal) };
        if sent != 0 {
            // SAFETY: errno of this thread.
            let refused = unsafe { *libc::__errno_location() };
            snare.refused.store(refused, Ordering::Relaxed);
        }
        // SAFETY: errno of this thread.
        unsafe { *libc::__errno_location() = errno };
    }
}

/// The saved general registers.
///
/// # Safety
///
/// A handler's context, for as long as the handler runs.
#[cfg(target_arch = "x86_64")]
unsafe fn registers<'a>(context: *mut c_void) -> &'a mut [libc::greg_t] {
    // SAFETY: the caller's promise.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    // All up to the program counter, which comes after them.
    &mut context.uc_mcontext.gregs[..libc::REG_RIP as usize]
}

/// The saved general registers.
///
/// # Safety
///
/// A handler's context, for as long as the handler runs.
#[cfg(target_arch = "aarch64")]
unsafe fn registers<'a>(context: *mut c_void) -> &'a mut [libc::c_ulonglong] {
    // SAFETY: the caller's promise.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    &mut context.uc_mcontext.regs
}
