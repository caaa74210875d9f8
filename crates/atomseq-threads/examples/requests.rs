//! A server's requests, each of which asks several shards at once. Threads inherit the number of
//! the request that they work for, so that a log line names it without passing it along.
//!
//! ```text
//! cargo run --release -p atomseq-threads --example requests
//! ```

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use atomseq_threads::runtime::{self, Error, Inherited, Runtime};

/// The number of the request that the current thread works for.
static REQUEST: Inherited<u32> = Inherited::new();

/// Sends a line to the log.
fn log(lines: &Sender<String>, line: &str) {
    let line = match REQUEST.get() {
        Some(request) => format!("request {request}: {line}"),
        None => line.to_owned(),
    };
    let _ = lines.send(line);
}

/// Returns what a shard finds. Knows nothing of requests.
fn ask(shard: u32, lines: &Sender<String>) -> u32 {
    log(lines, &format!("asks shard {shard}"));
    runtime::sleep(Duration::from_millis(5));
    shard * shard
}

fn main() -> Result<(), Error> {
    let (lines, log_of_all) = channel();
    let runtime = Runtime::new()?;
    runtime.scope(|scope| {
        for request in 1..=3 {
            let lines = &lines;
            scope.spawn(move || {
                REQUEST.set(request);
                let found: u32 = runtime::scope(|scope| {
                    let asked: Vec<_> = (1..=4)
                        .map(|shard| scope.spawn(move || ask(shard, lines)))
                        .collect();
                    asked.into_iter().map(|one| one.join().unwrap()).sum()
                });
                assert_eq!(found, 30);
                log(lines, &format!("found {found}"));
            });
        }
    });
    log(&lines, "all are answered");
    drop(lines);
    let lines: Vec<String> = log_of_all.into_iter().collect();
    let of_second = lines.iter().filter(|line| line.starts_with("request 2: "));
    assert_eq!(of_second.count(), 5);
    for line in lines {
        println!("{line}");
    }
    Ok(())
}
