//! The recorder by itself, without the macros' global one.

use metrics::{Label, Level};

use super::*;

const METADATA: Metadata<'static> = Metadata::new("tests", Level::INFO, None);

fn key(name: &'static str, labels: &[(&'static str, &'static str)]) -> Key {
    let labels = labels.iter().map(|&(key, value)| Label::new(key, value));
    Key::from_parts(name, labels.collect::<Vec<_>>())
}

#[test]
fn a_key_is_one_metric_however_often_it_is_registered() {
    let recorder = PerCpuRecorder::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    for labels in [[("a", "1"), ("b", "2")], [("b", "2"), ("a", "1")]] {
                        let key = key("hits", &labels);
                        recorder.register_counter(&key, &METADATA).increment(1);
                    }
                }
            });
        }
    });
    let text = recorder.render();
    assert!(
        text.contains("hits_total{a=\"1\",b=\"2\"} 8000\n"),
        "{text}"
    );
    assert_eq!(text.matches("hits_total").count(), 1, "{text}");
}

#[test]
fn names_are_those_of_the_format() {
    assert_eq!(
        ["", "9a", "a.b-c", "a:b"].map(name_of),
        ["_", "_9a", "a_b_c", "a:b"]
    );
    let recorder = PerCpuRecorder::new();
    let labels = [
        ("c", "x\"\n\\"),
        ("9", "é"),
        ("a:b", "first"),
        ("a.b", "last"),
    ];
    let counter = recorder.register_counter(&key("http.requests_total", &labels), &METADATA);
    counter.increment(1);
    let same = recorder.register_counter(&key("http_requests.total", &labels), &METADATA);
    same.increment(1);
    recorder.describe_counter("http.requests.total".into(), None, "Help\n\"me\"\\".into());
    let text = recorder.render();
    assert!(text.contains("# HELP http_requests Help"), "{text}");
    let line = "http_requests_total{_9=\"é\",a_b=\"last\",c=\"x\\\"\\n\\\\\"} 2\n";
    assert!(text.contains(line), "{text}");
    assert!(!text.contains("total_total"), "{text}");
    let parsed = openmetrics_parser::openmetrics::parse_openmetrics(&text);
    let help = &parsed.unwrap().families["http_requests"].help;
    assert!(help.starts_with("Help\n\"me\"\\"), "{help:?}");
}

/// Two labels of one name would make the whole text invalid.
#[test]
fn the_label_of_bounds_is_the_formats() {
    let recorder = PerCpuRecorder::new();
    let labels = [("le", "x"), ("zone", "a")];
    recorder
        .register_histogram(&key("size", &labels), &METADATA)
        .record(0.3);
    recorder
        .register_gauge(&key("limit", &labels), &METADATA)
        .set(1.0);
    let text = recorder.render();
    let first = "size_bucket{le=\"0.005\",exported_le=\"x\",zone=\"a\"} 0\n";
    assert!(text.contains(first), "{text}");
    assert!(text.contains("limit{le=\"x\",zone=\"a\"} 1.0\n"), "{text}");
    openmetrics_parser::openmetrics::parse_openmetrics(&text).unwrap();
}

/// To Prometheus both are the same series, of which it keeps one sample.
#[test]
fn a_label_without_a_value_is_none() {
    let recorder = PerCpuRecorder::new();
    let labels: [&[(&str, &str)]; 3] = [&[("b", "x")], &[("a", ""), ("b", "x")], &[("a", "")]];
    for labels in labels {
        let counter = recorder.register_counter(&key("hits", labels), &METADATA);
        counter.increment(1);
    }
    // The last label of a name counts.
    let last = [("a.b", "1"), ("a_b", "")];
    let counter = recorder.register_counter(&key("hits", &last), &METADATA);
    counter.increment(1);
    let text = recorder.render();
    let samples: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(samples, ["hits_total 2", "hits_total{b=\"x\"} 2"]);
}

/// The name itself is a label in Prometheus.
#[test]
fn a_label_does_not_have_a_reserved_name() {
    let recorder = PerCpuRecorder::new();
    let labels = [("__name__", "x"), ("_zone", "a"), ("..", "b")];
    recorder
        .register_counter(&key("hits", &labels), &METADATA)
        .increment(1);
    let text = recorder.render();
    let line = "hits_total{_zone=\"a\",exported___=\"b\",exported___name__=\"x\"} 1\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_name_has_one_kind() {
    let recorder = PerCpuRecorder::new();
    recorder.register_gauge(&key("a", &[]), &METADATA).set(1.5);
    recorder
        .register_counter(&key("a", &[]), &METADATA)
        .increment(7);
    recorder
        .register_histogram(&key("a", &[]), &METADATA)
        .record(7.0);
    recorder.describe_gauge("never registered".into(), None, "Nothing".into());
    assert_eq!(
        recorder.render(),
        "# HELP a \n# TYPE a gauge\na 1.5\n# EOF\n"
    );
}

