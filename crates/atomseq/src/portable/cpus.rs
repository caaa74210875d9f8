//! The number of slots of a structure, and the slot that a thread uses. A slot is only a lock here,
//! so threads are spread over slots.

use core::sync::atomic::{AtomicUsize, Ordering};

/// The max number of slots. More would cost memory and slow down reading all of them.
const MAX: usize = 64;

/// Returns the number of configured CPUs, at most 64.
pub fn cpu_slots() -> usize {
    static SLOTS: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: every thread computes the same number.
    let slots = SLOTS.load(Ordering::Relaxed);
    if slots != 0 {
        return slots;
    }
    let slots = configured().clamp(1, MAX);
    // The first stored number remains. Relaxed: the number orders no other data.
    match SLOTS.compare_exchange(0, slots, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => slots,
        Err(first) => first,
    }
}

#[cfg(unix)]
fn configured() -> usize {
    // SAFETY: the call takes a number and returns -1 if it does not know.
    let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(configured).unwrap_or(1)
}

#[cfg(not(unix))]
fn configured() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

/// Returns this thread's slot, always the same: less than [`cpu_slots`].
pub fn current_cpu() -> usize {
    // Needs no initialization and no destructor, so it may be used anywhere, even in an allocator.
    std::thread_local!(static MARK: u8 = const { 0 });
    let address = MARK.with(|mark| mark as *const u8 as usize) as u64;
    // Fibonacci hashing, because threads' storage lies at multiples of large powers of two.
    let spread = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    spread as usize % cpu_slots()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_few_and_stay() {
        assert!((1..=MAX).contains(&cpu_slots()));
        assert_eq!(cpu_slots(), cpu_slots());
    }

    #[test]
    fn a_thread_keeps_its_slot() {
        let slot = current_cpu();
        assert!(slot < cpu_slots());
        for _ in 0..100 {
            assert_eq!(current_cpu(), slot);
        }
    }
}
