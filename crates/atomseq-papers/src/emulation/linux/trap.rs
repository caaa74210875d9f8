//! Emulation of an undefined instruction.

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
    // Blocks all signals during the handler, as B91's kernel disables interrupts.
    let options = (1..=64).fold(Options::new(), Options::blocking);
    // SAFETY: the handler only makes system calls and accesses its arguments and the checked word,
    // so it may run at any instruction.
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
    // SAFETY: `STARTED` is set, so the handler is installed.
    unsafe { arch::test_and_set(word.as_ptr()) == 0 }
}

#[cold]
fn start_now() {
    start().unwrap_or_else(|error| panic!("{error}"));
}

/// Sets the word at any address, even an invalid one.
///
/// # Safety
///
/// If the program may write the address, only atomic instructions may access the word there. The
/// handler must be installed.
#[doc(hidden)]
pub unsafe fn test_and_set_at(address: *mut u32) -> u32 {
    // SAFETY: the contract is the same.
    unsafe { arch::test_and_set(address) }
}

/// Handles `SIGILL`.
fn emulate(event: &mut Event<'_>) {
    // SAFETY: the context belongs to this handler, and `registers` is not used after it returns.
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
            // SAFETY: the address is aligned, and the kernel has just found it writable; if that
            // changes meanwhile, the access faults here. The code that executes the instruction is
            // responsible for the access, as for that of any other instruction.
            let word = unsafe { AtomicU32::from_ptr(address as *mut u32) };
            registers.set(instruction.result, word.swap(1, Ordering::SeqCst));
            registers.skip(instruction.length);
        }
        // SAFETY: the context belongs to this handler, which returns after this.
        Err(fault) => unsafe { address::raise(fault, address, event.context()) },
    }
}

/// Reads a byte of code.
fn code(address: usize) -> u8 {
    // SAFETY: the byte belongs to an instruction that the processor has just read: `decode`
    // continues only while the bytes are those of the pseudo-instruction.
    unsafe { ptr::with_exposed_provenance::<u8>(address).read_volatile() }
}

/// Passes on a signal that is not about a pseudo-instruction to the previous handler.
fn hand_on(event: &mut Event<'_>) {
    let is_sent = event.info().si_code <= 0;
    match event.chain() {
        Chained::Called => {}
        Chained::Ignored if is_sent => {}
        Chained::Default | Chained::Ignored => {
            // SAFETY: the structure is plain data; zero means the default action, which calls no
            // function.
            unsafe {
                let default: libc::sigaction = mem::zeroed();
                libc::sigaction(libc::SIGILL, &default, ptr::null_mut());
            }
            if is_sent {
                // An undefined instruction raises the signal again by itself. A sent one must be
                // sent again.
                // SAFETY: this sends the thread a signal, which ends the process once this handler
                // returns.
                unsafe { libc::raise(libc::SIGILL) };
            }
        }
    }
}
