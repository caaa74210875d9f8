//! Files, one after the other for whoever takes the next; and what could not be read.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::files::Skipped;

/// The files of a run.
pub struct Texts<'a> {
    files: &'a [PathBuf],
    next: AtomicUsize,
    skipped: Mutex<Vec<Skipped>>,
}

impl<'a> Texts<'a> {
    /// Those files, none taken yet.
    pub fn new(files: &'a [PathBuf]) -> Texts<'a> {
        Texts {
            files,
            next: AtomicUsize::new(0),
            skipped: Mutex::default(),
        }
    }

    /// The text of the next file that has one.
    pub fn next(&self) -> Option<String> {
        loop {
            // Relaxed: a number that each thread gets another one of.
            let file = self.files.get(self.next.fetch_add(1, Ordering::Relaxed))?;
            let why = match fs::read(file).map(String::from_utf8) {
                Ok(Ok(text)) => return Some(text),
                Ok(Err(error)) => format!(
                    "it is not text in UTF-8 from byte {} on",
                    error.utf8_error().valid_up_to()
                ),
                Err(error) => error.to_string(),
            };
            let path = file.clone();
            let mut skipped = self.skipped.lock().unwrap_or_else(PoisonError::into_inner);
            skipped.push(Skipped { path, why });
        }
    }

    /// What had to be left out, in the order of paths.
    pub fn skipped(self) -> Vec<Skipped> {
        let skipped = self.skipped.into_inner();
        let mut skipped = skipped.unwrap_or_else(PoisonError::into_inner);
        skipped.sort_by(|a, b| a.path.cmp(&b.path));
        skipped
    }
}
