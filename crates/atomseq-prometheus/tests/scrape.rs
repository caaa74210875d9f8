//! The example, scraped.

use openmetrics_parser::{MetricNumber, OpenMetricsType, OpenMetricsValue};
use verify_scraping::{Scraped, scrape};

#[test]
fn the_example_is_scraped() {
    let scraped = scrape("prometheus");
    for (method, expected) in [("get", 30_000), ("put", 10_000)] {
        let value = scraped.value("shop_requests", &[("method", method)]);
        let OpenMetricsValue::Counter(counter) = value else {
            panic!("{value:?} is not a counter");
        };
        assert_eq!(counter.value, MetricNumber::Int(expected));
    }
    let value = scraped.value("shop_in_flight", &[]);
    assert!(matches!(
        value,
        OpenMetricsValue::Gauge(MetricNumber::Int(0))
    ));
    assert_eq!(
        scraped.family("shop_sent_bytes").family_type,
        OpenMetricsType::Counter
    );
    let value = scraped.value("shop_latency_seconds", &[]);
    let OpenMetricsValue::Histogram(histogram) = value else {
        panic!("{value:?} is not a histogram");
    };
    assert_eq!(histogram.count, Some(40_000));
    let sum = histogram.sum.expect("it has a sum").as_f64();
    assert!((sum - 140.0).abs() < 1e-6, "{sum}");
    let buckets = histogram.buckets.iter();
    let buckets: Vec<_> = buckets
        .map(|bucket| (bucket.upper_bound, bucket.count.as_f64()))
        .collect();
    let expected = [
        (0.001, 10_000.0),
        (0.005, 30_000.0),
        (0.025, 40_000.0),
        (f64::INFINITY, 40_000.0),
    ];
    assert_eq!(buckets, expected);
}

/// The parser would otherwise prove nothing.
#[test]
fn the_parser_refuses_what_is_wrong() {
    let right = "# TYPE a counter\na_total 1\n# EOF\n";
    assert!(Scraped::parse(right).is_ok());
    for wrong in [
        "# TYPE a counter\na_total 1\n",
        "# TYPE a counter\na_total -1\n# EOF\n",
        "# TYPE a counter\na_total{b=c} 1\n# EOF\n",
        "# TYPE a histogram\na_bucket{le=\"1\"} 2\na_count 2\na_sum 1\n# EOF\n",
    ] {
        assert!(Scraped::parse(wrong).is_err(), "{wrong}");
    }
}
