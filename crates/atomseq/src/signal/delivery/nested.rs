//! Deliveries inside deliveries. Some signals cannot be blocked, so one of them may arrive at any
//! instruction of another one's delivery: below that lies what it has interrupted, maybe a sequence
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
//! Until a delivery has decided how the interrupted sequence goes on, and has seen to it, it is
//! what this thread's words point at. A signal that finds such a delivery right below it leaves its
//! record there and returns; the delivery passes it to its handler as soon as the sequence is
//! whole, with the context that it has itself. That needs neither a system call nor a mask: a fault
//! of the clone must not find its signal blocked.
//!
//! A real fault cannot wait. Its handler is told that it is inside, and so is every handler that
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

/// How many signals may have to wait: faults that somebody sends, and `SIGABRT`.
const MAY_WAIT: usize = FAULTS.len() + 1;

/// A delivery under way, on its own stack. Only this thread and its handlers use it; atomics,
/// because a handler may come between any two instructions. The assembly makes it; it knows all but
/// the places, and the size.
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

/// In place of a mask: the entry made no system call, or the kernel refused it. No mask holds this
/// signal.
const UNKNOWN: u64 = bit(libc::SIGKILL);

/// Where the handlers of atomseq's entries return to, to have the kernel restore a context: 0
/// before the first return. The C library has one place for all.
static WAY_BACK: AtomicUsize = AtomicUsize::new(0);

/// The deliveries that another one comes before, and those that it comes after though they have not
/// returned.
pub struct Over {
    /// What the last of them has interrupted, where that counts.
    context: Context,
    /// Is one of them of a fault, whose sequence cannot go on?
    pub has_fault: bool,
    /// What the kernel blocked when it called their entries.
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
    /// The delivery whose code this one has interrupted.
    pub fn before(&self) -> Option<&Frame> {
        // SAFETY: null, or a delivery that was under way when this one began, and ends after it.
        unsafe { self.before.load(Relaxed).as_ref() }
    }

    /// The context of what was interrupted.
    pub fn context(&self) -> Context {
        // SAFETY: what the kernel has passed to this delivery, or to one that it interrupted.
        unsafe { Context::new(self.context.load(Relaxed)) }
    }

    /// The signal, its siginfo, and the number of the entry that was called.
    pub fn arguments(&self) -> (c_int, &libc::siginfo_t, usize) {
        // SAFETY: what the kernel has passed to this delivery, or a handler that has called the
        // entry; it outlives that.
        (self.signal as c_int, unsafe { &*self.info }, self.entry)
    }

    /// The mask that this delivery has found, or was [set](Frame::set_mask); `None` if it is not
    /// known.
    pub fn mask(&self) -> Option<u64> {
        Some(self.mask.load(Relaxed)).filter(|&mask| mask != UNKNOWN)
    }

    /// Sets it to that of the code that was interrupted, for the deliveries that interrupt this
    /// one's code.
    pub fn set_mask(&self, mask: u64) {
        self.mask.store(mask, Relaxed);
    }

    /// Has the kernel called the entry with the context `own`, so that the return restores the
    /// mask? If not, another handler has called it. (One that ends with a jump to the entry looks
    /// like the kernel. Nothing of it is left to return to.)
    pub fn is_called_by_kernel(&self, own: Context) -> bool {
        own.as_ptr().addr() == (&raw const *self).addr() + CONTEXT_AFTER
    }

    /// Where this delivery has interrupted the entry of another one, of which nothing is known yet,
    /// it takes that one's context for its own: it comes first.
    ///
    /// The same where a delivery is about to return to a sequence that is half done: this one comes
    /// after it.
    pub fn come_first(&self) -> Over {
        let own = self.context();
        let over = self.over(own);
        self.context.store(over.context.as_ptr(), Relaxed);
        if leaving(own) == Some(Leaving::OnStack) {
            // What waited for that delivery might wait for ever: it has looked already.
            let other = core::ptr::with_exposed_provenance_mut::<Frame>(own.stack_pointer());
            if self.before.load(Relaxed) == other {
                // SAFETY: that delivery, which has not ended.
                self.before
                    .store(unsafe { (*other).before.load(Relaxed) }, Relaxed);
            }
        }
        over
    }

