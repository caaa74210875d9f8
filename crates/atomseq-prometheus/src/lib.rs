//! Metrics for the crate [`prometheus_client`] that count per CPU.
//!
//! ```
//! use atomseq_prometheus::{Counter, Histogram};
//! use prometheus_client::encoding::text::encode;
//! use prometheus_client::metrics::family::Family;
//! use prometheus_client::registry::Registry;
//!
//! let requests = Family::<[(&str, &str); 1], Counter>::default();
//! let latency = Histogram::new([0.001, 0.01, 0.1]);
//! let mut registry = Registry::default();
//! registry.register("requests", "Requests served", requests.clone());
//! registry.register("latency", "Seconds to serve one", latency.clone());
//!
//! let gets = requests.get_or_create_owned(&[("method", "get")]);
//! gets.inc();
//! latency.observe(0.002);
//!
//! let mut text = String::new();
//! encode(&mut text, &registry).unwrap();
//! assert!(text.contains("requests_total{method=\"get\"} 1"));
//! ```
//!
//! The types have the names and operations of prometheus_client's own and take their place in a
//! [`Registry`](prometheus_client::registry::Registry) and a
//! [`Family`](prometheus_client::metrics::family::Family). An update is a plain add to memory of
//! the CPU that the thread is on, of which [`atomseq::percpu`] states the progress guarantee, the
//! cost and the slow path. A scrape adds up the CPUs. What differs: an update does not return the
//! previous value, there are no exemplars, and counters and gauges are of integers. For
//! floating-point numbers, register prometheus_client's own `Gauge<f64, AtomicU64>` beside these. A
//! histogram [refuses bounds](Histogram::try_new) that are not finite, which prometheus_client
//! drops, or do not increase, and leaves NaN out of its sum. On 32-bit targets counters and gauges
//! have 32 bits, and a histogram adds to its sums by atomic instructions.
//!
//! A counter and a gauge are made by `default`. A histogram has no default bounds, so a family of
//! them names its own, by
//! [`new_with_constructor`](prometheus_client::metrics::family::Family::new_with_constructor):
//!
//! ```
//! use atomseq_prometheus::Histogram;
//! use prometheus_client::metrics::family::Family;
//!
//! let new: fn() -> Histogram = || Histogram::new([0.001, 0.01, 0.1]);
//! let latency = Family::<[(&str, &str); 1], Histogram, _>::new_with_constructor(new);
//! latency.get_or_create(&[("method", "get")]).observe(0.002);
//! ```
//!
//! | type | updates | memory |
//! |---|---|---|
//! | [`Counter`] | 1 add | 8 bytes per CPU and 20 shared ones |
//! | [`Gauge`] | 1 add; to set it, 1 atomic instruction | 128 bytes per CPU and for two more |
//! | [`Histogram`] | 2 adds; 3 for another value than an integer or one from 0 to 1; from ±2^40 on 1, and 1 atomic instruction | 128 bytes, and 8 per bucket, rounded up to a multiple of 128, per CPU and for two more; 8 per bucket; a counter on 64-bit targets; for each set of bounds, 256 for each power of two between the first and the last, at most 16 KiB, which stay until a histogram with new bounds is created after the last one with these was dropped |
//! | [`Static`] | those of the `static` | those of the `static` |
//!
//! Only a [`percpu::Histogram`] computes [quantiles](atomseq::percpu::Snapshot::quantile). Its
//! [`Static`] has a line (`le`) per bucket: one made by `log_linear` has hundreds, one made
//! `with_bounds` as many as its bounds and one more.
//!
//! In a child of `fork`, all metrics can be updated. To create a histogram, and to read one, takes
//! a lock. A lock that another thread held during the `fork` stays locked in the child, which then
//! waits for it indefinitely. In a signal handler, too, only update metrics that exist: the
//! interrupted thread may hold the lock, or be in the allocator.
//!
//! A look-up in a `Family` takes a lock and costs more than ten updates. Keep the metric of a label
//! set that is updated often; a clone of it is a reference.

mod encoding;
mod histogram;
mod sums;

use std::fmt;
use std::sync::Arc;

use atomseq::percpu;
use percpu::{Count, Counters};
use prometheus_client::metrics::{MetricType, TypedMetric};

pub use encoding::Static;
pub use histogram::Histogram;

/// What all counters of the process are taken from.
static COUNTERS: Counters = Counters::new();

/// A counter. A clone refers to the same one.
///
/// All counters of a process share their memory, in which the last reference to one frees its word
/// for another.
#[derive(Clone)]
pub struct Counter(Count<'static>);

impl Default for Counter {
    /// Creates a counter at zero.
    ///
    /// # Panics
    ///
    /// If the system refuses the memory.
    #[track_caller]
    fn default() -> Counter {
        Counter(COUNTERS.create())
    }
}

impl Counter {
    /// Adds one.
    #[inline]
    pub fn inc(&self) {
        self.0.increment();
    }

    /// Adds `amount`, wrapping around at 2^64 (at 2^32 on 32-bit targets).
    #[inline]
    pub fn inc_by(&self, amount: u64) {
        self.0.add(amount);
    }

    /// Returns the value: one load per possible CPU.
    pub fn get(&self) -> u64 {
        self.0.sum()
    }
}

/// A gauge of integers. A clone refers to the same one.
#[derive(Clone, Default)]
pub struct Gauge(Arc<percpu::Gauge>);

impl Gauge {
    /// Adds one.
    #[inline]
    pub fn inc(&self) {
        self.0.increment();
    }

    /// Adds `amount`, wrapping around at 64 bits (at 32 bits on 32-bit targets).
    #[inline]
    pub fn inc_by(&self, amount: i64) {
        self.0.add(amount);
    }

    /// Subtracts one.
    #[inline]
    pub fn dec(&self) {
        self.0.decrement();
    }

    /// Subtracts `amount`.
    #[inline]
    pub fn dec_by(&self, amount: i64) {
        self.0.sub(amount);
    }

    /// Sets the value. An addition during the call is either overwritten, or added to `value`. For
    /// concurrent calls see [`percpu::Gauge`](percpu::Gauge#setting-at-the-same-time).
    pub fn set(&self, value: i64) {
        self.0.set(value);
    }

    /// Returns the value: one load per possible CPU. While others change the gauge, it may be [a
    /// value that the gauge never had](percpu::Gauge::value), such as a number of requests below
    /// zero.
    pub fn get(&self) -> i64 {
        self.0.value()
    }
}

impl TypedMetric for Counter {
    const TYPE: MetricType = MetricType::Counter;
}

impl TypedMetric for Gauge {
    const TYPE: MetricType = MetricType::Gauge;
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Counter").field(&self.get()).finish()
    }
}

impl fmt::Debug for Gauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gauge").field(&self.get()).finish()
    }
}
