//! A recorder for the crate [`metrics`] that counts per CPU and renders OpenMetrics text.
//!
//! ```
//! use atomseq_metrics::PerCpuRecorder;
//!
//! let recorder = PerCpuRecorder::new();
//! recorder.install().expect("no other recorder is installed");
//!
//! metrics::describe_counter!("requests", "Requests served");
//! metrics::counter!("requests", "method" => "get").increment(1);
//! metrics::histogram!("latency.seconds").record(0.002);
//!
//! let text = recorder.render();
//! assert!(text.contains("requests_total{method=\"get\"} 1"));
//! assert!(text.contains("latency_seconds_bucket{le=\"0.005\"} 1"));
//! ```
//!
//! A counter and a histogram are those of [`atomseq_prometheus`]: an update through a kept handle
//! is a plain add to memory of the CPU that the thread is on, without an atomic instruction. A
//! gauge is one atomic word, since gauges of floating-point numbers are set more than they are
//! added to. The macros look the handle up each time, which costs many times the update: keep the
//! handle that `metrics::counter!` returns where a metric is updated often. A metric stays, with
//! its memory, as long as the recorder, also when nothing updates it: do not make labels of what
//! has no bound, such as the numbers of users.
//!
//! Characters that OpenMetrics does not allow in names become underscores, and the suffix `_total`
//! of a counter is added by the format. Metrics whose names are then equal are one metric. A metric
//! has one kind, the one that it was first registered with; handles of another kind do nothing. Do
//! not give a metric another one's name with a suffix of the format, such as `hits_total` for a
//! gauge beside a counter `hits`, or `size_sum` beside a histogram `size`: the text would have two
//! samples of one series. Of several labels whose names are then equal, the last one counts. A
//! label whose value is empty is left out, as the format takes it for none. A key that differs from
//! a used one only in the order of its labels is the same metric, as it is for [`Key`]: there the
//! order of the first use decides. A histogram's label `le` becomes `exported_le`, because the
//! format needs the name. A label whose name begins with `__` gets the same prefix, because
//! Prometheus reserves such names: `__name__` becomes `exported___name__`. The units that
//! `describe_counter!` and its like take are in the names that are rendered if [that is asked
//! for](PerCpuRecorder::with_recommended_naming). A histogram has buckets and no quantiles, which
//! only a `percpu::Histogram` of atomseq computes. Its sum has
//! [limits](atomseq_prometheus::Histogram): render the text before 2^33 more values are recorded.
//! Parsers other than Prometheus may refuse a negative sum, and one of negative bounds.
//!
//! A macro panics if the system refuses the memory for a new counter or histogram.
//!
//! In a child of `fork`, counters can be incremented, gauges changed and values recorded through
//! handles that the parent has kept. All else may take a lock: a macro for writing with a new key
//! and for reading with a used one, a scrape, and `absolute`. A lock that another thread held
//! during the `fork` stays locked in the child, which then waits indefinitely. So use kept handles
//! there until `exec`, if the parent has several threads. In a signal handler, too, use only kept
//! handles, and not `absolute`: the interrupted thread may hold the lock.

mod collect;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atomseq::mutex::RwLock;
use atomseq::percpu::Error;
use atomseq_prometheus as per_cpu;
// The type that the crate implements its trait for: on 32-bit targets another one than that of std.
use metrics::atomics::AtomicU64;
use metrics::{
    CounterFn, HistogramFn, Key, KeyName, Metadata, Recorder, SetRecorderError, SharedString, Unit,
};

/// The bounds of a histogram for which none are given: seconds, as of a network service.
pub const DEFAULT_BOUNDS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// A [`Recorder`] that counts per CPU. A clone refers to the same metrics.
#[derive(Clone, Debug, Default)]
pub struct PerCpuRecorder(Arc<Metrics>);

#[derive(Debug, Default)]
struct Metrics {
    /// By name, in the order in which they are rendered.
    families: Mutex<BTreeMap<String, Family>>,
    /// Whether names are rendered with their units.
    has_units: AtomicBool,
    counters: Handles<metrics::Counter>,
    gauges: Handles<metrics::Gauge>,
    histograms: Handles<metrics::Histogram>,
}

/// The handles of one kind by the keys that callers have used, which a name and labels of the
/// format are made of once. A metric keeps its name and its kind, so a handle does not change.
type Handles<H> = RwLock<HashMap<Key, H>>;

/// The metrics of one name.
#[derive(Clone, Debug, Default)]
struct Family {
    help: String,
    unit: Option<Unit>,
    /// Of a histogram, if they are not the default.
    bounds: Option<Box<[f64]>>,
    series: Series,
}

/// The labels of a metric, sorted, each key once.
type Labels = Arc<Vec<(String, String)>>;

