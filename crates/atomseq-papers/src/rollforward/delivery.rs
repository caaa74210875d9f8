//! The handlers: of the signals that wait for sequences, and of the two faults that end a
//! rollforward.
//!
//! `atomseq::signal` calls them: the first with all signals blocked that can wait, the second with
//! the managed ones. Nothing here allocates or locks, except that rewriting waits for another
//! thread's.

use std::ptr;
use std::sync::atomic::Ordering::{self, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};

use atomseq::internals::{Context, change_mask, roll};
use atomseq::local::{Interruptible, per_thread};
use atomseq::signal::{self, Event, Handler, Options};

use super::rewriting::{self, Trap};
use super::{Error, Kind, code};
use crate::arch;
use crate::faults::{self, Module};
use crate::lock::Lock;
use crate::statistics::{ROLLFORWARDS, TRAPS_HIT};

/// What `inAS` is inside a sequence of `DynJump`, as in M94; everything else is FALSE.
const TRUE: usize = 0;
const FALSE: usize = 1;

/// What a pointer to FALSE points to for `DynFault`, whose FALSE is 0.
static NO_END: usize = 0;

/// A thread's words. Templates of sequences access the first three by their offsets. All accesses
/// are relaxed: only the thread and its handlers use them.
#[repr(C)]
pub struct Words {
    /// 0: `inAS` of `DynJump`.
    in_sequence: AtomicUsize,
    /// 8: `destAddr` of `DynFault`, which is also its `inAS`: 0 outside of its sequences.
    end: AtomicUsize,
    /// 16: `falseOrFault`.
    false_or_fault: AtomicPtr<usize>,
    /// The landmark whose trap this thread's rollforward waits for, or 0.
    landmark: AtomicUsize,
}

/// What the words hold.
type Values = (usize, usize, *mut usize, usize);

impl Words {
    fn get(&self) -> Values {
        let (in_sequence, end) = (self.in_sequence.load(Relaxed), self.end.load(Relaxed));
        let false_or_fault = self.false_or_fault.load(Relaxed);
        (
            in_sequence,
            end,
            false_or_fault,
            self.landmark.load(Relaxed),
        )
    }

    fn set(&self, (in_sequence, end, false_or_fault, landmark): Values) {
        self.in_sequence.store(in_sequence, Relaxed);
        self.end.store(end, Relaxed);
        self.false_or_fault.store(false_or_fault, Relaxed);
        self.landmark.store(landmark, Relaxed);
    }
}

// SAFETY: atomics, which are interruptible, and nothing else.
unsafe impl Interruptible for Words {}

per_thread! {
    // In a shared object, too, it is there from a thread's first instruction on: finding it must
    // not allocate, because handlers do.
    static WORDS: Words = Words {
        in_sequence: AtomicUsize::new(FALSE),
        end: AtomicUsize::new(0),
        false_or_fault: AtomicPtr::new(no_end()),
        landmark: AtomicUsize::new(0),
    };
}

/// Returns what `false_or_fault` is while nothing is rolled forward.
const fn no_end() -> *mut usize {
    (&raw const NO_END).cast_mut()
}

/// Returns this thread's words.
#[inline(always)]
pub fn words() -> *const Words {
    WORDS.with(ptr::from_ref)
}

/// A handler and its level. Each installation leaks one, since a signal handler may read it.
struct Installed {
    handler: Handler,
    level: u32,
}

/// What `install` has stored for a signal.
struct Action {
    /// The handler that was installed last, or null.
    installed: AtomicPtr<Installed>,
    /// The signals of a higher level, which may interrupt the handler.
    higher: AtomicU64,
}

impl Action {
    fn installed(&self) -> Option<&'static Installed> {
        // Acquire: pairs with the Release in `install`.
        let installed = self.installed.load(Ordering::Acquire);
        // SAFETY: null, or leaked.
        unsafe { installed.as_ref() }
    }
}

const SIGNALS: usize = 65;

static ACTIONS: [Action; SIGNALS] = [const {
    Action {
        installed: AtomicPtr::new(ptr::null_mut()),
        higher: AtomicU64::new(0),
    }
}; SIGNALS];

/// Held by `install`.
static INSTALLING: Lock = Lock::new();

/// Whether the handlers of faults are installed. Relaxed: under the lock.
static IS_STARTED: AtomicBool = AtomicBool::new(false);

