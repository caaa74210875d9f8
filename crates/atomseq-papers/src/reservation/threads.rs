//! Thread numbers: Lamport's algorithm has an array indexed by them.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

/// The max number of threads that have a number at the same time.
pub const THREADS: usize = 256;

/// The error if all numbers belong to threads that still run.
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

/// A bit for each number, set while it is taken.
static TAKEN: [AtomicU64; THREADS / 64] = [const { AtomicU64::new(0) }; THREADS / 64];

/// Frees the number when the thread exits.
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
    /// This thread's number plus one, or 0. Without a destructor, so that it can be used until the
    /// very end of the thread.
    static NUMBER: Cell<u16> = const { Cell::new(0) };
    static RETURN: Return = const { Return(Cell::new(0)) };
}

/// Takes the lowest free number.
fn take() -> Result<u8, TooManyThreads> {
    for (index, word) in TAKEN.iter().enumerate() {
        let mut taken = word.load(Ordering::Relaxed);
        while taken != u64::MAX {
            let bit = taken.trailing_ones();
            // Acquire: pairs with the Release in `give_back`, so that the flags of the previous
            // owner of the number are seen lowered. Relaxed: a failure retries.
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

/// Set beside the number while the thread is in the middle of an operation. A handler that
/// interrupts it must not start one: the algorithm would treat both as one thread.
const BUSY: u16 = 1 << 15;

/// Assigns a number to the calling thread if it has none. Afterwards no test-and-set of this thread
/// can run out of numbers.
///
/// Otherwise its first operation assigns one. The number is freed when the thread exits. Must not
/// be called in a signal handler.
///
/// # Errors
///
/// [`TooManyThreads`] if all [`THREADS`] numbers are taken.
pub fn register() -> Result<(), TooManyThreads> {
    match NUMBER.get() {
        0 => register_unless_a_handler_did(),
        _ => Ok(()),
    }
}

/// Assigns a number to the calling thread, unless a handler has done so since `NUMBER` was read.
fn register_unless_a_handler_did() -> Result<(), TooManyThreads> {
    NUMBER.set(BUSY);
    // Orders this against handlers of this thread, which do not register from here on.
    compiler_fence(Ordering::SeqCst);
    let registered = RETURN.try_with(|kept| {
        if kept.0.get() == 0 {
            kept.0.set(u16::from(take()?) + 1);
        }
        Ok(kept.0.get())
    });
    compiler_fence(Ordering::SeqCst);
    // During the destructors of a thread, nothing would free the number.
    let registered = registered.unwrap_or(Ok(0));
    NUMBER.set(registered.unwrap_or(0));
    registered.map(drop)
}

/// Returns the calling thread's number, and assigns one first if it has none. `None` in the
/// destructors of a thread that has freed its number.
///
/// # Panics
///
/// If no number is free.
#[inline(always)]
#[track_caller]
pub fn number() -> Option<u8> {
    match NUMBER.get() & !BUSY {
        0 => first_number(),
        number => Some((number - 1) as u8),
    }
}

#[cold]
#[track_caller]
fn first_number() -> Option<u8> {
    if let Err(error) = register() {
        panic!("{error}");
    }
    let number = (NUMBER.get() & !BUSY).checked_sub(1);
    number.map(|number| number as u8)
}

/// Calls `work` with the calling thread's number, or with a temporary one while the thread exits.
/// Returns `None` if the thread is already in the middle of such a call: the caller is a handler.
///
/// # Panics
///
/// If no number is free.
#[inline(always)]
#[track_caller]
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
    // Orders the store of `NUMBER` against handlers of this thread.
    compiler_fence(Ordering::SeqCst);
    let result = work(number);
    compiler_fence(Ordering::SeqCst);
    NUMBER.set(before);
    result
}

#[cold]
#[track_caller]
fn with_no_number<R>(before: u16, work: impl FnOnce(u8) -> R) -> Option<R> {
    if before & BUSY != 0 {
        return None;
    }
    if let Some(number) = first_number() {
        return Some(busy_with(NUMBER.get(), number, work));
    }
    let number = match take() {
        Ok(number) => number,
        Err(error) => panic!("{error}"),
    };
    let result = busy_with(0, number, work);
    give_back(number);
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_a_handler_took_in_between_is_kept() {
        // In a new thread, which has no number yet.
        let numbers = std::thread::spawn(|| {
            assert_eq!(NUMBER.get(), 0);
            // The thread has seen 0, then a handler registers, and the thread continues.
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
