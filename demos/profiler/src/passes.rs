//! The work, in passes of about a quarter of a second. Passes with timers and without alternate, so
//! that their times can be compared.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use demo_common::files::{self, Skipped};
use demo_common::progress::Progress;
use demo_common::timer::on_cpu;

use super::books::Books;
use super::counting::counts::{Counter, Counts};
use super::counting::text::Arena;
use super::counting::work::Work;
use super::pace::Pace;
use super::watch::{self, Shared};

/// The intended duration of a pass.
const PASS: Duration = Duration::from_millis(250);

/// The maximum number of files in a pass. Where a directory has too few files, a pass reads them
/// several times.
const MAX_FILES: usize = 200_000;

/// Why there is no result.
#[derive(Debug)]
pub enum Error {
    /// There is no readable file under the directory.
    NoFiles(PathBuf),
    /// The per-CPU structures could not be created.
    Memory(atomseq::percpu::Error),
    /// No thread could be started.
    Thread(io::Error),
    /// The handler could not be installed or uninstalled.
    Signal(atomseq::signal::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoFiles(directory) => {
                write!(f, "{directory:?} contains no file that can be read")
            }
            Error::Memory(error) => error.fmt(f),
            Error::Thread(error) => write!(f, "no thread could be started: {error}"),
            Error::Signal(error) => error.fmt(f),
        }
    }
}

impl From<atomseq::percpu::Error> for Error {
    fn from(error: atomseq::percpu::Error) -> Error {
        Error::Memory(error)
    }
}

impl From<atomseq::signal::Error> for Error {
    fn from(error: atomseq::signal::Error) -> Error {
        Error::Signal(error)
    }
}

/// The files of a pass, and the number of threads.
pub struct Plan {
    pub threads: usize,
    files: Vec<PathBuf>,
    /// What was found and could not be read.
    pub skipped: Vec<Skipped>,
}

/// The results of all passes with timers.
#[derive(Default)]
pub struct Outcome {
    pub books: Books,
    /// The words and bytes that the threads counted, to compare with those that handlers took.
    pub words: u64,
    pub bytes: u64,
    /// Words and bytes counted after the last tick.
    pub rest: (u64, u64),
    /// Words in the per-CPU tables.
    pub in_tables: u64,
    pub longest: usize,
    /// The times of each pass without timers and of its neighbour with timers.
    pub pairs: Vec<(Took, Took)>,
    /// Failures to read a file that could be read before.
    pub unread: u64,
    /// The number of threads that were refused a timer, by reason.
    pub unwatched: HashMap<String, u64>,
}

/// The times of a pass, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// From its start to its end.
    pub wall: f64,
    /// CPU time, summed over its threads.
    pub cpu: f64,
}

impl Outcome {
    /// Returns the duration of all passes with timers, in seconds.
    pub fn seconds(&self) -> f64 {
        self.pairs.iter().map(|(_without, with)| with.wall).sum()
    }
}

impl Plan {
    /// Chooses as many files as make a pass take about the intended time. Reads them, so that they
    /// are in the page cache.
    pub fn new(directory: &Path, threads: usize) -> Result<Plan, Error> {
        let found = files::find(directory);
        let mut files = found.files;
        // A pseudo-random order, the same every time: any part of the list resembles the whole.
        files.sort_by_cached_key(|path| {
            let mut hasher = DefaultHasher::new();
            path.hash(&mut hasher);
            hasher.finish()
        });
        let mut plan = Plan {
            threads,
            files,
            skipped: found.skipped,
        };
        plan.keep_readable(32 << 20);
        if plan.files.is_empty() {
            return Err(Error::NoFiles(directory.to_owned()));
        }
        let took = plan.pass(None)?.took;
        let times = PASS.as_secs_f64() / took.wall.max(1e-6);
        let wanted = (plan.files.len() as f64 * times).ceil() as usize;
        let wanted = wanted.clamp(1, MAX_FILES.max(plan.files.len()));
        plan.files = plan.files.iter().cycle().take(wanted).cloned().collect();
        Ok(plan)
    }