/// A clone has the same metrics, and does not get those that are registered later.
#[derive(Clone, Debug, Default)]
enum Series {
    #[default]
    Empty,
    Counters(BTreeMap<Labels, Arc<Counter>>),
    Gauges(BTreeMap<Labels, Arc<AtomicU64>>),
    Histograms(BTreeMap<Labels, Arc<Histogram>>),
}

#[derive(Debug, Default)]
struct Counter {
    count: per_cpu::Counter,
    /// Held by callers that set the counter.
    absolute: Mutex<()>,
}

#[derive(Debug)]
struct Histogram(per_cpu::Histogram);

impl PerCpuRecorder {
    /// Creates a recorder without metrics.
    pub fn new() -> PerCpuRecorder {
        PerCpuRecorder::default()
    }

    /// Renders names by the recommendations of Prometheus: a unit that `describe_counter!` and its
    /// like took ends the name after an underscore, unless it does already, and is in a line
    /// `UNIT`. Percent become `ratio`, and the values stay as they are: record 0.5 for a half. A
    /// count has no unit. A name keeps its form if another metric was registered or described with
    /// the longer one, or was given bounds. (The counters' suffix `_total` belongs to the format in
    /// any case.)
    ///
    /// ```
    /// use atomseq_metrics::PerCpuRecorder;
    /// use metrics::Unit;
    ///
    /// let recorder = PerCpuRecorder::new().with_recommended_naming();
    /// metrics::with_local_recorder(&recorder, || {
    ///     metrics::describe_counter!("sent", Unit::Bytes, "What was sent");
    ///     metrics::counter!("sent").increment(5);
    /// });
    /// assert!(recorder.render().contains("sent_bytes_total 5"));
    /// ```
    pub fn with_recommended_naming(self) -> PerCpuRecorder {
        // Relaxed: a setting that orders nothing.
        self.0.has_units.store(true, Ordering::Relaxed);
        self
    }

    /// Sets the upper bounds of the histograms of one name that are registered from now on. A bound
    /// is part of its bucket, and larger values have one more bucket.
    ///
    /// # Panics
    ///
    /// If the bounds do not increase strictly, are not finite, or there are none, or more than 255.
    #[track_caller]
    pub fn set_bounds(&self, name: &str, bounds: &[f64]) {
        // The check is that of the histogram. It may also lack memory, but none is needed yet.
        if let Err(error @ Error::Bounds) = per_cpu::Histogram::try_new(bounds.iter().copied()) {
            panic!("{error}");
        }
        let mut families = self.0.families();
        families.entry(name_of(name)).or_default().bounds = Some(bounds.into());
    }

    /// Makes this the process's recorder.
    ///
    /// # Errors
    ///
    /// If a recorder has been installed before.
    pub fn install(&self) -> Result<(), SetRecorderError<PerCpuRecorder>> {
        metrics::set_global_recorder(self.clone())
    }

    /// Returns all metrics as text of the OpenMetrics format, whose content type is
    /// `application/openmetrics-text; version=1.0.0; charset=utf-8`.
    ///
    /// Other threads can look up and register metrics meanwhile, except for the time in which the
    /// list of all is copied. A metric that is registered during the call may be left out.
    pub fn render(&self) -> String {
        let mut text = String::new();
        collect::render(&self.0, &mut text).expect("a string takes all text");
        text
    }
}

impl Metrics {
    fn families(&self) -> MutexGuard<'_, BTreeMap<String, Family>> {
        // No code panics while it changes the metrics, except for a lack of memory.
        self.families.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn describe(&self, name: String, unit: Option<Unit>, help: &SharedString) {
        let mut families = self.families();
        let family = families.entry(name).or_default();
        family.unit = unit;
        // The encoder writes it as it is.
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        family.help = help.replace('"', "\\\"");
    }

    /// Returns the metric of a name and labels. `select` returns the series of its kind, or `None`
    /// if the name is of another kind.
    fn register<M>(
        &self,
        name: String,
        labels: Labels,
        select: impl FnOnce(&mut Series) -> Option<&mut BTreeMap<Labels, Arc<M>>>,
        make: impl FnOnce(Option<&[f64]>) -> M,
    ) -> Option<Arc<M>> {
        let mut families = self.families();
        let family = families.entry(name).or_default();
        let series = select(&mut family.series)?;
        let metric = match series.entry(labels) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(free) => free.insert(Arc::new(make(family.bounds.as_deref()))),
        };
        Some(Arc::clone(metric))
    }
}

/// Returns the handle of a key, which `register` makes at the first use.
fn handle<H: Clone>(handles: &Handles<H>, key: &Key, register: impl FnOnce() -> H) -> H {
    if let Some(found) = handles.read().get(key) {
        return found.clone();
    }
    // Another thread may do the same meanwhile, and gets the same metric.
    let new = register();
    handles.write().insert(key.to_retained(), new.clone());
    new
}

