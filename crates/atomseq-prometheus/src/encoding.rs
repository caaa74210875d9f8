//! How the metrics are encoded.

use std::fmt;

use atomseq::percpu;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::{Counter, Gauge, Histogram};

/// A metric in a `static`, for the registry.
///
/// ```
/// use atomseq::percpu::{Counter, Histogram};
/// use atomseq_prometheus::Static;
/// use prometheus_client::registry::Registry;
///
/// static REQUESTS: Counter = Counter::new();
/// static LATENCY: Histogram = Histogram::with_bounds(&[1_000_000, 10_000_000]).with_sum();
///
/// let mut registry = Registry::default();
/// registry.register("requests", "Requests served", Static::new(&REQUESTS));
/// // Nanoseconds are recorded, and seconds encoded.
/// let seconds = Static::new(&LATENCY).with_unit(1e-9);
/// registry.register("latency", "Seconds to serve one", seconds);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Static<M: 'static> {
    metric: &'static M,
    unit: f64,
}

impl<M> Static<M> {
    /// Refers to a metric.
    pub const fn new(metric: &'static M) -> Static<M> {
        Static { metric, unit: 1.0 }
    }
}

impl Static<percpu::Histogram> {
    /// Sets what one unit of the recorded values is in the encoded ones: 1e-9 for nanoseconds that
    /// are encoded as seconds.
    pub const fn with_unit(self, unit: f64) -> Static<percpu::Histogram> {
        Static { unit, ..self }
    }
}

impl EncodeMetric for Counter {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        encoder.encode_counter::<NoLabelSet, _, u64>(&self.get(), None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

impl EncodeMetric for Gauge {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        encoder.encode_gauge(&self.get())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        let (sum, count, buckets) = self.get();
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

impl EncodeMetric for Static<percpu::Counter> {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        encoder.encode_counter::<NoLabelSet, _, u64>(&self.metric.sum(), None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

impl EncodeMetric for Static<percpu::Gauge> {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        encoder.encode_gauge(&self.metric.value())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

/// The sum is NaN unless the histogram was created
/// [with a sum](percpu::Histogram::with_sum).
impl EncodeMetric for Static<percpu::Histogram> {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        let snapshot = self.metric.snapshot();
        let bound = |value| match value {
            u64::MAX => f64::INFINITY,
            value => value as f64 * self.unit,
        };
        let buckets = snapshot.buckets();
        let buckets: Vec<_> = buckets
            .map(|(value, count)| (bound(value), count))
            .collect();
        let sum = snapshot
            .sum()
            .map_or(f64::NAN, |sum| sum as f64 * self.unit);
        encoder.encode_histogram::<NoLabelSet>(sum, snapshot.total(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
