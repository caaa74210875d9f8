//! Single steps: the trap flag raises `SIGTRAP` after each instruction.
//!
//! A trap while signals are blocked would end the process. So the flag is off inside such a stretch
//! (see [`super::blocked`]), and the signal that is delivered at its end sets it again.
//!
//! The kernel's own code in every process, the vDSO, is called as a whole. It reads the clock
//! without a system call, and reads it again if the kernel has changed it meanwhile, every few
//! milliseconds. One instruction at a time, a read of some 60 may take longer than that, and would
//! never end.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use libc::greg_t;

use super::blocked;
use super::trap::Registers;
use crate::proc;
use crate::threads::exit_this_thread;

/// The trap flag, in the register of flags.
pub const STEP: i64 = 0x100;

/// Sets the trap flag of this thread: from the second instruction behind this call on, each one
/// raises `SIGTRAP`.
#[inline(always)]
pub fn set_trap_flag() {
    // SAFETY: the handler of SIGTRAP is the caller's. The stack below the pointer is not the
    // compiler's own: no red zone is promised to assembly without `nostack`.
    unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
}

/// Clears the trap flag of this thread.
#[inline(always)]
pub fn clear_trap_flag() {
    // SAFETY: the stack below the pointer is not the compiler's own, as in `set_trap_flag`.
    unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq") };
}

/// How many instructions there were so far, and in front of which the thread exits.
static STEPS: AtomicU64 = AtomicU64::new(0);
static LAST: AtomicU64 = AtomicU64::new(0);

/// Runs `work`, and exits the thread in front of the instruction with this number. Returns if there
/// is none of that number. For one thread of a process at a time.
///
/// Inside a stretch with signals blocked no handler can run, and so none can end the thread.
pub fn exit_at(number: u64, work: impl FnOnce()) {
    STEPS.store(0, Relaxed);
    LAST.store(number, Relaxed);
    for signal in [libc::SIGTRAP, blocked::SIGNAL] {
        blocked::handle(signal, on_step);
    }
    set_trap_flag();
    work();
    clear_trap_flag();
}

extern "C" fn on_step(signal: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    if STEPS.fetch_add(1, Relaxed) == LAST.load(Relaxed) {
        exit_this_thread();
    }
    // SAFETY: the kernel passes the interrupted thread's context to an SA_SIGINFO handler.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    if blocked::is_blocking(context) {
        blocked::block(context);
        context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !STEP;
    } else if signal == blocked::SIGNAL {
        // The stretch has ended.
        context.uc_mcontext.gregs[libc::REG_EFL as usize] |= STEP;
    }
}

/// Returns where the vDSO lies. To be called once outside of signal handlers.
pub fn vdso() -> Range<usize> {
    static RANGE: OnceLock<Range<usize>> = OnceLock::new();
    let find = || {
        let maps = proc::maps();
        let found = proc::mappings(&maps).find(|mapping| mapping.name == "[vdso]");
        // A kernel may have none.
        found.map_or(0..0, |mapping| mapping.range)
    };
    RANGE.get_or_init(find).clone()
}

/// Makes the call of the vDSO that a thread has just begun, up to its return.
///
/// # Safety
///
/// The thread is at the first instruction of one of these functions, called as they are meant to
/// be.
pub unsafe fn call_vdso(registers: &mut Registers) {
    type Function = extern "C" fn(greg_t, greg_t, greg_t, greg_t, greg_t, greg_t) -> greg_t;
    let register = |index: i32| registers[index as usize];
    // SAFETY: it has five arguments at most, all of them numbers or addresses.
    let function: Function = unsafe { std::mem::transmute(register(libc::REG_RIP)) };
    let result = function(
        register(libc::REG_RDI),
        register(libc::REG_RSI),
        register(libc::REG_RDX),
        register(libc::REG_RCX),
        register(libc::REG_R8),
        register(libc::REG_R9),
    );
    let stack = register(libc::REG_RSP);
    registers[libc::REG_RAX as usize] = result;
    // SAFETY: on entry, the return address is on top of the stack.
    registers[libc::REG_RIP as usize] = unsafe { *(stack as *const greg_t) };
    registers[libc::REG_RSP as usize] = stack + size_of::<greg_t>() as greg_t;
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::sync::Mutex;
    use std::time::Instant;

    use super::*;
    use crate::code::trace::trace;

    static READ: Mutex<Option<Instant>> = Mutex::new(None);

    #[inline(never)]
    fn read() {
        *READ.lock().unwrap() = Some(Instant::now());
    }

    #[test]
    fn the_clock_is_read_in_one_step() {
        let entry = read as *const () as usize;
        let own = entry..entry + 1;
        for (text, steps) in [(vdso(), 0), (own, 1)] {
            let before = Instant::now();
            let phases = trace(text, entry, || black_box(read as fn())());
            let after = Instant::now();
            let time = READ.lock().unwrap().take().expect("the time");
            assert!((before..=after).contains(&time));
            let seen = phases.iter().map(|phase| phase.addresses.len());
            assert_eq!(seen.sum::<usize>(), steps);
        }
    }
}
