//! The command line.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Parser, Subcommand, value_parser};

use super::fs_bench::FsBench;
use super::mechanisms::{self, Mechanism};
use super::parthenon::Parthenon;
use super::problem::Problem;
use super::text_format::{TextFormat, default_text};
use super::{Program, script};

/// Runs the applications of B91's table 3 with locks by each mechanism of mutual exclusion, checks
/// their results, and prints time and events beside the paper's.
///
/// Mechanisms that exclude the threads of a CPU, or all threads, run on kernel threads of one CPU.
/// Those that exclude one thread's signal handlers run on coroutines of one kernel thread, which a
/// signal preempts every 10 ms.
#[derive(Parser)]
#[command(
    name = "applications",
    max_term_width = 100,
    arg_required_else_help = false,
    after_help = after_help()
)]
pub struct Options {
    #[command(subcommand)]
    application: Application,
    #[command(flatten)]
    runs: Runs,
}

#[derive(Args)]
struct Runs {
    /// A mechanism of the locks; may be given several times. [default: on-cpu, emulation-trap,
    /// restarting and coroutine-trap]
    #[arg(long, short, value_name = "NAME", global = true)]
    mechanism: Vec<String>,
    /// All mechanisms.
    #[arg(long, global = true)]
    all: bool,
    /// Runs with each mechanism, 1 to 1000.
    #[arg(long, value_name = "N", global = true, default_value_t = 3, value_parser = value_parser!(u16).range(1..=1000))]
    runs: u16,
}

#[derive(Subcommand)]
enum Application {
    /// Proves theorems: refutes sets of clauses, with an or-parallel search by model elimination.
    Parthenon {
        /// Problems in TPTP's clause normal form. [default: four that are built in]
        files: Vec<PathBuf>,
        /// The number of threads, 1 to 64.
        #[arg(long, short = 'n', value_name = "N", default_value_t = 10, value_parser = value_parser!(u8).range(1..=64))]
        threads: u8,
        /// The number of inferences after which a problem is given up.
        #[arg(long, value_name = "N", default_value_t = INFERENCES, value_parser = value_parser!(u64).range(1..))]
        inferences: u64,
        /// Prints the proofs.
        #[arg(long)]
        proof: bool,
    },
    /// Runs a script of file operations against a multithreaded file server in memory.
    FsBench {
        /// Lines of: mkdir PATH, write PATH BYTES, copy FROM TO, search PATH WORD, list PATH,
        /// compile FROM TO, rename PATH NAME, remove PATH; `#` begins a comment. [default: a tree
        /// of sources is made, copied, searched and compiled]
        script: Option<PathBuf>,
        /// The server's threads, 1 to 32.
        #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u8).range(1..=32))]
        servers: u8,
        /// The clients, each of which runs the script in a directory of its own, 1 to 32.
        #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u8).range(1..=32))]
        clients: u8,
    },
    /// Breaks paragraphs into lines of least cost, from and to files of that server.
    TextFormat {
        /// The text; empty lines separate its paragraphs. [default: one of 4,000 paragraphs]
        file: Option<PathBuf>,
        /// The width of a line, 1 to 1000.
        #[arg(long, value_name = "N", default_value_t = 72, value_parser = value_parser!(u16).range(1..=1000))]
        width: u16,
        /// The server's threads, 1 to 32.
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = value_parser!(u8).range(1..=32))]
        servers: u8,
        /// The formatters, 1 to 32; B91's was one.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u8).range(1..=32))]
        formatters: u8,
    },
    /// B91's table 3: the programs above with their defaults, parthenon with 1 and 10 threads.
    Table3,
}

fn after_help() -> String {
    let mut text = String::new();
    for (title, is_kernel) in [
        ("Mechanisms on kernel threads of one CPU:\n", true),
        ("\nMechanisms on coroutines of one kernel thread:\n", false),
    ] {
        text += title;
        for mechanism in mechanisms::all().filter(|mechanism| mechanism.is_kernel == is_kernel) {
            text += &format!("  {:<24}{}\n", mechanism.name, mechanism.about);
        }
    }
    text + "\nExit status: 0 if every result is right, 1 if one is not or a run failed, 2 if the arguments \
            or files make no sense."
}

/// The programs to run, and how.
pub struct Plan {
    pub programs: Vec<Program>,
    pub mechanisms: Vec<&'static Mechanism>,
    pub runs: u16,
    /// A sentence for each mechanism that is not possible here, and was not named.
    pub left_out: Vec<String>,
}

/// The problems that are built in.
const PROBLEMS: [(&str, &str); 4] = [
    ("agatha", include_str!("../problems/agatha.p")),
    ("group", include_str!("../problems/group.p")),
    ("los", include_str!("../problems/los.p")),
    ("steamroller", include_str!("../problems/steamroller.p")),
];

