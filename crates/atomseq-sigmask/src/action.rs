//! Handlers: what the program installed, and what the kernel knows.

use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize};

use crate::arch::{ENTRY, SLOTS};
use crate::control::{Protection, protects};
use crate::thread::{EAGER, FATAL, INTERNAL, NEVER, Thread, UNBLOCKABLE, UNFIT, bit};
use crate::{arch, mask, real};

/// The number of signals, and one more.
const SIGNALS: usize = 65;

/// A handler that the program installed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Action {
    /// Its address, or `SIG_DFL` for a signal that [`promote`] made lazy.
    pub handler: usize,
    /// The flags.
    pub flags: i32,
    /// The signals that are blocked meanwhile.
    pub mask: u64,
}

/// The actions that are current, or were. They are immutable, so that a handler reads one without a
/// lock, and equal ones are one.
struct Node {
    action: Action,
    next: *const Node,
}

static NODES: [AtomicPtr<Node>; 256] = [const { AtomicPtr::new(ptr::null_mut()) }; 256];
/// The actions of each signal. The kernel's handler says in which slot the action is that is in
/// effect, so the kernel switches handler and flags at once. A slot keeps its action, also for a
/// thread that is between the kernel and `delivery::entry` while others change it, until the
/// program has installed [`SLOTS`] other actions for the signal since.
static ACTIONS: [[AtomicPtr<Node>; SLOTS]; SIGNALS] =
    [const { [const { AtomicPtr::new(ptr::null_mut()) }; SLOTS] }; SIGNALS];
/// The slot of each signal that was installed last.
static LATEST: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
/// When the action of each slot was installed last: how many the signal had had by then.
static INSTALLED: [[AtomicU64; SLOTS]; SIGNALS] =
    [const { [const { AtomicU64::new(0) }; SLOTS] }; SIGNALS];
/// How many actions of each signal were installed.
static COUNTS: [AtomicU64; SIGNALS] = [const { AtomicU64::new(0) }; SIGNALS];

/// An index of the actions of a signal.
pub type Slot = usize;

/// Nodes lie in pages of this, which are kept.
const PAGE: usize = 65_536;
static FREE: AtomicUsize = AtomicUsize::new(0);

/// Returns what runs for a signal whose handler in the kernel is that of a slot.
pub fn of(signal: i32, slot: Slot) -> Option<&'static Action> {
    // SAFETY: nodes are never freed. The pair: the release in `store`.
    unsafe { ACTIONS[signal as usize][slot].load(Acquire).as_ref() }.map(|node| &node.action)
}

/// Returns the action of a signal that this library installed last.
fn latest(signal: i32) -> Option<&'static Action> {
    of(signal, LATEST[signal as usize].load(Relaxed))
}

/// Returns the slot with an action and what was there before: the same, or if no slot has it, what
/// was installed the longest ago and is not in effect. Only in [`Exclusive`].
fn store(signal: i32, node: *mut Node) -> (Slot, Option<&'static Action>) {
    let index = signal as usize;
    let (actions, times) = (&ACTIONS[index], &INSTALLED[index]);
    // Relaxed: in `Exclusive`.
    let latest = LATEST[index].load(Relaxed);
    let others = (0..SLOTS).filter(|&slot| slot != latest);
    let slot = (0..SLOTS)
        .find(|&slot| actions[slot].load(Relaxed) == node)
        .or_else(|| others.min_by_key(|&slot| times[slot].load(Relaxed)))
        .unwrap_or(0);
    let count = COUNTS[index].load(Relaxed) + 1;
    COUNTS[index].store(count, Relaxed);
    times[slot].store(count, Relaxed);
    let before = of(signal, slot);
    actions[slot].store(node, Release);
    LATEST[index].store(slot, Relaxed);
    (slot, before)
}

/// Returns the node of an action.
fn intern(action: Action) -> *mut Node {
    let hash = action.handler ^ action.flags as usize ^ action.mask as usize;
    let nodes = &NODES[(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) % NODES.len()];
    let first = nodes.load(Acquire);
    let mut node = first.cast_const();
    // SAFETY: nodes are never freed, and published by a release.
    while let Some(known) = unsafe { node.as_ref() } {
        if known.action == action {
            return node.cast_mut();
        }
        node = known.next;
    }
    let new = allocate();
    if new.is_null() {
        return new;
    }
    let mut next = first;
    loop {
        // SAFETY: room for a node, which no other thread has.
        unsafe { new.write(Node { action, next }) };
        match nodes.compare_exchange(next, new, Release, Acquire) {
            Ok(_) => return new,
            // Perhaps the same action: two nodes of one are only a waste.
            Err(now) => next = now,
        }
    }
}

