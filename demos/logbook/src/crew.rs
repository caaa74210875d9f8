//! The threads. Writers append the lines of files, folders count their words, and a reader reads
//! the ranking continually. Timers interrupt writers and folders, and the handler reads it too.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use demo_common::files::Skipped;

use super::books::{Book, Counts};
use super::handler::{Asked, Ringing, could_be};
use super::patience::Patience;
use super::ranking::MAX_RANKS;
use super::texts::Texts;
use super::words::{Rank, each_word};

/// The number of lines that a folder counts locally before it adds the counts to the book.
const BATCH: usize = 256;

/// The pause between two reads of the reader.
const PAUSE: Duration = Duration::from_millis(2);

/// The work of a run.
pub struct Plan {
    /// The files.
    pub files: Vec<PathBuf>,
    /// The sum of their sizes.
    pub bytes: u64,
    /// The number of threads that append lines.
    pub writers: usize,
    /// The number of threads that count them.
    pub folders: usize,
    /// The length of the ranking.
    pub top: usize,
    /// Interrupts per second on each of these threads; 0 for none.
    pub hertz: u32,
}

/// The results of a run.
pub struct Outcome {
    /// The time from the first file to the last count.
    pub elapsed: Duration,
    /// The number of lines counted.
    pub lines: usize,
    /// How often each word occurred.
    pub counts: Counts,
    /// The ranking at the end.
    pub ranks: Vec<Rank>,
    /// What the reader read.
    pub reader: Reads,
    /// What signal handlers read.
    pub handlers: Reads,
    /// Files that could not be read.
    pub skipped: Vec<Skipped>,
}

/// Reads of the ranking during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// All attempts.
    pub attempts: u64,
    /// Attempts that the book refused.
    pub refused: u64,
    /// Impossible results: out of order, or with a word twice.
    pub wrong: u64,
}

/// Does all of the work on one thread.
pub fn alone(plan: &Plan) -> Outcome {
    let texts = Texts::new(&plan.files);
    let start = Instant::now();
    let (mut counts, mut lines) = (Counts::new(), 0);
    while let Some(text) = texts.next() {
        for line in text.lines() {
            each_word(line, |word| *counts.entry(word).or_default() += 1);
            lines += 1;
        }
    }
    let ranks = counts.iter().map(|(word, count)| Rank::of(*count, word));
    let mut ranks: Vec<_> = ranks.collect();
    ranks.sort();
    ranks.truncate(plan.top);
    Outcome {
        elapsed: start.elapsed(),
        lines,
        counts,
        ranks,
        reader: Reads::default(),
        handlers: Reads::default(),
        skipped: texts.skipped(),
    }
}

/// What the threads of a run share besides the book.
struct Progress<'a> {
    texts: Texts<'a>,
    /// The number of writers that have not finished.
    writing: AtomicUsize,
    /// The number of folders that have not finished.
    folding: AtomicUsize,
    lines: AtomicUsize,
    /// Whether a thread has panicked or could not be started, so that the others must not wait.
    failed: AtomicBool,
    /// Why a thread has no timer.
    fault: OnceLock<String>,
}

/// Does the work with several threads that share `book`.
///
/// # Errors
///
/// A sentence, if a thread cannot be started or cannot have a timer.
pub fn run<B: Book>(book: B, plan: &Plan) -> Result<Outcome, String> {
    let progress = Progress {
        texts: Texts::new(&plan.files),
        writing: plan.writers.into(),
        folding: plan.folders.into(),
        lines: 0.into(),
        failed: false.into(),
        fault: OnceLock::new(),
    };
    let asked = Asked::new(&book, plan.top);
    let begun = Instant::now();
    let reader = thread::scope(|scope| {
        let (book, progress, asked) = (&book, &progress, &asked);
        for writer in 0..plan.writers {
            let work = move || {
                progress.at_work(&progress.writing, asked, plan.hertz, || {
                    write(book, progress)
                });
            };
            start(scope, progress, format!("writer-{writer}"), work)?;
        }
        for folder in 0..plan.folders {
            let work = move || {
                progress.at_work(&progress.folding, asked, plan.hertz, || {
                    fold(book, progress)
                });
            };
            start(scope, progress, format!("folder-{folder}"), work)?;
        }
        Ok::<_, String>(read(book, progress, plan.top))
    })?;
    if let Some(sentence) = progress.fault.into_inner() {
        return Err(sentence);
    }
    let elapsed = begun.elapsed();
    let handlers = asked.reads();
    let mut ranks = [Rank::NONE; MAX_RANKS];
    let count = book.most_frequent(&mut ranks[..plan.top]);
    Ok(Outcome {
        elapsed,
        lines: progress.lines.into_inner(),
        counts: book.counts(),
        ranks: ranks[..count].to_vec(),
        reader,
        handlers,
        skipped: progress.texts.skipped(),
    })
}

