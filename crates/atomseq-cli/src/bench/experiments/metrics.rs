//! `metrics`: counting and recording as services do, through the types of a metrics crate: a
//! counter, the counters of 64 label sets, and a histogram with a sum. `metrics-footprint`: the
//! bytes that a label set takes.
//!
//! Every thread uses handles that it got before, since a look-up by labels would be the larger part
//! of an update. Bytes are those of the counters and handles alone, without the map that finds them
//! by labels, which is the same for all.

use std::hint::black_box;
use std::sync::atomic::AtomicU64;

use atomseq::percpu::{Count as PerCpuCount, Counter, Counters};
use atomseq_metrics::PerCpuRecorder;
use metrics::{Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics as peer;
use prometheus_client::registry::Registry;

use super::{Experiment, Method, Threads, cases};
use crate::bench::crowd::mapped;
use crate::bench::engine::{Effort, GRAIN, Subject};
use crate::bench::fault::{Fault, Results};
use crate::bench::heap;
use crate::bench::record::Series;
use crate::bench::workloads::counting::{Count, Counting};
use crate::error::Error;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "metrics",
    about: "updating a metric that all threads share, through the types of a metrics crate",
    cases: cases! {
        "counter:atomseq", "atomseq_prometheus::Counter",
            |_| Box::new(Counting(atomseq_prometheus::Counter::default()));
        "counter:atomseq-metrics", "the recorder of atomseq-metrics",
            |_| Box::new(Counting(counter_of(&PerCpuRecorder::new(), 0)));
        "counter:prometheus-client", "prometheus_client's Counter",
            |_| Box::new(Counting(peer::counter::Counter::default()));
        "counter:metrics-exporter", "the recorder of metrics-exporter-prometheus",
            |_| Box::new(Counting(counter_of(&exporter(), 0)));
        "labelled:atomseq", "atomseq_prometheus::Counter of each of 64 label sets in turn",
            |_| Labelled::boxed(|_| atomseq_prometheus::Counter::default());
        "labelled:atomseq-metrics", "the recorder of atomseq-metrics",
            |_| {
                let recorder = PerCpuRecorder::new();
                Labelled::boxed(|label| counter_of(&recorder, label))
            };
        "labelled:prometheus-client", "prometheus_client's Counter",
            |_| Labelled::boxed(|_| peer::counter::Counter::default());
        "labelled:metrics-exporter", "the recorder of metrics-exporter-prometheus",
            |_| {
                let recorder = exporter();
                Labelled::boxed(|label| counter_of(&recorder, label))
            };
        "histogram:atomseq", "atomseq_prometheus::Histogram of 11 bounds, with a sum",
            |_| Box::new(Observing(atomseq_prometheus::Histogram::new(BOUNDS)));
        "histogram:atomseq-metrics", "the recorder of atomseq-metrics",
            |_| Box::new(Observing(Recorded::by_atomseq()));
        "histogram:prometheus-client", "prometheus_client's Histogram",
            |_| Box::new(Observing(peer::histogram::Histogram::new(BOUNDS)));
        "histogram:metrics-exporter",
            "the recorder of metrics-exporter-prometheus, and its upkeep once a run",
            |_| Box::new(Observing(Recorded::by_exporter()));
    },
    peers: &["prometheus-client", "metrics-exporter"],
    method: Method::Timed,
    threads: Threads::Spread,
    beside: None,
};

const BOUNDS: [f64; 11] = atomseq_metrics::DEFAULT_BOUNDS;
const METADATA: Metadata<'static> = Metadata::new("bench", Level::INFO, None);

fn exporter() -> PrometheusRecorder {
    let builder = PrometheusBuilder::new().set_buckets(&BOUNDS);
    builder.expect("there are bounds").build_recorder()
}

/// A counter through the facade, and how it is read.
struct Facade {
    counter: metrics::Counter,
    render: Box<dyn Fn() -> String + Send + Sync>,
}

/// A recorder that can be read.
trait Rendered: Recorder {
    fn rendering(&self) -> Box<dyn Fn() -> String + Send + Sync>;
}

impl Rendered for PerCpuRecorder {
    fn rendering(&self) -> Box<dyn Fn() -> String + Send + Sync> {
        let recorder = self.clone();
        Box::new(move || recorder.render())
    }
}

impl Rendered for PrometheusRecorder {
    fn rendering(&self) -> Box<dyn Fn() -> String + Send + Sync> {
        let handle = self.handle();
        Box::new(move || handle.render())
    }
}

/// The counter of a label, named after it so that it is found.
fn counter_of(recorder: &impl Rendered, label: usize) -> Facade {
    let labels = vec![Label::new("of", label.to_string())];
    let key = Key::from_parts(format!("c{label}"), labels);
    Facade {
        counter: recorder.register_counter(&key, &METADATA),
        render: recorder.rendering(),
    }
}

