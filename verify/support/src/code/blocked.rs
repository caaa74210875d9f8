//! Stretches in which a thread blocks all signals, and what happens to a signal there.
//!
//! No handler can run inside one, and a trap there ends the process. What can be tested is a signal
//! that becomes pending inside and is delivered at its end. It is made pending as early as
//! possible: the system call that begins the stretch is done in a handler, on the interrupted
//! thread's context, which then returns with all signals blocked and [`SIGNAL`] pending.

use std::ffi::c_int;

use crate::signals::{Three, install_plainly, raise};

/// The signal that waits for the end of the stretch.
pub const SIGNAL: c_int = libc::SIGUSR1;

/// The two bytes of the instruction `syscall`.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Installs a handler. [`SIGNAL`] waits while it runs; the signal itself does not, since what a
/// handler does may itself be interrupted.
pub fn handle(signal: c_int, handler: Three) {
    install_plainly(signal, handler, libc::SA_NODEFER, &[SIGNAL]);
}

/// Is the thread about to block all signals?
pub fn is_blocking(context: &libc::ucontext_t) -> bool {
    let registers = &context.uc_mcontext.gregs;
    let register = |index: c_int| registers[index as usize];
    let at = register(libc::REG_RIP) as *const [u8; 2];
    // SAFETY: the thread is about to run the code there.
    let instruction = unsafe { at.read_unaligned() };
    if instruction != SYSCALL
        || register(libc::REG_RAX) != libc::SYS_rt_sigprocmask
        || register(libc::REG_RDI) == i64::from(libc::SIG_UNBLOCK)
        || register(libc::REG_RSI) == 0
    {
        return false;
    }
    let set = register(libc::REG_RSI) as *const u64;
    // SAFETY: the thread is about to pass this set to the kernel.
    let set = unsafe { set.read_unaligned() };
    set & (1 << (libc::SIGTRAP - 1)) != 0
}

/// Does the system call that [`is_blocking`] in the kernel's stead, and makes [`SIGNAL`] pending.
///
/// For handlers installed by [`handle`]: the mask takes effect when the handler returns.
pub fn block(context: &mut libc::ucontext_t) {
    assert!(is_blocking(context), "the thread blocks no signals here");
    let registers = &mut context.uc_mcontext.gregs;
    let new = registers[libc::REG_RSI as usize] as *const u64;
    let old = registers[libc::REG_RDX as usize] as *mut u64;
    let mask = (&raw mut context.uc_sigmask).cast::<u64>();
    // SAFETY: the kernel's set is the first 8 bytes of the mask; the thread vouches for the sets it
    // passes.
    unsafe {
        if !old.is_null() {
            old.write_unaligned(mask.read());
        }
        let before = match registers[libc::REG_RDI as usize] as c_int {
            libc::SIG_BLOCK => mask.read(),
            _ => 0,
        };
        mask.write(before | new.read_unaligned());
    }
    registers[libc::REG_RAX as usize] = 0;
    registers[libc::REG_RIP as usize] += SYSCALL.len() as i64;
    raise(SIGNAL);
}
