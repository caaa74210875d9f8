//! What the demos' tests share: a directory of files to work on, a captured run, and a process
//! that is not allowed timers.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

/// A directory that is removed when the test ends.
pub struct Tree(pub PathBuf);

impl Tree {
    /// Creates an empty directory for this process and name, beside the test's own executable.
    ///
    /// # Panics
    ///
    /// If it cannot be created.
    pub fn new(name: &str) -> Tree {
        let program = std::env::current_exe().expect("the path of this test");
        let path = program.with_file_name(format!("tree-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory beside this test");
        Tree(path)
    }

    /// Writes a file in it, and creates the directories above that file.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn file(&self, name: &str, content: &[u8]) -> &Tree {
        let path = self.0.join(name);
        let directory = path.parent().expect("the tree, at least");
        fs::create_dir_all(directory).expect("a directory in the tree");
        fs::write(path, content).expect("a file in the tree");
        self
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How a run ended, and what it wrote.
pub struct Run {
    /// The exit status.
    pub code: u8,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Run {
    /// Returns the cells of the first row of a table that has this many cells and this name.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn row(&self, name: &str, cells: usize) -> Vec<String> {
        let rows = self.out.lines().map(str::split_whitespace);
        let mut rows = rows.map(|row| row.map(str::to_string).collect::<Vec<_>>());
        let found = rows.find(|row| row.len() == cells && row[0] == name);
        found.unwrap_or_else(|| panic!("no {name} in:\n{}\n{}", self.out, self.err))
    }
}

/// Returns the number in a cell, which may have its digits in groups.
///
/// # Panics
///
/// If the cell is not a number.
pub fn number(cell: &str) -> u64 {
    let digits = cell.replace(',', "");
    digits
        .parse()
        .unwrap_or_else(|_| panic!("{cell:?} is not a number"))
}

/// Calls a demo's `run` with these arguments and captures what it writes.
///
/// # Panics
///
/// If the demo returns an error, or what it wrote is not UTF-8.
pub fn run(
    demo: impl FnOnce(std::vec::IntoIter<OsString>, &mut dyn Write, &mut dyn Write) -> io::Result<u8>,
    arguments: &[impl AsRef<OsStr>],
) -> Run {
    let arguments: Vec<OsString> = arguments
        .iter()
        .map(|argument| argument.as_ref().to_owned())
        .collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = demo(arguments.into_iter(), &mut out, &mut err).expect("vectors take all bytes");
    let text = |bytes| String::from_utf8(bytes).expect("demos write UTF-8");
    Run {
        code,
        out: text(out),
        err: text(err),
    }
}

/// Takes from this process the permission to create POSIX timers: the kernel counts them as queued
/// signals.
///
/// # Panics
///
/// If the limit cannot be changed.
#[cfg(target_os = "linux")]
pub fn forbid_timers() {
    // SAFETY: reads the limit into one, and sets one.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_SIGPENDING, &mut limit), 0);
        limit.rlim_cur = 0;
        assert_eq!(libc::setrlimit(libc::RLIMIT_SIGPENDING, &limit), 0);
    }
}
