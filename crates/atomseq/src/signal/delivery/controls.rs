//! Switches with which tests turn protections off, to show that something fails without them.
//!
//! Only the feature `unstable-internals` has the switch. Without it every protection is on, and the
//! compiler sees that.

/// Handlers block the other managed signals.
pub const COVERING_MASK: u32 = 1;
/// The handlers of other code are made to block managed signals.
pub const WIDENING: u32 = 2;
/// Restartable sequences are restarted.
pub const RESTART: u32 = 4;
/// Rolling sequences are rolled forward.
pub const ROLLFORWARD: u32 = 8;
/// Masks defer.
pub const DEFERRAL: u32 = 16;
/// The end of a mask unblocks.
pub const UNBLOCKING: u32 = 64;
/// A fault in a clone is reported at the sequence's own instruction.
pub const MAPPING: u32 = 128;
/// A rollforward that keeps faulting is abandoned after the limit.
pub const WATCHDOG: u32 = 256;
/// A child of a fork starts without its parent's waiting signals.
pub const FORK: u32 = 512;
/// A record for which the kernel has no room is kept.
pub const SAVING: u32 = 1024;

/// The end of a mask unblocks nothing while a gate is held, and the end of a gate nothing that
/// `with_kernel_mask` blocks.
pub const GATES: u32 = 2048;

/// A thread that leaves a rollforward returns through the handler that runs it.
pub const OUTER_HANDLER: u32 = 4096;

/// A signal that interrupts the code of a delivery waits until that has decided, or precedes it.
pub const NESTED: u32 = 8192;

/// Stop signals and SIGCONT are kept by the thread that defers them.
pub const KEEPING: u32 = 16384;

/// A signal that the kernel refuses to queue again is sent or kept.
pub const SENDING: u32 = 32768;

/// An entry that is installed over a handler is one that the handler cannot know.
pub const ENTRIES: u32 = 65536;

/// Signals that are not managed wait until a delivery has decided.
pub const FOREIGN: u32 = 131_072;

/// A delivery restores the mask that its entry has found, not that of the context.
pub const FOUND_MASK: u32 = 262_144;

/// A handler that other code installs during an adoption or an installation stays.
pub const MEANWHILE: u32 = 524_288;

/// What an interrupted end of a mask is about to unblock is set aside while a handler runs.
pub const SETTING_ASIDE: u32 = 1_048_576;

/// Fault signals are unblocked while a clone runs.
pub const OPENING: u32 = 2_097_152;

#[cfg(feature = "unstable-internals")]
static OFF: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

/// Turns the protections in `off` off in this process, and all others on.
///
/// # Safety
/// Sequences, masks and deliveries no longer keep what they promise. For tests that expect what the
/// protections prevent.
#[cfg(feature = "unstable-internals")]
pub unsafe fn set(off: u32) {
    OFF.store(off, core::sync::atomic::Ordering::SeqCst);
    super::actions::block_on_entry(off & (FOREIGN | COVERING_MASK) == 0);
}

#[cfg(feature = "unstable-internals")]
#[inline]
pub(super) fn is_off(protection: u32) -> bool {
    OFF.load(core::sync::atomic::Ordering::Relaxed) & protection != 0
}

/// Every protection is on.
#[cfg(not(feature = "unstable-internals"))]
#[inline(always)]
pub(super) const fn is_off(_protection: u32) -> bool {
    false
}