    /// Reads files until `bytes` bytes were read. Removes those that cannot be read and those that
    /// remain.
    fn keep_readable(&mut self, bytes: u64) {
        let (mut read, mut skipped) = (0, Vec::new());
        let mut unread = std::mem::take(&mut self.files).into_iter();
        while read < bytes {
            let Some(path) = unread.next() else {
                break;
            };
            let content =
                File::open(&path).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
            match content {
                Ok(more) => {
                    read += more;
                    self.files.push(path);
                }
                Err(error) => skipped.push(Skipped::new(&path, &error)),
            }
        }
        self.skipped.append(&mut skipped);
    }

    /// Returns how many files a pass reads.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Runs pairs of passes until those with timers have taken `duration`.
    pub fn run(
        &self,
        shared: &Shared,
        duration: Duration,
        progress: &Progress,
    ) -> Result<Outcome, Error> {
        let mut outcome = Outcome::default();
        while outcome.seconds() < duration.as_secs_f64() {
            // The order alternates, so that neither kind profits from the other's cache contents.
            let with_first = outcome.pairs.len() % 2 == 1;
            let before = match with_first {
                true => None,
                false => Some(self.pass(None)?),
            };
            let with = self.pass(Some(shared))?;
            let without = match before {
                Some(without) => without,
                None => self.pass(None)?,
            };
            outcome.pairs.push((without.took, with.took));
            progress.add((1000.0 * with.took.wall) as u64);
            outcome.unread += with.unread + without.unread;
            outcome.in_tables += with.in_tables;
            with.reports
                .into_iter()
                .for_each(|report| outcome.add(report));
        }
        Ok(outcome)
    }

    /// Counts the words of all files once, on all threads.
    fn pass(&self, shared: Option<&Shared>) -> Result<Pass, Error> {
        let work = Work::new(&self.files)?;
        let mut arenas: Vec<Arena> = (0..self.threads).map(|_| Arena::default()).collect();
        let mut counts = Counts::new()?;
        let start = Instant::now();
        let reports: Vec<Report> = thread::scope(|scope| {
            let (mut workers, mut refused) = (Vec::new(), None);
            for arena in &mut arenas {
                let (work, counter) = (&work, counts.counter(arena.store()));
                let worker = move || worker(work, counter, shared);
                match thread::Builder::new().spawn_scoped(scope, worker) {
                    Ok(worker) => workers.push(worker),
                    Err(error) => refused = Some(error),
                }
            }
            // If only some threads could be started, those read all files.
            match refused {
                Some(error) if workers.is_empty() => return Err(Error::Thread(error)),
                _ => {}
            }
            let joined = workers.into_iter().map(|worker| worker.join());
            Ok(joined
                .map(|report| report.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect())
        })?;
        let wall = start.elapsed().as_secs_f64();
        Ok(Pass {
            took: Took {
                wall,
                cpu: reports.iter().map(|report| report.cpu).sum(),
            },
            reports,
            unread: work.skipped(),
            in_tables: counts.total(),
        })
    }
}

struct Pass {
    took: Took,
    reports: Vec<Report>,
    unread: u64,
    in_tables: u64,
}

/// The results of one thread in one pass.
struct Report {
    /// CPU time in seconds, since the thread started.
    cpu: f64,
    words: u64,
    bytes: u64,
    rest: (u64, u64),
    longest: usize,
    /// `None` in a pass without timers.
    books: Option<io::Result<Books>>,
}

/// The work of one thread in a pass.
fn worker(work: &Work<'_>, mut counter: Counter<'_, '_>, shared: Option<&Shared>) -> Report {
    let pace = Pace::default();
    let (mut words, mut bytes) = (0, 0);
    let mut count = || {
        work.share(|word| {
            counter.count(word);
            pace.count(word.len());
            words += 1;
            bytes += word.len() as u64;
        })
    };
    let books = match shared {
        None => {
            count();
            None
        }
        Some(shared) => Some(watch::during(shared, &pace, count).1),
    };
    let rest = pace.take();
    Report {
        cpu: on_cpu() as f64 / 1e9,
        words,
        bytes,
        rest: (rest.0 as u64, rest.1 as u64),
        longest: pace.longest(),
        books,
    }
}

impl Outcome {
    fn add(&mut self, report: Report) {
        self.words += report.words;
        self.bytes += report.bytes;
        self.rest.0 += report.rest.0;
        self.rest.1 += report.rest.1;
        self.longest = self.longest.max(report.longest);
        match report.books {
            Some(Ok(books)) => self.books += books,
            Some(Err(error)) => *self.unwatched.entry(error.to_string()).or_default() += 1,
            None => {}
        }
    }
}
