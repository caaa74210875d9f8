//! Signals blocked: a stretch of one thread's time in which no signal handler runs on it; and
//! masks, in which none of those runs that may wait. They may begin and end in any order, so both
//! are counted, and the last one to end restores what the first one found.

use core::marker::PhantomData;

/// While one lives, this thread runs no signal handler (where the system has signals).
///
/// Forks are not kept out here: a child of a process with several threads may find a gate closed
/// for good.
pub struct SignalsBlocked {
    /// The mask belongs to this thread.
    _not_send: PhantomData<*mut ()>,
}

impl SignalsBlocked {
    /// Blocks every signal.
    pub fn enter() -> SignalsBlocked {
        #[cfg(unix)]
        masks::start_quiet();
        SignalsBlocked {
            _not_send: PhantomData,
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        #[cfg(unix)]
        masks::end_quiet();
    }
}

#[cfg(unix)]
pub mod masks {
    //! This thread's mask in the kernel, as `SignalsBlocked`s and `signal`'s masks want it.

    use core::cell::Cell;
    use core::ffi::c_int;
    use core::mem::MaybeUninit;

    /// What faults raise, and `SIGABRT`: only a `SignalsBlocked` blocks them.
    pub const NEVER_BLOCKED: [c_int; 7] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGSYS,
        libc::SIGABRT,
    ];

    type Set = MaybeUninit<libc::sigset_t>;

    std::thread_local!(static QUIETS: Cell<u64> = const { Cell::new(0) });
    std::thread_local!(static MASKS: Cell<u64> = const { Cell::new(0) });
    // Those that the thread has left.
    std::thread_local!(static LEFT: Cell<u64> = const { Cell::new(0) });
    // The mask that the first of them found. Written while signals are blocked.
    std::thread_local!(static FOUND: Cell<Set> = const { Cell::new(Set::uninit()) });

    fn found() -> libc::sigset_t {
        // SAFETY: only called while there is a `SignalsBlocked` or a mask, the first of which wrote
        // it.
        unsafe { FOUND.get().assume_init() }
    }

    /// No signal.
    pub fn none() -> libc::sigset_t {
        let mut set = MaybeUninit::uninit();
        // SAFETY: initialises the set.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            set.assume_init()
        }
    }

    /// All signals.
    fn all() -> libc::sigset_t {
        let mut set = MaybeUninit::uninit();
        // SAFETY: initialises the set.
        unsafe {
            libc::sigfillset(set.as_mut_ptr());
            set.assume_init()
        }
    }

    /// All that a mask holds back.
    pub fn blockable() -> libc::sigset_t {
        let mut set = all();
        for signal in NEVER_BLOCKED {
            // SAFETY: an initialised set, and a signal that exists.
            unsafe { libc::sigdelset(&mut set, signal) };
        }
        set
    }

    /// Changes this thread's mask in the kernel, and returns the old one.
    pub fn change(how: c_int, set: &libc::sigset_t) -> libc::sigset_t {
        let mut old = none();
        // SAFETY: both sets are initialised; with a valid `how` this cannot fail.
        unsafe { libc::pthread_sigmask(how, set, &mut old) };
        old
    }

    fn start(set: &libc::sigset_t) {
        let old = change(libc::SIG_BLOCK, set);
        if QUIETS.get() + MASKS.get() == 0 {
            FOUND.set(MaybeUninit::new(old));
        }
    }

    pub(super) fn start_quiet() {
        start(&all());
        QUIETS.set(QUIETS.get() + 1);
    }

    pub(super) fn end_quiet() {
        let found = found();
        QUIETS.set(QUIETS.get() - 1);
        if QUIETS.get() == 0 && MASKS.get() > 0 {
            // First less than all, then more than what was found: no signal that waits gets in.
            change(libc::SIG_SETMASK, &blockable());
            change(libc::SIG_BLOCK, &found);
        } else if QUIETS.get() == 0 {
            change(libc::SIG_SETMASK, &found);
        }
    }

    /// One more mask.
    pub fn start_mask() {
        if QUIETS.get() + MASKS.get() == 0 {
            start(&blockable());
        }
        MASKS.set(MASKS.get() + 1);
    }

    /// One mask less: one that the thread has left, if it is inside none.
    pub fn end_mask() {
        if MASKS.get() == 0 {
            LEFT.set(LEFT.get().saturating_sub(1));
            return;
        }
        let found = found();
        MASKS.set(MASKS.get() - 1);
        if QUIETS.get() + MASKS.get() == 0 {
            change(libc::SIG_SETMASK, &found);
        }
    }

    /// Is this thread inside a mask?
    pub fn is_masked() -> bool {
        MASKS.get() > 0
    }

    /// The mask that the program has set.
    pub fn own() -> libc::sigset_t {
        if QUIETS.get() + MASKS.get() > 0 {
            found()
        } else {
            change(libc::SIG_BLOCK, &none())
        }
    }

    /// The masks that a thread has left for a while.
    pub struct Left {
        /// How many it had left before.
        before: u64,
        /// The mask that the program has set.
        own: libc::sigset_t,
    }

    /// Leaves all masks, with the signals that they hold back blocked: also after the end of a
    /// `SignalsBlocked` that is under way.
    pub fn leave() -> Left {
        let own = own();
        change(libc::SIG_BLOCK, &blockable());
        let (masks, before) = (MASKS.replace(0), LEFT.get());
        LEFT.set(before + masks);
        if QUIETS.get() > 0 {
            FOUND.set(MaybeUninit::new(joined(own, &blockable())));
        }
        Left { before, own }
    }

    /// The opposite. Guards that were dropped or forgotten meanwhile count.
    pub fn come_back(left: &Left) {
        let still = LEFT.get().saturating_sub(left.before);
        LEFT.set(LEFT.get() - still);
        MASKS.set(MASKS.get() + still);
        FOUND.set(MaybeUninit::new(left.own));
        if QUIETS.get() > 0 {
            // The end of that sees to the mask.
        } else if MASKS.get() > 0 {
            change(libc::SIG_SETMASK, &joined(left.own, &blockable()));
        } else {
            change(libc::SIG_SETMASK, &left.own);
        }
    }

    /// The signals in either set.
    fn joined(mut one: libc::sigset_t, other: &libc::sigset_t) -> libc::sigset_t {
        /// The largest number that a signal has on any system.
        const LARGEST: c_int = 128;
        for signal in 1..=LARGEST {
            // SAFETY: initialised sets; a number that is no signal's is refused.
            unsafe {
                if libc::sigismember(other, signal) == 1 {
                    libc::sigaddset(&mut one, signal);
                }
            }
        }
        one
    }
}
