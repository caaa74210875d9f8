//! The example, scraped.

use openmetrics_parser::OpenMetricsValue;
use verify_scraping::scrape;

#[test]
fn the_example_is_scraped() {
    let scraped = scrape("recorder");
    for (method, expected) in [("get", 30_000.0), ("put", 10_000.0)] {
        let value = scraped.value("shop_requests", &[("method", method)]);
        let OpenMetricsValue::Counter(counter) = value else {
            panic!("{value:?} is not a counter");
        };
        assert_eq!(counter.value.as_f64(), expected);
    }
    let value = scraped.value("shop_clients", &[]);
    assert!(matches!(value, OpenMetricsValue::Gauge(clients) if clients.as_f64() == 4.0));
    let value = scraped.value("shop_latency", &[]);
    let OpenMetricsValue::Histogram(histogram) = value else {
        panic!("{value:?} is not a histogram");
    };
    assert_eq!(histogram.count, Some(40_000));
    let sum = histogram.sum.expect("it has a sum").as_f64();
    assert!((sum - 140.0).abs() < 1e-6, "{sum}");
    let counts: Vec<_> = histogram
        .buckets
        .iter()
        .map(|bucket| bucket.count.as_f64())
        .collect();
    assert_eq!(counts, [10_000.0, 30_000.0, 40_000.0, 40_000.0]);
    assert_eq!(scraped.family("shop_requests").help, "Requests served");
}
