//! A thread's words: the number of masks that it is inside, the signals that deferral has blocked,
//! the rollforward under way.
//!
//! They lie in the thread block (`arch`), at the thread pointer plus a constant, so that the first
//! access needs neither memory nor a call. Only the thread and the handlers on it use them. They
//! are atomics because a handler may run between any two instructions of the thread; so all
//! accesses are relaxed.
//!
//! ```text
//!  48 depth    masks the thread is inside; the highest bit: signals wait
//!  56 added    what deferral has blocked in the kernel
//!  64 taken    what the last end of a mask has unblocked again, for an end that it interrupted
//!  72 rollforward
//!     72 signal   0: none is under way     74 number   how many there were
//!     76 process  whose signal it is
//!     80 mask     of the interrupted code  88 record   the signal's siginfo
//! 136 saved
//!    136 signal   0: none                 138 is_sent  by tgkill
//!    140 process  whose signals are saved and kept
//!    144 record   its siginfo
//! 192 left     masks that `with_kernel_mask` has left
//! 200 delivery whose code runs, until it has decided; 0: none
//! 208 inside   a handler runs in the middle of a sequence
//!    208 context  it has got               216 mask     what is blocked because it runs
//! 224 kept     signals that the thread will handle itself (keep.rs)
//! ```

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::super::statistics::COUNTS;
use super::actions::NEVER_BLOCKED;
use super::passing::passing_on;
use super::{controls, fork, mask};
use crate::arch::{FOUND_MASK, thread_block_offset, thread_pointer};
use crate::platform::{Context, bit, own_process, pending};

#[repr(C)]
pub struct Words {
    depth: AtomicU64,
    pub added: AtomicU64,
    pub taken: AtomicU64,
    pub rollforward: Rollforward,
    pub saved: Saved,
    left: AtomicU64,
    pub delivery: AtomicU64,
    pub inside: Inside,
    kept: AtomicU64,
}

/// The bit of `depth` that is set while `added` or `kept` is not empty. The end of a mask reads it
/// with the depth. A deferral in the middle of an end, or of a nested start, may be overwritten, so
/// the end reads `added` too.
const WAITING: u64 = 1 << 63;

/// The value of `depth` after the end of a mask that `with_kernel_mask` has left: one less than 0,
/// whatever the highest bit was.
const ONE_LESS: u64 = !WAITING;

/// The offset of the words in the thread block.
const OFFSET: isize = 48;
const _: () = assert!(OFFSET as usize + size_of::<Words>() <= FOUND_MASK);
// What `arch` uses.
const _: () = assert!(core::mem::offset_of!(Words, depth) == 0);
const _: () = assert!(core::mem::offset_of!(Words, added) == 8);
const _: () = assert!(OFFSET as usize + core::mem::offset_of!(Words, delivery) == 200);
// What `platform` uses.
const _: () = assert!(OFFSET as usize + core::mem::offset_of!(Words, taken) == 64);
const _: () = assert!(OFFSET as usize + core::mem::offset_of!(Words, kept) == 224);

impl Words {
    /// Returns this thread's words.
    #[inline]
    pub fn of_this_thread<'a>() -> &'a Words {
        let address = thread_pointer().wrapping_add_signed(thread_block_offset() + OFFSET);
        // SAFETY: inside this thread's block, which starts out as zeros and lives as long as the
        // thread; only atomics, and only this thread uses them.
        unsafe { &*(address as *const Words) }
    }

    /// Returns how many masks the thread is inside.
    pub fn depth(&self) -> u64 {
        self.depth.load(Relaxed) & !WAITING
    }

    /// Records that deferral has blocked these signals, which may be none.
    pub fn add(&self, blocked: u64) {
        self.added.fetch_or(blocked, Relaxed);
        self.note_waiting();
    }

    /// Updates the highest bit of `depth`.
    pub fn note_waiting(&self) {
        if self.has_waiting() {
            self.depth.fetch_or(WAITING, Relaxed);
        }
        // A handler of a signal that is never blocked may have run in between and queued the kept
        // signals.
        if !self.has_waiting() {
            self.clear_waiting();
        }
    }

