//! Counts words on an allocator made of `percpu::Pool`, and again on the system's allocator.
//!
//! ```text
//! cargo run --release -p demo-allocator -- [DIRECTORY] [--threads N] [--top K]
//! ```
//!
//! The library beside this program is the allocator; `work` is what runs on it.

mod work;

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Parser;
use demo_allocator::pools::{self, PoolAllocator};
use demo_common::files;
use demo_common::options::{self, refuse};
use demo_common::progress::Progress;
use demo_common::report::grouped;
use work::Counts;

#[global_allocator]
static ALLOCATOR: PoolAllocator = PoolAllocator;

const PROGRAM: &str = "allocator";

/// In the environment of a child process, which only counts and prints its result.
const CHILD: &str = "ATOMSEQ_DEMO_CHILD";

/// Counts the words of all files under a directory on an allocator made of per-CPU pools.
///
/// The report says where the blocks came from, and compares the time with that of the system's
/// allocator, in processes of their own.
#[derive(Parser)]
#[command(
    name = PROGRAM,
    max_term_width = 100,
    after_help = "Exit status: 0 if the counts agree on both allocators, 1 if not or if a process failed, \
                  2 if the arguments make no sense."
)]
struct Options {
    /// The directory whose files are read. [default: the Rust documentation that rustup installed,
    /// else `.`]
    directory: Option<PathBuf>,
    /// The number of threads. [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// The number of words to print.
    #[arg(long, value_name = "K", default_value_t = 5)]
    top: usize,
}

fn main() -> ExitCode {
    options::main(PROGRAM, |arguments, out, err| {
        options::run(PROGRAM, arguments, out, err, run)
    })
}

fn run(options: Options, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let (directory, chosen) = match options::directory(options.directory.as_deref()) {
        Ok(directory) => directory,
        Err(sentence) => return refuse(PROGRAM, &sentence, err),
    };
    let found = files::find(&directory);
    let progress = Progress::new(found.files.len() as u64);
    progress.stage("counting words");
    let start = Instant::now();
    let threads = options::threads(options.threads);
    let (counts, skipped) = work::count(&found.files, threads, &progress);
    let took = start.elapsed();
    drop(progress);
    if std::env::var_os(CHILD).is_some() {
        return write!(out, "{} {}", took.as_nanos(), summary(&counts)).map(|()| 0);
    }
    for skip in found.skipped.iter().chain(&skipped) {
        writeln!(err, "{PROGRAM}: {skip}")?;
    }
    writeln!(out, "Directory  {directory:?}")?;
    if let Some(chosen) = chosen {
        writeln!(out, "           {chosen}")?;
    }
    writeln!(out, "Files      {}", grouped(found.files.len() as u64))?;
    writeln!(out, "Words      {}", summary(&counts))?;
    writeln!(out, "atomseq    {}\n", atomseq::status())?;
    for (count, word) in most_frequent(&counts, options.top) {
        writeln!(out, "{:>14}  {word}", grouped(count))?;
    }
    print_allocations(out)?;
    print_pairs(out)?;
    match compare(&summary(&counts), out) {
        Ok(()) => Ok(0),
        Err(sentence) => writeln!(err, "{PROGRAM}: {sentence}").map(|()| 1),
    }
}

/// What must be the same on every allocator.
fn summary(counts: &Counts) -> String {
    let total: u64 = counts.values().sum();
    format!(
        "{}, of which {} distinct",
        grouped(total),
        grouped(counts.len() as u64)
    )
}

fn most_frequent(counts: &Counts, top: usize) -> Vec<(u64, String)> {
    let mut words: Vec<(&[u8], u64)> = counts.iter().map(|(word, n)| (&**word, *n)).collect();
    words.sort_unstable_by(|(a, m), (b, n)| n.cmp(m).then(a.cmp(b)));
    let words = words.into_iter().take(top);
    words
        .map(|(word, count)| {
            let shown = String::from_utf8_lossy(&word[..word.len().min(60)]);
            (count, shown.into_owned())
        })
        .collect()
}

/// Prints where the blocks of the count above came from.
fn print_allocations(out: &mut dyn Write) -> io::Result<()> {
    let Some(totals) = pools::totals() else {
        return Ok(());
    };
    writeln!(out, "\nAllocations of this run")?;
    for (number, what) in [
        (
            totals.small.saturating_sub(totals.from_shelves),
            "from the pool of the CPU",
        ),
        (totals.from_shelves, "after a batch from the shared shelf"),
        (
            totals.large,
            "from the system: larger than 1,024 bytes, or aligned to more than 16",
        ),
        (
            totals.carved,
            "bytes that the shelves took from the system for small blocks",
        ),
    ] {
        writeln!(out, "{:>14}  {what}", grouped(number))?;
    }
    Ok(())
}

/// Prints the time of an allocation and its release, on both allocators.
fn print_pairs(out: &mut dyn Write) -> io::Result<()> {
    let layout = Layout::new::<[u64; 8]>();
    let (mut pools, mut system) = (f64::MAX, f64::MAX);
    for _ in 0..50 {
        pools = pools.min(pair(&ALLOCATOR, layout));
        system = system.min(pair(&System, layout));
    }
    writeln!(
        out,
        "\nAllocate and free 64 bytes on one thread, 16 blocks at a time, best of 50 runs"
    )?;
    writeln!(out, "{pools:>14.2}  ns on the pools, including statistics")?;
    writeln!(out, "{system:>14.2}  ns on the system's allocator")
}

/// Repeats the count on each allocator in a process of its own, and prints the times.
fn compare(expected: &str, out: &mut dyn Write) -> Result<(), String> {
    let mut text = String::from("\nThe same count in processes of their own, best of 3 runs\n");
    for (allocator, name) in [("pools", "the pools"), ("system", "the system's allocator")] {
        let mut best = Duration::MAX;
        for _ in 0..3 {
            let (took, summary) = again(allocator)?;
            if summary != expected {
                return Err(format!(
                    "on {name} the words are {summary}; unless a file changed, that is a fault"
                ));
            }
            best = best.min(took);
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:>14.3}  seconds on {name}", best.as_secs_f64());
    }
    out.write_all(text.as_bytes())
        .map_err(|error| format!("cannot write: {error}"))
}

/// Runs this program on an allocator. Returns the time of the count, and its summary.
fn again(allocator: &str) -> Result<(Duration, String), String> {
    let failed = |why: String| format!("the process on {allocator} failed: {why}");
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let output = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(pools::SWITCH.to_str().expect("ASCII"), allocator)
        .env(CHILD, "1")
        .output()
        .map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let parsed = text.split_once(' ').filter(|_| output.status.success());
    let (took, summary) = parsed.ok_or_else(|| failed(output.status.to_string()))?;
    let took = took.parse().map_err(|_| failed(text.to_string()))?;
    Ok((Duration::from_nanos(took), summary.to_owned()))
}

/// Returns the nanoseconds that one block takes, out and back.
fn pair(allocator: &impl GlobalAlloc, layout: Layout) -> f64 {
    const ROUNDS: u32 = 2_000;
    let mut blocks = [std::ptr::null_mut(); 16];
    let start = Instant::now();
    for _ in 0..ROUNDS {
        for block in &mut blocks {
            // SAFETY: the layout is not empty.
            *block = black_box(unsafe { allocator.alloc(black_box(layout)) });
            assert!(!block.is_null(), "1 KiB of memory is available");
        }
        for block in &blocks {
            // SAFETY: allocated above with this layout.
            unsafe { allocator.dealloc(*block, layout) };
        }
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS * 16)
}