    /// What [`come_first`](Frame::come_first) finds in `own`, the context that this delivery has
    /// begun with.
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
            // SAFETY: as above.
            at = unsafe { Context::new(context) };
        }
        if is_entering || at != own && table::find(at.program_counter()).is_some() {
            over.context = at;
        }
        over
    }

    /// The context that the kernel has passed.
    ///
    /// # Safety
    /// The kernel has called the entry.
    pub unsafe fn context_of_kernel(&self) -> Context {
        let address = (&raw const *self).addr() + CONTEXT_AFTER;
        // SAFETY: the caller's promise.
        unsafe { Context::new(core::ptr::with_exposed_provenance_mut(address)) }
    }

    /// Is a sequence half done that this delivery, or one whose code it has interrupted, has
    /// interrupted?
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

    /// Keeps a signal until this delivery has decided. Of one that waits already, nothing more is
    /// kept: so it is with signals that the kernel keeps.
    pub fn keep(&self, entry: usize, signal: c_int, info: &libc::siginfo_t) {
        let Some(place) = place(signal) else { return };
        if self.waiting.load(Relaxed) & bit(signal) != 0 {
            return;
        }
        // SAFETY: nobody reads it before the bit is set. A handler in between that keeps the same
        // signal writes all of it, and then this does.
        unsafe {
            (*self.places[place].get()).write(Waiting {
                record: Record::of(info),
                entry: entry as u32,
                process: fork::process(),
            })
        };
        self.waiting.fetch_or(bit(signal), Relaxed);
    }

    /// Does any signal wait for this delivery?
    pub fn has_waiting(&self) -> bool {
        self.waiting.load(Relaxed) != 0
    }

    /// Takes one that waits; says which entry it came by.
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

    /// From now on, what arrives waits for this delivery.
    pub fn begin(&self) {
        let delivery = &Words::of_this_thread().delivery;
        delivery.store((&raw const *self).expose_provenance() as u64, Relaxed);
    }

    /// From now on, what arrives does not wait: a handler is about to run.
    pub fn decided(&self) {
        Words::of_this_thread().delivery.store(0, Relaxed);
    }

    /// The same, unless a sequence is half done, over which no handler runs now: what arrives waits
    /// up to the end.
    pub fn decided_unless_inside(&self) {
        if !self.is_inside() {
            self.decided();
        }
    }

    /// This delivery, which began with `own`, ends. What still waits for it waits for the one
    /// before; if there is none, it is left to the caller. In that case the entry ends it, so that
    /// it protects a sequence that is half done to the last; but not if a handler of others has
    /// called the entry, which goes on with a mask of its own.
    pub fn end(&self, own: Context) {
        let is_called_by_kernel = self.is_called_by_kernel(own);
        if is_called_by_kernel {
            let address = (&raw const *self).addr() + RETURN_AFTER;
            let back: *const usize = core::ptr::with_exposed_provenance(address);
            // SAFETY: the kernel's frame begins with it, or the entry has saved it.
            let back = unsafe { back.read() };
            // Relaxed: a number on its own. It hardly ever changes, and threads share it.
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

    /// As [`end`](Frame::end) once more, for a delivery that a handler of others has called: does
    /// anything wait for it?
    pub fn has_ended(&self) -> bool {
        if self.before().is_some() {
            return false;
        }
        self.decided();
        self.has_waiting()
    }

    /// The delivery whose code this one has interrupted never goes on: for a control.
    pub fn skip_before(&self) {
        self.before.store(core::ptr::null_mut(), Relaxed);
    }

    /// How long ago the first fault of the clone was that this delivery runs, in nanoseconds; 0 if
    /// this is the first. Where the system does not tell the time, each fault counts for a
    /// millisecond.
    pub fn faulting_for(&self, now: Option<Duration>) -> u64 {
        since_first(&self.faulted, now)
    }
}

/// Where a delivery that is about to return keeps what it has got.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// In the delivery that the stack pointer points at.
    OnStack,
    /// In the register of the third argument.
    InArgument,
    /// Where the stack pointer says it to the kernel.
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

/// Is `at` the context of a delivery that is about to return?
fn leaving(at: Context) -> Option<Leaving> {
    let pc = at.program_counter();
    match is_ending(pc) {
        Some(true) => Some(Leaving::InArgument),
        Some(false) => Some(Leaving::OnStack),
        // Relaxed: a number on its own.
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

/// Where the record of a signal lies.
fn place(signal: c_int) -> Option<usize> {
    unmaskable().position(|unmaskable| unmaskable == signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which system call the C library has handlers return to, and how, no interface says.
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
