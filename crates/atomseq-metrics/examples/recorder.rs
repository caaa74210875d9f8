//! Serves the metrics of a made-up workload, recorded by the macros of the crate `metrics`, until
//! its standard input ends.
//!
//! ```text
//! cargo run --release -p atomseq-metrics --example recorder
//! ```
//!
//! It prints the address that it serves, such as `http://127.0.0.1:41873/metrics`.

use std::io::Read;
use std::thread;
use std::time::Duration;

use atomseq_metrics::PerCpuRecorder;
use metrics::{counter, describe_counter, describe_histogram, gauge, histogram};
use tiny_http::{Header, Response, Server};

const THREADS: u64 = 4;
const REQUESTS: u64 = 10_000;

fn main() {
    let recorder = PerCpuRecorder::new();
    recorder.set_bounds("shop.latency", &[0.001, 0.005, 0.025]);
    recorder.install().expect("there is no other recorder");
    describe_counter!("shop.requests", "Requests served");
    describe_histogram!("shop.latency", "Seconds to serve one");

    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                // A look-up costs more than many updates, so it is done once.
                let method = if thread == 0 { "put" } else { "get" };
                let served = counter!("shop.requests", "method" => method);
                let latency = histogram!("shop.latency");
                for request in 0..REQUESTS {
                    served.increment(1);
                    latency.record(Duration::from_millis(request % 8));
                }
                gauge!("shop.clients").increment(1.0);
            });
        }
    });

    let server = Server::http("127.0.0.1:0").expect("a free port");
    println!("http://{}/metrics", server.server_addr());
    thread::spawn(move || {
        for request in server.incoming_requests() {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            let header = Header::from_bytes("Content-Type", kind).expect("a valid header");
            let text = recorder.render();
            _ = request.respond(Response::from_string(text).with_header(header));
        }
    });
    _ = std::io::stdin().read_to_end(&mut Vec::new());
}
