//! Deliveries inside deliveries. Some signals cannot be blocked, so one of them may arrive at any
//! instruction of another signal's delivery. That delivery may itself have interrupted a sequence
//! that is half done.
//!
//! ```text
//!                      entry   known                    decided
//!  thread   a b │        │       │                         │                    │ c d
//!  delivery     └────────┴───────┴── look up, roll forward ┴── handler ─────────┘
//!  a signal     first: before    waits: after the          interrupts the
//!  that comes   the other one    sequence is whole,        handler, as it
//!  meanwhile                     before the handler        would any code
//! ```
//!
//! The thread's words point at a delivery until it has decided how the interrupted sequence
//! continues, and has restarted it or run it to its end. A signal that interrupts such a delivery
//! leaves its record there and returns. The delivery passes the signal to its handler when the
//! sequence is complete, with its own context. This needs neither a system call nor a mask, because
//! a fault of the clone must not find its signal blocked.
//!
//! A real fault cannot wait. Its handler reports that it is inside, and so does every handler that
//! interrupts that one: see [`Inside`](super::words::Inside).

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use super::actions::{self, FAULTS, unmaskable};
use super::words::{Record, Words};
use super::{fork, is_raised_by_fault};
use crate::arch::{
    CONTEXT_AFTER, CONTEXT_AT_RETURN, Entering, RETURN_AFTER, entering, is_ending, is_returning,
};
use crate::platform::{Context, bit};
use crate::sequence::table;

/// The number of signals that may have to wait: fault signals that are sent, and `SIGABRT`.
const MAY_WAIT: usize = FAULTS.len() + 1;

/// A delivery under way, on the handler's stack. Only this thread and its handlers use it. Its
/// fields are atomics because a handler may run between any two instructions. The assembly creates
/// it: it knows the size and all fields except the places.
#[repr(C)]
pub struct Frame {
    before: AtomicPtr<Frame>,
    context: AtomicPtr<c_void>,
    /// A set: which places are filled in.
    waiting: AtomicU64,
    faulted: AtomicU64,
    /// The mask before the entry's system call, or [`UNKNOWN`]; later, that of the interrupted
    /// code.
    mask: AtomicU64,
    signal: usize,
    info: *const libc::siginfo_t,
    entry: usize,
    places: [UnsafeCell<MaybeUninit<Waiting>>; MAY_WAIT],
}

const _: () = assert!(size_of::<Frame>() == 456);

/// Stands for an unknown mask: the entry made no system call, or the kernel refused it. No real
/// mask contains this signal.
const UNKNOWN: u64 = bit(libc::SIGKILL);

/// The address to which atomseq's entries return, where the C library calls `rt_sigreturn`; 0
/// before the first return. It is the same for all signals.
static WAY_BACK: AtomicUsize = AtomicUsize::new(0);

/// The deliveries that another delivery precedes, and those that it follows although they have not
/// returned yet.
pub struct Over {
    /// The context of what the last of them has interrupted, if that matters.
    context: Context,
    /// Whether one of them is of a fault, whose sequence cannot continue.
    pub has_fault: bool,
    /// The signals that the kernel blocked when it called their entries.
    pub blocked: u64,
    /// The mask that one of them has found, if one has.
    pub mask: Option<u64>,
}

/// A signal that waits.
#[repr(C)]
struct Waiting {
    record: Record,
    /// Which of the entries the kernel has called.
    entry: u32,
    /// [`fork::process`] when it arrived: in the child of a fork since then, it is the parent's.
    process: u32,
}

impl Frame {
    /// Returns the delivery whose code this one has interrupted.
    pub fn before(&self) -> Option<&Frame> {
        // SAFETY: null, or a delivery that was under way when this one began, and ends after it.
        unsafe { self.before.load(Relaxed).as_ref() }
    }

    /// Returns the context of what was interrupted.
    pub fn context(&self) -> Context {
        // SAFETY: what the kernel has passed to this delivery, or to one that it interrupted.
        unsafe { Context::new(self.context.load(Relaxed)) }
    }

    /// Returns the signal, its siginfo, and the number of the entry that was called.
    pub fn arguments(&self) -> (c_int, &libc::siginfo_t, usize) {
        // SAFETY: what the kernel has passed to this delivery, or a handler that has called the
        // entry; it outlives that.
        (self.signal as c_int, unsafe { &*self.info }, self.entry)
    }

