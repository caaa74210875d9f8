//! GC96's Cache Kernel in miniature, made of atomseq's structures: address spaces, page maps, the
//! dependency map, ready and delay queues, and signals, in caches that are too small for them.
//!
//! ```text
//! cargo run --release -p demo-cachekernel -- [--seconds N] [--threads N] [--loaded PERCENT] …
//! ```
//!
//! | module | what lives there |
//! |---|---|
//! | `kernel` | the caches, page maps and dependencies, and their write-back: read this first |
//! | `crew` | the kernel threads, their signal handlers, and how they are stopped and exited |
//! | `audit` | the fate of everything that was ever claimed |
//! | `options` | the command line |
#![cfg(target_os = "linux")]

mod audit;
mod crew;
mod kernel;
mod options;

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use atomseq::dcas;
use demo_common::options::refuse;
use demo_common::progress::Progress;
use demo_common::report::grouped;
use fastrand::Rng;

use audit::Findings;
use crew::{Crew, EXIT, RUN, STOP, Shared};
use kernel::{Kernel, World};
use options::Plan;

const PROGRAM: &str = "cachekernel";

/// The time between two audits.
const ROUND: Duration = Duration::from_millis(100);

/// Runs the demo. Returns 0 if the audits account for everything, 1 if not, 2 if the arguments make
/// no sense.
///
/// # Errors
///
/// Those of writing to `out` or `err`.
pub fn run(
    arguments: impl Iterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    demo_common::options::run(
        PROGRAM,
        arguments,
        out,
        err,
        |plan: Plan, out, err| match plan.check() {
            Ok(()) => simulate(plan, out, err),
            Err(sentence) => refuse(PROGRAM, &sentence, err),
        },
    )
}

fn simulate(plan: Plan, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    // The signals' handlers serve one kernel at a time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let kernel = match Kernel::new(plan) {
        Ok(kernel) => kernel,
        Err(error) => return writeln!(err, "{PROGRAM}: {error}").map(|()| 1),
    };
    let plan = &kernel.world.plan;
    let progress = Progress::new((plan.seconds * 1000.0) as u64);
    let revocations = dcas::statistics().revocations;
    let mut rng = Rng::with_seed(plan.seed);
    let mut findings = Findings::default();
    let (start, mut ran) = (Instant::now(), Duration::ZERO);
    let shared = Shared::new(&kernel);
    let refused = |error: io::Error, err: &mut dyn Write| {
        writeln!(
            err,
            "{PROGRAM}: the system refuses a kernel thread: {error}"
        )
        .map(|()| 1)
    };
    let mut crew = match Crew::start(&shared) {
        Ok(crew) => crew,
        Err(error) => return refused(error, err),
    };
    // One round at least.
    while ran.is_zero() || start.elapsed().as_secs_f64() < plan.seconds {
        let round = Instant::now();
        while round.elapsed() < ROUND {
            std::thread::sleep(Duration::from_millis(1));
            // About a thousand times a second; half of them stop a thread.
            let exits = rng.u64(..1000) < plan.exits;
            if exits || rng.bool() {
                crew.interrupt(&mut rng, if exits { EXIT } else { STOP });
            }
        }
        ran += round.elapsed();
        findings.audit(&mut crew);
        if let Err(error) = crew.replace_exited() {
            return refused(error, err);
        }
        crew.enter(RUN);
        progress.add(round.elapsed().as_millis() as u64);
    }
    findings.finish(&mut crew);
    let interruptions = [crew.stops, crew.exits];
    drop(crew);
    drop(progress);
    let revocations = dcas::statistics().revocations - revocations;
    report(
        &kernel.world,
        &findings,
        ran,
        interruptions,
        revocations,
        out,
    )?;
    for sentence in &findings.faults {
        writeln!(err, "{PROGRAM}: {sentence}")?;
    }
    Ok(u8::from(!findings.faults.is_empty()))
}

fn report(
    world: &World,
    findings: &Findings,
    ran: Duration,
    [stops, exits]: [u64; 2],
    revocations: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    let sum = |word: fn(&kernel::Worker) -> &AtomicU64| -> u64 {
        world
            .workers
            .iter()
            .map(|worker| word(worker).load(SeqCst))
            .sum()
    };
    let (plan, counts) = (&world.plan, &world.counts);
    writeln!(out, "atomseq     {}", atomseq::status())?;
    writeln!(
        out,
        "Kernel      {} threads; there is room for {} of {} spaces, {} of {} guests and {} of {} records\n",
        plan.threads,
        plan.loaded(plan.spaces),
        plan.spaces,
        plan.loaded(plan.guests),
        plan.guests,
        grouped(plan.records()),
        grouped(plan.spaces * plan.pages),
    )?;
    writeln!(out, "{:>14} {:>14}", "in all", "per second")?;
    let per_second = |number: u64| grouped((number as f64 / ran.as_secs_f64()) as u64);
    for (number, what) in [
        (sum(|worker| &worker.runs), "runs of a guest"),
        (sum(|worker| &worker.touches), "pages touched"),
        (counts.faults.sum(), "page faults"),
        (counts.mappings.sum(), "mappings written back"),
        (counts.spaces.sum(), "spaces written back"),
        (counts.guests.sum(), "guests written back"),
        (
            counts.registrations.sum(),
            "signal registrations written back",
        ),
        (counts.reclaimed.sum(), "frames reclaimed for records"),
        (sum(|worker| &worker.sent), "signals sent"),
        (
            sum(|worker| &worker.received),
            "signals received by a handler",
        ),
        (sum(|worker| &worker.dropped), "signals dropped"),
        (
            counts.skipped.sum(),
            "runs and faults given up: no descriptor or memory was free",
        ),
        (stops, "threads stopped"),
        (exits, "threads exited"),
        (revocations, "operations of others revoked"),
    ] {
        writeln!(
            out,
            "{:>14} {:>14}  {what}",
            grouped(number),
            per_second(number)
        )?;
    }
    writeln!(
        out,
        "\n{} audits. At the last one, before everything was written back:",
        findings.audits
    )?;
    for (name, fate) in [("spaces", findings.spaces), ("guests", findings.guests)] {
        writeln!(
            out,
            "{:>14}  {name} claimed: {} loaded, {} unpublished; {} recovered from exited threads, {} leaked",
            fate.claimed, fate.loaded, fate.unpublished, fate.recovered, fate.leaked
        )?;
    }
    writeln!(
        out,
        "{:>14}  nodes of records recovered, {} half-made mappings and registrations removed, {} guests put back in a queue",
        findings.nodes, findings.halves, findings.lost
    )?;
    match findings.faults.len() {
        0 => writeln!(out, "\nEverything is accounted for."),
        faults => writeln!(out, "\n{faults} things are not accounted for."),
    }
}