    /// Clears the highest bit of `depth`: the end of a mask has nothing to deliver.
    pub fn clear_waiting(&self) {
        self.depth.fetch_and(!WAITING, Relaxed);
    }

    /// Leaves all masks for a while. Managed signals must be blocked.
    pub fn leave_masks(&self) -> Masks {
        self.end_left_mask();
        let before = self.left.load(Relaxed);
        let depth = self.depth.swap(0, Relaxed) & !WAITING;
        self.left.store(before + depth, Relaxed);
        Masks {
            before,
            added: self.added.swap(0, Relaxed),
        }
    }

    /// Corrects the counts after the end of a mask: if the thread was inside none, the mask was one
    /// that the thread has left. Returns whether it was.
    pub fn end_left_mask(&self) -> bool {
        let is_left = self.depth() == ONE_LESS;
        if is_left {
            self.depth.store(self.waiting(), Relaxed);
            let left = self.left.load(Relaxed);
            self.left.store(left.saturating_sub(1), Relaxed);
        }
        is_left
    }

    /// Restores the masks that `leave_masks` has left. Guards that were dropped or forgotten in
    /// between count.
    pub fn restore_masks(&self, masks: &Masks) {
        self.end_left_mask();
        let left = self.left.load(Relaxed);
        let still = left.saturating_sub(masks.before);
        self.left.store(left - still, Relaxed);
        let depth = self.depth() + still;
        self.added.fetch_or(masks.added, Relaxed);
        self.depth.store(depth, Relaxed);
        self.note_waiting();
    }

    /// Sets aside, before a handler runs, what an interrupted end of a mask or `with_kernel_mask`
    /// is about to unblock, so that no mask in the handler takes it. Returns `None` if there is
    /// nothing to set aside.
    ///
    /// If the handler jumps away, nothing is lost: the jump restores an earlier mask.
    #[inline(always)]
    pub fn set_aside(&self) -> Option<Aside> {
        let depth = self.depth.load(Relaxed);
        let added = self.added.load(Relaxed);
        match added != 0 || depth & WAITING != 0 {
            true => Some(self.set_aside_if_ending(depth, added)),
            false => None,
        }
    }

    #[cold]
    fn set_aside_if_ending(&self, depth: u64, added: u64) -> Aside {
        // Inside a mask, the handler's own masks are nested and take nothing.
        let is_ending =
            matches!(depth & !WAITING, 0 | ONE_LESS) && !controls::is_off(controls::SETTING_ASIDE);
        if is_ending {
            // A kept signal needs no unblocking. If the handler leaves by the C library's
            // `siglongjmp`, it waits for the next mask or delivery.
            self.added.store(0, Relaxed);
            self.depth.store(self.waiting(), Relaxed);
        }
        Aside {
            depth,
            added,
            is_ending,
        }
    }

    /// Restores what was set aside, when the handler that was given `context` has returned.
    #[cold]
    pub fn put_back(&self, aside: &Aside, context: Context) {
        if aside.is_ending {
            self.added.fetch_or(aside.added, Relaxed);
            // Signals that the handler kept and guards that it forgot count.
            let now = self.depth.load(Relaxed);
            let depth = (now & !WAITING).wrapping_add(aside.depth) | now & WAITING;
            self.depth.store(depth, Relaxed);
            // A `with_kernel_mask` in the handler may have queued the kept signals.
            if depth & !WAITING != ONE_LESS && !self.has_waiting() {
                self.clear_waiting();
            }
            return;
        }
        // The handler may have ended the mask for which the signals in `added` were blocked.
        let ended = aside.added & !self.added.load(Relaxed);
        if ended != 0 {
            context.set_mask(context.mask() & !ended);
        }
    }

    /// Clears `taken` if only kept signals wait. Called by a delivery, which may run the handlers
    /// of all of them. An end of a mask that it has interrupted may have seen that signals are
    /// kept, and then finds none: it must not unblock again what an earlier end has unblocked.
    pub fn forget_earlier_end(&self) {
        let is_for_kept = self.depth.load(Relaxed) & WAITING != 0 && self.added.load(Relaxed) == 0;
        if is_for_kept {
            self.taken.store(0, Relaxed);
        }
    }