    /// Returns the mask that the entry has found, or that was [set](Frame::set_mask) since; `None`
    /// if it is not known.
    pub fn mask(&self) -> Option<u64> {
        Some(self.mask.load(Relaxed)).filter(|&mask| mask != UNKNOWN)
    }

    /// Sets the mask to that of the interrupted code, for deliveries that interrupt this one.
    pub fn set_mask(&self, mask: u64) {
        self.mask.store(mask, Relaxed);
    }

    /// Returns whether the kernel has called the entry with the context `own`, so that its return
    /// restores the mask. Otherwise another handler has called it. (A handler that ends with a jump
    /// to the entry looks like the kernel; it leaves no frame to return to.)
    pub fn is_called_by_kernel(&self, own: Context) -> bool {
        own.as_ptr().addr() == (&raw const *self).addr() + CONTEXT_AFTER
    }

    /// Orders this delivery against one whose entry, or return, it has interrupted, by taking over
    /// that delivery's context.
    ///
    /// If the entry has not registered the other delivery yet, this one precedes it. If the other
    /// delivery is about to return to a sequence that is half done, this one follows it.
    pub fn come_first(&self) -> Over {
        let own = self.context();
        let over = self.over(own);
        self.context.store(over.context.as_ptr(), Relaxed);
        if leaving(own) == Some(Leaving::OnStack) {
            // That delivery no longer checks for waiting signals, so none must be left with it.
            let other = core::ptr::with_exposed_provenance_mut::<Frame>(own.stack_pointer());
            if self.before.load(Relaxed) == other {
                // SAFETY: that delivery, which has not ended.
                self.before
                    .store(unsafe { (*other).before.load(Relaxed) }, Relaxed);
            }
        }
        over
    }

    /// Returns the deliveries that [`come_first`](Frame::come_first) finds from `own`, the context
    /// that this delivery began with.
    pub fn over(&self, own: Context) -> Over {
        let mut over = Over {
            context: own,
            has_fault: false,
            blocked: 0,
            mask: None,
        };
        let (mut at, mut is_entering) = (own, false);
        loop {
            let place = match (entering(at.program_counter()), leaving(at)) {
                (Some(place), _) => place,
                (None, Some(place)) => {
                    at = place.context(at);
                    continue;
                }
                (None, None) => break,
            };
            is_entering = true;
            let (signal, info, context) = match place {
                Entering::InArguments => {
                    let [signal, info, context] = at.arguments();
                    let info = core::ptr::with_exposed_provenance(info);
                    let context = core::ptr::with_exposed_provenance_mut(context);
                    (signal, info, context)
                }
                Entering::OnStack => {
                    let stack_pointer = at.stack_pointer();
                    let other: *const Frame = core::ptr::with_exposed_provenance(stack_pointer);
                    // SAFETY: that delivery, of which these four are filled in.
                    let (signal, info, context, mask) = unsafe {
                        (
                            (*other).signal,
                            (*other).info,
                            &(*other).context,
                            &(*other).mask,
                        )
                    };
                    let mask = mask.load(Relaxed);
                    over.mask = Some(mask).filter(|&mask| mask != UNKNOWN).or(over.mask);
                    (signal, info, context.load(Relaxed))
                }
            };
            let signal = signal as c_int;
            // SAFETY: what the kernel has passed to that entry, or a handler that has called it.
            over.has_fault |= unsafe { is_raised_by_fault(signal, &*info) };
            over.blocked |= actions::installed_mask(signal);
            // SAFETY: what the kernel has passed to that entry, or a handler that has called it.
            at = unsafe { Context::new(context) };
        }
        if is_entering || at != own && table::find(at.program_counter()).is_some() {
            over.context = at;
        }
        over
    }

    /// Returns the context that the kernel has passed.
    ///
    /// # Safety
    /// The kernel has called the entry.
    pub unsafe fn context_of_kernel(&self) -> Context {
        let address = (&raw const *self).addr() + CONTEXT_AFTER;
        // SAFETY: the caller's promise.
        unsafe { Context::new(core::ptr::with_exposed_provenance_mut(address)) }
    }