/// Returns room for a node, or null if the system refuses memory. Works in signal handlers.
fn allocate() -> *mut Node {
    const SIZE: usize = size_of::<Node>();
    const { assert!(SIZE == 32 && PAGE.is_multiple_of(SIZE)) };
    loop {
        let free = FREE.load(Relaxed);
        if !free.is_multiple_of(PAGE) {
            if FREE
                .compare_exchange(free, free + SIZE, Relaxed, Relaxed)
                .is_ok()
            {
                return free as *mut Node;
            }
            continue;
        }
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let page = unsafe { libc::mmap(ptr::null_mut(), 2 * PAGE, protection, flags, -1, 0) };
        if page == libc::MAP_FAILED {
            return ptr::null_mut();
        }
        // Nodes end at a multiple of PAGE, which is how the end is known. The first is given here.
        let start = (page as usize).next_multiple_of(PAGE);
        if FREE
            .compare_exchange(free, start + SIZE, Relaxed, Relaxed)
            .is_ok()
        {
            return start as *mut Node;
        }
        // SAFETY: mapped above, and nothing points there.
        unsafe { libc::munmap(page, 2 * PAGE) };
    }
}

/// Returns the first eight bytes of a set, which are the kernel's.
///
/// # Safety
///
/// A valid set.
pub unsafe fn set_of(set: *const libc::sigset_t) -> u64 {
    // SAFETY: the caller's promise; a set is at least as large, and aligned.
    unsafe { *set.cast::<u64>() }
}

/// Returns a set with these signals.
pub fn to_set(mask: u64) -> libc::sigset_t {
    // SAFETY: zeros are a valid set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a set is at least as large, and aligned.
    unsafe { *(&raw mut set).cast::<u64>() = mask };
    set
}

/// Where the number is of the process that has a thread in [`Exclusive`], or 0. A child of `fork`
/// would find its parent's number if another thread of the parent was there, and in a namespace of
/// its own it may have that number too: so the kernel clears it.
static LOCK: AtomicPtr<AtomicI32> = AtomicPtr::new((&raw const PLAIN).cast_mut());
/// The number on kernels that do not clear it: the child takes the place of another process.
static PLAIN: AtomicI32 = AtomicI32::new(0);

/// Gets memory for the number that children of `fork` find cleared. There is no other thread yet.
pub fn map_lock() {
    const SIZE: usize = 4_096;
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping, at an address of the kernel's choice.
    unsafe {
        let page = libc::mmap(ptr::null_mut(), SIZE, protection, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return;
        }
        if libc::madvise(page, SIZE, libc::MADV_WIPEONFORK) == 0 {
            LOCK.store(page.cast(), Relaxed);
        } else {
            libc::munmap(page, SIZE);
        }
    }
}

/// Returns the number.
fn lock() -> &'static AtomicI32 {
    // SAFETY: a static, or memory that is kept, which is zeros at first. Relaxed: it is stored
    // before there is another thread.
    unsafe { &*LOCK.load(Relaxed) }
}

/// While there is one, no other thread and no handler changes an action or reads one together with
/// the kernel's: all signals are blocked, and there is a lock. When it ends, signals are delivered
/// whose handlers may end the thread: so there is no destructor, see the crate's documentation.
#[must_use]
struct Exclusive {
    mask: u64,
    locked: bool,
}

impl Exclusive {
    fn new(thread: &Thread) -> Exclusive {
        thread.add_system_calls(2);
        let mask = arch::change_mask(libc::SIG_SETMASK, !0);
        // A child of `vfork` changes no actions but the kernel's, which are its own.
        let locked = EAGER.load(Relaxed) && !thread.is_vforked();
        if locked {
            let process = arch::process();
            let mut expected = 0;
            // The pair: the release in `end`.
            while let Err(holder) = lock().compare_exchange(expected, process, Acquire, Relaxed) {
                expected = if holder == process { 0 } else { holder };
                if expected == 0 {
                    arch::pause();
                }
            }
        }
        Exclusive { mask, locked }
    }

    fn end(self) {
        if self.locked {
            lock().store(0, Release);
        }
        arch::set_mask(self.mask);
    }
}

