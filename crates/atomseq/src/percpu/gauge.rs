//! A gauge with one word per CPU: a [`Counter`] whose sum is read as a signed number.

use super::counter::Counter;
use super::error::Error;

/// A number that goes up and down, for many changing threads and few readers: a change is one plain
/// add to memory.
///
/// Scope `SameCpu`. Wait-free once its memory is mapped, but [`set`](Gauge::set) and
/// [`replace`](Gauge::replace), which are lock-free. Memory, costs and use in handlers are those of
/// [`Counter`]: an addition costs no atomic instruction on the fast path, and reading one load per
/// possible CPU. See [the module](super) for what all per-CPU structures share.
///
/// For a number that is mostly set, and seldom added to, use an
/// [`AtomicI64`](std::sync::atomic::AtomicI64).
///
/// # Setting at the same time
///
/// Calls of [`set`] and [`replace`] that do not overlap all take effect. A call that overlaps with
/// others, in threads or in a handler that interrupts it, may miss them. It detects them by the
/// *baseline*: the total of all additions less the value last set. Others that leave the baseline
/// as it was are to this call as if they had not been made. Additions between them then count as if
/// they came after it.
///
/// For example, a handler interrupts `replace(7)` of a gauge at 0 by `add(3); set(3)`. The call may
/// then return 0 and leave 10, so the `set` is lost. In the same way [`value`](Gauge::value) may
/// miss other calls, and return a value that includes only some of the additions between them.
///
/// No addition is ever lost or counted twice. What all calls replaced and the value after them add
/// up to the additions and the values set. Where each call must take effect, let the callers hold a
/// lock, and let no handler set the gauge. (A version beside the baseline would reveal every call.
/// Both words would have to change in one step, and not every target has an instruction for that.)
///
/// [`set`]: Gauge::set
/// [`replace`]: Gauge::replace
///
/// ```
/// use atomseq::percpu::Gauge;
///
/// static IN_FLIGHT: Gauge = Gauge::new();
///
/// IN_FLIGHT.add(3);
/// IN_FLIGHT.decrement();
/// assert_eq!(IN_FLIGHT.value(), 2);
/// ```
#[derive(Default)]
pub struct Gauge(Counter);

impl Gauge {
    /// Creates a gauge at zero. The first change maps its memory.
    pub const fn new() -> Gauge {
        Gauge(Counter::new())
    }

    /// Creates a gauge at zero, and maps its memory.
    ///
    /// # Errors
    ///
    /// Those of [`Counter::try_new`].
    pub fn try_new() -> Result<Gauge, Error> {
        Counter::try_new().map(Gauge)
    }

    /// Maps the gauge's memory, as [`Counter::prepare`].
    ///
    /// # Errors
    ///
    /// Those of [`Counter::try_new`]. The gauge remains usable, on the slow path.
    pub fn prepare(&self) -> Result<(), Error> {
        self.0.prepare()
    }

    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Subtracts one.
    #[inline]
    pub fn decrement(&self) {
        self.add(-1);
    }

    /// Adds `amount`, which may be negative, wrapping around at 64 bits (at 32 bits on 32-bit
    /// targets).
    #[inline]
    pub fn add(&self, amount: i64) {
        self.0.add(amount as u64);
    }

    /// Subtracts `amount`, wrapping around as [`add`](Gauge::add).
    #[inline]
    pub fn sub(&self, amount: i64) {
        self.add(amount.wrapping_neg());
    }

    /// Sets the value. An addition during the call is either overwritten, or added to `value`. See
    /// [Setting at the same time](Gauge#setting-at-the-same-time) for concurrent calls.
    ///
    /// Lock-free: one load per possible CPU and one atomic instruction per attempt.
    pub fn set(&self, value: i64) {
        self.replace(value);
    }

    /// Sets the value, and returns the one that it replaces. An addition during the call is either
    /// in the result, or added to `value`. See [Setting at the same
    /// time](Gauge#setting-at-the-same-time) for concurrent calls.
    pub fn replace(&self, value: i64) -> i64 {
        self.0.replace(value as usize) as isize as i64
    }