    /// Returns whether this delivery, or one that it has interrupted, has interrupted a sequence
    /// that is half done.
    pub fn is_inside(&self) -> bool {
        let mut frame = Some(self);
        while let Some(at) = frame {
            if table::find(at.context().program_counter()).is_some() {
                return true;
            }
            frame = at.before();
        }
        false
    }

    /// Keeps a signal until this delivery has decided. A signal of the same number that waits
    /// already absorbs it, as in the kernel.
    pub fn keep(&self, entry: usize, signal: c_int, info: &libc::siginfo_t) {
        let Some(place) = place(signal) else { return };
        if self.waiting.load(Relaxed) & bit(signal) != 0 {
            return;
        }
        // SAFETY: no code reads the place before its bit is set. A handler that interrupts this and
        // keeps the same signal writes the whole place, and then this overwrites it.
        unsafe {
            (*self.places[place].get()).write(Waiting {
                record: Record::of(info),
                entry: entry as u32,
                process: fork::process(),
            })
        };
        self.waiting.fetch_or(bit(signal), Relaxed);
    }

    /// Returns whether a signal waits for this delivery.
    pub fn has_waiting(&self) -> bool {
        self.waiting.load(Relaxed) != 0
    }

    /// Takes a waiting signal: the entry that was called, its number and its record.
    pub fn take(&self) -> Option<(usize, c_int, libc::siginfo_t)> {
        loop {
            let signal = match self.waiting.load(Relaxed) {
                0 => return None,
                waiting => waiting.trailing_zeros() as c_int + 1,
            };
            let place = &self.places[place(signal)?];
            // SAFETY: written before its bit was set.
            let waiting = unsafe { (*place.get()).assume_init_ref() };
            let (entry, info) = (waiting.entry as usize, waiting.record.load());
            let is_own = waiting.process == fork::process();
            self.waiting.fetch_and(!bit(signal), Relaxed);
            if is_own {
                return Some((entry, signal, info));
            }
        }
    }

    /// Makes arriving signals wait for this delivery.
    pub fn begin(&self) {
        let delivery = &Words::of_this_thread().delivery;
        delivery.store((&raw const *self).expose_provenance() as u64, Relaxed);
    }

    /// Makes arriving signals no longer wait: a handler is about to run.
    pub fn decided(&self) {
        Words::of_this_thread().delivery.store(0, Relaxed);
    }

    /// As [`decided`](Frame::decided), unless a sequence is half done. Then no handler runs now,
    /// and arriving signals wait until the end of this delivery.
    pub fn decided_unless_inside(&self) {
        if !self.is_inside() {
            self.decided();
        }
    }

    /// Ends this delivery, which began with `own`. Signals that still wait for it are moved to the
    /// delivery that it has interrupted.
    ///
    /// If there is none, they are left to the caller, and the entry unregisters this delivery at
    /// its very end, so that a sequence that is half done stays protected. If a handler of other
    /// code has called the entry, this unregisters it, because that handler continues with its own
    /// mask.
    pub fn end(&self, own: Context) {
        let is_called_by_kernel = self.is_called_by_kernel(own);
        if is_called_by_kernel {
            let address = (&raw const *self).addr() + RETURN_AFTER;
            let back: *const usize = core::ptr::with_exposed_provenance(address);
            // SAFETY: the kernel's frame begins with it, or the entry has saved it.
            let back = unsafe { back.read() };
            // Relaxed: no other data depends on it. It hardly ever changes, and threads share it.
            if WAY_BACK.load(Relaxed) != back {
                WAY_BACK.store(back, Relaxed);
            }
        }
        match self.before() {
            Some(outer) => {
                outer.begin();
                while let Some((entry, signal, info)) = self.take() {
                    outer.keep(entry, signal, &info);
                }
            }
            None if is_called_by_kernel => {}
            None => self.decided(),
        }
    }

    /// Ends a delivery again whose entry a handler of other code has called. Returns whether a
    /// signal waits for it.
    pub fn has_ended(&self) -> bool {
        if self.before().is_some() {
            return false;
        }
        self.decided();
        self.has_waiting()
    }

    /// Forgets the delivery that this one has interrupted, for a control.
    pub fn skip_before(&self) {
        self.before.store(core::ptr::null_mut(), Relaxed);
    }

