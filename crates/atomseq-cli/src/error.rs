//! Why a command could not do its work, each in a sentence.

use std::io;

/// A failure that ends the command with exit code 1. (Bad arguments end it with 2, before anything runs.)
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Standard output did not take what was written; when it is a closed pipe, nobody is left to tell.
    #[error("cannot write the result: {0}")]
    Output(#[from] io::Error),
    /// A benchmark's subject lost, duplicated or miscounted something.
    #[error(
        "{experiment}, case {case}, with {threads} threads: {fault}; its figures would be worthless, so there are none"
    )]
    Wrong {
        /// The experiment's name.
        experiment: &'static str,
        /// The case's name.
        case: &'static str,
        /// How many threads ran it.
        threads: usize,
        /// What was found.
        fault: String,
    },
    /// The torture found a law broken, or nothing going on any more.
    #[error("{0}")]
    Tortured(String),
    /// The system refused a thread of the torture.
    #[error(
        "cannot start the threads of the torture: {0}; raise the limit on threads (`ulimit -u`, the container's pids \
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

impl Error {
    /// Whether whoever read standard output has gone away.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