/// A scrape of thousands of metrics would otherwise delay every use of a macro.
#[test]
fn metrics_are_registered_and_found_while_others_are_rendered() {
    /// Uses the recorder whenever a piece of text is written.
    struct Using<'a>(&'a PerCpuRecorder, usize);
    impl std::fmt::Write for Using<'_> {
        fn write_str(&mut self, _: &str) -> std::fmt::Result {
            assert!(self.0.0.families.try_lock().is_ok(), "a scrape holds it");
            let counter = self.0.register_counter(&key("used", &[]), &METADATA);
            counter.increment(1);
            self.1 += 1;
            Ok(())
        }
    }
    let recorder = PerCpuRecorder::new();
    // Some 60 KiB of text: the encoder writes pieces of 4 KiB.
    for of in ["a", "b", "c", "d"] {
        let labels = (0..25).map(|part| Label::new("part", part.to_string()));
        for label in labels {
            let key = Key::from_parts("sizes", vec![Label::new("of", of), label]);
            recorder.register_histogram(&key, &METADATA).record(1.0);
        }
    }
    let mut using = Using(&recorder, 0);
    collect::render(&recorder.0, &mut using).unwrap();
    let line = format!("used_total {}\n", using.1);
    assert!(using.1 > 10 && recorder.render().contains(&line));
}

#[test]
fn units_are_in_names_if_that_is_asked_for() {
    let recorder = PerCpuRecorder::new();
    let described = [
        ("latency", Some(Unit::Seconds)),
        ("size.bytes", Some(Unit::Bytes)),
        ("load", Some(Unit::Percent)),
        ("open", Some(Unit::Count)),
        ("age", Some(Unit::Seconds)),
        ("age_seconds", None),
        ("bytes", Some(Unit::Bytes)),
        ("plain", None),
    ];
    for (name, unit) in described {
        recorder.describe_gauge(name.into(), unit, "Help".into());
        recorder.register_gauge(&key(name, &[]), &METADATA).set(1.0);
    }
    let names = |text: &str| -> Vec<String> {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples.map(|line| line.replace(" 1.0", "")).collect()
    };
    let without = names(&recorder.render());
    let expected = "age age_seconds bytes latency load open plain size_bytes";
    assert_eq!(without.join(" "), expected);

    let recorder = recorder.with_recommended_naming();
    recorder.describe_counter("sent_total".into(), Some(Unit::Bytes), "Help".into());
    recorder
        .register_counter(&key("sent_total", &[]), &METADATA)
        .increment(1);
    let text = recorder.render();
    let expected = "age age_seconds bytes_bytes latency_seconds load_ratio open plain \
                    sent_bytes_total 1 size_bytes";
    assert_eq!(names(&text).join(" "), expected);
    assert!(text.contains("# UNIT size_bytes bytes\n"), "{text}");
    openmetrics_parser::openmetrics::parse_openmetrics(&text).unwrap();
}

#[test]
fn absolute_values_never_lower_a_counter() {
    let recorder = PerCpuRecorder::new();
    let counter = recorder.register_counter(&key("c", &[]), &METADATA);
    std::thread::scope(|scope| {
        for first in 0..4 {
            let counter = &counter;
            scope.spawn(move || (0..1000).for_each(|value| counter.absolute(value * 4 + first)));
        }
    });
    assert!(recorder.render().contains("c_total 3999\n"));
    counter.absolute(5);
    counter.increment(1);
    assert!(recorder.render().contains("c_total 4000\n"));
}

#[test]
fn bounds_are_those_of_the_name() {
    let recorder = PerCpuRecorder::new();
    recorder.set_bounds("size.bytes", &[100.0, 1000.0]);
    let size = recorder.register_histogram(&key("size.bytes", &[]), &METADATA);
    size.record_many(250.0, 3);
    let time = recorder.register_histogram(&key("time", &[]), &METADATA);
    time.record(0.3);
    let text = recorder.render();
    assert!(
        text.contains("size_bytes_bucket{le=\"1000.0\"} 3\n"),
        "{text}"
    );
    assert!(text.contains("size_bytes_sum 750.0\n"), "{text}");
    assert_eq!(
        text.matches("time_bucket").count(),
        DEFAULT_BOUNDS.len() + 1
    );
    let refused = std::panic::catch_unwind(|| PerCpuRecorder::new().set_bounds("x", &[1.0, 1.0]));
    assert!(refused.is_err());
}

/// A text of the format has no negative sum of positive values.
#[test]
fn a_sum_of_large_values_is_not_negative() {
    let recorder = PerCpuRecorder::new();
    let size = recorder.register_histogram(&key("size", &[]), &METADATA);
    (0..3).for_each(|_| size.record(u64::MAX as f64));
    let text = recorder.render();
    let sum = text.lines().find_map(|line| line.strip_prefix("size_sum "));
    assert_eq!(sum.unwrap().parse(), Ok(3.0 * u64::MAX as f64), "{text}");
}

/// The macros look a metric up at each use. Before, each took the lock of the list of all, made
/// names of the format again, and took several times as long as with other recorders.
#[test]
fn a_key_that_was_used_is_found_while_the_list_of_all_is_locked() {
    let recorder = PerCpuRecorder::new();
    let used = key("used", &[("a", "1")]);
    let uses = || {
        recorder.register_counter(&used, &METADATA).increment(1);
        // Of other kinds, and so without effect.
        recorder.register_gauge(&used, &METADATA).set(1.0);
        recorder.register_histogram(&used, &METADATA).record(1.0);
    };
    uses();
    {
        // Would wait indefinitely for a look-up that takes it.
        let _locked = recorder.0.families();
        std::thread::scope(|scope| _ = scope.spawn(uses));
    }
    let text = recorder.render();
    assert!(text.contains("used_total{a=\"1\"} 2\n"), "{text}");
}
