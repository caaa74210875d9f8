//! Runs an example that serves metrics, and scrapes it as Prometheus does it. What it serves is
//! read by a parser of OpenMetrics that shares nothing with the encoder.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use openmetrics_parser::openmetrics::parse_openmetrics;
use openmetrics_parser::{
    MetricFamily, MetricsExposition, OpenMetricsType, OpenMetricsValue, ParseError,
};

/// What was scraped.
pub struct Scraped(MetricsExposition<OpenMetricsType, OpenMetricsValue>);

impl Scraped {
    /// Reads text of the OpenMetrics format.
    ///
    /// # Errors
    ///
    /// Those of the parser.
    pub fn parse(text: &str) -> Result<Scraped, ParseError> {
        parse_openmetrics(text).map(Scraped)
    }

    /// Returns the metric of that name.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn family(&self, name: &str) -> &MetricFamily<OpenMetricsType, OpenMetricsValue> {
        let names = self.0.families.keys();
        let names: Vec<_> = names.collect();
        let family = self.0.families.get(name);
        family.unwrap_or_else(|| panic!("there is no {name} among {names:?}"))
    }

    /// Returns the value of a metric with exactly these labels.
    ///
    /// # Panics
    ///
    /// Unless there is exactly one.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> OpenMetricsValue {
        let family = self.family(name);
        let mut samples = family.iter_samples().filter(|sample| {
            let own = sample.get_labelset().expect("labels");
            let own = own
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str()));
            let mut own: Vec<_> = own.collect();
            own.sort_unstable();
            own == labels
        });
        let sample = samples.next();
        let sample = sample.unwrap_or_else(|| panic!("{name} has no sample {labels:?}"));
        assert!(samples.next().is_none(), "{name} has two {labels:?}");
        sample.value.clone()
    }
}

/// Starts an example of the crate that the calling test belongs to, requests the address that it
/// prints, and reads the answer.
///
/// # Panics
///
/// If any of these fails.
pub fn scrape(example: &str) -> Scraped {
    let test = std::env::current_exe().expect("a test program");
    let profile = test
        .parent()
        .and_then(Path::parent)
        .expect("two directories");
    let program = profile.join("examples").join(example);
    let program = program.with_extension(std::env::consts::EXE_EXTENSION);
    let mut running = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program:?}, which `cargo test` builds: {error}"));
    let mut line = String::new();
    let output = running.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("http://").expect("an address");
    let (host, path) = address.split_once('/').expect("a path");

    let mut connection = TcpStream::connect(host).expect("a server");
    write!(connection, "GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n").expect("a connection");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("an answer");
    // Its standard input ends here.
    drop(running.stdin.take());
    assert!(running.wait().expect("it ends").success());

    let (head, text) = answer.split_once("\r\n\r\n").expect("a body");
    let head = head.to_ascii_lowercase();
    assert!(
        head.lines()
            .next()
            .is_some_and(|line| line.contains(" 200 ")),
        "{head}"
    );
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.lines().any(|line| line == kind), "{head}");
    Scraped::parse(text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
}
