//! What tests of the examples share: a directory of files to work on, and the run of an example's
//! `run`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

/// A directory that goes when the test ends.
pub struct Tree(pub PathBuf);

impl Tree {
    /// An empty one, of this process and name.
    pub fn new(name: &str) -> Tree {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Tree(path)
    }

    /// Writes a file in it, below directories that are made.
    pub fn file(&self, name: &str, content: &[u8]) -> &Tree {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How a program ended, and what it wrote.
pub struct Run {
    pub code: u8,
    pub out: String,
    pub err: String,
}

/// Calls a program's `run`.
pub fn run(
    program: impl FnOnce(std::vec::IntoIter<OsString>, &mut dyn Write, &mut dyn Write) -> io::Result<u8>,
    arguments: &[&dyn AsRef<OsStr>],
) -> Run {
    let arguments: Vec<OsString> = arguments
        .iter()
        .map(|argument| argument.as_ref().to_owned())
        .collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = program(arguments.into_iter(), &mut out, &mut err).unwrap();
    Run {
        code,
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}
