//! Numbers for threads: Lamport's algorithm has an array that is indexed by them.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

/// How many threads may have a number at a time.
pub const THREADS: usize = 256;

/// All numbers are given to threads that still run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyThreads;

impl fmt::Display for TooManyThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "more than {THREADS} threads use software reservation at once, and its arrays have no place for another; \
             let some of them end first, or choose another mechanism"
        )
    }
}

impl std::error::Error for TooManyThreads {}

/// A bit a number that is given away.
static TAKEN: [AtomicU64; THREADS / 64] = [const { AtomicU64::new(0) }; THREADS / 64];

/// Gives the number back when the thread ends.
struct Return(Cell<u16>);

impl Drop for Return {
    fn drop(&mut self) {
        NUMBER.set(0);
        if let Some(number) = self.0.get().checked_sub(1) {
            give_back(number as u8);
        }
    }
}

thread_local! {
    /// This thread's number plus one, or 0. Without a destructor, so that it can be reached to the
    /// thread's very end.
    static NUMBER: Cell<u16> = const { Cell::new(0) };
    static RETURN: Return = const { Return(Cell::new(0)) };
}

/// The lowest free number.
fn take() -> Result<u8, TooManyThreads> {
    for (index, word) in TAKEN.iter().enumerate() {
        let mut taken = word.load(Ordering::Relaxed);
        while taken != u64::MAX {
            let bit = taken.trailing_ones();
            // Acquire: pairs with the Release in `give_back`, so that the flags of whoever had the
            // number are down.
            match word.compare_exchange_weak(
                taken,
                taken | 1 << bit,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok((index as u32 * 64 + bit) as u8),
                Err(now) => taken = now,
            }
        }
    }
    Err(TooManyThreads)
}

fn give_back(number: u8) {
    // Release: pairs with the Acquire in `take`.
    TAKEN[usize::from(number) / 64].fetch_and(!(1 << (number % 64)), Ordering::Release);
}

/// Set beside the number while the thread is in the middle of an operation, and a handler that
/// interrupts it must keep out: to Lamport's algorithm the two are one thread.
const BUSY: u16 = 1 << 15;

/// Gives the calling thread a number now, if it has none: afterwards no test-and-set of this thread
/// can run out of them.
///
/// Otherwise its first operation does so. The number is given back when the thread ends. Not for
/// signal handlers.
///
/// # Errors
///
/// [`TooManyThreads`] if all [`THREADS`] numbers are given away.
pub fn register() -> Result<(), TooManyThreads> {
    match NUMBER.get() {
        0 => register_unless_a_handler_did(),
        _ => Ok(()),
    }
}

/// Gives the calling thread a number, unless it has one from a handler that came after the look at
/// `NUMBER`.
fn register_unless_a_handler_did() -> Result<(), TooManyThreads> {
    NUMBER.set(BUSY);
    // For this thread's handlers, which do not register from here on.
    compiler_fence(Ordering::SeqCst);
    let registered = RETURN.try_with(|kept| {
        if kept.0.get() == 0 {
            kept.0.set(u16::from(take()?) + 1);
        }
        Ok(kept.0.get())
    });
    compiler_fence(Ordering::SeqCst);
    // In the destructors of a thread nobody would give a number back.
    let registered = registered.unwrap_or(Ok(0));
    NUMBER.set(registered.unwrap_or(0));
    registered.map(drop)
}

/// The calling thread's number; gives it one first if it has none. `None` in the destructors of a
/// thread that has given its number back.
///
/// # Panics
///
/// If there is no number left.
#[inline(always)]
pub fn number() -> Option<u8> {
    match NUMBER.get() & !BUSY {
        0 => first_number(),
        number => Some((number - 1) as u8),
    }
}

#[cold]
fn first_number() -> Option<u8> {
    register().unwrap_or_else(|error| panic!("{error}"));
    let number = (NUMBER.get() & !BUSY).checked_sub(1);
    number.map(|number| number as u8)
}

/// Does something with the calling thread's number, which at the thread's end is one for this
/// occasion only. `None` if it is in the middle of that already: then a handler calls.
///
/// # Panics
///
/// If there is no number left.
#[inline(always)]
pub fn with_number<R>(work: impl FnOnce(u8) -> R) -> Option<R> {
    let before = NUMBER.get();
    // Neither 0 nor BUSY.
    if before.wrapping_sub(1) < BUSY - 1 {
        Some(busy_with(before, (before - 1) as u8, work))
    } else {
        with_no_number(before, work)
    }
}

#[inline(always)]
fn busy_with<R>(before: u16, number: u8, work: impl FnOnce(u8) -> R) -> R {
    NUMBER.set(before | BUSY);
    // For this thread's handlers.
    compiler_fence(Ordering::SeqCst);
    let result = work(number);
    compiler_fence(Ordering::SeqCst);
    NUMBER.set(before);
    result
}

#[cold]
fn with_no_number<R>(before: u16, work: impl FnOnce(u8) -> R) -> Option<R> {
    if before & BUSY != 0 {
        return None;
    }
    if let Some(number) = first_number() {
        return Some(busy_with(NUMBER.get(), number, work));
    }
    let number = take().unwrap_or_else(|error| panic!("{error}"));
    let result = busy_with(0, number, work);
    give_back(number);
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_a_handler_took_in_between_is_kept() {
        // In a thread of its own, which has no number yet.
        let numbers = std::thread::spawn(|| {
            assert_eq!(NUMBER.get(), 0);
            // The thread has seen that; a handler registers; the thread goes on.
            register().unwrap();
            let handlers = (NUMBER.get(), RETURN.with(|kept| kept.0.get()));
            register_unless_a_handler_did().unwrap();
            let threads = (NUMBER.get(), RETURN.with(|kept| kept.0.get()));
            (handlers, threads)
        });
        let (handlers, threads) = numbers.join().unwrap();
        assert_eq!(handlers, threads, "a number that nobody gives back");
        assert_eq!(threads.0, threads.1);
    }
}
