//! Signals as the kernel sees them: dispositions, masks and queues.
//!
//! A set of signals is a word, signal `n` its bit `n - 1`. The C library would hide two signals
//! that it keeps for itself and set `errno`, so this goes to the kernel; only a handler of our own
//! is installed through it, for the piece of code that handlers return to.

use super::start::own_process;
use crate::arch::syscall;
use core::ffi::{c_int, c_void};

/// The largest signal number.
pub const SIGNALS: i32 = 64;

/// A set with one signal in it.
#[inline]
pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Signals that belong to the C library. A thread that changes the process's user waits for the
/// handler of one on every other thread.
pub const RESERVED: &[i32] = if cfg!(target_env = "musl") {
    &[32, 33, 34]
} else {
    &[32, 33]
};

/// The same as a set.
pub const RESERVED_SET: u64 = {
    let mut set = 0;
    let mut index = 0;
    while index < RESERVED.len() {
        set |= bit(RESERVED[index]);
        index += 1;
    }
    set
};

/// What the kernel does on a signal. The kernel's layout.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disposition {
    /// The handler's address, `SIG_DFL` or `SIG_IGN`.
    pub handler: usize,
    /// `SA_…`.
    pub flags: usize,
    /// Where the handler returns to.
    pub restorer: usize,
    /// What is blocked while the handler runs.
    pub mask: u64,
}

impl Disposition {
    /// The default action.
    pub const DEFAULT: Disposition = Disposition {
        handler: libc::SIG_DFL,
        flags: 0,
        restorer: 0,
        mask: 0,
    };

    /// A function, not the default action and not nothing.
    pub fn is_function(&self) -> bool {
        self.handler != libc::SIG_DFL && self.handler != libc::SIG_IGN
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: c_int) -> bool {
        self.flags & flag as usize != 0
    }
}

/// The kernel's own entry for a handler with `SA_SIGINFO`.
pub type Entry = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

fn sigaction(signal: i32, new: *const Disposition, old: *mut Disposition) -> Result<(), i32> {
    let arguments = [signal as usize, new as usize, old as usize, 8, 0, 0];
    // SAFETY: both point to a disposition in the kernel's layout, or are null; a set has 8 bytes.
    match unsafe { syscall(libc::SYS_rt_sigaction, arguments) } {
        0 => Ok(()),
        errno => Err(-errno as i32),
    }
}

/// What the kernel does on `signal`; `Err` holds an error number.
pub fn disposition(signal: i32) -> Result<Disposition, i32> {
    let mut old = Disposition::DEFAULT;
    sigaction(signal, core::ptr::null(), &mut old)?;
    Ok(old)
}

/// Replaces what the kernel does on `signal`, and returns what it did.
///
/// # Safety
/// `new` was read from the kernel, possibly with other flags or another mask, or has no function in
/// it.
pub unsafe fn replace_disposition(signal: i32, new: &Disposition) -> Result<Disposition, i32> {
    let mut old = Disposition::DEFAULT;
    sigaction(signal, new, &mut old)?;
    Ok(old)
}

/// As [`replace_disposition`], if `is_expected` holds for what the kernel does now. Returns whether
/// it did. Otherwise what was found stays. No lock keeps other code from installing a handler
/// meanwhile: the newest one stays.
///
/// # Safety
/// As [`replace_disposition`].
pub unsafe fn replace_disposition_if(
    signal: i32,
    new: &Disposition,
    is_expected: impl Fn(&Disposition) -> bool,
) -> Result<bool, i32> {
    if !is_expected(&disposition(signal)?) {
        return Ok(false);
    }
    // SAFETY: the caller's promise.
    let mut found = unsafe { replace_disposition(signal, new)? };
    if is_expected(&found) {
        return Ok(true);
    }
    let mut placed = *new;
    loop {
        // SAFETY: read from the kernel.
        let before = unsafe { replace_disposition(signal, &found)? };
        if before == placed {
            return Ok(false);
        }
        placed = found;
        found = before;
    }
}

/// Installs a function of our own for `signal`, if `is_expected` holds for what the kernel does
/// now. Returns whether it did. Otherwise what was found stays, as with [`replace_disposition_if`].
///
/// # Safety
/// `entry` can handle the signal on every thread, at every instruction.
pub unsafe fn install_entry_if(
    signal: i32,
    entry: Entry,
    flags: c_int,
    mask: u64,
    is_expected: impl Fn(&Disposition) -> bool,
) -> Result<bool, i32> {
    // Of the C library, too: where a sanitizer stands between, it says something else than the
    // kernel. SAFETY: asks only.
    let said = unsafe { replace_by_library(signal, core::ptr::null())? };
    if !is_expected(&disposition(signal)?) {
        return Ok(false);
    }
    // SAFETY: plain old data.
    let mut placed: libc::sigaction = unsafe { core::mem::zeroed() };
    placed.sa_sigaction = entry as usize;
    placed.sa_flags = flags | libc::SA_SIGINFO;
    // SAFETY: the C library's set is at least as long as the kernel's, which it starts with.
    unsafe { (&raw mut placed.sa_mask).cast::<u64>().write(mask) };
    // SAFETY: the caller vouches for the function.
    let mut found = unsafe { replace_by_library(signal, &placed)? };
    let is_as_said = |found| are_same(found, &as_kernel_has_it(&said)) || is_expected(found);
    if is_as_said(&as_kernel_has_it(&found)) {
        return Ok(true);
    }
    loop {
        // SAFETY: what was there before.
        let before = unsafe { replace_by_library(signal, &found)? };
        if are_same(&as_kernel_has_it(&before), &as_kernel_has_it(&placed)) {
            return Ok(false);
        }
        placed = found;
        found = before;
    }
}

