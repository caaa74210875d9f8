//! Finding the files: every regular file under a directory, and a sentence about everything else.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A path that was skipped, and why.
pub struct Skipped {
    pub path: PathBuf,
    pub why: String,
}

impl Skipped {
    pub fn new(path: &Path, error: &io::Error) -> Skipped {
        Skipped {
            path: path.to_owned(),
            why: error.to_string(),
        }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Quoted, for a name may hold anything, line feeds and escape codes included.
        write!(f, "skipped {:?}: {}", self.path, self.why)
    }
}

/// What there is under a directory.
#[derive(Default)]
pub struct Found {
    pub files: Vec<PathBuf>,
    pub bytes: u64,
    pub skipped: Vec<Skipped>,
}

/// Looks for regular files. Symbolic links are followed; a directory is entered once, however many
/// links lead to it, so that a loop of links ends.
pub fn find(root: &Path) -> Found {
    let mut found = Found::default();
    let mut entered = HashSet::new();
    let mut paths = vec![root.to_owned()];
    while let Some(path) = paths.pop() {
        let looked = look(&path, &mut entered, &mut paths, &mut found);
        if let Err(error) = looked {
            found.skipped.push(Skipped::new(&path, &error));
        }
    }
    found
}

fn look(
    path: &Path,
    entered: &mut HashSet<PathBuf>,
    paths: &mut Vec<PathBuf>,
    found: &mut Found,
) -> io::Result<()> {
    let metadata = path.metadata()?;
    if metadata.is_file() {
        found.bytes += metadata.len();
        found.files.push(path.to_owned());
        return Ok(());
    }
    if !metadata.is_dir() {
        return Err(io::Error::other("not a regular file"));
    }
    if !entered.insert(path.canonicalize()?) {
        return Err(io::Error::other(
            "a link to a directory that is counted already",
        ));
    }
    for entry in path.read_dir()? {
        // An error here is about the directory: what it listed before stays.
        paths.push(entry?.path());
    }
    Ok(())
}