    /// Returns whether signals wait for the end of a mask.
    pub fn has_waiting(&self) -> bool {
        self.added.load(Relaxed) != 0 || self.has_kept()
    }

    /// Returns the signals that this thread keeps. Forgets those that its parent kept, before a
    /// fork without atfork handlers.
    pub fn kept(&self) -> u64 {
        if !self.has_kept() {
            return 0;
        }
        self.forget_parent();
        self.kept.load(Relaxed)
    }

    /// Returns whether this thread keeps signals, or its parent did before a fork.
    pub fn has_kept(&self) -> bool {
        self.kept.load(Relaxed) != 0
    }

    /// Adds signals to those that this thread keeps.
    pub fn keep(&self, signals: u64) {
        self.forget_parent();
        self.kept.fetch_or(signals, Relaxed);
        self.note_waiting();
    }

    /// Removes signals from those that this thread keeps. Returns which of them it has kept.
    pub fn keep_no_longer(&self, signals: u64) -> u64 {
        self.kept.fetch_and(!signals, Relaxed) & signals
    }

    /// Saves a signal's record. Returns `false` if another one is saved already.
    pub fn save(&self, signal: i32, info: &libc::siginfo_t) -> bool {
        self.forget_parent();
        self.saved.keep(signal, info)
    }

    /// Returns whether the record of a signal of this number is saved.
    pub fn is_saved(&self, signal: i32) -> bool {
        self.saved.signal.load(Relaxed) == signal as u16
            && self.saved.process.load(Relaxed) == fork::process()
    }

    /// Takes the record that was saved for `signal`, if `info` is what the kernel delivers in its
    /// place. Managed signals must be blocked.
    ///
    /// Otherwise `info` is another signal's, and the kernel may no longer deliver anything for the
    /// saved one. If none of its number is pending, this thread keeps the saved signal from now on;
    /// its handler runs after that of the other one. If one is pending, it may be process-directed
    /// and taken by another thread, so the saved signal is queued again. The same happens where a
    /// sandbox refuses `rt_sigpending`.
    pub fn take_saved(&self, signal: i32, info: &libc::siginfo_t) -> Option<libc::siginfo_t> {
        if !self.is_saved(signal) || self.kept() & bit(signal) != 0 {
            return None;
        }
        let record = self.saved.take(signal, info);
        // Signals that are never blocked are excluded: during a delivery of `SIGSYS` that a system
        // call has raised, no other system call may be made.
        let is_blocked = bit(signal) & NEVER_BLOCKED == 0;
        if record.is_none() && is_blocked {
            if pending().is_some_and(|pending| pending & bit(signal) == 0) {
                self.keep(bit(signal));
                COUNTS.kept.add();
            } else {
                mask::queue_saved_again(signal);
            }
        }
        record
    }

    /// Drops a saved record if its signal is no longer pending in the kernel. Managed signals must
    /// be blocked.
    pub fn forget_taken(&self) {
        let signal = i32::from(self.saved.signal.load(Relaxed));
        let is_pending = || pending().is_none_or(|pending| pending & bit(signal) != 0);
        if signal == 0 || self.kept() & bit(signal) != 0 || is_pending() {
            return;
        }
        if self.is_saved(signal) {
            COUNTS.lost_information.add();
        }
        self.saved.clear();
    }

    /// Forgets, in the child of a fork, what waited for the parent. Managed signals must be blocked
    /// if any are.
    ///
    /// This may interrupt an end of a mask that has already seen that signals wait, and then finds
    /// none. If those were kept signals, `taken` is an earlier end's, so this clears it. The end
    /// may also have cleared the highest bit of `depth` and be about to take `added`, which it
    /// reads in any case. So outside of masks this clears the bit.
    pub fn forget_parent(&self) {
        let process = fork::process();
        if self.saved.process.load(Relaxed) != process {
            if self.kept.swap(0, Relaxed) != 0 {
                self.taken.store(0, Relaxed);
            }
            self.saved.clear();
            self.saved.process.store(process, Relaxed);
            if !self.has_waiting() || matches!(self.depth(), 0 | ONE_LESS) {
                self.clear_waiting();
            }
        }
    }

