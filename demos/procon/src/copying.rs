//! One copy: producer and consumer, and what they count.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use atomseq::mutex::Interventions;
use atomseq_papers::statistics;
use demo_common::progress::Progress;
use demo_common::threads::{self, Pinned, Switches};

use super::files::{CHUNK, Output};
use super::monitor::{Lock, Monitor, Tally};
use super::options::Plan;

/// The parameters of a copy.
pub struct Job<'a> {
    input: &'a Path,
    output: Option<&'a Path>,
    slots: usize,
    block: usize,
    /// The producer's CPU and the consumer's.
    cpus: [usize; 2],
    progress: &'a Progress,
}

impl<'a> Job<'a> {
    pub fn of(plan: &'a Plan, progress: &'a Progress) -> Job<'a> {
        Job {
            input: &plan.input.path,
            output: plan.output.as_deref(),
            slots: plan.slots,
            block: plan.block,
            cpus: plan.cpus,
            progress,
        }
    }
}

/// The results of a copy.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub elapsed: Duration,
    pub bytes: u64,
    /// The checksum of the bytes that the consumer received.
    pub checksum: u32,
    /// The checksum of the written file, if there is one.
    pub written: Option<u32>,
    pub tally: Tally,
    /// How often a thread blocked in the kernel, and how often one was preempted.
    pub switches: Option<Switches>,
    /// What the kernel or a signal handler did for the mechanism.
    pub interventions: Interventions,
}

/// Why a copy failed.
#[derive(Debug)]
pub enum Error {
    Start(io::Error),
    Read(io::Error),
    Create(io::Error),
    Write(io::Error),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Start(error) => write!(f, "a thread could not be started on that CPU: {error}"),
            Error::Read(error) => write!(f, "the input could not be read to its end: {error}"),
            Error::Create(error) => write!(f, "the output could not be created: {error}"),
            Error::Write(error) => write!(
                f,
                "the output could not be written to its end: {error}; the file is incomplete"
            ),
        }
    }
}

/// Copies with this lock around the buffer.
pub fn copy<L: Lock>(job: &Job<'_>) -> Result<Outcome, Error> {
    let output = Output::create(job.output).map_err(Error::Create)?;
    let monitor = Monitor::<L>::new(job.slots, job.block);
    // If both threads share a CPU, this thread runs there too: a mechanism may exclude only the
    // threads of one CPU.
    let [first, second] = job.cpus;
    let _pinned = (first == second)
        .then(|| Pinned::to(first))
        .transpose()
        .map_err(Error::Start)?;
    // The mechanisms count interventions next to a system call, where the count costs little.
    statistics::count(true);
    let before = L::interventions();
    let start = Instant::now();
    let (produced, consumed) = thread::scope(|scope| {
        let producer = || counting_switches(|tally| produce(job, &monitor, tally));
        let producer = threads::start(scope, "producer", job.cpus[0], producer);
        let producer = producer.map_err(Error::Start)?;
        let consumer = || counting_switches(|tally| consume(job, &monitor, output, tally));
        let consumer = match threads::start(scope, "consumer", job.cpus[1], consumer) {
            Ok(consumer) => consumer,
            Err(error) => {
                monitor.leave(&mut Tally::default());
                return Err(Error::Start(error));
            }
        };
        let joined = (producer.join(), consumer.join());
        match joined {
            (Ok(produced), Ok(consumed)) => Ok((produced, consumed)),
            (Err(panic), _) | (_, Err(panic)) => std::panic::resume_unwind(panic),
        }
    })?;
    let elapsed = start.elapsed();
    let (read, here) = produced;
    let (output, there) = consumed;
    read.map_err(Error::Read)?;
    let output = output.map_err(Error::Write)?;
    let bytes = output.bytes;
    let (checksum, written) = output.finish().map_err(Error::Write)?;
    Ok(Outcome {
        elapsed,
        bytes,
        checksum,
        written,
        tally: here.0 + there.0 + monitor.tally(),
        switches: here.1.zip(there.1).map(|(here, there)| here + there),
        interventions: since(before, L::interventions()),
    })
}

/// Returns the interventions between two readings.
fn since(before: Interventions, after: Interventions) -> Interventions {
    let since = |before: Option<u64>, after: Option<u64>| Some(after? - before?);
    Interventions {
        emulations: since(before.emulations, after.emulations),
        restarts: since(before.restarts, after.restarts),
        rollforwards: since(before.rollforwards, after.rollforwards),
        deferrals: since(before.deferrals, after.deferrals),
    }
}

/// Runs a thread's work, and returns its result, its tally and how often it stopped running.
fn counting_switches<T>(work: impl FnOnce(&mut Tally) -> T) -> (T, (Tally, Option<Switches>)) {
    let mut tally = Tally::default();
    let before = threads::switches();
    let result = work(&mut tally);
    let switches = before
        .zip(threads::switches())
        .map(|(before, after)| after.since(before));
    (result, (tally, switches))
}

/// One side of a copy. Dropping it, also during a panic, marks the side as finished and wakes the
/// other one.
struct Side<'a, L: Lock> {
    monitor: &'a Monitor<L>,
    tally: &'a mut Tally,
}

impl<L: Lock> Drop for Side<'_, L> {
    fn drop(&mut self) {
        self.monitor.leave(self.tally);
    }
}

fn produce<L: Lock>(job: &Job<'_>, monitor: &Monitor<L>, tally: &mut Tally) -> io::Result<()> {
    let side = Side { monitor, tally };
    let mut file = File::open(job.input)?;
    // A multiple of the block size, so that only the last block of the file is shorter.
    let mut chunk = vec![0; CHUNK.next_multiple_of(job.block)];
    loop {
        let length = read_full(&mut file, &mut chunk)?;
        if length == 0 {
            return Ok(());
        }
        for block in chunk[..length].chunks(job.block) {
            if !monitor.put(block, side.tally) {
                return Ok(());
            }
        }
    }
}

/// Reads until the chunk is full or the file ends.
fn read_full(file: &mut File, chunk: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < chunk.len() {
        match file.read(&mut chunk[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

fn consume<L: Lock>(
    job: &Job<'_>,
    monitor: &Monitor<L>,
    mut output: Output,
    tally: &mut Tally,
) -> io::Result<Output> {
    let side = Side { monitor, tally };
    let mut chunk = Vec::with_capacity(CHUNK + job.block);
    let mut more = true;
    while more {
        more = monitor.take(&mut chunk, side.tally);
        if chunk.len() >= CHUNK || !more {
            output.write(&chunk)?;
            job.progress.add(chunk.len() as u64);
            chunk.clear();
        }
    }
    Ok(output)
}