/// Returns the slot of a handler in the kernel, if it is this library's: of an address in its code.
pub fn slot(handler: usize) -> Option<Slot> {
    let slot = handler.wrapping_sub(arch::entries()) / ENTRY;
    (slot < SLOTS).then_some(slot)
}

/// What the kernel gets for an action of the program that is in a slot.
fn installed(flags: i32, slot: Slot) -> libc::sigaction {
    libc::sigaction {
        sa_sigaction: arch::entries() + slot * ENTRY,
        sa_flags: flags | libc::SA_SIGINFO,
        sa_mask: to_set(!0),
        sa_restorer: None,
    }
}

/// The default action, or a place for one that is asked for.
fn unknown() -> libc::sigaction {
    libc::sigaction {
        sa_sigaction: libc::SIG_DFL,
        sa_flags: 0,
        sa_mask: to_set(0),
        sa_restorer: None,
    }
}

/// Makes lazy what of `signals` this library handles or has the default action to end the process,
/// if that is all of them.
pub fn promote(thread: &Thread, signals: u64) {
    for signal in 1..32 {
        let signal_bit = bit(signal);
        if signals & signal_bit == 0 {
            continue;
        }
        thread
            .untried
            .store(thread.untried.load(Relaxed) & !signal_bit, Relaxed);
        let exclusive = Exclusive::new(thread);
        let is_lazy = promote_one(thread, signal);
        exclusive.end();
        if !is_lazy {
            return;
        }
    }
}

/// Makes one signal lazy, and returns whether it is. Only in [`Exclusive`].
fn promote_one(thread: &Thread, signal: i32) -> bool {
    let signal_bit = bit(signal);
    // A handler may have started a thread until here, but not from here on.
    if !thread.can_be_lazy() {
        return false;
    }
    let mut old = unknown();
    thread.add_system_calls(1);
    // SAFETY: only the old action is asked for.
    let known = unsafe { real::sigaction(signal, ptr::null(), &mut old) } == 0;
    if !known || UNFIT.load(Relaxed) & signal_bit != 0 {
        return false;
    }
    if slot(old.sa_sigaction).is_none() || !can_be_lazy(old.sa_flags) {
        if old.sa_sigaction != libc::SIG_DFL || signal_bit & fatal() == 0 {
            return false;
        }
        translate(&mut old, latest(signal));
        let node = intern(Action {
            handler: libc::SIG_DFL,
            flags: old.sa_flags,
            // SAFETY: the kernel has written it.
            mask: unsafe { set_of(&old.sa_mask) },
        });
        if node.is_null() {
            return false;
        }
        let new = installed(libc::SA_RESTART, store(signal, node).0);
        thread.add_system_calls(1);
        // SAFETY: `entry` is a handler of this type.
        if unsafe { real::sigaction(signal, &new, ptr::null_mut()) } != 0 {
            return false;
        }
    }
    thread
        .lazy
        .store(thread.lazy.load(Relaxed) | signal_bit, Relaxed);
    true
}

/// Gives the kernel the default action of a signal back.
pub fn default(thread: &Thread, signal: i32) {
    thread
        .lazy
        .store(thread.lazy.load(Relaxed) & !bit(signal), Relaxed);
    // SAFETY: no handler is installed.
    unsafe { real::sigaction(signal, &unknown(), ptr::null_mut()) };
}

/// Gives the kernel the default actions back that [`promote`] took: among threads, a default action
/// ends all of them at once, and a handler only runs in one. All signals are blocked, and there is
/// no other thread.
pub fn demote(thread: &Thread) {
    for signal in (1..32).filter(|&signal| bit(signal) & fatal() != 0) {
        let Some(action) = latest(signal).filter(|action| action.handler == libc::SIG_DFL) else {
            continue;
        };
        let mut old = unknown();
        thread.add_system_calls(1);
        // SAFETY: only the old action is asked for.
        let known = unsafe { real::sigaction(signal, ptr::null(), &mut old) } == 0;
        if known && slot(old.sa_sigaction).is_some() {
            // By the kernel's call, since the C library adds a flag.
            let action = KernelAction {
                handler: libc::SIG_DFL,
                flags: action.flags as u64,
                restorer: 0,
                mask: action.mask,
            };
            thread.add_system_calls(1);
            // SAFETY: no handler is installed.
            unsafe { arch::kernels_sigaction(signal, &raw const action as usize, 0) };
        }
    }
}