/// As [`replace_disposition`], but the C library chooses where the handler returns to. If `new` is
/// null, it only asks.
///
/// # Safety
/// `new` is null, or what was there before, or has a function of our own that can handle the
/// signal.
unsafe fn replace_by_library(
    signal: i32,
    new: *const libc::sigaction,
) -> Result<libc::sigaction, i32> {
    // SAFETY: plain old data.
    let mut old: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: null or a whole action; the caller vouches for the function.
    if unsafe { libc::sigaction(signal, new, &mut old) } == 0 {
        Ok(old)
    } else {
        // SAFETY: this thread's error number.
        Err(unsafe { *libc::__errno_location() })
    }
}

/// What the C library has said, but for the restorer, which not every library tells.
fn as_kernel_has_it(action: &libc::sigaction) -> Disposition {
    Disposition {
        handler: action.sa_sigaction,
        flags: action.sa_flags as u32 as usize,
        restorer: 0,
        // SAFETY: the C library's set is at least as long as the kernel's, which it starts with.
        mask: unsafe { (&raw const action.sa_mask).cast::<u64>().read() },
    }
}

/// Are these the same but for the restorer? The kernel takes two signals out of every mask.
pub fn are_same(one: &Disposition, other: &Disposition) -> bool {
    /// Says that there is a restorer; the C library sets it.
    const SA_RESTORER: usize = 0x0400_0000;
    let never_blocked = bit(libc::SIGKILL) | bit(libc::SIGSTOP);
    one.handler == other.handler
        && (one.flags ^ other.flags) as u32 as usize & !SA_RESTORER == 0
        && (one.mask ^ other.mask) & !never_blocked == 0
}

/// Changes this thread's mask and returns the old one. `how` is `SIG_BLOCK`, `SIG_UNBLOCK` or
/// `SIG_SETMASK`.
pub fn change_mask(how: c_int, set: u64) -> u64 {
    let mut old = 0u64;
    let arguments = [
        how as usize,
        &raw const set as usize,
        &raw mut old as usize,
        8,
        0,
        0,
    ];
    // SAFETY: both sets are 8 bytes, the kernel's size on 64-bit Linux, and live across the call.
    unsafe { syscall(libc::SYS_rt_sigprocmask, arguments) };
    old
}

/// Can eight bytes at `address` be read? The kernel reads them before it finds that it is not to
/// change the mask.
pub fn is_readable(address: usize) -> bool {
    const NO_CHANGE: usize = 99;
    // SAFETY: nothing is written, and the kernel checks the address.
    let result = unsafe { syscall(libc::SYS_rt_sigprocmask, [NO_CHANGE, address, 0, 8, 0, 0]) };
    result == -libc::EINVAL as isize
}

/// This thread's mask.
pub fn kernel_mask() -> u64 {
    change_mask(libc::SIG_BLOCK, 0)
}

/// The signals that are pending for this thread or its process; `None` if a sandbox refuses to
/// tell.
pub fn pending() -> Option<u64> {
    let mut set = 0u64;
    let arguments = [&raw mut set as usize, 8, 0, 0, 0, 0];
    // SAFETY: the set is 8 bytes, the kernel's size.
    let result = unsafe { syscall(libc::SYS_rt_sigpending, arguments) };
    (result == 0).then_some(set)
}

/// Are some of `signals` pending, as far as the kernel says?
pub fn is_any_pending(signals: u64) -> bool {
    pending().unwrap_or(0) & signals != 0
}

/// The numbers of this process and this thread, as the kernel says.
fn own_numbers() -> (usize, usize) {
    // SAFETY: no arguments, cannot fail.
    let thread = unsafe { syscall(libc::SYS_gettid, [0; 6]) };
    (own_process() as usize, thread as usize)
}

/// Sends a signal to this thread, with the record that `tgkill` makes; `Err` holds an error number.
/// Async-signal-safe.
pub fn send_to_this_thread(signal: i32) -> Result<(), i32> {
    let (process, thread) = own_numbers();
    let arguments = [process, thread, signal as usize, 0, 0, 0];
    // SAFETY: no memory is involved.
    match unsafe { syscall(libc::SYS_tgkill, arguments) } {
        0 => Ok(()),
        errno => Err(-errno as i32),
    }
}

/// Queues a signal to this thread, with `info` as it is, unless some of the signals in `unless` are
/// pending, for this thread or for the process: returns those. No system call lies between the look
/// and the queueing, but a signal may still arrive there. `Err` holds an error number.
/// Async-signal-safe.
pub fn queue_to_this_thread(signal: i32, info: &libc::siginfo_t, unless: u64) -> Result<u64, i32> {
    let (process, thread) = own_numbers();
    let found = match unless {
        0 => 0,
        _ => pending().unwrap_or(0) & unless,
    };
    if found != 0 {
        return Ok(found);
    }
    let arguments = [
        process,
        thread,
        signal as usize,
        info as *const _ as usize,
        0,
        0,
    ];
    // SAFETY: `info` is a whole siginfo.
    match unsafe { syscall(libc::SYS_rt_tgsigqueueinfo, arguments) } {
        0 => Ok(0),
        errno => Err(-errno as i32),
    }
}
