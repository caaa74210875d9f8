//! What every way to count shares: the threads, the files and who reads which, the statistics.
//!
//! A thread takes a share of the list at a time and puts it into its CPU's queue; a thread that
//! finds its CPU's queue empty and the list used up steals from other CPUs.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use atomseq::percpu::{Counter, Error, Histogram, Queue};

use super::files::Skipped;
use super::words;

/// How many files a thread takes off the list at a time.
const SHARE: usize = 32;

/// What was read, kept a CPU, without an atomic instruction.
pub struct Statistics {
    pub files: Counter,
    pub bytes: Counter,
    pub words: Counter,
    /// Bytes a file.
    pub sizes: Histogram,
}

/// One pass over the files.
pub struct Work<'f> {
    files: &'f [PathBuf],
    /// Where the part of the list begins that is in no queue yet.
    next: AtomicUsize,
    queue: Queue<usize>,
    pub statistics: Statistics,
    skipped: Mutex<Vec<Skipped>>,
}

impl<'f> Work<'f> {
    pub fn new(files: &'f [PathBuf]) -> Result<Work<'f>, Error> {
        Ok(Work {
            files,
            next: AtomicUsize::new(0),
            queue: Queue::try_new()?,
            statistics: Statistics {
                files: Counter::try_new()?,
                bytes: Counter::try_new()?,
                words: Counter::try_new()?,
                sizes: Histogram::try_powers_of_two()?,
            },
            skipped: Mutex::new(Vec::new()),
        })
    }

    /// Reads every file on this thread.
    pub fn alone(&self, mut count: impl FnMut(&[u8])) {
        let mut buffer = words::buffer();
        for path in self.files {
            self.read(path, &mut buffer, &mut count);
        }
    }

    /// Reads files until none is left, as one of several threads that read each file once together.
    pub fn share(&self, mut count: impl FnMut(&[u8])) {
        let mut buffer = words::buffer();
        let mut own = 0..0;
        while let Some(index) = self.next_file(&mut own) {
            self.read(&self.files[index], &mut buffer, |word| count(word));
        }
    }

    /// Reads every file once, on as many threads as there are states, which come back.
    pub fn together<T: Send>(
        &self,
        states: Vec<T>,
        count: impl Fn(&mut T, &[u8]) + Sync,
    ) -> Vec<T> {
        let count = &count;
        let work = move |mut state: T| {
            self.share(|word| count(&mut state, word));
            state
        };
        let mut states = states.into_iter();
        let first = states.next();
        thread::scope(|scope| {
            // Where no further thread can be had, those that there are read the files.
            let others: Vec<_> = states
                .map_while(|state| {
                    thread::Builder::new()
                        .spawn_scoped(scope, move || work(state))
                        .ok()
                })
                .collect();
            let mut done: Vec<T> = first.into_iter().map(work).collect();
            for other in others {
                match other.join() {
                    Ok(state) => done.push(state),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            done
        })
    }

    /// How many paths could not be read, or not to the end.
    pub fn skipped(&self) -> usize {
        let skipped = self.skipped.lock();
        skipped.unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Which.
    pub fn into_skipped(self) -> Vec<Skipped> {
        self.skipped
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The index of a file that is this thread's to read; `own` is what it could not queue.
    fn next_file(&self, own: &mut Range<usize>) -> Option<usize> {
        if let Some(index) = own.next().or_else(|| self.queue.pop()) {
            return Some(index);
        }
        // Relaxed: the files were there before the threads.
        let first = self.next.fetch_add(SHARE, Ordering::Relaxed);
        if first >= self.files.len() {
            return self.queue.steal();
        }
        *own = first..self.files.len().min(first + SHARE);
        let index = own.next();
        while let Some(next) = own.clone().next() {
            if self.queue.push(next).is_err() {
                break;
            }
            own.start += 1;
        }
        index
    }

    fn read(&self, path: &Path, buffer: &mut [u8], mut count: impl FnMut(&[u8])) {
        let mut found = 0;
        let read = open(path).and_then(|file| {
            words::each_word(file, buffer, |word| {
                found += 1;
                count(word);
            })
        });
        self.statistics.words.add(found);
        match read {
            Ok(bytes) => {
                self.statistics.files.increment();
                self.statistics.bytes.add(bytes);
                self.statistics.sizes.record(bytes);
            }
            Err(error) => self
                .skipped
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(Skipped::new(path, &error)),
        }
    }
}

/// Opens what was a regular file when it was found; it may have been replaced since.
fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file any more")),
    }
}
