//! By an undefined instruction.

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use atomseq::signal::{self, Chained, Event, Options};

use super::address;
use crate::arch::{self, Registers};
use crate::emulation::Error;
use crate::statistics::TRAPS;

static STARTED: AtomicBool = AtomicBool::new(false);

pub fn start() -> Result<(), Error> {
    // Acquire: pairs with the Release below.
    if STARTED.load(Ordering::Acquire) {
        return Ok(());
    }
    address::try_check()?;
    // Nothing comes between, as in B91's kernel, where interrupts are disabled.
    let options = (1..=64).fold(Options::new(), Options::blocking);
    // SAFETY: the handler makes system calls and accesses what it was given, and nothing else.
    unsafe { signal::install_with(libc::SIGILL, emulate, options) }.map_err(Error::Handler)?;
    // Release: pairs with the Acquire above and in `test_and_set`.
    STARTED.store(true, Ordering::Release);
    Ok(())
}

#[inline(always)]
pub fn test_and_set(word: &AtomicU32) -> bool {
    // Acquire: pairs with the Release in `start`.
    if !STARTED.load(Ordering::Acquire) {
        start_now();
    }
    // SAFETY: the handler is installed.
    unsafe { arch::test_and_set(word.as_ptr()) == 0 }
}

#[cold]
fn start_now() {
    start().unwrap_or_else(|error| panic!("{error}"));
}

/// Sets the word at any address, which may be none.
///
/// # Safety
///
/// If the program may write it, the word is one that only atomic instructions access. The handler
/// is installed.
#[doc(hidden)]
pub unsafe fn test_and_set_at(address: *mut u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { arch::test_and_set(address) }
}

/// Handles `SIGILL`.
fn emulate(event: &mut Event<'_>) {
    // SAFETY: the context of this handler.
    let registers = unsafe { Registers::new(event.context()) };
    let is_trap = event.info().si_code > 0;
    let pc = registers.program_counter();
    let instruction = is_trap.then(|| arch::decode(|at| code(pc + at))).flatten();
    let Some(instruction) = instruction else {
        return hand_on(event);
    };
    let address = registers.get(instruction.address);
    match address::check(address) {
        Ok(()) => {
            TRAPS.add();
            // SAFETY: aligned, and the program's to write, as the kernel has just found; what makes
            // it no longer so meanwhile is a fault here. Whoever executes the instruction vouches
            // for the access as for any other instruction's.
            let word = unsafe { AtomicU32::from_ptr(address as *mut u32) };
            registers.set(instruction.result, word.swap(1, Ordering::SeqCst));
            registers.skip(instruction.length);
        }
        // SAFETY: the context of this handler, which returns now.
        Err(fault) => unsafe { address::raise(fault, address, event.context()) },
    }
}

/// A byte of code.
fn code(address: usize) -> u8 {
    // SAFETY: part of an instruction that the processor has just read, since `decode` goes on only
    // while it is one of ours.
    unsafe { ptr::with_exposed_provenance::<u8>(address).read_volatile() }
}

/// The signal is not about a pseudo-instruction: it is for whoever handled it before.
fn hand_on(event: &mut Event<'_>) {
    let is_sent = event.info().si_code <= 0;
    match event.chain() {
        Chained::Called => {}
        Chained::Ignored if is_sent => {}
        Chained::Default | Chained::Ignored => {
            // SAFETY: plain old data; nothing is called by it.
            unsafe {
                let default: libc::sigaction = mem::zeroed();
                libc::sigaction(libc::SIGILL, &default, ptr::null_mut());
            }
            if is_sent {
                // An undefined instruction comes again by itself.
                // SAFETY: sends this thread a signal, which ends the process once this handler
                // returns.
                unsafe { libc::raise(libc::SIGILL) };
            }
        }
    }
}
