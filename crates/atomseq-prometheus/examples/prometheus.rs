//! Serves metrics of a made-up workload to Prometheus, until its standard input ends.
//!
//! ```text
//! cargo run --release -p atomseq-prometheus --example prometheus
//! ```
//!
//! It prints the address that it serves, such as `http://127.0.0.1:41873/metrics`.

use std::io::Read;
use std::thread;
use std::time::Duration;

use atomseq::percpu;
use atomseq_prometheus::{Counter, Gauge, Histogram, Static};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tiny_http::{Header, Response, Server};

const THREADS: u64 = 4;
const REQUESTS: u64 = 10_000;

/// What is counted in a `static` needs no handle.
static BYTES: percpu::Counter = percpu::Counter::new();

fn main() {
    let requests = Family::<[(&str, &str); 1], Counter>::default();
    let in_flight = Gauge::default();
    let latency = Histogram::new([0.001, 0.005, 0.025]);

    let mut registry = Registry::with_prefix("shop");
    registry.register("requests", "Requests served", requests.clone());
    registry.register("in_flight", "Requests being served", in_flight.clone());
    registry.register("latency_seconds", "Time to serve one", latency.clone());
    registry.register("sent_bytes", "Bytes sent", Static::new(&BYTES));

    thread::scope(|scope| {
        for thread in 0..THREADS {
            // A look-up takes a lock, so it is done once.
            let method = if thread == 0 { "put" } else { "get" };
            let served = requests.get_or_create_owned(&[("method", method)]);
            let (in_flight, latency) = (&in_flight, &latency);
            scope.spawn(move || {
                for request in 0..REQUESTS {
                    in_flight.inc();
                    served.inc();
                    BYTES.add(100);
                    latency.observe(Duration::from_millis(request % 8).as_secs_f64());
                    in_flight.dec();
                }
            });
        }
    });

    let server = Server::http("127.0.0.1:0").expect("a free port");
    println!("http://{}/metrics", server.server_addr());
    thread::spawn(move || {
        for request in server.incoming_requests() {
            let mut text = String::new();
            encode(&mut text, &registry).expect("a string takes all text");
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            let header = Header::from_bytes("Content-Type", kind).expect("a valid header");
            _ = request.respond(Response::from_string(text).with_header(header));
        }
    });
    _ = std::io::stdin().read_to_end(&mut Vec::new());
}