    /// Returns the value.
    ///
    /// The value includes every addition that happened before the call. Each one that happens
    /// during the call is included or not, whether or not earlier ones are. So the result may be a
    /// value that the gauge never had. For example, it is -1 for a number of requests if one of
    /// them is added on a CPU that was read before, and subtracted on one that is read after. A
    /// thread that is preempted while it reads may be off by all that is added meanwhile. A number
    /// that must be exact at any moment is one for an [`AtomicI64`](std::sync::atomic::AtomicI64).
    ///
    /// Wait-free: one load per possible CPU and no atomic read-modify-write. While other threads
    /// set the gauge, the words are read up to 32 times. If it is set during each reading, the
    /// result also lacks additions that the last of these calls has replaced and this call has not
    /// seen.
    pub fn value(&self) -> i64 {
        self.0.signed_sum() as i64
    }
}

impl std::fmt::Debug for Gauge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gauge")
            .field("value", &self.value())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::baseline;
    use super::*;

    #[test]
    fn a_value_is_what_was_set_and_added() {
        static GAUGE: Gauge = Gauge::new();
        assert_eq!(GAUGE.value(), 0);
        GAUGE.sub(7);
        assert_eq!((GAUGE.value(), GAUGE.replace(-100)), (-7, -7));
        GAUGE.increment();
        GAUGE.add(-3);
        assert_eq!(GAUGE.value(), -102);
        GAUGE.set(5);
        GAUGE.decrement();
        assert_eq!(GAUGE.value(), 4);
    }

    /// A handler interrupts `replace(7)` of a gauge at 0 by `add(3)` and a `replace`. It is missed
    /// only if it leaves the baseline as it was. No addition is lost even then.
    #[test]
    fn a_replacement_misses_only_one_that_leaves_the_baseline_as_it_was() {
        for set in -5..10 {
            let (added, drained) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let others = Cell::new(None);
            let total = || added.load(Ordering::Relaxed);
            let replaced = baseline::replace(&drained, 7, || {
                let total_before = total();
                if others.get().is_none() {
                    added.store(3, Ordering::Relaxed);
                    others.set(Some(baseline::replace(&drained, set as usize, total)));
                }
                total_before
            });
            let value = baseline::signed_since(&drained, total);
            let expected = if set == 3 { (0, 10) } else { (set, 7) };
            assert_eq!((replaced as isize, value), expected, "set to {set}");
            let others = others.get().unwrap() as isize;
            assert_eq!(replaced as isize + others + value, 3 + 7 + set);
        }
    }

    /// The gauge is 7, and 107 between an addition and the call that sets it to 7 again. With eight
    /// readings, a program that did this saw negative values.
    #[test]
    fn a_value_is_one_that_the_gauge_had_however_often_it_is_set_meanwhile() {
        for sets in 0..32 {
            let (added, drained) = (AtomicUsize::new(7), AtomicUsize::new(0));
            let left = Cell::new(sets);
            let value = baseline::signed_since(&drained, || {
                let total = added.load(Ordering::Relaxed);
                if left.get() > 0 {
                    left.set(left.get() - 1);
                    added.fetch_add(100, Ordering::Relaxed);
                    baseline::replace(&drained, 7, || added.load(Ordering::Relaxed));
                }
                total
            });
            assert_eq!(value, 7, "{sets} sets");
        }
    }

    #[test]
    fn every_addition_is_replaced_or_kept() {
        let gauge = Gauge::try_new().unwrap();
        let replaced = std::thread::scope(|scope| {
            let setter = scope.spawn(|| (0..1000).map(|_| gauge.replace(7) - 7).sum::<i64>());
            for amount in [2, -1] {
                let gauge = &gauge;
                scope.spawn(move || (0..100_000).for_each(|_| gauge.add(amount)));
            }
            setter.join().unwrap()
        });
        // The first replacement found 0, not 7.
        assert_eq!(replaced + 7 + gauge.value() - 7, 100_000);
    }
}