    /// Returns the highest bit of `depth` as it should be.
    fn waiting(&self) -> u64 {
        if self.has_waiting() { WAITING } else { 0 }
    }
}

/// The masks that a thread has left.
pub struct Masks {
    /// The number of masks that the thread had left before.
    before: u64,
    added: u64,
}

/// What an interrupted operation is about to unblock, set aside while a handler runs.
pub struct Aside {
    depth: u64,
    added: u64,
    /// Whether it was set aside. If not, the handler has interrupted code inside a mask.
    is_ending: bool,
}

/// The bytes of a siginfo that the kernel uses; the rest is zero.
const RECORD: usize = 48;

/// The kernel's record of one signal.
#[repr(C)]
pub struct Record([AtomicU64; RECORD / 8]);

impl Record {
    /// Makes a record of a siginfo.
    pub fn of(info: &libc::siginfo_t) -> Record {
        let record = Record([const { AtomicU64::new(0) }; RECORD / 8]);
        record.save(info);
        record
    }

    fn save(&self, info: &libc::siginfo_t) {
        let words: *const u64 = (info as *const libc::siginfo_t).cast();
        for (index, word) in self.0.iter().enumerate() {
            // SAFETY: inside a siginfo, which is longer and aligned to 8 bytes.
            word.store(unsafe { words.add(index).read() }, Relaxed);
        }
    }

    /// Returns the siginfo that was saved.
    pub fn load(&self) -> libc::siginfo_t {
        // SAFETY: plain old data.
        let mut info: libc::siginfo_t = unsafe { core::mem::zeroed() };
        let words: *mut u64 = (&raw mut info).cast();
        for (index, word) in self.0.iter().enumerate() {
            // SAFETY: as in `save`.
            unsafe { words.add(index).write(word.load(Relaxed)) };
        }
        info
    }
}

const _: () = assert!(size_of::<libc::siginfo_t>() >= RECORD);
const _: () = assert!(align_of::<libc::siginfo_t>() == 8);

/// The rollforward under way, and the signal that waits for its end.
#[repr(C)]
pub struct Rollforward {
    signal: AtomicU16,
    number: AtomicU16,
    process: AtomicU32,
    mask: AtomicU64,
    record: Record,
}

/// A rollforward that has ended, and its signal.
pub struct Pending {
    /// The signal to deliver. `None` in the child of a fork that was made since the start: the
    /// signal is the parent's.
    pub signal: Option<i32>,
    pub info: libc::siginfo_t,
    /// The mask of the interrupted code.
    pub mask: u64,
}

impl Rollforward {
    pub fn is_under_way(&self) -> bool {
        self.signal.load(Relaxed) != 0
    }

    /// Returns the number of the rollforward, which differs from that of the next one.
    pub fn number(&self) -> u16 {
        self.number.load(Relaxed)
    }

    /// Starts a rollforward. There must be none under way.
    pub fn start(&self, signal: i32, info: &libc::siginfo_t, mask: u64) {
        self.record.save(info);
        self.mask.store(mask, Relaxed);
        self.number.fetch_add(1, Relaxed);
        self.process.store(fork::process(), Relaxed);
        self.signal.store(signal as u16, Relaxed);
    }

    /// Ends the rollforward under way and returns a copy of it.
    pub fn take(&self) -> Option<Pending> {
        let signal = self.signal.load(Relaxed);
        if signal == 0 {
            return None;
        }
        let is_own = self.process.load(Relaxed) == fork::process();
        let pending = Pending {
            signal: is_own.then_some(i32::from(signal)),
            info: self.record.load(),
            mask: self.mask.load(Relaxed),
        };
        self.signal.store(0, Relaxed);
        Some(pending)
    }

    /// Returns the mask of the interrupted code.
    pub fn mask(&self) -> u64 {
        self.mask.load(Relaxed)
    }

    /// Changes the mask with which the interrupted code continues.
    pub fn set_mask(&self, mask: u64) {
        self.mask.store(mask, Relaxed);
    }
}

