//! The texts of files, which threads take one after the other, and the files that could not be
//! read.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use demo_common::files::Skipped;

/// The files of a run.
pub struct Texts<'a> {
    files: &'a [PathBuf],
    next: AtomicUsize,
    skipped: Mutex<Vec<Skipped>>,
}

impl<'a> Texts<'a> {
    /// Starts with the first of these files.
    pub fn new(files: &'a [PathBuf]) -> Texts<'a> {
        Texts {
            files,
            next: AtomicUsize::new(0),
            skipped: Mutex::default(),
        }
    }

    /// Returns the text of the next file that has one.
    pub fn next(&self) -> Option<String> {
        loop {
            // Relaxed: an index, which each thread gets once.
            let file = self.files.get(self.next.fetch_add(1, Ordering::Relaxed))?;
            let why = match fs::read(file).map(String::from_utf8) {
                Ok(Ok(text)) => return Some(text),
                Ok(Err(error)) => format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to()),
                Err(error) => error.to_string(),
            };
            let path = file.clone();
            let mut skipped = self.skipped.lock().unwrap_or_else(PoisonError::into_inner);
            skipped.push(Skipped { path, why });
        }
    }

    /// Returns the files that could not be read, sorted by path.
    pub fn skipped(self) -> Vec<Skipped> {
        let skipped = self.skipped.into_inner();
        let mut skipped = skipped.unwrap_or_else(PoisonError::into_inner);
        skipped.sort_by(|a, b| a.path.cmp(&b.path));
        skipped
    }
}
