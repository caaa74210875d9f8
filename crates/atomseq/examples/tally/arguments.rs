//! The command line.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

pub const HELP: &str = "\
Counts the words in every file under a directory, in several ways, and compares them.

Usage: tally [DIRECTORY] [--threads N] [--top K] [--runs N]

  DIRECTORY    where to look; default: the Rust documentation that rustup installed, else `.`
  --threads N  how many threads count, 1 to 1024; default: one a CPU
  --top K      how many words to print; default: 10
  --runs N     how often each way runs, in turn; the best run counts; default: 1
  --help       this text

A word is a run of ASCII letters, digits, underscores and bytes beyond ASCII; a longer run than
65,536 bytes counts as its pieces. Symbolic links are followed, and each directory is entered once.
What is not a regular file or cannot be read is reported, skipped and counted.

Exit status: 0 all counts agree, 1 they differ, 2 the arguments make no sense.
";

/// What is asked for.
pub enum Request {
    Help,
    Tally(Options),
}

pub struct Options {
    pub directory: PathBuf,
    /// Why this directory, if nobody asked for it.
    pub chosen: Option<&'static str>,
    pub threads: usize,
    pub top: usize,
    pub runs: usize,
}

/// Reads the command line; an error is a sentence.
pub fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Request, String> {
    let mut directory = None;
    let (mut threads, mut top, mut runs) = (None, 10, 1);
    let mut only_names = false;
    while let Some(argument) = arguments.next() {
        let text = argument.to_str().filter(|_| !only_names);
        let (option, value) = match text.map(|text| text.split_once('=').unwrap_or((text, ""))) {
            Some((option, value)) if option.starts_with("--") => {
                let given = text.is_some_and(|text| text.contains('='));
                (option, given.then(|| OsString::from(value)))
            }
            Some(("-h", "")) => return Ok(Request::Help),
            Some((option, _)) if option.starts_with('-') && option != "-" => {
                return Err(format!("there is no option {option}"));
            }
            _ => {
                if let Some(first) = directory.replace(PathBuf::from(&argument)) {
                    return Err(format!(
                        "one directory at a time, not {first:?} and {argument:?}"
                    ));
                }
                continue;
            }
        };
        let mut number = |least, most| {
            let value = value.clone().or_else(|| arguments.next());
            self::number(option, value.as_deref(), least, most)
        };
        match option {
            "--help" => return Ok(Request::Help),
            "--threads" => threads = Some(number(1, 1024)?),
            "--top" => top = number(0, usize::MAX)?,
            "--runs" => runs = number(1, 1000)?,
            "--" => only_names = true,
            _ => return Err(format!("there is no option {option}")),
        }
    }
    let (directory, chosen) = match directory {
        Some(directory) if !directory.exists() => {
            return Err(format!("there is no {directory:?}, or no way to reach it"));
        }
        Some(directory) => (directory, None),
        None => default_directory(),
    };
    Ok(Request::Tally(Options {
        directory,
        chosen,
        threads: threads.unwrap_or_else(cpus),
        top,
        runs,
    }))
}

fn number(option: &str, value: Option<&OsStr>, least: usize, most: usize) -> Result<usize, String> {
    let range = match most {
        usize::MAX => format!("a number of at least {least}"),
        most => format!("a number from {least} to {most}"),
    };
    let value = value.ok_or_else(|| format!("{option} needs {range}"))?;
    let number = value.to_str().and_then(|text| text.parse().ok());
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("{option} needs {range}, not {value:?}"))
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get().min(1024))
}

/// The documentation next to the compiler that is on the path, if it is there.
pub fn default_directory() -> (PathBuf, Option<&'static str>) {
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
            Some("the current directory: there is no Rust documentation from rustup here"),
        ),
    }
}
