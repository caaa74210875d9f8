//! The protections, each of which a test can switch off: the test must then fail. Only with the
//! feature `unstable-controls`; without it all of this is the constant `true`.

#[cfg(feature = "unstable-controls")]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Declares the protections and their names.
macro_rules! protections {
    ($($(#[doc = $doc:literal])* $name:ident $text:literal;)*) => {
        /// What keeps a program from seeing the library.
        #[derive(Clone, Copy)]
        pub enum Protection { $($(#[doc = $doc])* $name),* }

        #[cfg(feature = "unstable-controls")]
        const NAMES: &[&str] = &[$($text),*];
    };
}
protections! {
    /// A signal that is blocked is not handled.
    Deferral "deferral";
    /// A deferred signal keeps its `siginfo`.
    Information "information";
    /// A program that is executed inherits the mask; what shows the mask shows it.
    Publish "publish";
    /// Calls that a signal interrupts, and no function of the library covers, are restarted.
    Restart "restart";
    /// Calls that a handler has ended are not restarted for a signal that is deferred after it.
    Ended "ended";
    /// Real-time signals, and others that are never lazy, are not.
    Never "never";
    /// Signals of timers are not lazy.
    Timers "timers";
    /// Nothing is lazy once there is another thread.
    Threads "threads";
    /// A signal is not lazy any more before it is ignored or has its default action.
    Disposition "disposition";
    /// What a child of `vfork` changes is restored.
    Vfork "vfork";
    /// The default action of a lazy signal ends the process.
    Default "default";
    /// Handlers run with their mask.
    HandlerMask "handler-mask";
    /// A handler runs once with `SA_RESETHAND`.
    OneShot "one-shot";
    /// A handler that interrupts `sigsuspend` runs with that mask.
    Waiting "waiting";
    /// A signal that a handler makes no longer lazy is blocked where the handler returns.
    NoLonger "no-longer";
    /// A handler's change of the mask in its `ucontext` counts.
    Context "context";
    /// Nothing is lazy while a handler is on a signal stack, nor what would be handled on one.
    SignalStack "signal-stack";
    /// A default action that is to ignore a signal does not become a handler.
    Ignored "ignored";
    /// A handler runs before a change of the mask, or after it.
    Sequences "sequences";
    /// Contexts and jumps have their masks.
    Jumps "jumps";
    /// A signal that arrives while it stops being lazy is deferred.
    Excluding "excluding";
    /// A signal that arrives while a thread is being started finds the mask.
    Starting "starting";
}

#[cfg(feature = "unstable-controls")]
static WITHOUT: AtomicU64 = AtomicU64::new(0);

/// Returns whether the protection is on.
#[inline(always)]
pub fn protects(protection: Protection) -> bool {
    #[cfg(feature = "unstable-controls")]
    return WITHOUT.load(Relaxed) & 1 << protection as u64 == 0;
    #[cfg(not(feature = "unstable-controls"))]
    {
        let _ = protection;
        true
    }
}

/// Reads the variable.
pub fn begin() {
    #[cfg(feature = "unstable-controls")]
    {
        let Some(without) = crate::real::getenv(c"ATOMSEQ_SIGMASK_WITHOUT") else {
            return;
        };
        let index = NAMES
            .iter()
            .position(|name| name.as_bytes() == without.to_bytes());
        match index {
            Some(index) => WITHOUT.store(1 << index, Relaxed),
            // SAFETY: it does not return.
            None => unsafe { libc::abort() },
        }
    }
}
