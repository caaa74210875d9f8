//! Signals at the kernel interface: dispositions, masks and queues.
//!
//! A signal set is a word in which bit `n - 1` is signal `n`. This module calls the kernel
//! directly, because the C library hides two signals that it reserves, and sets `errno`. Only
//! handlers of atomseq's own are installed through the C library, which supplies the code that
//! handlers return to.

use super::start::own_process;
use crate::arch::syscall;
use core::ffi::{c_int, c_void};

/// The largest signal number.
pub const SIGNALS: i32 = 64;

/// Returns the set with one signal in it.
#[inline]
pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// The signals reserved by the C library. A thread that changes the process's user waits until a
/// handler of one has run on every other thread.
pub const RESERVED: &[i32] = if cfg!(target_env = "musl") {
    &[32, 33, 34]
} else {
    &[32, 33]
};

/// The set of [`RESERVED`] signals.
pub const RESERVED_SET: u64 = {
    let mut set = 0;
    let mut index = 0;
    while index < RESERVED.len() {
        set |= bit(RESERVED[index]);
        index += 1;
    }
    set
};

/// What the kernel does on a signal, in the kernel's layout.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disposition {
    /// The handler's address, `SIG_DFL` or `SIG_IGN`.
    pub handler: usize,
    /// The `SA_…` flags.
    pub flags: usize,
    /// The address that the handler returns to.
    pub restorer: usize,
    /// The signals blocked while the handler runs.
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

    /// Returns whether the handler is a function, not `SIG_DFL` or `SIG_IGN`.
    pub fn is_function(&self) -> bool {
        self.handler != libc::SIG_DFL && self.handler != libc::SIG_IGN
    }

    /// Returns whether a flag is set.
    pub fn has(&self, flag: c_int) -> bool {
        self.flags & flag as usize != 0
    }
}

/// A handler with `SA_SIGINFO`, as the kernel calls it.
pub type Entry = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

fn sigaction(signal: i32, new: *const Disposition, old: *mut Disposition) -> Result<(), i32> {
    let arguments = [signal as usize, new as usize, old as usize, 8, 0, 0];
    // SAFETY: each pointer is null or points to a disposition in the kernel's layout, and a set has
    // 8 bytes.
    match unsafe { syscall(libc::SYS_rt_sigaction, arguments) } {
        0 => Ok(()),
        errno => Err(-errno as i32),
    }
}

/// Returns what the kernel does on `signal`. `Err` holds an error number.
pub fn disposition(signal: i32) -> Result<Disposition, i32> {
    let mut old = Disposition::DEFAULT;
    sigaction(signal, core::ptr::null(), &mut old)?;
    Ok(old)
}

/// Replaces what the kernel does on `signal`, and returns the old disposition. `Err` holds an error
/// number.
///
/// # Safety
/// `new` must have been read from the kernel, possibly with other flags or another mask, or have no
/// function as its handler.
pub unsafe fn replace_disposition(signal: i32, new: &Disposition) -> Result<Disposition, i32> {
    let mut old = Disposition::DEFAULT;
    sigaction(signal, new, &mut old)?;
    Ok(old)
}

/// Replaces the disposition as [`replace_disposition`] does, but only if `is_expected` holds for
/// the present one. Returns whether it did; otherwise the disposition that was found stays. No lock
/// keeps other code from installing a handler meanwhile, and the newest handler stays.
///
/// # Safety
/// As for [`replace_disposition`].
pub unsafe fn replace_disposition_if(
    signal: i32,
    new: &Disposition,
    is_expected: impl Fn(&Disposition) -> bool,
) -> Result<bool, i32> {
    if !is_expected(&disposition(signal)?) {
        return Ok(false);
    }
    // SAFETY: the contract on `new` is the same.
    let mut found = unsafe { replace_disposition(signal, new)? };
    if is_expected(&found) {
        return Ok(true);
    }
    let mut placed = *new;
    loop {
        // SAFETY: `found` was read from the kernel.
        let before = unsafe { replace_disposition(signal, &found)? };
        if before == placed {
            return Ok(false);
        }
        placed = found;
        found = before;
    }
}

/// Installs a function of atomseq's own for `signal`, if `is_expected` holds for the present
/// disposition. Returns whether it did; otherwise the one that was found stays, as in
/// [`replace_disposition_if`].
///
/// # Safety
/// `entry` must be able to handle the signal on every thread and at every instruction.
pub unsafe fn install_entry_if(
    signal: i32,
    entry: Entry,
    flags: c_int,
    mask: u64,
    is_expected: impl Fn(&Disposition) -> bool,
) -> Result<bool, i32> {
    // Asks the C library too: where a sanitizer intercepts it, its answer differs from the
    // kernel's. SAFETY: a null `new` changes nothing.
    let said = unsafe { replace_by_library(signal, core::ptr::null())? };
    if !is_expected(&disposition(signal)?) {
        return Ok(false);
    }
    // SAFETY: `sigaction` is plain data, for which zero is valid.
    let mut placed: libc::sigaction = unsafe { core::mem::zeroed() };
    placed.sa_sigaction = entry as usize;
    placed.sa_flags = flags | libc::SA_SIGINFO;
    // SAFETY: the C library's set starts with the kernel's set and is at least as long, so 8 bytes
    // fit.
    unsafe { (&raw mut placed.sa_mask).cast::<u64>().write(mask) };
    // SAFETY: by the contract, `entry` can handle the signal. `placed` is fully initialized.
    let mut found = unsafe { replace_by_library(signal, &placed)? };
    let is_as_said = |found| are_same(found, &as_kernel_has_it(&said)) || is_expected(found);
    if is_as_said(&as_kernel_has_it(&found)) {
        return Ok(true);
    }
    loop {
        // SAFETY: `found` is what the C library returned as the previous action.
        let before = unsafe { replace_by_library(signal, &found)? };
        if are_same(&as_kernel_has_it(&before), &as_kernel_has_it(&placed)) {
            return Ok(false);
        }
        placed = found;
        found = before;
    }
}

