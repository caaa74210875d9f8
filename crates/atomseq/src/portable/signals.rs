//! Blocking signals: guards under which a thread runs no signal handler, and masks, under which it
//! runs none whose signal may wait. They may start and end in any order, so both are counted, and
//! the last one to end restores what the first one found.

use core::marker::PhantomData;

/// A guard: while it lives, this thread runs no signal handler (if the system has signals).
///
/// Forks do not wait for it here. A child of a process with several threads may find a gate closed
/// permanently.
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

    /// Does the same: forks are not detected.
    pub fn try_enter() -> Option<SignalsBlocked> {
        Some(SignalsBlocked::enter())
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
    //! This thread's mask in the kernel, as its `SignalsBlocked` guards and `signal`'s masks
    //! require.
    //!
    //! Miri has no signals and none of the functions for them: guards and masks are only counted
    //! there, and every set is empty.

    use core::cell::Cell;
    use core::ffi::c_int;
    use core::mem::MaybeUninit;

    /// The signals raised by faults, and `SIGABRT`: only a `SignalsBlocked` blocks them.
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
    // The number of masks that the thread has left.
    std::thread_local!(static LEFT: Cell<u64> = const { Cell::new(0) });
    // The mask that the first of them found. Written while signals are blocked.
    std::thread_local!(static FOUND: Cell<Set> = const { Cell::new(Set::uninit()) });

    // The mask that the first `SignalsBlocked` found, inside a mask or not: its end restores that.
    std::thread_local!(static QUIET_FOUND: Cell<Set> = const { Cell::new(Set::uninit()) });

    /// The mask that the end of the interrupted thread's mask restores.
    pub struct Interrupted(Set);

    /// Saves what a handler must not change: it may interrupt a thread between the start of a mask
    /// and its count, and would then take that mask for its own.
    pub fn interrupted() -> Interrupted {
        Interrupted(FOUND.get())
    }

    /// Restores it before the thread continues.
    pub fn resume(interrupted: &Interrupted) {
        FOUND.set(interrupted.0);
    }

    fn found() -> libc::sigset_t {
        // SAFETY: only called while a `SignalsBlocked` or a mask lives, the first of which wrote
        // the set.
        unsafe { FOUND.get().assume_init() }
    }

    /// Returns the empty set.
    pub fn none() -> libc::sigset_t {
        let mut set = MaybeUninit::uninit();
        if cfg!(miri) {
            // SAFETY: plain old data.
            return unsafe { core::mem::zeroed() };
        }
        // SAFETY: `sigemptyset` initializes the set.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            set.assume_init()
        }
    }

    /// Returns the set of all signals.
    fn all() -> libc::sigset_t {
        let mut set = MaybeUninit::uninit();
        if cfg!(miri) {
            return none();
        }
        // SAFETY: `sigfillset` initializes the set.
        unsafe {
            libc::sigfillset(set.as_mut_ptr());
            set.assume_init()
        }
    }

    /// Returns the set of signals that a mask blocks.
    pub fn blockable() -> libc::sigset_t {
        let mut set = all();
        for signal in NEVER_BLOCKED.into_iter().filter(|_| !cfg!(miri)) {
            // SAFETY: the set is initialized, and the signal exists.
            unsafe { libc::sigdelset(&mut set, signal) };
        }
        set
    }

    /// Changes this thread's mask in the kernel and returns the old one.
    pub fn change(how: c_int, set: &libc::sigset_t) -> libc::sigset_t {
        let mut old = none();
        if cfg!(miri) {
            return old;
        }
        // SAFETY: both sets are initialized. With a valid `how` the call cannot fail.
        unsafe { libc::pthread_sigmask(how, set, &mut old) };
        old
    }

    fn start(set: &libc::sigset_t, is_quiet: bool) {
        let old = change(libc::SIG_BLOCK, set);
        if is_quiet && QUIETS.get() == 0 {
            QUIET_FOUND.set(MaybeUninit::new(old));
        }
        if QUIETS.get() + MASKS.get() == 0 {
            FOUND.set(MaybeUninit::new(old));
        }
    }

    pub(super) fn start_quiet() {
        start(&all(), true);
        QUIETS.set(QUIETS.get() + 1);
    }

    pub(super) fn end_quiet() {
        let found = found();
        QUIETS.set(QUIETS.get() - 1);
        if QUIETS.get() == 0 && MASKS.get() > 0 {
            // SAFETY: written by the first `SignalsBlocked`.
            let before = unsafe { QUIET_FOUND.get().assume_init() };
            change(libc::SIG_SETMASK, &joined(before, &blockable()));
        } else if QUIETS.get() == 0 {
            change(libc::SIG_SETMASK, &found);
        }
    }

    /// Starts a mask.
    pub fn start_mask() {
        if QUIETS.get() + MASKS.get() == 0 {
            start(&blockable(), false);
        }
        MASKS.set(MASKS.get() + 1);
    }

    /// Ends a mask: one that the thread has left, if it is inside none.
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

    /// Returns whether this thread is inside a mask.
    pub fn is_masked() -> bool {
        MASKS.get() > 0
    }

    /// Returns the mask that the program has set.
    pub fn own() -> libc::sigset_t {
        if QUIETS.get() + MASKS.get() > 0 {
            found()
        } else {
            change(libc::SIG_BLOCK, &none())
        }
    }

    /// The masks that a thread has left temporarily.
    pub struct Left {
        /// The number of masks it had left before.
        before: u64,
        /// The mask that the program has set.
        own: libc::sigset_t,
    }

    /// Leaves all masks and blocks the signals that they defer, also after the end of a
    /// `SignalsBlocked` that is in progress.
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

    /// Returns to the masks that `leave` left. Guards that were dropped or forgotten meanwhile are
    /// taken into account.
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
        const LARGEST: c_int = if cfg!(miri) { 0 } else { 128 };
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

#[cfg(all(test, unix, miri))]
mod tests {
    use super::*;
    use crate::signal;

    /// Miri does not let it read the file. Without Miri, `--cfg miri` builds the same code.
    #[test]
    fn under_miri_guards_and_masks_are_only_counted() {
        let is_any_blocked = || {
            let text = std::fs::read_to_string("/proc/thread-self/status").ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
            Some(u64::from_str_radix(line.trim(), 16).ok()? != 0)
        };
        let (quiet, masked) = (SignalsBlocked::enter(), signal::mask());
        assert!(signal::is_masked());
        assert_ne!(is_any_blocked(), Some(true));
        signal::with_kernel_mask(|| assert!(!signal::is_masked()));
        drop((quiet, masked));
        assert!(!signal::is_masked());
        // SAFETY: nothing is installed.
        let installed = unsafe { signal::install(libc::SIGUSR1, |_| {}) };
        assert_eq!(installed, Err(signal::Error::Unsupported));
        assert!(signal::audit().is_clean() && !signal::is_managed(libc::SIGUSR1));
    }
}