    /// Returns how long ago the first fault was of the clone that this delivery runs, in
    /// nanoseconds; 0 if this is the first. Where the clock cannot be read, each fault counts for a
    /// millisecond.
    pub fn faulting_for(&self, now: Option<Duration>) -> u64 {
        since_first(&self.faulted, now)
    }
}

/// Where a delivery that is about to return keeps its arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// In the delivery that the stack pointer points at.
    OnStack,
    /// In the register of the third argument.
    InArgument,
    /// In the kernel's frame, at the stack pointer.
    InFrame,
}

impl Leaving {
    fn context(self, at: Context) -> Context {
        let stack_pointer = at.stack_pointer();
        let context = match self {
            // SAFETY: that delivery.
            Leaving::OnStack => unsafe {
                let other: *const Frame = core::ptr::with_exposed_provenance(stack_pointer);
                (*other).context.load(Relaxed)
            },
            Leaving::InArgument => core::ptr::with_exposed_provenance_mut(at.arguments()[2]),
            Leaving::InFrame => {
                core::ptr::with_exposed_provenance_mut(stack_pointer + CONTEXT_AT_RETURN)
            }
        };
        // SAFETY: what the kernel is about to restore, or what it has passed to that delivery.
        unsafe { Context::new(context) }
    }
}

/// Returns where a delivery keeps its arguments, if `at` is its context and it is about to return.
fn leaving(at: Context) -> Option<Leaving> {
    let pc = at.program_counter();
    match is_ending(pc) {
        Some(true) => Some(Leaving::InArgument),
        Some(false) => Some(Leaving::OnStack),
        // Relaxed: no other data depends on it.
        None => {
            is_returning(pc, WAY_BACK.load(Relaxed), at.system_call()).then_some(Leaving::InFrame)
        }
    }
}

fn since_first(first: &AtomicU64, now: Option<Duration>) -> u64 {
    const MILLISECOND: u64 = 1_000_000;
    let before = first.load(Relaxed);
    match now.map(|now| now.as_nanos() as u64) {
        Some(now) if before == 0 => {
            // Never 0, which means that there was none.
            first.store(now.max(1), Relaxed);
            0
        }
        Some(now) => now.saturating_sub(before),
        None => {
            first.store(before + MILLISECOND, Relaxed);
            before
        }
    }
}

/// Returns the index of a signal's place.
fn place(signal: c_int) -> Option<usize> {
    unmaskable().position(|unmaskable| unmaskable == signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C library documents no interface for how handlers return, so this reads its code.
    #[test]
    fn deliveries_return_to_two_instructions_that_restore_the_context() {
        const SIGNAL: c_int = libc::SIGWINCH;
        // SAFETY: the handler does nothing.
        unsafe {
            crate::signal::install(SIGNAL, |_| {}).expect("a signal of ours");
            libc::raise(SIGNAL);
        }
        crate::signal::uninstall(SIGNAL).expect("installed");
        let back = WAY_BACK.load(Relaxed);
        assert_ne!(back, 0);
        // SAFETY: text that handlers return to; each C library has more behind it.
        let text: [u8; 9] = unsafe { core::ptr::with_exposed_provenance::<[u8; 9]>(back).read() };
        let number = libc::SYS_rt_sigreturn as usize;
        let is_call = |call: &[u8], at: usize| {
            text[at..].starts_with(call) && is_returning(back + at, back, number)
        };
        #[cfg(target_arch = "x86_64")]
        assert!([5, 7].into_iter().any(|at| is_call(&[0x0f, 0x05], at)));
        #[cfg(target_arch = "aarch64")]
        assert!(is_call(&[0x01, 0x00, 0x00, 0xd4], 4));
        assert!(is_returning(back, back, 0));
        assert!(!is_returning(back + 4, back, number + 1) && !is_returning(0, 0, number));
    }

    #[test]
    fn faults_take_time_where_nobody_tells_it() {
        let outcome = AtomicU64::new(0);
        let times = [0, 5, 9].map(|now| since_first(&outcome, Some(Duration::from_nanos(now))));
        assert_eq!(times, [0, 4, 8]);
        let refused = AtomicU64::new(0);
        let times = [(); 3].map(|()| since_first(&refused, None));
        assert_eq!(times, [0, 1_000_000, 2_000_000]);
    }
}