/// See [`super::install`].
pub unsafe fn install(signal: i32, level: u32, handler: Handler) -> Result<(), Error> {
    if matches!(signal, libc::SIGSEGV | libc::SIGTRAP) {
        return Err(Error::Handler(signal::Error::Reserved(signal)));
    }
    let _held = INSTALLING.take();
    if !IS_STARTED.load(Relaxed) {
        rewriting::check()?;
        let signals = [libc::SIGSEGV, libc::SIGTRAP];
        // SAFETY: it only accesses its context, this thread's words and code.
        unsafe { faults::install(Module::Rollforward, on_fault, &signals) }
            .map_err(Error::Handler)?;
        IS_STARTED.store(true, Relaxed);
    }
    let index = usize::try_from(signal)
        .ok()
        .filter(|index| (1..SIGNALS).contains(index));
    let Some(index) = index else {
        return Err(Error::Handler(signal::Error::NoSignal(signal)));
    };
    let place = &ACTIONS[index].installed;
    let installed = Box::leak(Box::new(Installed { handler, level }));
    // Both at once, and before the first delivery. Release: pairs with the Acquire in `installed`.
    let before = place.swap(installed, Ordering::AcqRel);
    // SAFETY: `on_signal` does the same as the handlers above, then calls the caller's handler,
    // which the caller vouches for.
    let result = unsafe { signal::install_with(signal, on_signal, alone()) };
    let result = result.map_err(Error::Handler);
    if result.is_err() {
        place.store(before, Ordering::Release);
    }
    let levels = ACTIONS
        .each_ref()
        .map(|action| action.installed().map(|installed| installed.level));
    for (action, own) in ACTIONS.iter().zip(levels) {
        let is_higher = |other: Option<u32>| other > own && own.is_some();
        let higher = (1..SIGNALS).filter(|signal| is_higher(levels[*signal]));
        let higher = higher.fold(0, |set, signal| set | 1 << (signal - 1));
        // Relaxed: a set on its own. A handler that reads the old one lets in the signals that were
        // of a higher level before.
        action.higher.store(higher, Ordering::Relaxed);
    }
    result
}

/// Returns the options of `on_signal`, which blocks all signals that can wait. Those that are
/// managed would not do: one may become so in the middle of a rollforward.
fn alone() -> Options {
    // Those between belong to the C library, which must reach a thread at any time.
    let all = (1..32).chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
    all.fold(Options::new(), Options::blocking)
}

/// What a signal has interrupted.
#[derive(Clone, Copy)]
enum Interrupted {
    /// A sequence that ends with a jump to `end`, or where the handler wants.
    Jump(Kind, usize),
    /// A sequence of `DynFault`, whose end is here.
    Fault(usize),
    /// A designated sequence with this landmark.
    Designated(usize),
}

/// Finds the sequence that a signal of this level has interrupted and must wait for.
fn interrupted(context: Context, words: &Words, level: u32) -> Option<Interrupted> {
    let pc = context.program_counter();
    let end = words.end.load(Relaxed);
    if end != 0 {
        // Behind `end` the sequence is complete, and the thread may have read `falseOrFault`.
        return (pc < end).then_some(Interrupted::Fault(end));
    }
    // SAFETY: the register is in the context, which this handler owns.
    let end = unsafe { register(context).read() };
    let kind = match words.in_sequence.load(Relaxed) {
        TRUE => Kind::DynJump,
        // SAFETY: the program counter of this thread.
        _ if unsafe { code::is_safe(pc, end) } => Kind::HybJump,
        // SAFETY: the program counter of this thread.
        _ => return unsafe { code::landmark_behind(pc) }.map(Interrupted::Designated),
    };
    // SAFETY: the end of a sequence that jumps, before which its level stands.
    let own = unsafe { ((end - size_of::<u32>()) as *const u32).read_unaligned() };
    (level <= own).then_some(Interrupted::Jump(kind, end))
}

/// Returns the place of the well-known register in a context.
fn register(context: Context) -> *mut usize {
    context
        .registers()
        .cast::<usize>()
        .wrapping_add(arch::REGISTER)
}

/// Runs an interrupted sequence to its end, so that the thread continues behind it.
fn roll_forward(context: Context, words: &Words, interrupted: Interrupted) {
    let pc = context.program_counter();
    // The end of two of the schemes is a fault, which ends the process if the thread blocks it.
    let faults = 1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGTRAP - 1);
    let blocked = context.mask() & faults;
    let is_opened = blocked != 0 && !matches!(interrupted, Interrupted::Jump(..));
    let mask = is_opened.then(|| change_mask(libc::SIG_UNBLOCK, blocked));
    // SAFETY: a sequence uses no stack, and each of its ways out goes to `back`, as the three cases
    // below arrange. There it does what the end of a clone does.
    let roll = || unsafe { roll(context.registers(), pc) };
    let kind = match interrupted {
        Interrupted::Jump(kind, end) => {
            let register = register(context);
            // SAFETY: the register is in the context, which this handler owns.
            unsafe { register.write(arch::back()) };
            roll();
            // SAFETY: the register is in the context, which this handler owns.
            unsafe { register.write(end) };
            context.set_program_counter(end);
            kind
        }
        Interrupted::Fault(end) => {
            let faulting = ptr::without_provenance_mut(arch::FAULTING);
            words.false_or_fault.store(faulting, Relaxed);
            roll();
            words.false_or_fault.store(no_end(), Relaxed);
            words.end.store(0, Relaxed);
            // The thread reads FALSE there, and is outside.
            context.set_program_counter(end);
            Kind::DynFault
        }
        Interrupted::Designated(landmark) => {
            // SAFETY: a landmark; the options of `on_signal` block all signals that can wait.
            let Ok(trap) = (unsafe { Trap::write(landmark) }) else {
                // What `check` has found possible no longer is, and the sequence would be torn.
                std::process::abort();
            };
            words.landmark.store(landmark, Relaxed);
            roll();
            words.landmark.store(0, Relaxed);
            trap.remove();
            context.set_program_counter(landmark + arch::LANDMARK_BYTES);
            Kind::Designated
        }
    };
    if let Some(mask) = mask {
        change_mask(libc::SIG_SETMASK, mask);
    }
    ROLLFORWARDS[kind as usize].add();
}