/// The mechanisms of a run without `--mechanism` and `--all`: B91's two, on both packages.
const DEFAULT: [&str; 4] = ["on-cpu", "emulation-trap", "restarting", "coroutine-trap"];

fn parthenon(problems: Vec<Problem>, threads: u8, inferences: u64, prints: bool) -> Program {
    let searches = problems.into_iter().map(|problem| {
        Arc::new(Parthenon {
            problem,
            threads: threads.into(),
            inferences,
            prints,
        })
    });
    Program::Parthenon(searches.collect())
}

fn built_in() -> Result<Vec<Problem>, String> {
    let problems = PROBLEMS
        .iter()
        .map(|(name, text)| Problem::parse(name, text));
    problems.collect()
}

/// Reads a file. An error is a sentence.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes));
    match file {
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
        Ok(length) if length as u64 > MAX_FILE => {
            let path = path.display();
            Err(format!(
                "{path} has more than {MAX_FILE} bytes, which is too much"
            ))
        }
        Ok(_) => Ok(bytes),
    }
}

/// Reads a file of text. An error is a sentence.
pub fn read_text(path: &Path) -> Result<String, String> {
    let text = String::from_utf8(read(path)?);
    text.map_err(|_| format!("{} is not UTF-8", path.display()))
}

fn fs_bench(script: Option<&Path>, servers: u8, clients: u8) -> Result<Program, String> {
    let (name, text) = match script {
        None => ("the default script".to_string(), script::default()),
        Some(path) => (path.display().to_string(), read_text(path)?),
    };
    let bench = FsBench::new(&name, &text, servers.into(), clients.into())?;
    Ok(Program::FsBench(Arc::new(bench)))
}

fn text_format(text: &[u8], width: u16, servers: u8, formatters: u8) -> Program {
    let text = TextFormat::new(text, width.into(), servers.into(), formatters.into());
    Program::TextFormat(Arc::new(text))
}

impl Options {
    /// Reads the files and checks the options. An error is a sentence.
    pub fn plan(&self) -> Result<Plan, String> {
        let programs = match &self.application {
            Application::Parthenon {
                files,
                threads,
                inferences,
                proof,
            } => {
                let problems = match files[..] {
                    [] => built_in()?,
                    _ => files
                        .iter()
                        .map(|file| Problem::read(file))
                        .collect::<Result<_, _>>()?,
                };
                vec![parthenon(problems, *threads, *inferences, *proof)]
            }
            Application::FsBench {
                script,
                servers,
                clients,
            } => {
                vec![fs_bench(script.as_deref(), *servers, *clients)?]
            }
            Application::TextFormat {
                file,
                width,
                servers,
                formatters,
            } => {
                let text = file
                    .as_deref()
                    .map_or_else(|| Ok(default_text(PARAGRAPHS)), read)?;
                if text.iter().all(u8::is_ascii_whitespace) {
                    return Err("the text has no words, so there is nothing to format".to_string());
                }
                vec![text_format(&text, *width, *servers, *formatters)]
            }
            Application::Table3 => vec![
                text_format(&default_text(PARAGRAPHS), 72, 2, 1),
                fs_bench(None, 4, 4)?,
                parthenon(built_in()?, 1, INFERENCES, false),
                parthenon(built_in()?, 10, INFERENCES, false),
            ],
        };
        let (mechanisms, left_out) = self.mechanisms()?;
        Ok(Plan {
            programs,
            mechanisms,
            runs: self.runs.runs,
            left_out,
        })
    }

    fn mechanisms(&self) -> Result<(Vec<&'static Mechanism>, Vec<String>), String> {
        let named = self
            .runs
            .mechanism
            .iter()
            .map(|name| mechanisms::find(name));
        let named: Vec<_> = named.collect::<Result<_, _>>()?;
        let ready = |mechanism: &Mechanism| {
            let prepared = (mechanism.prepare)();
            prepared.map_err(|error| format!("{}: {error}", mechanism.name))
        };
        let is_default = named.is_empty() || self.runs.all;
        let (mut chosen, mut left_out): (Vec<&Mechanism>, _) = (Vec::new(), Vec::new());
        for mechanism in mechanisms::all() {
            let is_named = named.iter().any(|named| named.name == mechanism.name);
            if is_named {
                ready(mechanism)?;
                chosen.push(mechanism);
            } else if is_default && (self.runs.all || DEFAULT.contains(&mechanism.name)) {
                match ready(mechanism) {
                    Ok(()) => chosen.push(mechanism),
                    Err(sentence) => left_out.push(sentence),
                }
            }
        }
        Ok((chosen, left_out))
    }
}

/// The paragraphs of the default text.
const PARAGRAPHS: usize = 4_000;

/// The inferences after which a problem is given up, if the command line names none.
const INFERENCES: u64 = 20_000_000;

/// The maximum size of a file that is read, in bytes.
const MAX_FILE: u64 = 64 << 20;
