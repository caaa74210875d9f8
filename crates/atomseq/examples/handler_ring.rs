//! Shows a signal handler and its thread sharing a ring: the handler pushes samples, the thread
//! drains them, and neither blocks signals or executes an atomic instruction.
//!
//! ```text
//! cargo run --release -p atomseq --example handler_ring
//! ```
//!
//! The handler may interrupt the thread anywhere, also in the middle of a `drain`. Its delivery
//! restarts or completes the interrupted operation first.

use std::collections::HashSet;
use std::time::Duration;

use atomseq::local::{Counter, Ring, per_thread};
use atomseq::signal::{self, Event};

#[derive(Clone, Copy)]
struct Sample {
    number: u64,
    program_counter: usize,
}

per_thread! {
    static TICKS: Counter = Counter::new();
    static LOST: Counter = Counter::new();
    static SAMPLES: Ring<Sample, 32> = Ring::new();
}

fn on_tick(event: &mut Event<'_>) {
    TICKS.with(|ticks| ticks.increment());
    let number = TICKS.with(|ticks| ticks.sum());
    let program_counter = event.original_pc();
    let pushed = SAMPLES.with(|samples| {
        samples.push(Sample {
            number,
            program_counter,
        })
    });
    if pushed.is_err() {
        LOST.with(|lost| lost.increment());
    }
}

fn main() {
    // SAFETY: the handler uses structures of `local` and does nothing else.
    unsafe { signal::install(libc::SIGUSR1, on_tick) }.expect("SIGUSR1 is free");
    // SAFETY: returns the calling thread's own id.
    let this_thread = unsafe { libc::pthread_self() } as usize;

    let (mut received, mut last, mut places) = (0, 0, HashSet::new());
    let mut receive = |sample: Sample| {
        assert!(sample.number > last, "samples arrive in order");
        last = sample.number;
        received += 1;
        places.insert(sample.program_counter);
    };
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            for _ in 0..1000 {
                // SAFETY: the main thread is alive: it joins this one.
                unsafe { libc::pthread_kill(this_thread as libc::pthread_t, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        while !sender.is_finished() {
            SAMPLES.with(|samples| samples.drain().for_each(&mut receive));
        }
    });
    SAMPLES.with(|samples| samples.drain().for_each(&mut receive));

    let [ticks, lost] = [&TICKS, &LOST].map(|counter| counter.with(|counter| counter.sum()));
    println!("{ticks} signals handled: {received} samples received, {lost} lost to a full ring");
    println!(
        "the thread was interrupted at {} places in its code",
        places.len()
    );
    assert_eq!(ticks, received + lost);
}