/// `sigaction`.
///
/// # Safety
///
/// As of `sigaction(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigaction(
    signal: i32,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> i32 {
    if !(1..SIGNALS as i32).contains(&signal) {
        // SAFETY: the caller's promise; the C library refuses it.
        return unsafe { real::sigaction(signal, new, old) };
    }
    let mut previous = None;
    // SAFETY: the caller's promise: null or valid.
    let result = unsafe {
        exchange(signal, new.as_ref().copied(), &mut |action| {
            previous = Some(action);
        })
    };
    // Not earlier: if this address is not valid, a handler of `SIGSEGV` can run.
    if let Some(previous) = previous.filter(|_| !old.is_null()) {
        // SAFETY: the caller's promise.
        unsafe { *old = previous };
    }
    result
}

/// `sigaction` of a signal that exists. Hands over the old action before the new one's handler can
/// run.
///
/// # Safety
///
/// As of `sigaction(2)`.
unsafe fn exchange(
    signal: i32,
    mut new: Option<libc::sigaction>,
    store_old: &mut dyn FnMut(libc::sigaction),
) -> i32 {
    let thread = Thread::current();
    let signal_bit = bit(signal);
    let mut node = ptr::null_mut();
    // The handler of another signal may change this one's action until here, but not from here on.
    let mut exclusive = Exclusive::new(thread);
    let can_be_lazy = new.is_none_or(|new| can_be_lazy(new.sa_flags));
    if let Some(new) = &mut new {
        if wants_entry(thread, signal, new) {
            node = intern(Action {
                handler: new.sa_sigaction,
                flags: new.sa_flags,
                // SAFETY: a valid set.
                mask: unsafe { set_of(&new.sa_mask) } & !UNBLOCKABLE,
            });
            if node.is_null() {
                exclusive.end();
                return mask::fail(libc::ENOMEM);
            }
            if !can_be_lazy {
                thread.exclude_from(signal_bit, &mut exclusive.mask);
            }
        } else {
            // The kernel would drop, or act upon, what is blocked without its knowledge.
            if protects(Protection::Disposition) {
                thread.exclude_from(signal_bit, &mut exclusive.mask);
            }
            if thread.can_be_lazy() {
                // One whose default is to be ignored gets no handler, which would end system calls.
                let untried = signal_bit & fatal();
                thread
                    .untried
                    .store(thread.untried.load(Relaxed) | untried, Relaxed);
            }
        }
    }
    let mut kernels = unknown();
    let latest = LATEST[signal as usize].load(Relaxed);
    let mut replaced = None;
    if let Some(new) = &mut new
        && !node.is_null()
    {
        let (slot, before) = store(signal, node);
        *new = installed(new.sa_flags, slot);
        replaced = Some((slot, before));
    }
    let new = new.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the caller's action, or `entry`, which is a handler of its type.
    let result = unsafe { real::sigaction(signal, new, &mut kernels) };
    if !node.is_null() {
        if result != 0 {
            LATEST[signal as usize].store(latest, Relaxed);
        } else if thread.can_be_lazy()
            && signal_bit & (never() | UNFIT.load(Relaxed)) == 0
            && can_be_lazy
        {
            thread
                .lazy
                .store(thread.lazy.load(Relaxed) | signal_bit, Relaxed);
        }
    }
    // The kernel's old handler says where the old action is, or was.
    let slot = slot(kernels.sa_sigaction).unwrap_or(latest);
    let previous = match replaced {
        Some((replaced, before)) if replaced == slot => before,
        _ => of(signal, slot),
    };
    if result == 0 {
        translate(&mut kernels, previous);
        store_old(kernels);
    }
    exclusive.end();
    result
}

/// Returns whether a signal can be lazy whose handler has these flags.
fn can_be_lazy(flags: i32) -> bool {
    // The kernel resets a handler when its signal is dequeued: not before it is handled.
    let one_shot = flags & libc::SA_RESETHAND != 0 && protects(Protection::OneShot);
    // A program may unmap, or use, a signal stack while it blocks the signals that need it.
    let on_stack = flags & libc::SA_ONSTACK != 0
        && HAS_SIGNAL_STACK.load(Relaxed)
        && protects(Protection::SignalStack);
    !one_shot && !on_stack
}

/// Whether the program has set a signal stack.
static HAS_SIGNAL_STACK: AtomicBool = AtomicBool::new(false);