impl Count for Facade {
    #[inline(always)]
    fn add(&self, amount: u64) {
        self.counter.increment(amount);
    }

    /// Of all counters of the recorder.
    fn sum(&self) -> u64 {
        let samples = (self.render)();
        let samples = samples.lines().filter(|line| line.starts_with('c'));
        let values = samples.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        values.sum()
    }
}

impl Count for atomseq_prometheus::Counter {
    #[inline(always)]
    fn add(&self, amount: u64) {
        self.inc_by(amount);
    }

    fn sum(&self) -> u64 {
        self.get()
    }
}

impl Count for peer::counter::Counter {
    #[inline(always)]
    fn add(&self, amount: u64) {
        self.inc_by(amount);
    }

    fn sum(&self) -> u64 {
        self.get()
    }
}

/// Counters of as many label sets as a batch has operations.
struct Labelled<C>(Vec<C>);

impl<C: Count + 'static> Labelled<C>
where
    Self: Subject,
{
    fn boxed(make: impl Fn(usize) -> C) -> Box<dyn Subject> {
        Box::new(Self((0..GRAIN as usize).map(make).collect()))
    }
}

/// Adds to each counter in turn.
fn add_to_each<C: Count>(counters: &[C], operations: u64) {
    for _ in 0..operations / GRAIN {
        for counter in counters {
            counter.add(black_box(1));
        }
    }
}

fn check_each(expected: u64, sums: impl Iterator<Item = u64>) -> Result<(), Fault> {
    for (label, sum) in sums.enumerate() {
        if sum != expected {
            let sentence = format!("label set {label} has {sum} where {expected} were added");
            return Err(Fault::count(expected, [sum], sentence));
        }
    }
    Ok(())
}

impl Subject for Labelled<Facade> {
    fn run(&self, _thread: usize, operations: u64) {
        add_to_each(&self.0, operations);
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        // One recorder has them all.
        check_each(operations, self.0.first().map(Count::sum).into_iter())
    }
}

impl Subject for Labelled<atomseq_prometheus::Counter> {
    fn run(&self, _thread: usize, operations: u64) {
        add_to_each(&self.0, operations);
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        check_each(operations / GRAIN, self.0.iter().map(Count::sum))
    }
}

impl Subject for Labelled<peer::counter::Counter> {
    fn run(&self, _thread: usize, operations: u64) {
        add_to_each(&self.0, operations);
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        check_each(operations / GRAIN, self.0.iter().map(Count::sum))
    }
}

/// Something that records values.
trait Observe: Sync {
    fn observe(&self, value: f64);

    /// Called by a thread at the end of a run, for what must be done now and then.
    fn keep_up(&self) {}

    /// The text that has the number of values in a line `h_count`, and their sum in `h_sum`.
    fn text(&self) -> String;
}

/// What one histogram encodes.
fn encoded(histogram: impl prometheus_client::registry::Metric) -> String {
    let mut registry = Registry::default();
    registry.register("h", "", histogram);
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes all text");
    text
}

impl Observe for atomseq_prometheus::Histogram {
    #[inline(always)]
    fn observe(&self, value: f64) {
        Self::observe(self, value);
    }

    fn text(&self) -> String {
        encoded(self.clone())
    }
}

impl Observe for peer::histogram::Histogram {
    #[inline(always)]
    fn observe(&self, value: f64) {
        Self::observe(self, value);
    }

    fn text(&self) -> String {
        encoded(self.clone())
    }
}

/// A histogram through the facade.
struct Recorded {
    histogram: metrics::Histogram,
    render: Box<dyn Fn() -> String + Send + Sync>,
    upkeep: Option<PrometheusHandle>,
}

impl Recorded {
    fn by(recorder: &impl Rendered) -> Self {
        Self {
            histogram: recorder.register_histogram(&Key::from_static_name("h"), &METADATA),
            render: recorder.rendering(),
            upkeep: None,
        }
    }

    fn by_atomseq() -> Self {
        Self::by(&PerCpuRecorder::new())
    }

    fn by_exporter() -> Self {
        let recorder = exporter();
        Self {
            upkeep: Some(recorder.handle()),
            ..Self::by(&recorder)
        }
    }
}

impl Observe for Recorded {
    #[inline(always)]
    fn observe(&self, value: f64) {
        self.histogram.record(value);
    }

    /// The exporter keeps every value until then.
    fn keep_up(&self) {
        if let Some(handle) = &self.upkeep {
            handle.run_upkeep();
        }
    }

    fn text(&self) -> String {
        (self.render)()
    }
}

/// Records 64 values in turn, in seconds.
struct Observing<O>(O);

/// The value of an operation: up to an eighth of a second, a whole number of billionths.
fn value(operation: u64) -> f64 {
    operation as f64 / 512.0
}

