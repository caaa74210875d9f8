//! The files of one pass, and which thread reads which.
//!
//! A thread takes a share of the list at a time and pushes it onto its CPU's queue. A thread that
//! finds its CPU's queue empty and the list used up steals from other CPUs.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use atomseq::percpu::{Counter, Error, Queue};

use super::words;

/// The number of files that a thread takes off the list at a time.
const SHARE: usize = 32;

/// One pass over the files.
pub struct Work<'f> {
    files: &'f [PathBuf],
    /// The index of the first file that is in no queue yet.
    next: AtomicUsize,
    queue: Queue<usize>,
    skipped: Counter,
}

impl<'f> Work<'f> {
    pub fn new(files: &'f [PathBuf]) -> Result<Work<'f>, Error> {
        Ok(Work {
            files,
            next: AtomicUsize::new(0),
            queue: Queue::try_new()?,
            skipped: Counter::try_new()?,
        })
    }

    /// Reads files until none is left, as one of several threads that together read each file once.
    /// Calls `count` with every word.
    pub fn share(&self, mut count: impl FnMut(&[u8])) {
        let mut buffer = words::buffer();
        let mut own = 0..0;
        while let Some(index) = self.next_file(&mut own) {
            let read = open(&self.files[index])
                .and_then(|file| words::each_word(file, &mut buffer, &mut count));
            if read.is_err() {
                self.skipped.increment();
            }
        }
    }

    /// Returns how many files could not be read to their end.
    pub fn skipped(&self) -> u64 {
        self.skipped.sum()
    }

    /// Returns the index of a file for this thread to read. `own` is the part of its share for
    /// which the queue had no memory.
    fn next_file(&self, own: &mut Range<usize>) -> Option<usize> {
        if let Some(index) = own.next().or_else(|| self.queue.pop()) {
            return Some(index);
        }
        // Relaxed: the list was complete before the threads started.
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
}

/// Opens a file that was regular when it was found; it may have been replaced since.
fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file any more")),
    }
}
