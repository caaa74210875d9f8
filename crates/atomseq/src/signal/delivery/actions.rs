//! Which signals are managed, and by what. Handlers read this; `install.rs` writes it.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use super::super::event::{Chained, Handler, Interrupted};
use super::super::options::Options;
use super::controls;
use crate::platform::{Context, Disposition, SIGNALS, bit, change_mask};

/// Signals that faults raise. Blocked, they would kill.
pub const FAULTS: [c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Signals that belong to the C library.
pub const RESERVED: [c_int; 2] = [32, 33];

/// What is never blocked and never held back: the faults, `SIGABRT`, the C library's two.
pub const NEVER_BLOCKED: u64 = {
    let mut set = bit(libc::SIGABRT);
    let mut index = 0;
    while index < FAULTS.len() {
        set |= bit(FAULTS[index]);
        index += 1;
    }
    set | bit(RESERVED[0]) | bit(RESERVED[1])
};

/// The faults and `SIGABRT`.
pub fn unmaskable() -> impl Iterator<Item = c_int> {
    FAULTS.into_iter().chain([libc::SIGABRT])
}

/// Has one of these a handler that was installed through this module? No mask holds it back.
pub fn handles_unmaskable() -> bool {
    unmaskable().any(has_handler)
}

/// Managed signals that can be blocked.
static MANAGED: AtomicU64 = AtomicU64::new(0);

/// The set that covers sequences: what is blocked while any handler runs, during rollforwards, and by deferral.
pub fn managed() -> u64 {
    MANAGED.load(Ordering::SeqCst)
}

/// The same as the `sa_mask` of handlers.
pub fn covering_mask() -> u64 {
    if controls::is_off(controls::COVERING_MASK) {
        return 0;
    }
    managed()
}

pub fn manage(signal: c_int) {
    MANAGED.fetch_or(bit(signal) & !NEVER_BLOCKED, Ordering::SeqCst);
}

pub fn no_longer_manage(signal: c_int) {
    MANAGED.fetch_and(!bit(signal), Ordering::SeqCst);
}

/// Who handles a signal.
#[derive(Clone, Copy)]
pub enum By {
    /// A handler installed through this module.
    Handler(Handler),
    /// Whoever did before, called by way of this module: faults, so that none sees a clone.
    Adopted,
}

/// What is done on a signal. Immutable but for `spent`, and never freed: a handler may be using it.
pub struct Action {
    pub by: By,
    pub options: Options,
    /// What was there before.
    pub previous: Previous,
    /// For `once`: has it been delivered?
    pub spent: AtomicBool,
    /// The action that this one took the place of, if that was someone else's in between.
    pub older: Option<&'static Action>,
}

impl Action {
    /// What the handler has asked to be blocked beside the managed signals.
    pub fn extra_mask(&self) -> u64 {
        match self.by {
            By::Handler(_) => self.options.blocked as u64 & !NEVER_BLOCKED,
            By::Adopted => self.previous.0.mask,
        }
    }

    /// What the kernel blocks when it calls our entry: `sa_mask` and the signal itself.
    pub fn kernel_mask(&self, signal: c_int) -> u64 {
        let own = if self.is_adopted_without_defer() {
            0
        } else {
            bit(signal)
        };
        covering_mask() | own | self.extra_mask()
    }

    /// Whose previous handler is called with this context. That is this action's, unless the context comes back: a handler
    /// that was installed over ours, and that we took the place of, passes on to us what we passed to it. Then it is the
    /// one that it took the place of.
    pub fn next(&'static self, context: Context) -> Option<&'static Action> {
        let mut caller = Some(self);
        while let Some(action) = caller {
            if action.previous.mark() == context.link() {
                return action.older;
            }
            caller = action.older;
        }
        Some(self)
    }

    fn is_adopted_without_defer(&self) -> bool {
        matches!(self.by, By::Adopted) && self.previous.0.has(libc::SA_NODEFER)
    }

    /// The mask that the handler runs with, where the interrupted code had `mask`. As long as a sequence is half done, no
    /// signal that can be blocked is let in.
    pub fn mask_while_running(&self, signal: c_int, mask: u64, interrupted: Interrupted) -> u64 {
        let is_whole = interrupted != Interrupted::Inside;
        let lets_itself_in = match self.by {
            By::Handler(_) => self.options.no_defer,
            By::Adopted => self.is_adopted_without_defer(),
        } && (is_whole || bit(signal) & NEVER_BLOCKED != 0);
        let own = if lets_itself_in { 0 } else { bit(signal) };
        let others = match self.by {
            By::Handler(_) if self.options.nesting && is_whole => 0,
            By::Handler(_) if lets_itself_in => covering_mask() & !bit(signal),
            _ => covering_mask(),
        };
        mask | own | others | self.extra_mask()
    }
}

static ACTIONS: [AtomicPtr<Action>; SIGNALS as usize + 1] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; SIGNALS as usize + 1];

/// What is done on a signal. Async-signal-safe.
pub fn action(signal: c_int) -> Option<&'static Action> {
    let place = ACTIONS.get(signal as usize)?;
    // SAFETY: null, or leaked by `set_action`. Acquire: pairs with the Release there.
    unsafe { place.load(Ordering::Acquire).as_ref() }
}