/// `sigaltstack`, also by `syscall(3)`: the kernel checks both addresses.
///
/// # Safety
///
/// As of `sigaltstack(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigaltstack(new: usize, old: usize) -> i32 {
    const FLAGS: usize = std::mem::offset_of!(libc::stack_t, ss_flags);
    let sets = || {
        let flags = arch::read(new + FLAGS).unwrap_or(0) as i32;
        flags & libc::SS_DISABLE == 0
    };
    let thread = Thread::current();
    // The stack of a child of `vfork` is its own, but this memory is its parent's.
    if new != 0 && sets() && !thread.is_vforked() && !HAS_SIGNAL_STACK.swap(true, Relaxed) {
        let on_stack = (1..32)
            .filter(|&signal| latest(signal).is_some_and(|action| !can_be_lazy(action.flags)));
        thread.exclude(on_stack.fold(0, |signals, signal| signals | bit(signal)));
    }
    // SAFETY: the caller's promise.
    match unsafe { arch::signal_stack(new, old) } {
        error if error < 0 => mask::fail(-error as i32),
        _ => 0,
    }
}

/// Makes of an action as the kernel has it, if it is one of this library's, the program's.
fn translate(kernels: &mut libc::sigaction, program: Option<&Action>) {
    let Some(program) = program else {
        return;
    };
    if slot(kernels.sa_sigaction).is_some() {
        kernels.sa_sigaction = program.handler;
        if program.handler == libc::SIG_DFL {
            kernels.sa_restorer = None;
            kernels.sa_flags = program.flags;
        }
    } else if !protects(Protection::OneShot)
        || kernels.sa_flags & libc::SA_RESETHAND == 0
        || kernels.sa_sigaction != libc::SIG_DFL
        // SAFETY: a valid set.
        || unsafe { set_of(&kernels.sa_mask) } & INTERNAL != INTERNAL
    {
        // The mask shows what a handler was reset to: the C library hides these two signals.
        return;
    }
    // Of the others the kernel keeps those that it knows.
    kernels.sa_flags = kernels.sa_flags & !libc::SA_SIGINFO | program.flags & libc::SA_SIGINFO;
    kernels.sa_mask = to_set(program.mask);
}

/// Returns the signals whose default action can be lazy, unless a test makes others so.
fn fatal() -> u64 {
    if protects(Protection::Ignored) {
        FATAL
    } else {
        !NEVER
    }
}

/// Returns the signals that are never lazy, unless a test makes them so.
fn never() -> u64 {
    if protects(Protection::Never) {
        NEVER
    } else {
        0
    }
}

