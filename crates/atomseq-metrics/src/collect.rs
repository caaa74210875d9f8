//! How the metrics are rendered: by the encoder of prometheus_client.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::{Labels, Metrics, Series, gauge};

/// Writes all metrics as text.
pub fn render(metrics: &Arc<Metrics>, text: &mut impl fmt::Write) -> fmt::Result {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Collected(Arc::clone(metrics))));
    encode(text, &registry)
}

#[derive(Debug)]
struct Collected(Arc<Metrics>);

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        // Relaxed: a setting that orders nothing.
        let has_units = self.0.has_units.load(Ordering::Relaxed);
        // A copy: while its metrics are encoded, which takes many milliseconds if there are
        // thousands, the macros find theirs.
        let families = self.0.families().clone();
        for (name, family) in &families {
            let kind = match family.series {
                Series::Empty => continue,
                Series::Counters(_) => MetricType::Counter,
                Series::Gauges(_) => MetricType::Gauge,
                Series::Histograms(_) => MetricType::Histogram,
            };
            let unit = family.unit.and_then(suffix).filter(|_| has_units);
            let (name, unit) = split(name, unit, |name| families.contains_key(name));
            let unit = unit.map(|unit| Unit::Other(unit.into()));
            let help = &family.help;
            let mut encoder = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            match &family.series {
                Series::Empty => {}
                Series::Counters(series) => {
                    each(&mut encoder, series, |counter, to| counter.count.encode(to))?;
                }
                Series::Gauges(series) => {
                    each(&mut encoder, series, |bits, mut to| {
                        to.encode_gauge(&gauge(bits))
                    })?;
                }
                Series::Histograms(series) => {
                    each(&mut encoder, series, |histogram, to| histogram.0.encode(to))?;
                }
            }
        }
        Ok(())
    }
}

/// Returns what a unit adds to a name.
fn suffix(unit: metrics::Unit) -> Option<&'static str> {
    match unit {
        metrics::Unit::Count => None,
        metrics::Unit::Percent => Some("ratio"),
        unit => Some(unit.as_str()),
    }
}

/// Returns a name without its unit, and the unit that the encoder adds to it.
fn split<'a>(
    name: &'a str,
    unit: Option<&'static str>,
    is_taken: impl Fn(&str) -> bool,
) -> (&'a str, Option<&'static str>) {
    let Some(unit) = unit else {
        return (name, None);
    };
    let without = name.strip_suffix(unit);
    match without.and_then(|name| name.strip_suffix('_')) {
        Some(without) if !without.is_empty() => (without, Some(unit)),
        _ if is_taken(&format!("{name}_{unit}")) => (name, None),
        _ => (name, Some(unit)),
    }
}

/// Encodes the metrics of one name.
fn each<M>(
    encoder: &mut MetricEncoder<'_>,
    series: &BTreeMap<Labels, Arc<M>>,
    encode: impl Fn(&M, MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    for (labels, metric) in series {
        encode(metric, encoder.encode_family(&**labels)?)?;
    }
    Ok(())
}
