//! The kernel's own code in every process, which reads the clock and the CPU's number without a
//! system call.
//!
//! The clock is read again if the kernel has changed it meanwhile, every few milliseconds. One
//! instruction at a time, a read of some 60 may take longer than that, and would never end. So such
//! a call is made as a whole.

use std::ops::Range;
use std::sync::OnceLock;

use libc::greg_t;

use crate::maps;
use crate::trap::Registers;

/// Where it lies. To be asked for once outside of signal handlers.
pub fn range() -> Range<usize> {
    static RANGE: OnceLock<Range<usize>> = OnceLock::new();
    RANGE.get_or_init(find).clone()
}

fn find() -> Range<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux tells");
    let found = maps::named(&maps).find(|mapping| mapping.name == "[vdso]");
    // A kernel may have none.
    found.map_or(0..0, |mapping| mapping.range)
}

/// Makes the call that a thread has just begun, up to its return.
///
/// # Safety
///
/// The thread is at the first instruction of one of these functions, called as they are meant to
/// be.
pub unsafe fn call(registers: &mut Registers) {
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
    use crate::trace::trace;

    static READ: Mutex<Option<Instant>> = Mutex::new(None);

    #[inline(never)]
    fn read() {
        *READ.lock().unwrap() = Some(Instant::now());
    }

    #[test]
    fn the_clock_is_read_in_one_step() {
        let entry = read as *const () as usize;
        let own = entry..entry + 1;
        for (text, steps) in [(range(), 0), (own, 1)] {
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