/// The note that a handler runs in the middle of a sequence: that of a fault, or of a signal whose
/// rollforward was abandoned. Handlers that interrupt it are in the middle of that sequence too.
///
/// A handler that returns withdraws the note. A handler that jumps does not. But the jump restores
/// the thread's mask, so that the note no longer holds: it holds as long as any signal is blocked
/// that was not blocked before the handler. If the handler blocks nothing, the stack pointer
/// decides instead.
#[repr(C)]
pub struct Inside {
    context: AtomicU64,
    mask: AtomicU64,
}

/// A note that was replaced, to be restored.
pub struct Noted {
    context: u64,
    mask: u64,
}

impl Inside {
    /// Sets the note for a handler that is about to run with `context`. `mask` holds the signals
    /// that are blocked because it runs. Returns the note before.
    pub fn note(&self, context: Context, mask: u64) -> Noted {
        let before = Noted {
            context: self.context.load(Relaxed),
            mask: self.mask.load(Relaxed),
        };
        self.mask.store(mask, Relaxed);
        self.context.store(context.as_ptr() as u64, Relaxed);
        before
    }

    /// Restores the note from before a handler that has returned.
    pub fn restore(&self, before: Noted) {
        self.context.store(0, Relaxed);
        self.mask.store(before.mask, Relaxed);
        self.context.store(before.context, Relaxed);
    }

    /// Returns whether such a handler runs below the one that was given `context`. If not,
    /// withdraws the note.
    pub fn holds(&self, context: Context) -> bool {
        let noted = self.context.load(Relaxed);
        let mask = self.mask.load(Relaxed);
        // A handler of other code passes on the signal that it got: that is the same delivery, with
        // nothing below it.
        let is_same = noted == context.as_ptr() as u64 && passing_on(context).is_some();
        if noted == 0 || is_same {
            return false;
        }
        let holds = match mask {
            // It blocks nothing. While it runs, the stack lies below its frame.
            0 => context.stack_pointer() as u64 <= noted,
            _ => context.mask() & mask != 0,
        };
        if !holds {
            self.context.store(0, Relaxed);
        }
        holds
    }
}

/// The record of a signal that the kernel has accepted only without it.
#[repr(C)]
pub struct Saved {
    signal: AtomicU16,
    /// Whether the signal was sent by `tgkill`. If not, the kernel has the bare number.
    is_sent: AtomicU16,
    process: AtomicU32,
    record: Record,
}

/// The form in which the kernel has a signal whose record is saved.
pub enum Waiting {
    /// The bare number, without this record.
    Noted(libc::siginfo_t),
    /// A signal of `tgkill`.
    Sent,
}

impl Saved {
    /// As `Words::save`.
    fn keep(&self, signal: i32, info: &libc::siginfo_t) -> bool {
        let free = self.signal.load(Relaxed) == 0;
        if free {
            self.record.save(info);
            self.is_sent.store(0, Relaxed);
            self.signal.store(signal as u16, Relaxed);
        }
        free
    }

    /// As `Words::take_saved`; nothing is kept.
    fn take(&self, signal: i32, info: &libc::siginfo_t) -> Option<libc::siginfo_t> {
        if self.signal.load(Relaxed) != signal as u16
            || !matches!(info.si_code, libc::SI_USER | libc::SI_TKILL)
        {
            return None;
        }
        // SAFETY: every record with these codes contains the sender.
        let sender = unsafe { info.si_pid() };
        let is_bare = match info.si_code {
            // SAFETY: every record with these codes contains the sender.
            libc::SI_USER => sender == 0 && unsafe { info.si_uid() } == 0,
            // `tgkill` by this process. Another signal that it has sent this way has an equal
            // record; either of the two gets the saved one.
            _ => self.is_sent.load(Relaxed) != 0 && sender == own_process() as i32,
        };
        if !is_bare {
            return None;
        }
        let kept = self.record.load();
        self.clear();
        Some(kept)
    }

    /// Returns the form in which the kernel has a signal whose record is saved.
    pub fn waiting(&self, signal: i32) -> Option<Waiting> {
        if self.signal.load(Relaxed) != signal as u16 {
            return None;
        }
        Some(match self.is_sent.load(Relaxed) {
            0 => Waiting::Noted(self.record.load()),
            _ => Waiting::Sent,
        })
    }

