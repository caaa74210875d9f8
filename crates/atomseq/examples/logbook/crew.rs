//! The threads: writers append the lines of files, folders fold them, a reader asks all the time,
//! and timers interrupt writers and folders with a handler that asks as well.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use super::books::{Book, Counts};
use super::files::Skipped;
use super::handler::{Asked, Ringing, could_be};
use super::patience::Patience;
use super::ranking::LONGEST;
use super::texts::Texts;
use super::words::{Rank, each_word};

/// How many lines a folder counts by itself before it folds the counts into the book.
const BATCH: usize = 256;

/// How often the reader asks.
const PAUSE: Duration = Duration::from_millis(2);

/// What is to be done.
pub struct Plan {
    /// The files.
    pub files: Vec<PathBuf>,
    /// How long they are together.
    pub bytes: u64,
    /// How many threads append.
    pub writers: usize,
    /// How many fold.
    pub folders: usize,
    /// How long the ranking is.
    pub top: usize,
    /// How often a second each of these threads is interrupted; 0 is never.
    pub hertz: u32,
}

/// What a run has come to.
pub struct Outcome {
    /// From the first file to the last count.
    pub elapsed: Duration,
    /// How many lines were counted.
    pub lines: usize,
    /// How often each word came.
    pub counts: Counts,
    /// The most frequent words, as the book had them in the end.
    pub ranks: Vec<Rank>,
    /// What the reader was told.
    pub reader: Answers,
    /// What handlers were told.
    pub handlers: Answers,
    /// Files that had to be left out.
    pub skipped: Vec<Skipped>,
}

/// How often somebody asked for the ranking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// In all.
    pub asked: u64,
    /// Without an answer.
    pub refused: u64,
    /// With an answer that cannot be: out of order, or with a word twice.
    pub wrong: u64,
}

/// One thread does it all.
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
        reader: Answers::default(),
        handlers: Answers::default(),
        skipped: texts.skipped(),
    }
}

/// What the threads of a run share beside the book.
struct Progress<'a> {
    texts: Texts<'a>,
    /// How many writers are still at work.
    writing: AtomicUsize,
    /// How many folders are.
    folding: AtomicUsize,
    lines: AtomicUsize,
    /// A thread has panicked: the others need not wait for it.
    failed: AtomicBool,
    /// Why a thread was not interrupted.
    fault: OnceLock<String>,
}

/// Every way but `alone`.
///
/// # Errors
///
/// A sentence, if threads cannot be started or interrupted.
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
    let handlers = asked.answers();
    let mut ranks = [Rank::NONE; LONGEST];
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

/// Starts a thread; if that fails, those that were started before wait for nobody.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    progress: &Progress,
    name: String,
    work: impl FnOnce() + Send + 'scope,
) -> Result<(), String> {
    let started = thread::Builder::new().name(name).spawn_scoped(scope, work);
    started.map(drop).map_err(|error| {
        progress.failed.store(true, Ordering::Release);
        format!("a thread cannot be started: {error}")
    })
}

impl Progress<'_> {
    /// A thread's work, interrupted so often, after which one less is at work.
    fn at_work(&self, working: &AtomicUsize, asked: &Asked, hertz: u32, work: impl FnOnce()) {
        struct Leaving<'a>(&'a AtomicUsize, &'a AtomicBool);
        impl Drop for Leaving<'_> {
            fn drop(&mut self) {
                if thread::panicking() {
                    self.1.store(true, Ordering::Release);
                }
                // Release: pairs with the Acquire of those who wait for the last one: what it did
                // comes before.
                self.0.fetch_sub(1, Ordering::Release);
            }
        }
        let _leaving = Leaving(working, &self.failed);
        let ringing = (hertz > 0).then(|| Ringing::on_this_thread(asked, hertz));
        if let Some(Err(sentence)) = &ringing {
            // Of several sentences one is enough.
            let _ = self.fault.set(sentence.clone());
        }
        work();
    }

    fn has_failed(&self) -> bool {
        // Acquire: pairs with the Release of the one that failed.
        self.failed.load(Ordering::Acquire)
    }
}

/// Appends the lines of one file after the other.
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

/// Takes lines and counts their words until nobody appends any more.
fn fold(book: &impl Book, progress: &Progress) {
    let (mut counts, mut batch) = (Counts::new(), 0);
    let mut patience = Patience::new();
    loop {
        // Acquire: pairs with the Release of the last writer. Looked at before the queue, so that
        // what it appended is seen.
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

/// Asks until nobody folds any more.
fn read(book: &impl Book, progress: &Progress, top: usize) -> Answers {
    let mut answers = Answers::default();
    let mut ranks = [Rank::NONE; LONGEST];
    // Acquire: pairs with the Release of the last folder.
    while progress.folding.load(Ordering::Acquire) > 0 {
        let count = book.most_frequent(&mut ranks[..top]);
        answers.asked += 1;
        answers.wrong += u64::from(!could_be(&ranks[..count]));
        thread::sleep(PAUSE);
    }
    answers
}