/// Starts a thread. If that fails, the threads started before stop waiting.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    progress: &Progress,
    name: String,
    work: impl FnOnce() + Send + 'scope,
) -> Result<(), String> {
    let started = thread::Builder::new().name(name).spawn_scoped(scope, work);
    started.map(drop).map_err(|error| {
        progress.failed.store(true, Ordering::Release);
        format!("a thread could not be started: {error}")
    })
}

impl Progress<'_> {
    /// Runs a thread's work with a timer, and then decrements `working`.
    fn at_work(&self, working: &AtomicUsize, asked: &Asked, hertz: u32, work: impl FnOnce()) {
        struct Leaving<'a>(&'a AtomicUsize, &'a AtomicBool);
        impl Drop for Leaving<'_> {
            fn drop(&mut self) {
                if thread::panicking() {
                    self.1.store(true, Ordering::Release);
                }
                // Release: pairs with the Acquire of the threads that wait for zero. They see
                // everything that this thread did.
                self.0.fetch_sub(1, Ordering::Release);
            }
        }
        let _leaving = Leaving(working, &self.failed);
        let ringing = (hertz > 0).then(|| Ringing::on_this_thread(asked, hertz));
        if let Some(Err(sentence)) = &ringing {
            // The first sentence is enough.
            let _ = self.fault.set(sentence.clone());
        }
        work();
    }

    fn has_failed(&self) -> bool {
        // Acquire: pairs with the Release of the failed thread.
        self.failed.load(Ordering::Acquire)
    }
}

/// Appends the lines of files until none is left.
fn write(book: &impl Book, progress: &Progress) {
    while let Some(text) = progress.texts.next() {
        for line in text.lines() {
            let mut line = Box::new(line.to_string());
            let mut patience = Patience::new();
            while let Err(full) = book.append(line) {
                if progress.has_failed() {
                    return;
                }
                line = full;
                patience.wait();
            }
        }
    }
}

/// Takes lines and counts their words until all writers have finished and the queue is empty.
fn fold(book: &impl Book, progress: &Progress) {
    let (mut counts, mut batch) = (Counts::new(), 0);
    let mut patience = Patience::new();
    loop {
        // Acquire: pairs with the Release of the last writer. Loaded before the queue is read, so
        // that the queue contains everything that writers appended.
        let last = progress.writing.load(Ordering::Acquire) == 0;
        if let Some(line) = book.take() {
            each_word(&line, |word| *counts.entry(word).or_default() += 1);
            batch += 1;
            patience = Patience::new();
            if batch < BATCH {
                continue;
            }
        }
        let idle = batch == 0;
        book.fold(&mut counts);
        progress.lines.fetch_add(batch, Ordering::Relaxed);
        batch = 0;
        if idle {
            if last || progress.has_failed() {
                return;
            }
            patience.wait();
        }
    }
}

/// Reads the ranking until all folders have finished.
fn read(book: &impl Book, progress: &Progress, top: usize) -> Reads {
    let mut reads = Reads::default();
    let mut ranks = [Rank::NONE; MAX_RANKS];
    // Acquire: pairs with the Release of the last folder.
    while progress.folding.load(Ordering::Acquire) > 0 {
        let count = book.most_frequent(&mut ranks[..top]);
        reads.attempts += 1;
        reads.wrong += u64::from(!could_be(&ranks[..count]));
        thread::sleep(PAUSE);
    }
    reads
}