/// Replaces as [`replace_disposition`] does, but the C library supplies the restorer. If `new` is
/// null, this only reads.
///
/// # Safety
/// `new` must be null, a previously returned action, or hold a function of atomseq's own that can
/// handle the signal.
unsafe fn replace_by_library(
    signal: i32,
    new: *const libc::sigaction,
) -> Result<libc::sigaction, i32> {
    // SAFETY: `sigaction` is plain data, for which zero is valid.
    let mut old: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: `new` is null or a whole action whose function can handle the signal, by the
    // contract; `old` is valid for writes.
    if unsafe { libc::sigaction(signal, new, &mut old) } == 0 {
        Ok(old)
    } else {
        // SAFETY: the C library returns a valid pointer to this thread's error number.
        Err(unsafe { *libc::__errno_location() })
    }
}

/// Converts an action of the C library into the kernel's form. The restorer is left out, because
/// not every library reports it.
fn as_kernel_has_it(action: &libc::sigaction) -> Disposition {
    Disposition {
        handler: action.sa_sigaction,
        flags: action.sa_flags as u32 as usize,
        restorer: 0,
        // SAFETY: the C library's set starts with the kernel's set and is at least as long, so 8
        // bytes can be read.
        mask: unsafe { (&raw const action.sa_mask).cast::<u64>().read() },
    }
}

/// Returns whether two dispositions are equal apart from the restorer. The kernel removes two
/// signals from every mask, so those are ignored too.
pub fn are_same(one: &Disposition, other: &Disposition) -> bool {
    /// Set by the C library if there is a restorer.
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
    // SAFETY: both sets have 8 bytes, the kernel's size on 64-bit Linux, and outlive the call.
    unsafe { syscall(libc::SYS_rt_sigprocmask, arguments) };
    old
}

/// Returns whether eight bytes at `address` can be read. The kernel reads them before it rejects
/// the invalid `how`.
pub fn is_readable(address: usize) -> bool {
    const NO_CHANGE: usize = 99;
    // SAFETY: the call writes nothing, and the kernel checks the address.
    let result = unsafe { syscall(libc::SYS_rt_sigprocmask, [NO_CHANGE, address, 0, 8, 0, 0]) };
    result == -libc::EINVAL as isize
}

/// Returns this thread's mask.
pub fn kernel_mask() -> u64 {
    change_mask(libc::SIG_BLOCK, 0)
}

/// Returns the signals pending for this thread or its process, or `None` if a sandbox refuses.
pub fn pending() -> Option<u64> {
    let mut set = 0u64;
    let arguments = [&raw mut set as usize, 8, 0, 0, 0, 0];
    // SAFETY: the set is valid for writes of 8 bytes, the kernel's size.
    let result = unsafe { syscall(libc::SYS_rt_sigpending, arguments) };
    (result == 0).then_some(set)
}

/// Returns whether any of `signals` is pending; `false` if the kernel does not report it.
pub fn is_any_pending(signals: u64) -> bool {
    pending().unwrap_or(0) & signals != 0
}

/// Returns the kernel's numbers of this process and this thread.
fn own_numbers() -> (usize, usize) {
    // SAFETY: the call takes no arguments and accesses no memory.
    let thread = unsafe { syscall(libc::SYS_gettid, [0; 6]) };
    (own_process() as usize, thread as usize)
}

/// Sends a signal to this thread, with the record that `tgkill` makes. `Err` holds an error number.
/// Async-signal-safe.
pub fn send_to_this_thread(signal: i32) -> Result<(), i32> {
    let (process, thread) = own_numbers();
    let arguments = [process, thread, signal as usize, 0, 0, 0];
    // SAFETY: the call takes numbers only and accesses no memory.
    match unsafe { syscall(libc::SYS_tgkill, arguments) } {
        0 => Ok(()),
        errno => Err(-errno as i32),
    }
}

/// Queues a signal to this thread with `info` unchanged. If any of the signals in `unless` is
/// pending for the thread or the process, it queues nothing and returns those. No system call lies
/// between the check and the queueing, but a signal may still arrive in between. `Err` holds an
/// error number. Async-signal-safe.
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
    // SAFETY: `info` is a reference to a whole siginfo, which the kernel only reads.
    match unsafe { syscall(libc::SYS_rt_tgsigqueueinfo, arguments) } {
        0 => Ok(0),
        errno => Err(-errno as i32),
    }
}