/// Changes what is done on a signal.
pub fn set_action(signal: c_int, action: Option<&'static Action>) {
    let pointer = action.map_or(core::ptr::null_mut(), |action| {
        core::ptr::from_ref(action).cast_mut()
    });
    // Release: pairs with the Acquire in `action`.
    ACTIONS[signal as usize].store(pointer, Ordering::Release);
}

/// Is there a handler that was installed through this module?
pub fn has_handler(signal: c_int) -> bool {
    action(signal).is_some_and(|action| matches!(action.by, By::Handler(_)))
}

/// What was there before a handler of ours.
pub struct Previous(pub Disposition);

impl Previous {
    /// Calls it if it is a function, as the kernel would.
    ///
    /// # Safety
    /// In a handler, with what the kernel passed to it.
    pub unsafe fn call(
        &self,
        signal: c_int,
        info: *const libc::siginfo_t,
        context: *mut c_void,
    ) -> Chained {
        match self.0.handler {
            libc::SIG_DFL => return Chained::Default,
            libc::SIG_IGN => return Chained::Ignored,
            _ => {}
        }
        let old = change_mask(libc::SIG_BLOCK, self.0.mask);
        // SAFETY: whoever installed it wanted to be called so; the caller vouches for the arguments.
        unsafe { self.call_function(signal, info, context) };
        change_mask(libc::SIG_SETMASK, old);
        Chained::Called
    }

    /// As [`call`](Previous::call), for a function, with the mask as it is.
    ///
    /// # Safety
    /// As `call`; it is a function.
    pub unsafe fn call_function(
        &self,
        signal: c_int,
        info: *const libc::siginfo_t,
        context: *mut c_void,
    ) {
        // SAFETY: the caller's promise.
        let frame = unsafe { Context::new(context) };
        let before = frame.link();
        frame.set_link(self.mark());
        if self.0.has(libc::SA_SIGINFO) {
            // SAFETY: the flag says that it is a function of three arguments.
            let function: unsafe extern "C" fn(c_int, *const libc::siginfo_t, *mut c_void) =
                unsafe { core::mem::transmute(self.0.handler) };
            // SAFETY: the caller's promise.
            unsafe { function(signal, info, context) };
        } else {
            // SAFETY: without the flag it is a function of one argument.
            let function: unsafe extern "C" fn(c_int) =
                unsafe { core::mem::transmute(self.0.handler) };
            // SAFETY: the caller's promise.
            unsafe { function(signal) };
        }
        frame.set_link(before);
    }

    /// What a context's link says while this one is called with it.
    ///
    /// The mark is in the frame, not in the thread's words: a handler that never returns, because it jumps, takes its mark
    /// along, and the kernel clears the link of the next frame.
    fn mark(&self) -> usize {
        (&raw const *self).addr()
    }
}
