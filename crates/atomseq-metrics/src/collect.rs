//! How the metrics are rendered: by the encoder of prometheus_client.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::{Labels, Metrics, Series, gauge};

/// Returns all metrics as text.
pub fn render(metrics: &Arc<Metrics>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Collected(Arc::clone(metrics))));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes all text");
    text
}

#[derive(Debug)]
struct Collected(Arc<Metrics>);

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for (name, family) in self.0.families().iter() {
            let kind = match family.series {
                Series::Empty => continue,
                Series::Counters(_) => MetricType::Counter,
                Series::Gauges(_) => MetricType::Gauge,
                Series::Histograms(_) => MetricType::Histogram,
            };
            let mut encoder = encoder.encode_descriptor(name, &family.help, None, kind)?;
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

/// Encodes the metrics of one name.
fn each<M>(
    encoder: &mut MetricEncoder<'_>,
    series: &BTreeMap<Labels, Arc<M>>,
    encode: impl Fn(&M, MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    for (labels, metric) in series {
        encode(metric, encoder.encode_family(labels)?)?;
    }
    Ok(())
}
