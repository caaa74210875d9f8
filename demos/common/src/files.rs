//! Finds every regular file under a directory, and says why everything else was skipped.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A path that was skipped, and why.
pub struct Skipped {
    /// The path.
    pub path: PathBuf,
    /// The reason, without a full stop.
    pub why: String,
}

impl Skipped {
    /// Returns the record of a path that failed with this error.
    pub fn new(path: &Path, error: &io::Error) -> Skipped {
        Skipped {
            path: path.to_owned(),
            why: error.to_string(),
        }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Quoted, because a name may contain anything, line feeds and escape codes included.
        write!(f, "skipped {:?}: {}", self.path, self.why)
    }
}

/// The result of a search.
#[derive(Default)]
pub struct Found {
    /// Regular files, in no particular order.
    pub files: Vec<PathBuf>,
    /// The sum of their sizes.
    pub bytes: u64,
    /// Everything else.
    pub skipped: Vec<Skipped>,
}

/// Finds the regular files under `root`. Follows symbolic links, but enters each directory once,
/// so that a loop of links ends.
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
            "a link to a directory that was entered before",
        ));
    }
    for entry in path.read_dir()? {
        // An error here is about the directory. Entries listed before it are kept.
        paths.push(entry?.path());
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use std::os::unix::fs::symlink;

    #[test]
    fn skipped_paths_are_reported_with_a_reason() {
        let tree = Tree::new("files");
        tree.file("good", b"word").file("sub/good", b"word");
        symlink(tree.0.join("nowhere"), tree.0.join("dangling")).unwrap();
        symlink(tree.0.join("itself"), tree.0.join("itself")).unwrap();
        symlink("..", tree.0.join("sub/loop")).unwrap();
        symlink("/dev/null", tree.0.join("line\nfeed")).unwrap();
        symlink("good", tree.0.join("link")).unwrap();
        let found = find(&tree.0);
        // The link counts as the file that it leads to.
        assert_eq!((found.files.len(), found.bytes), (3, 12));
        let lines: Vec<String> = found.skipped.iter().map(Skipped::to_string).collect();
        assert_eq!(lines.len(), 4, "{lines:?}");
        for (name, why) in [
            ("dangling", "No such file"),
            ("itself", "symbolic link"),
            ("loop", "was entered before"),
            ("line\\nfeed", "not a regular file"),
        ] {
            let reported = |line: &String| line.contains(name) && line.contains(why);
            assert!(lines.iter().any(reported), "{name}: {lines:?}");
        }
    }
}
