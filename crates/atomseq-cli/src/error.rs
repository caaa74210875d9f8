//! Why a command failed, each in a sentence.

use std::{fmt, io};

/// A failure, for which the command exits with code 1. (Bad arguments exit with code 2 before
/// anything runs.)
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Standard output could not be written. If it is a closed pipe, no error is printed.
    #[error("cannot write the result: {0}")]
    Output(#[from] io::Error),
    /// Cases of atomseq lost, duplicated or miscounted something: a sentence each.
    #[error("{0}; its figures would be worthless, so there are none")]
    Wrong(String),
    /// The system refused something that is measured, or needed to measure.
    #[error("{0}, so there is no result; if a sandbox refuses it, allow it there")]
    Refused(#[from] Refused),
    /// `torture` found a violation, or no thread made progress.
    #[error("{0}")]
    Tortured(String),
    /// The system refused a thread of `torture`.
    #[error(
        "cannot start the threads of `torture`: {0}; raise the limit on threads (`ulimit -u`, the container's pids \
         limit) or on memory (`ulimit -v`)"
    )]
    Torturer(#[source] io::Error),
    /// The system refused a thread.
    #[error(
        "cannot start more than {started} of {wanted} threads: {source}; ask for fewer, or raise the limit on threads \
         (`ulimit -u`, the container's pids limit) or on memory (`ulimit -v`)"
    )]
    Thread {
        /// How many had started.
        started: usize,
        /// How many were to run.
        wanted: usize,
        /// What the system said.
        source: io::Error,
    },
}

/// Something that the system refused. Plain data, so that a child process can pass it to its
/// parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What was refused: "the system refused to …".
    pub what: &'static str,
    /// The error number; 0 if there is none.
    pub errno: i32,
}

impl Refused {
    /// Returns the error of the last system call.
    #[cfg(target_os = "linux")]
    pub fn now(what: &'static str) -> Self {
        let errno = io::Error::last_os_error().raw_os_error();
        let errno = errno.unwrap_or_default();
        Self { what, errno }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the system refused to {}", self.what)?;
        match self.errno {
            0 => Ok(()),
            errno => write!(f, ": {}", io::Error::from_raw_os_error(errno)),
        }?;
        match self.errno {
            // Of all that the command requests, only a real-time signal is refused so.
            libc::EAGAIN => f.write_str(" (raise the limit on queued signals: `ulimit -i`)"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Refused {}

impl Error {
    /// Returns whether the reader of standard output has closed the pipe.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
