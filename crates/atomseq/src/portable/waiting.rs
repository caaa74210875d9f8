//! Waiting for a word to change, without a system call that every target has: yield, then sleep a little longer each time.
//!
//! Sleepers come back by themselves. They say on which word they sleep nevertheless, so that who wakes one knows
//! whether there was one: that is what handing something over hangs on.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::clock;

const SPINS: u32 = 64;
const YIELDS: u32 = 64;

const LONGEST: Duration = Duration::from_micros(100);

/// The addresses that threads sleep on. A thread that finds no place sleeps unseen.
static SLEEPERS: [AtomicUsize; 64] = [const { AtomicUsize::new(NOBODY) }; 64];
const NOBODY: usize = 0;
/// Whoever has the place was woken, and has not come back yet. No word lies there.
const WOKEN: usize = 1;

/// Returns once `word` no longer holds `expected`, or the caller was woken, or for no reason. Look again.
///
/// True if a wake-up ended the sleep that others were to see; here there is none, for each sleeper sees by itself that the word
/// has changed.
pub fn wait(word: &AtomicU32, expected: u32) -> bool {
    wait_at_most(word, expected, Duration::MAX)
}

/// The same, after a short while at the latest.
pub fn wait_briefly(word: &AtomicU32, expected: u32) -> bool {
    wait_at_most(word, expected, LONGEST)
}

/// The same, for about so long at most.
pub fn wait_at_most(word: &AtomicU32, expected: u32, limit: Duration) -> bool {
    // Relaxed, here and below: the caller looks again, with the ordering that it needs.
    let unchanged = || word.load(Ordering::Relaxed) == expected;
    for round in 0..SPINS + YIELDS {
        if !unchanged() {
            return false;
        }
        if round < SPINS {
            core::hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
    let start = clock::now();
    let waited = || Some(clock::now()?.saturating_sub(start?));
    let address = address(word);
    let place = SLEEPERS.iter().find(|place| {
        let taken = place.compare_exchange(NOBODY, address, Ordering::Relaxed, Ordering::Relaxed);
        taken.is_ok()
    });
    // Without a clock, the caller looks again soon.
    let is_over = || waited().is_none_or(|waited| waited >= limit);
    let is_woken = || place.is_none_or(|place| place.load(Ordering::Relaxed) == WOKEN);
    loop {
        thread::sleep(LONGEST.min(limit.saturating_sub(waited().unwrap_or_default())));
        if is_woken() || !unchanged() || is_over() {
            break;
        }
    }
    if let Some(place) = place {
        place.store(NOBODY, Ordering::Relaxed);
    }
    false
}

/// Was there a sleeper, who comes back for it? A waiter who has not fallen asleep yet does not count.
pub fn wake_one(word: &AtomicU32) -> bool {
    wake(word).next().is_some()
}

/// Wakes so many that sleep, at most.
pub fn wake_many(word: &AtomicU32, most: u32) {
    wake(word).take(most as usize).for_each(drop);
}

/// Wakes all that sleep.
pub fn wake_all(word: &AtomicU32) {
    wake(word).for_each(drop);
}

fn wake(word: &AtomicU32) -> impl Iterator<Item = ()> {
    let address = address(word);
    SLEEPERS.iter().filter_map(move |place| {
        // Relaxed: as above.
        let woken = place.compare_exchange(address, WOKEN, Ordering::Relaxed, Ordering::Relaxed);
        woken.is_ok().then_some(())
    })
}

fn address(word: &AtomicU32) -> usize {
    core::ptr::from_ref(word).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_woken_once() {
        let (word, other) = (AtomicU32::new(0), AtomicU32::new(0));
        assert!(!wake_one(&word), "nobody sleeps yet");
        let (woken, sleeps) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                while woken.load(Ordering::Relaxed) < 100 {
                    sleeps.fetch_add(1, Ordering::SeqCst);
                    wait_briefly(&word, 0);
                }
            });
            while woken.load(Ordering::Relaxed) < 100 {
                assert!(!wake_one(&other), "nobody sleeps there");
                if wake_one(&word) {
                    let count = woken.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(
                        count <= sleeps.load(Ordering::SeqCst),
                        "one sleep, woken twice"
                    );
                }
            }
        });
        assert!(!wake_one(&word), "nobody sleeps any more");
    }
}
