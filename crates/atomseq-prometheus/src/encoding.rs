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
#[derive(Debug)]
pub struct Static<M: 'static> {
    metric: &'static M,
    unit: f64,
}

// Derived, they would ask the same of the metric.
impl<M> Clone for Static<M> {
    fn clone(&self) -> Static<M> {
        *self
    }
}

impl<M> Copy for Static<M> {}

impl<M> Static<M> {
    /// Refers to a metric.
    pub const fn new(metric: &'static M) -> Static<M> {
        Static { metric, unit: 1.0 }
    }
}

impl Static<percpu::Histogram> {
    /// Sets what one unit of the recorded values is in the encoded ones: 1e-9 for nanoseconds that
    /// are encoded as seconds.
    ///
    /// # Panics
    ///
    /// If the unit is not positive and finite: the bounds could not increase. In a `static`, that
    /// is an error of compilation.
    #[track_caller]
    pub const fn with_unit(self, unit: f64) -> Static<percpu::Histogram> {
        // Not so of NaN either.
        if !(unit > 0.0 && unit < f64::INFINITY) {
            panic!("a unit must be a positive and finite number, such as 1e-9");
        }
        Static { unit, ..self }
    }

    /// Returns a recorded value as it is encoded.
    ///
    /// A unit such as 1e-9 is no exact number, but its reciprocal is. Divided by that, 30 seconds
    /// of nanoseconds are 30.0; multiplied by the unit, they would be 30.000000000000004, and so
    /// the label of their bucket.
    fn in_units(&self, value: u64) -> f64 {
        let parts = (1.0 / self.unit).round();
        match 1.0 / parts == self.unit {
            true => value as f64 / parts,
            false => value as f64 * self.unit,
        }
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
/// [with a sum](percpu::Histogram::with_sum). The OpenMetrics format has no such sum: Prometheus
/// accepts it, but other parsers may refuse the whole text.
impl EncodeMetric for Static<percpu::Histogram> {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        let snapshot = self.metric.snapshot();
        let bound = |value| match value {
            u64::MAX => f64::INFINITY,
            value => self.in_units(value),
        };
        // Bounds that differ as integers may be equal as numbers, and the format has each once.
        let mut buckets: Vec<(f64, u64)> = Vec::new();
        for (value, count) in snapshot.buckets() {
            let bound = bound(value);
            match buckets.last_mut() {
                Some((last, counted)) if *last == bound => *counted += count,
                _ => buckets.push((bound, count)),
            }
        }
        let sum = snapshot.sum().map_or(f64::NAN, |sum| self.in_units(sum));
        encoder.encode_histogram::<NoLabelSet>(sum, snapshot.total(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    /// The bounds of a dashboard's query are these numbers, and not ones beside them.
    #[test]
    fn bounds_in_another_unit_are_round_numbers() {
        static NANOSECONDS: percpu::Histogram =
            percpu::Histogram::with_bounds(&[7_500_000, 300_000_000, 30_000_000_000]).with_sum();
        static MICROSECONDS: percpu::Histogram =
            percpu::Histogram::with_bounds(&[25_000, 100_000, 400_000]).with_sum();
        static MINUTES: percpu::Histogram = percpu::Histogram::with_bounds(&[1, 5]).with_sum();
        let seconds = [
            (&NANOSECONDS, 1e-9, ["0.0075", "0.3", "30.0"]),
            (&MICROSECONDS, 1e-6, ["0.025", "0.1", "0.4"]),
        ];
        for (histogram, unit, expected) in seconds {
            histogram.record(7);
            let text = encoded(Static::new(histogram).with_unit(unit));
            let bounds = expected.map(|bound| format!("{{le=\"{bound}\"}} 1"));
            assert!(bounds.iter().all(|bound| text.contains(bound)), "{text}");
        }
        MINUTES.record(2);
        let text = encoded(Static::new(&MINUTES).with_unit(60.0));
        assert!(text.contains("{le=\"300.0\"} 1") && text.contains("values_sum 120.0"));
    }

    #[test]
    fn a_unit_is_positive_and_finite() {
        static VALUES: percpu::Histogram = percpu::Histogram::with_bounds(&[1, 5]);
        for unit in [0.0, -0.0, -1e-9, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let refused = std::panic::catch_unwind(|| Static::new(&VALUES).with_unit(unit));
            assert!(refused.is_err(), "{unit}");
        }
        // The smallest and the largest.
        for unit in [f64::from_bits(1), f64::MIN_POSITIVE, f64::MAX] {
            let text = encoded(Static::new(&VALUES).with_unit(unit));
            assert!(text.contains("{le=\"+Inf\"} 0"), "{text}");
        }
    }

    fn encoded(histogram: Static<percpu::Histogram>) -> String {
        let mut registry = Registry::default();
        registry.register("values", "Values", histogram);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn a_static_is_registered_more_than_once() {
        static REQUESTS: percpu::Counter = percpu::Counter::new();
        let requests = Static::new(&REQUESTS);
        let mut registries = [(); 2].map(|()| Registry::default());
        for registry in &mut registries {
            registry.register("requests", "Requests", requests);
        }
        REQUESTS.add(7);
        for registry in &registries {
            let mut text = String::new();
            encode(&mut text, registry).unwrap();
            assert!(text.contains("requests_total 7\n"), "{text}");
        }
    }

    /// A second line with the same bound would be a second sample of one series.
    #[test]
    fn a_bound_is_encoded_once() {
        static LARGEST: percpu::Histogram = percpu::Histogram::with_bounds(&[7, u64::MAX]);
        static NEAR: percpu::Histogram = percpu::Histogram::with_bounds(&[1 << 53, (1 << 53) + 1]);
        for value in [7, 8, 9, u64::MAX] {
            LARGEST.record(value);
        }
        for value in [1 << 53, (1 << 53) + 1, u64::MAX] {
            NEAR.record(value);
        }
        for (histogram, expected) in [
            (&LARGEST, &["\"7.0\"} 1", "\"+Inf\"} 4"]),
            (&NEAR, &["\"9007199254740992.0\"} 2", "\"+Inf\"} 3"]),
        ] {
            let text = encoded(Static::new(histogram));
            let lines = text.lines().filter_map(|line| line.split_once("{le="));
            let lines: Vec<_> = lines.map(|(_, line)| line).collect();
            assert_eq!(lines, expected);
        }
    }
}
