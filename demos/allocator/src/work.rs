//! Work that allocates: several threads count the words of all files. Each file has a map of its
//! own, with a string for every word, which another thread merges and frees.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use demo_common::files::Skipped;
use demo_common::progress::Progress;

/// How often each word occurred.
pub type Counts = HashMap<Box<[u8]>, u64>;

/// Counts the words of all files on `threads` threads. A word is a run of ASCII letters and digits.
pub fn count(files: &[PathBuf], threads: usize, progress: &Progress) -> (Counts, Vec<Skipped>) {
    let next = AtomicUsize::new(0);
    let (mut all, mut skipped) = (Counts::new(), Vec::new());
    thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for _ in 0..threads {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                // Relaxed: an index, which each thread gets once.
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let counts = fs::read(file).map(|bytes| count_words(&bytes));
                    let result = counts.map_err(|error| Skipped::new(file, &error));
                    // The receiver exists until all threads have sent everything.
                    let _ = send.send(result);
                }
            });
        }
        drop(send);
        for result in receive {
            progress.add(1);
            match result {
                Ok(counts) => merge(&mut all, counts),
                Err(skip) => skipped.push(skip),
            }
        }
    });
    (all, skipped)
}

fn count_words(bytes: &[u8]) -> Counts {
    let mut counts = Counts::new();
    let words = bytes.split(|byte| !byte.is_ascii_alphanumeric());
    for word in words.filter(|word| !word.is_empty()) {
        // One allocation for each occurrence, as in a program that does not avoid them.
        *counts.entry(Box::from(word)).or_default() += 1;
    }
    counts
}

fn merge(all: &mut Counts, counts: Counts) {
    for (word, count) in counts {
        *all.entry(word).or_default() += count;
    }
}
