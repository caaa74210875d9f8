//! A gauge with one word per CPU: a [`Counter`] whose sum is read as a signed number.

use super::counter::Counter;
use super::error::Error;

/// A number that goes up and down, for many changing threads and few readers: a change is one plain
/// add to memory.
///
/// Scope `SameCpu`. Wait-free, but [`set`](Gauge::set) and [`replace`](Gauge::replace), which are
/// lock-free. Memory, costs and use in handlers are those of [`Counter`]: an addition costs no
/// atomic instruction on the fast path, and reading one load per possible CPU. See [the
/// module](super) for what all per-CPU structures share.
///
/// For a number that is mostly set, and seldom added to, use an
/// [`AtomicI64`](std::sync::atomic::AtomicI64).
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

    /// Sets the value. An addition during the call is either overwritten, or added to `value`.
    ///
    /// Lock-free: one load per possible CPU and one atomic instruction per attempt.
    pub fn set(&self, value: i64) {
        self.replace(value);
    }

    /// Sets the value, and returns the one that it replaces. An addition during the call is either
    /// in the result, or added to `value`.
    pub fn replace(&self, value: i64) -> i64 {
        self.0.replace(value as usize) as isize as i64
    }

    /// Returns the value.
    ///
    /// The value includes every addition that happened before the call, and may include additions
    /// that happen during the call.
    ///
    /// Wait-free: one load per possible CPU and no atomic read-modify-write. While other threads
    /// set the gauge, the words are read up to eight times. If it is set during each reading, the
    /// result is the last value set, with what this call saw of the additions since.
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
