//! The work, in passes of about a quarter of a second: with timers and without, in turn, so that
//! the two can be compared.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::books::Books;
use super::pace::Pace;
use super::tally::counts::{Counter, Counts};
use super::tally::files::{self, Skipped};
use super::tally::text::Arena;
use super::tally::work::Work;
use super::timer::on_cpu;
use super::watch::{self, Shared};

/// How long a pass should take.
const PASS: Duration = Duration::from_millis(250);

/// How many files a pass reads at most; files that a directory has too few of are read again and
/// again.
const MAX_FILES: usize = 200_000;

/// Why there is nothing to report.
#[derive(Debug)]
pub enum Error {
    /// There is no file, or no readable one, under the directory.
    NoFiles(PathBuf),
    /// The per-CPU structures could not be made.
    Memory(atomseq::percpu::Error),
    /// No thread could be started.
    Thread(io::Error),
    /// The handler could not be installed, or not taken away.
    Signal(atomseq::signal::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoFiles(directory) => {
                write!(f, "there is no file that can be read under {directory:?}")
            }
            Error::Memory(error) => error.fmt(f),
            Error::Thread(error) => write!(f, "no thread can be started: {error}"),
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

/// What a pass reads, and by how many threads.
pub struct Plan {
    pub threads: usize,
    files: Vec<PathBuf>,
    /// What was found and cannot be read.
    pub skipped: Vec<Skipped>,
}

/// What came of all passes with timers.
#[derive(Default)]
pub struct Outcome {
    pub books: Books,
    /// What the threads themselves counted meanwhile, to compare with what their handlers took.
    pub words: u64,
    pub bytes: u64,
    /// Words and bytes that no tick came for any more.
    pub rest: (u64, u64),
    pub longest: usize,
    /// Each pass without timers and the one beside it with them.
    pub pairs: Vec<(Took, Took)>,
    /// How many times a file could not be read that could be before.
    pub unread: usize,
    /// Threads that could have no timer, by reason.
    pub unwatched: HashMap<String, u64>,
}

/// Seconds of a pass.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// From its beginning to its end.
    pub wall: f64,
    /// For which its threads had a CPU, added up.
    pub cpu: f64,
}

impl Outcome {
    /// Seconds under timers in all.
    pub fn seconds(&self) -> f64 {
        self.pairs.iter().map(|(_without, with)| with.wall).sum()
    }
}

impl Plan {
    /// Chooses files so that a pass takes about as long as it should. Reads them, so that they are
    /// in memory.
    pub fn new(directory: &Path, threads: usize) -> Result<Plan, Error> {
        let found = files::find(directory);
        let mut files = found.files;
        // Any part of the list is to be like the whole, and the same every time.
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

    /// Reads files until so many bytes were read, and forgets what cannot be read and what comes
    /// after.
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

    /// How many files a pass reads.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Pairs of passes until those with timers have taken so long.
    pub fn run(&self, shared: &Shared, long: Duration) -> Result<Outcome, Error> {
        let mut outcome = Outcome::default();
        while outcome.seconds() < long.as_secs_f64() {
            // Which goes first alternates, so that neither profits from what the other left in
            // caches.
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
            outcome.unread += with.unread + without.unread;
            with.reports
                .into_iter()
                .for_each(|report| outcome.add(report));
        }
        Ok(outcome)
    }

    /// Counts the words of all files once, on several threads.
    fn pass(&self, shared: Option<&Shared>) -> Result<Pass, Error> {
        let work = Work::new(&self.files)?;
        let mut arenas: Vec<Arena> = (0..self.threads).map(|_| Arena::default()).collect();
        let counts = Counts::new()?;
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
            // Where not all threads can be had, those that there are read the files.
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
        })
    }
}

struct Pass {
    took: Took,
    reports: Vec<Report>,
    unread: usize,
}

/// What one thread did in one pass.
struct Report {
    /// Seconds on a CPU, which a thread begins with none of.
    cpu: f64,
    words: u64,
    bytes: u64,
    rest: (u64, u64),
    longest: usize,
    /// Nothing without timers.
    books: Option<io::Result<Books>>,
}

/// One thread of a pass.
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
