//! A global allocator built on `percpu::Pool`, and the whole `tally` example running on it.
//!
//! ```text
//! cargo run --release --example allocator -p atomseq -- [arguments of tally]
//! ```
//!
//! Nothing in `percpu` allocates through the global allocator, takes a lock of the standard library
//! or touches a lazily initialised thread-local, so an allocator can be built on it. [`pools`] is
//! that allocator, [`shelves`] what it refills from; `tests/allocator.rs` watches it for
//! allocations of atomseq's own.

mod pools;
mod shelves;
#[path = "../tally/main.rs"]
#[allow(dead_code, reason = "its `main` is not this program's")]
mod tally;

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::io::{self, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use pools::PoolAllocator;

#[global_allocator]
static ALLOCATOR: PoolAllocator = PoolAllocator;

fn main() -> ExitCode {
    let arguments = || std::env::args_os().skip(1);
    let code = match tally::run(arguments(), &mut io::stdout(), &mut io::stderr()) {
        Ok(0) => 0,
        other => return tally::exit_code(other),
    };
    let asks_for_help = arguments().any(|argument| argument == "--help" || argument == "-h");
    if asks_for_help || std::env::var_os(CHILD).is_some() {
        return ExitCode::from(code);
    }
    tally::exit_code(compare().map(|()| code))
}

/// What the allocator did for the tally above, and how it compares with the system's.
fn compare() -> io::Result<()> {
    let mut out = io::stdout();
    let Some(totals) = pools::totals() else {
        return Ok(());
    };
    let cached = totals.small.saturating_sub(totals.from_shelves);
    writeln!(out, "\nAllocations of this run")?;
    writeln!(out, "{cached:>14}  from the CPU's own cache")?;
    writeln!(
        out,
        "{:>14}  after asking the shared shelf for a batch",
        totals.from_shelves
    )?;
    writeln!(
        out,
        "{:>14}  by the system: more than 1,024 bytes, or aligned to more than 16",
        totals.large
    )?;
    writeln!(
        out,
        "{:>14}  bytes carved from the system for small blocks",
        totals.carved
    )?;

    writeln!(
        out,
        "\nThe same tally once more on each allocator, in processes of their own"
    )?;
    writeln!(
        out,
        "{:>14.3}  seconds on the pools",
        again("pools")?.as_secs_f64()
    )?;
    writeln!(
        out,
        "{:>14.3}  seconds on the system's allocator",
        again("system")?.as_secs_f64()
    )?;

    writeln!(
        out,
        "A tally allocates too seldom for this to show much: on a busy machine the rest is noise."
    )?;

    writeln!(
        out,
        "\nAllocating and freeing 64 bytes on one thread, 16 blocks at a time, best of 50 runs"
    )?;
    let layout = Layout::new::<[u64; 8]>();
    let (mut pools, mut system) = (f64::MAX, f64::MAX);
    for _ in 0..50 {
        pools = pools.min(pair(&ALLOCATOR, layout));
        system = system.min(pair(&System, layout));
    }
    writeln!(
        out,
        "{pools:>14.2}  ns a pair on the pools, their statistics included"
    )?;
    writeln!(out, "{system:>14.2}  ns a pair on the system's allocator")
}

/// Runs this program again, as a tally only.
fn again(allocator: &str) -> io::Result<Duration> {
    let start = Instant::now();
    let status = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(pools::SWITCH.to_str().expect("ASCII"), allocator)
        .env(CHILD, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    match status.success() {
        true => Ok(start.elapsed()),
        false => Err(io::Error::other(format!(
            "the tally on {allocator} ended with {status}"
        ))),
    }
}

/// Nanoseconds for one block, out and back.
fn pair(allocator: &impl GlobalAlloc, layout: Layout) -> f64 {
    const ROUNDS: u32 = 2_000;
    let mut blocks = [std::ptr::null_mut(); 16];
    let start = Instant::now();
    for _ in 0..ROUNDS {
        for block in &mut blocks {
            // SAFETY: the layout is not empty.
            *block = black_box(unsafe { allocator.alloc(black_box(layout)) });
            assert!(!block.is_null(), "1 KiB in all is to be had");
        }
        for block in &blocks {
            // SAFETY: allocated above with this layout.
            unsafe { allocator.dealloc(*block, layout) };
        }
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS * 16)
}

/// In the environment of the processes that only tally.
const CHILD: &str = "ATOMSEQ_EXAMPLE_CHILD";