/// Handles a signal that waits for sequences.
fn on_signal(event: &mut Event<'_>) {
    let action = &ACTIONS[event.signal() as usize];
    let Some(&Installed { handler, level }) = action.installed() else {
        return; // `install` has stored it before `on_signal` was installed
    };
    // SAFETY: the context of this handler, which outlives its use.
    let context = unsafe { Context::new(event.context()) };
    // SAFETY: this thread's words, which live as long as the thread.
    let words = unsafe { &*words() };
    // One that cannot may have interrupted a rollforward. It runs at once, and lets no signal in.
    let can_wait = faults::can_wait(event.signal());
    let found = can_wait.then(|| interrupted(context, words, level));
    if let Some(found) = found.flatten() {
        let errno = errno();
        roll_forward(context, words, found);
        set_errno(errno);
    }
    // A sequence may still be under way: its level is lower than the signal's, or the signal
    // cannot wait.
    let _outside = Outside::new(words);
    let higher = action.higher.load(Ordering::Relaxed) & !context.mask();
    match higher {
        0 => handler(event),
        _ if !can_wait => handler(event),
        _ => {
            let mask = change_mask(libc::SIG_UNBLOCK, higher);
            handler(event);
            change_mask(libc::SIG_SETMASK, mask);
        }
    }
}

/// While there is one, this thread's words say that it is outside of every sequence and every
/// rollforward: sequences that a handler runs use the same words.
pub struct Outside<'a> {
    words: &'a Words,
    before: Values,
}

impl Outside<'_> {
    /// For the handler of a fault, which may be in the middle of a sequence or of a rollforward.
    pub fn in_fault() -> Self {
        // SAFETY: this thread's words, which live as long as the thread; the handler of a fault
        // ends before its thread.
        Self::new(unsafe { &*words() })
    }
}

impl<'a> Outside<'a> {
    fn new(words: &'a Words) -> Self {
        let before = words.get();
        words.set((FALSE, 0, no_end(), 0));
        Self { words, before }
    }
}

impl Drop for Outside<'_> {
    fn drop(&mut self) {
        self.words.set(self.before);
    }
}

/// Handles the faults that end rollforwards.
fn on_fault(event: &mut Event<'_>) -> bool {
    // SAFETY: the context of this handler, which outlives its use.
    let context = unsafe { Context::new(event.context()) };
    // SAFETY: this thread's words, which live as long as the thread.
    let words = unsafe { &*words() };
    let code = event.info().si_code;
    match event.signal() {
        libc::SIGSEGV if code > 0 => is_end(context, words),
        libc::SIGTRAP if code == arch::TRAP_CODE => is_landmark(context, words),
        _ => false,
    }
}

/// Handles the fault at the end of a sequence of `DynFault` that is rolled forward.
fn is_end(context: Context, words: &Words) -> bool {
    let is_armed = words.false_or_fault.load(Relaxed).addr() == arch::FAULTING;
    // SAFETY: the register is in the context, which this handler owns.
    let is_end = is_armed && unsafe { register(context).read() } == arch::FAULTING;
    if is_end {
        context.set_program_counter(arch::back());
    }
    is_end
}

/// Handles a trap over a landmark: at the end of this thread's rollforward, or of another thread's.
fn is_landmark(context: Context, words: &Words) -> bool {
    let at = arch::trap_address(context.program_counter());
    if at == words.landmark.load(Relaxed) {
        context.set_program_counter(arch::back());
        return true;
    }
    // SAFETY: the instruction that has trapped was just executed.
    let is_landmark = unsafe { code::is_landmark(at) };
    if is_landmark {
        TRAPS_HIT.add();
        rewriting::remove_inherited();
        context.set_program_counter(at + arch::LANDMARK_BYTES);
    }
    is_landmark
}

fn errno() -> i32 {
    // SAFETY: the address of this thread's number.
    unsafe { *libc::__errno_location() }
}

fn set_errno(number: i32) {
    // SAFETY: the address of this thread's number.
    unsafe { *libc::__errno_location() = number };
}