impl<O: Observe> Subject for Observing<O> {
    fn run(&self, _thread: usize, operations: u64) {
        for _ in 0..operations / GRAIN {
            for operation in 0..GRAIN {
                self.0.observe(black_box(value(operation)));
            }
        }
        self.0.keep_up();
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        let text = self.0.text();
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.trim().parse::<f64>().ok())
        };
        let a_grain: f64 = (0..GRAIN).map(value).sum();
        let expected = [operations as f64, a_grain * (operations / GRAIN) as f64];
        let found = [of("h_count "), of("h_sum ")];
        if found == expected.map(Some) {
            return Ok(());
        }
        let sentence = format!("its count and sum are {found:?} where {expected:?} are right");
        Err(sentence.as_str().into())
    }
}

/// The experiment.
pub const FOOTPRINT: Experiment = Experiment {
    name: "metrics-footprint",
    about: "bytes that the counter of a label set takes, of 20,000 that have been added to",
    cases: cases! {
        "counters", "a percpu::Count of percpu::Counters";
        "counter", "a percpu::Counter";
        "atomseq-prometheus", "atomseq_prometheus::Counter, which is a percpu::Count";
        "prometheus-client", "prometheus_client's Counter";
    },
    peers: &["prometheus-client"],
    method: Method::Own {
        threads: 1,
        run: weigh,
    },
    threads: Threads::Alone,
    beside: None,
};

/// How many label sets there are.
const LABEL_SETS: usize = 20_000;

/// Makes a counter for each label set, adds one to each, and returns the bytes that they take and
/// their sum.
fn bytes_of<C>(make: impl Fn() -> C, add: impl Fn(&C), sum: impl Fn(&C) -> u64) -> (f64, u64) {
    // Made before: the allocator may map so large a block, which would then count twice.
    let mut counters = Vec::with_capacity(LABEL_SETS);
    let before = mapped();
    let ((), allocated) = heap::kept_by(|| {
        (0..LABEL_SETS).for_each(|_| counters.push(make()));
        counters.iter().for_each(&add);
    });
    let bytes = allocated + mapped() - before + (LABEL_SETS * size_of::<C>()) as i64;
    let sum = counters.iter().map(sum).sum();
    // The next round must map what it needs, and not find what this one has freed.
    std::mem::forget(counters);
    (bytes as f64 / LABEL_SETS as f64, sum)
}

fn weigh(effort: Effort, advance: &dyn Fn(f64)) -> Result<Results, Error> {
    let names = FOOTPRINT.cases.iter().map(|entry| entry.name);
    let mut taken: Vec<_> = names.map(|name| (name, Vec::new(), None)).collect();
    for round in 0..effort.crowds {
        // Never dropped, like what `bytes_of` makes.
        let counters = Box::leak(Box::new(Counters::new()));
        let measured = [
            bytes_of(
                || counters.create(),
                PerCpuCount::increment,
                PerCpuCount::sum,
            ),
            bytes_of(Counter::new, Counter::increment, Counter::sum),
            bytes_of(
                atomseq_prometheus::Counter::default,
                atomseq_prometheus::Counter::inc,
                atomseq_prometheus::Counter::get,
            ),
            bytes_of(
                peer::counter::Counter::<u64, AtomicU64>::default,
                |counter| _ = counter.inc(),
                peer::counter::Counter::get,
            ),
        ];
        for ((_, values, fault), (bytes, sum)) in taken.iter_mut().zip(measured) {
            values.push(bytes);
            if sum != LABEL_SETS as u64 {
                let sentence = format!("its counters have {sum} where {LABEL_SETS} were added");
                *fault = Some(Fault::count(LABEL_SETS as u64, [sum], sentence));
            }
        }
        advance(f64::from(round + 1) / f64::from(effort.crowds));
    }
    let mut results = Results::default();
    for (case, values, fault) in taken {
        let series = Series {
            case,
            unit: "bytes",
            values,
        };
        results.add(series, fault);
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loses one value of 64.
    struct Forgetful(peer::histogram::Histogram);

    impl Observe for Forgetful {
        fn observe(&self, value: f64) {
            if value != 0.0 {
                self.0.observe(value);
            }
        }

        fn text(&self) -> String {
            self.0.text()
        }
    }

    #[test]
    fn the_checks_tell_whole_counts_from_wrong_ones() {
        for case in EXPERIMENT.make(1, |_| true) {
            case.subject.run(0, 2 * GRAIN);
            assert_eq!(case.subject.check(2 * GRAIN), Ok(()), "{}", case.name);
            assert!(case.subject.check(3 * GRAIN).is_err(), "{}", case.name);
        }
        let forgetful = Observing(Forgetful(peer::histogram::Histogram::new(BOUNDS)));
        forgetful.run(0, GRAIN);
        assert!(forgetful.check(GRAIN).is_err());
    }
}