/// Writes what returns the series of one kind. An empty one becomes of that kind.
macro_rules! select {
    ($kind:ident) => {
        |series| {
            if let Series::Empty = series {
                *series = Series::$kind(BTreeMap::new());
            }
            match series {
                Series::$kind(series) => Some(series),
                _ => None,
            }
        }
    };
}

impl Recorder for PerCpuRecorder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, help: SharedString) {
        self.0.describe(name_of_counter(key.as_str()), unit, &help);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, help: SharedString) {
        self.0.describe(name_of(key.as_str()), unit, &help);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, help: SharedString) {
        self.0.describe(name_of(key.as_str()), unit, &help);
    }

    fn register_counter(&self, key: &Key, _metadata: &Metadata<'_>) -> metrics::Counter {
        handle(&self.0.counters, key, || {
            let (name, labels) = (name_of_counter(key.name()), labels_of(key, None));
            let make = |_: Option<&[f64]>| Counter::default();
            let counter = self.0.register(name, labels, select!(Counters), make);
            counter.map_or_else(metrics::Counter::noop, metrics::Counter::from_arc)
        })
    }

    fn register_gauge(&self, key: &Key, _metadata: &Metadata<'_>) -> metrics::Gauge {
        handle(&self.0.gauges, key, || {
            let (name, labels) = (name_of(key.name()), labels_of(key, None));
            let make = |_: Option<&[f64]>| AtomicU64::default();
            let gauge = self.0.register(name, labels, select!(Gauges), make);
            gauge.map_or_else(metrics::Gauge::noop, metrics::Gauge::from_arc)
        })
    }

    fn register_histogram(&self, key: &Key, _metadata: &Metadata<'_>) -> metrics::Histogram {
        handle(&self.0.histograms, key, || {
            let (name, labels) = (name_of(key.name()), labels_of(key, Some("le")));
            let make = |bounds: Option<&[f64]>| {
                let bounds = bounds.unwrap_or(&DEFAULT_BOUNDS).iter().copied();
                Histogram(per_cpu::Histogram::new(bounds))
            };
            let histogram = self.0.register(name, labels, select!(Histograms), make);
            histogram.map_or_else(metrics::Histogram::noop, metrics::Histogram::from_arc)
        })
    }
}

impl CounterFn for Counter {
    #[inline]
    fn increment(&self, value: u64) {
        self.count.inc_by(value);
    }

    /// Costs a lock and a load for each possible CPU.
    fn absolute(&self, value: u64) {
        let _alone = self.absolute.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(missing @ 1..) = value.checked_sub(self.count.get()) {
            self.count.inc_by(missing);
        }
    }
}

impl HistogramFn for Histogram {
    #[inline]
    fn record(&self, value: f64) {
        self.0.observe(value);
    }
}

/// Returns the value of a gauge, which `metrics` keeps as bits.
fn gauge(bits: &AtomicU64) -> f64 {
    // Relaxed: a number that orders nothing.
    f64::from_bits(bits.load(Ordering::Relaxed))
}

/// Returns a name of the format: letters, digits, underscores and colons, no digit first.
fn name_of(name: &str) -> String {
    allowed(name, |letter| letter == ':')
}

/// Returns the name of a counter, of which the format's suffix is no part.
fn name_of_counter(name: &str) -> String {
    let name = name_of(name);
    name_of(name.strip_suffix("_total").unwrap_or(&name))
}

/// Returns the labels with names of the format: as those of metrics, without colons. Of several
/// labels with one name, the last one counts. A `reserved` name is the format's own, and those that
/// begin with `__` are Prometheus's. A second label of such a name would make the whole text
/// invalid, so it gets a prefix.
fn labels_of(key: &Key, reserved: Option<&str>) -> Labels {
    let labels = key.labels().map(|label| {
        let name = match allowed(label.key(), |_| false) {
            name if reserved == Some(name.as_str()) || name.starts_with("__") => {
                format!("exported_{name}")
            }
            name => name,
        };
        (name, label.value().to_string())
    });
    let mut labels: BTreeMap<String, String> = labels.collect();
    // The format takes one without a value for none, so the text would have one series twice.
    labels.retain(|_, value| !value.is_empty());
    Arc::new(labels.into_iter().collect())
}

/// Replaces the characters that are not allowed by underscores.
fn allowed(name: &str, is_allowed: impl Fn(char) -> bool) -> String {
    let letters = name.chars().map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() || is_allowed(letter) => letter,
        _ => '_',
    });
    let is_digit_first = name.starts_with(|letter: char| letter.is_ascii_digit());
    let before = (is_digit_first || name.is_empty()).then_some('_');
    before.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests;