    /// Returns the record of a kept signal, or a bare one if it could not be saved.
    pub fn kept(&self, signal: i32) -> libc::siginfo_t {
        if self.signal.load(Relaxed) == signal as u16 {
            return self.record.load();
        }
        // SAFETY: plain old data.
        let mut bare: libc::siginfo_t = unsafe { core::mem::zeroed() };
        bare.si_signo = signal;
        bare
    }

    /// Drops the record if it belongs to one of `signals`.
    pub fn forget(&self, signals: u64) {
        let signal = self.signal.load(Relaxed);
        if signal != 0 && signals & bit(i32::from(signal)) != 0 {
            self.clear();
        }
    }

    /// Notes that the kernel will deliver the signal with the record that `tgkill` makes.
    pub fn expect_sent(&self) {
        self.is_sent.store(1, Relaxed);
    }

    pub fn clear(&self) {
        self.signal.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_as_it_was() {
        let words = Words::of_this_thread();
        // SAFETY: plain old data.
        let mut info: libc::siginfo_t = unsafe { core::mem::zeroed() };
        let bytes: *mut u8 = (&raw mut info).cast();
        for index in 0..RECORD {
            // SAFETY: inside the record.
            unsafe { bytes.add(index).write(index as u8 + 1) };
        }
        assert!(words.rollforward.take().is_none());
        words.rollforward.start(10, &info, 0x55);
        let pending = words.rollforward.take().expect("one was started");
        assert!(!words.rollforward.is_under_way());
        assert_eq!((pending.signal, pending.mask), (Some(10), 0x55));
        let copy: *const u8 = (&raw const pending.info).cast();
        for index in 0..RECORD {
            // SAFETY: inside the record.
            assert_eq!(unsafe { copy.add(index).read() }, index as u8 + 1);
        }
    }

    #[test]
    fn one_record_is_kept_and_goes_to_a_signal_without_one() {
        let words = Words::of_this_thread();
        let saved = &words.saved;
        // SAFETY: plain old data.
        let mut info: libc::siginfo_t = unsafe { core::mem::zeroed() };
        let bare = info;
        info.si_code = libc::SI_QUEUE;
        assert!(words.save(40, &info));
        assert!(!words.save(41, &info), "one only");
        assert!(saved.take(41, &bare).is_none(), "another signal");
        assert!(
            saved.take(40, &info).is_none(),
            "it has a record of its own"
        );
        assert_eq!(saved.take(40, &bare).expect("kept").si_code, libc::SI_QUEUE);
        assert!(saved.take(40, &bare).is_none(), "once");
    }

    /// The signals that a thread keeps were sent to its process, so they are not the child's.
    #[test]
    fn a_child_has_nothing_that_waits_nor_anything_to_unblock_for_it() {
        let words = Words::of_this_thread();
        let forks = || words.saved.process.fetch_add(1, Relaxed);
        // Nothing is kept: a handler that is not managed has ended a mask and unblocked the signal,
        // for the end of a mask that it interrupted. The child continues that end.
        words.taken.store(7, Relaxed);
        forks();
        words.forget_parent();
        assert_eq!(words.taken.load(Relaxed), 7);
        // The fork happens inside a mask; or in the middle of the mask's end, before or after the
        // end has seen that signals wait.
        for (depth, is_seen) in [(1, false), (0, false), (0, true)] {
            for added in [0, 5] {
                words.depth.store(depth, Relaxed);
                words.taken.store(7, Relaxed);
                words.add(added);
                words.keep(bit(libc::SIGTTOU));
                if is_seen {
                    words.clear_waiting();
                }
                forks();
                words.forget_parent();
                assert!(!words.has_kept() && words.taken.load(Relaxed) == 0);
                let waits = if depth == 1 { words.waiting() } else { 0 };
                assert_eq!(words.depth.swap(0, Relaxed), depth | waits);
                assert_eq!(words.added.swap(0, Relaxed), added);
            }
        }
    }
}