/// Returns whether a new action is a handler that this library calls. In a child of `vfork` it is
/// the kernel that calls: the parent's memory must not change.
fn wants_entry(thread: &Thread, signal: i32, new: &libc::sigaction) -> bool {
    new.sa_sigaction != libc::SIG_DFL
        && new.sa_sigaction != libc::SIG_IGN
        && !thread.is_vforked()
        && ![libc::SIGKILL, libc::SIGSTOP, 32, 33].contains(&signal)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __sigaction(
    signal: i32,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { sigaction(signal, new, old) }
}

/// Signals whose handlers interrupt system calls, by `siginterrupt`.
static INTERRUPT: AtomicU64 = AtomicU64::new(0);

/// Installs a handler, and returns the old one, or `SIG_ERR`.
unsafe fn install(signal: i32, handler: usize, flags: i32, mask: u64) -> usize {
    let new = libc::sigaction {
        sa_sigaction: handler,
        sa_flags: flags,
        sa_mask: to_set(mask),
        sa_restorer: None,
    };
    let mut old = new;
    // SAFETY: the caller's handler, and valid places.
    match unsafe { sigaction(signal, &new, &mut old) } {
        0 => old.sa_sigaction,
        _ => libc::SIG_ERR,
    }
}

fn is_signal(signal: i32) -> bool {
    let valid = (1..SIGNALS as i32).contains(&signal);
    if !valid {
        // SAFETY: the address of this thread's error number.
        unsafe { *libc::__errno_location() = libc::EINVAL };
    }
    valid
}

/// `signal`, with BSD's meaning.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn signal(signal: i32, handler: usize) -> usize {
    if handler == libc::SIG_ERR || !is_signal(signal) {
        // SAFETY: the address of this thread's error number.
        unsafe { *libc::__errno_location() = libc::EINVAL };
        return libc::SIG_ERR;
    }
    let restart = match INTERRUPT.load(Relaxed) & bit(signal) {
        0 => libc::SA_RESTART,
        _ => 0,
    };
    // SAFETY: the caller's handler.
    unsafe { install(signal, handler, restart, bit(signal)) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn bsd_signal(number: i32, handler: usize) -> usize {
    // SAFETY: the caller's handler.
    unsafe { signal(number, handler) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ssignal(number: i32, handler: usize) -> usize {
    // SAFETY: the caller's handler.
    unsafe { signal(number, handler) }
}

/// `sysv_signal`: the handler runs once, and blocks nothing.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sysv_signal(signal: i32, handler: usize) -> usize {
    const SA_INTERRUPT: i32 = 0x2000_0000;
    if handler == libc::SIG_ERR || !is_signal(signal) {
        // SAFETY: the address of this thread's error number.
        unsafe { *libc::__errno_location() = libc::EINVAL };
        return libc::SIG_ERR;
    }
    let flags = libc::SA_RESETHAND | libc::SA_NODEFER | SA_INTERRUPT;
    // SAFETY: the caller's handler.
    unsafe { install(signal, handler, flags, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __sysv_signal(signal: i32, handler: usize) -> usize {
    // SAFETY: the caller's handler.
    unsafe { sysv_signal(signal, handler) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn siginterrupt(signal: i32, interrupt: i32) -> i32 {
    if !is_signal(signal) {
        return -1;
    }
    let mut action = unknown();
    // SAFETY: valid places, and the handler that the program installed.
    unsafe {
        if sigaction(signal, ptr::null(), &mut action) < 0 {
            return -1;
        }
        // Relaxed: only the calls after it on this thread must see it.
        if interrupt != 0 {
            INTERRUPT.fetch_or(bit(signal), Relaxed);
            action.sa_flags &= !libc::SA_RESTART;
        } else {
            INTERRUPT.fetch_and(!bit(signal), Relaxed);
            action.sa_flags |= libc::SA_RESTART;
        }
        sigaction(signal, &action, ptr::null_mut())
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigignore(signal: i32) -> i32 {
    // SAFETY: no handler.
    match unsafe { install(signal, libc::SIG_IGN, 0, 0) } {
        libc::SIG_ERR => -1,
        _ => 0,
    }
}

/// The disposition of `sigset` that blocks.
const SIG_HOLD: usize = 2;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigset(signal: i32, disposition: usize) -> usize {
    if disposition == libc::SIG_ERR || !is_signal(signal) {
        // SAFETY: the address of this thread's error number.
        unsafe { *libc::__errno_location() = libc::EINVAL };
        return libc::SIG_ERR;
    }
    let this = bit(signal) & !(UNBLOCKABLE | INTERNAL);
    let thread = Thread::current();
    if disposition == SIG_HOLD {
        if thread.change(libc::SIG_BLOCK, this) & this != 0 {
            return SIG_HOLD;
        }
        let mut old = unknown();
        // SAFETY: a valid place.
        return match unsafe { sigaction(signal, ptr::null(), &mut old) } {
            0 => old.sa_sigaction,
            _ => libc::SIG_ERR,
        };
    }
    // SAFETY: the caller's handler.
    let old = unsafe { install(signal, disposition, 0, 0) };
    if old == libc::SIG_ERR {
        return old;
    }
    match thread.change(libc::SIG_UNBLOCK, this) & this {
        0 => old,
        _ => SIG_HOLD,
    }
}

/// `timer_create`: a signal of a timer counts what it missed from when it is dequeued, so it must
/// not be dequeued before it is handled.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn timer_create(
    clock: i32,
    event: *const libc::sigevent,
    id: usize,
) -> i32 {
    // SAFETY: null or valid by the contract.
    let (notify, signal) = match unsafe { event.as_ref() } {
        None => (libc::SIGEV_SIGNAL, libc::SIGALRM),
        Some(event) => (event.sigev_notify, event.sigev_signo),
    };
    if notify == libc::SIGEV_THREAD {
        crate::thread::end_laziness();
    } else if notify != libc::SIGEV_NONE
        && (1..SIGNALS as i32).contains(&signal)
        && protects(Protection::Timers)
    {
        UNFIT.fetch_or(bit(signal), Relaxed);
        Thread::current().exclude(bit(signal));
    }
    type Create = unsafe extern "C-unwind" fn(i32, *const libc::sigevent, usize) -> i32;
    // SAFETY: the C library's function of this name and type, and the caller's promise.
    unsafe {
        let create: Create = std::mem::transmute(real::address(real::Function::timer_create));
        create(clock, event, id)
    }
}

/// Ends that `SIGALRM` is lazy for a timer with an interval: it stops until its signal is dequeued.
fn has_interval() {
    if protects(Protection::Timers) {
        UNFIT.fetch_or(bit(libc::SIGALRM), Relaxed);
        Thread::current().exclude(bit(libc::SIGALRM));
    }
}

/// Looks whether the program that executed this one has set such a timer.
pub fn begin() {
    // SAFETY: zeros are a valid value.
    let mut value: libc::itimerval = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes the value.
    unsafe { libc::getitimer(libc::ITIMER_REAL, &mut value) };
    if (value.it_interval.tv_sec, value.it_interval.tv_usec) != (0, 0) {
        has_interval();
    }
}

/// `setitimer`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn setitimer(
    timer: i32,
    new: *const libc::itimerval,
    old: *mut libc::itimerval,
) -> i32 {
    // SAFETY: null or valid by the contract.
    let value = unsafe { new.as_ref() };
    if timer == libc::ITIMER_REAL
        && let Some(new) = value
        && (new.it_interval.tv_sec, new.it_interval.tv_usec) != (0, 0)
    {
        has_interval();
    }
    type Set =
        unsafe extern "C-unwind" fn(i32, *const libc::itimerval, *mut libc::itimerval) -> i32;
    // SAFETY: the C library's function of this name and type, and the caller's promise.
    unsafe {
        let set: Set = std::mem::transmute(real::address(real::Function::setitimer));
        set(timer, new, old)
    }
}

/// `ualarm`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ualarm(microseconds: u32, interval: u32) -> u32 {
    if interval != 0 {
        has_interval();
    }
    type Alarm = unsafe extern "C-unwind" fn(u32, u32) -> u32;
    // SAFETY: the C library's function of this name and type.
    unsafe {
        let alarm: Alarm = std::mem::transmute(real::address(real::Function::ualarm));
        alarm(microseconds, interval)
    }
}

/// `rt_sigaction` by `syscall(3)`: the kernel's structure has another order, and addresses are
/// checked.
///
/// # Safety
///
/// As of `rt_sigaction`.
pub unsafe fn kernels_sigaction(signal: i32, new: usize, old: usize) -> i32 {
    // The kernel knows whether these are signals; the C library hides its own.
    if !(1..SIGNALS as i32).contains(&signal) || INTERNAL & bit(signal) != 0 {
        // SAFETY: the caller's promise.
        return match unsafe { arch::kernels_sigaction(signal, new, old) } {
            error if error < 0 => mask::fail(-error as i32),
            _ => 0,
        };
    }
    // The structure's first and last words: it spans at most two pages.
    const LAST: usize = size_of::<KernelAction>() - 8;
    if new != 0 && !(arch::is_readable(new) && arch::is_readable(new.wrapping_add(LAST))) {
        return mask::fail(libc::EFAULT);
    }
    let mut is_stored = true;
    // SAFETY: the caller's promise, and the kernel has just read and written these addresses. The
    // restorer becomes the C library's, which does the same.
    let result = unsafe {
        let new = (new != 0).then(|| {
            let new = (new as *const KernelAction).read_unaligned();
            libc::sigaction {
                sa_sigaction: new.handler,
                sa_flags: new.flags as i32,
                sa_mask: to_set(new.mask),
                sa_restorer: None,
            }
        });
        exchange(signal, new, &mut |previous| {
            if old == 0 {
                return;
            }
            is_stored = arch::is_writable(old) && arch::is_writable(old.wrapping_add(LAST));
            if is_stored {
                (old as *mut KernelAction).write_unaligned(KernelAction {
                    handler: previous.sa_sigaction,
                    flags: previous.sa_flags as u64,
                    restorer: previous.sa_restorer.map_or(0, |restorer| restorer as usize),
                    mask: set_of(&previous.sa_mask),
                });
            }
        })
    };
    match is_stored {
        true => result,
        false => mask::fail(libc::EFAULT),
    }
}

/// The kernel's `struct sigaction`.
#[repr(C)]
pub struct KernelAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}
