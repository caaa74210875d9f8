//! The command line of a demo, and how the process exits.
//!
//! Every demo is a function of arguments and two writers, so that tests can call it. It returns the
//! exit status: 0 for success, 1 for a failed check, 2 for arguments that make no sense.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;

/// Parses a demo's arguments and passes the options to `work`, which returns the exit status.
///
/// Prints the help to `out` where it is asked for, and one sentence about bad arguments to `err`.
///
/// # Errors
///
/// Those of writing to `out` or `err`, and those that `work` returns.
pub fn run<O: Parser>(
    program: &str,
    arguments: impl Iterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
    work: impl FnOnce(O, &mut dyn Write, &mut dyn Write) -> io::Result<u8>,
) -> io::Result<u8> {
    let arguments = std::iter::once(OsString::from(program)).chain(arguments);
    match O::try_parse_from(arguments) {
        Ok(options) => work(options, out, err),
        Err(help) if !help.use_stderr() => write!(out, "{help}").map(|()| 0),
        Err(error) => {
            // clap lists missing arguments on lines of their own, up to an empty one.
            let text = error.to_string();
            let lines = text.lines().take_while(|line| !line.is_empty());
            let sentence = lines.map(str::trim).collect::<Vec<_>>().join(" ");
            refuse(program, sentence.trim_start_matches("error: "), err)
        }
    }
}

/// Reports bad arguments in one sentence, and returns their exit status.
///
/// # Errors
///
/// Those of writing to `err`.
pub fn refuse(program: &str, sentence: &str, err: &mut dyn Write) -> io::Result<u8> {
    writeln!(err, "{program}: {sentence} (see --help)").map(|()| 2)
}

/// Runs a demo on the process's own arguments and streams.
pub fn main(
    program: &str,
    run: impl FnOnce(
        std::iter::Skip<std::env::ArgsOs>,
        &mut dyn Write,
        &mut dyn Write,
    ) -> io::Result<u8>,
) -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    exit_code(
        program,
        run(arguments, &mut io::stdout(), &mut io::stderr()),
    )
}

/// Returns the exit code for a run. A reader that closes the pipe early (`logbook | head`) is not a
/// failure.
pub fn exit_code(program: &str, result: io::Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: cannot write: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the directory to read, and a sentence about it if it is the default one.
///
/// # Errors
///
/// A sentence, if there is no such directory or file.
pub fn directory(given: Option<&Path>) -> Result<(PathBuf, Option<&'static str>), String> {
    match given {
        Some(directory) if !directory.exists() => Err(format!(
            "{directory:?} does not exist, or it cannot be reached"
        )),
        Some(directory) => Ok((directory.to_owned(), None)),
        None => Ok(default_directory()),
    }
}

/// Returns the documentation of the compiler on the path if it is installed, else `.`.
fn default_directory() -> (PathBuf, Option<&'static str>) {
    let asked = Command::new("rustc").args(["--print", "sysroot"]).output();
    let documentation = asked
        .ok()
        .filter(|answer| answer.status.success())
        .and_then(|answer| String::from_utf8(answer.stdout).ok())
        .map(|sysroot| PathBuf::from(sysroot.trim_end()).join("share/doc/rust/html"))
        .filter(|directory| directory.is_dir());
    match documentation {
        Some(directory) => (
            directory,
            Some("the Rust documentation that rustup installed"),
        ),
        None => (
            PathBuf::from("."),
            Some("the current directory: rustup installed no Rust documentation here"),
        ),
    }
}

/// Returns the number of threads to start: as many as asked for, else one for each CPU.
pub fn threads(asked: Option<u16>) -> usize {
    match asked {
        Some(threads) => usize::from(threads),
        None => std::thread::available_parallelism().map_or(1, |cpus| cpus.get().min(1024)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let code = |kind: io::ErrorKind| format!("{:?}", exit_code("demo", Err(kind.into())));
        let success = format!("{:?}", ExitCode::SUCCESS);
        assert_eq!(code(io::ErrorKind::BrokenPipe), success);
        let failure = format!("{:?}", ExitCode::FAILURE);
        assert_eq!(code(io::ErrorKind::StorageFull), failure);
    }
}
