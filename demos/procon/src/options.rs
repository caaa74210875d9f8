//! The command line.

use std::path::PathBuf;

use clap::Parser;
use demo_common::threads;

use super::files::{self, Input};
use super::mechanisms::{self, Mechanism};

/// Copies a file from one thread to another through a buffer that a mutex and two conditions guard,
/// and compares the copy with the file: procon-64 of B91, section 4.3.
///
/// Each block of the file is put into a slot and taken out of it under the mutex. An option selects
/// the mechanism of the mutex. The report has the columns of B91's table 3, which shows the effect
/// of the mechanism on the program.
#[derive(Parser)]
#[command(
    name = "procon",
    max_term_width = 100,
    after_help = after_help(),
)]
pub struct Options {
    /// The file to copy. [default: the largest library of the compiler on the path, else this
    /// program]
    file: Option<PathBuf>,
    /// The copy, which every run overwrites. [default: the copy is compared and discarded]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A mechanism of the mutex; may be given several times. [default: interlocked]
    #[arg(long, short, value_name = "NAME")]
    mechanism: Vec<String>,
    /// All mechanisms that these CPUs allow.
    #[arg(long)]
    all: bool,
    /// The number of CPUs for the two threads: one for both, as in B91, or one for each.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    cpus: u8,
    /// The number of slots in the buffer, 1 to 65536.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    slots: u32,
    /// The size of a slot in bytes, 1 to 1048576.
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    block: u32,
    /// Runs with each mechanism, 1 to 1000. The report has their means, as B91 does, and the
    /// shortest and longest time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
}

fn after_help() -> String {
    let mut text = "Mechanisms:\n".to_string();
    for mechanism in &mechanisms::ALL {
        text += &format!("  {:<24}{}\n", mechanism.name, mechanism.about);
    }
    text += &format!(
        "\n{} exclude the signal handlers of one thread only (scope SameThread): a mutex on them around \
         data of two threads does not compile.\n\nExit status: 0 if every copy is correct, 1 if one is \
         not or could not be made, 2 if the arguments make no sense.",
        mechanisms::FOR_HANDLERS.join(", ")
    );
    text
}

/// The work of a run.
pub struct Plan {
    pub input: Input,
    pub output: Option<PathBuf>,
    pub mechanisms: Vec<&'static Mechanism>,
    /// The producer's CPU and the consumer's.
    pub cpus: [usize; 2],
    pub slots: usize,
    pub block: usize,
    pub runs: u16,
    /// A sentence for each mechanism that `--all` leaves out here.
    pub left_out: Vec<String>,
}

/// The maximum size of the buffer.
const MAX_BYTES: usize = 1 << 30;

impl Options {
    /// Checks the options against the file and the machine. An error is a sentence.
    pub fn plan(&self) -> Result<Plan, String> {
        let cpus = self.cpus()?;
        let one_cpu = cpus[0] == cpus[1];
        let (mechanisms, left_out) = self.mechanisms(one_cpu)?;
        let (slots, block) = (self.slots as usize, self.block as usize);
        if slots * block > MAX_BYTES {
            return Err(format!(
                "{slots} slots of {block} bytes are more than {MAX_BYTES} bytes; give fewer or smaller slots"
            ));
        }
        let input = match &self.file {
            Some(file) => Input::new(file, None)?,
            None => Input::default()?,
        };
        let lost = self.output.as_ref();
        if let Some(output) = lost.filter(|output| files::are_the_same(&input.path, output)) {
            return Err(format!(
                "{} is the input itself, which would be overwritten; give another output",
                output.display()
            ));
        }
        Ok(Plan {
            input,
            output: self.output.clone(),
            mechanisms,
            cpus,
            slots,
            block,
            runs: self.runs,
            left_out,
        })
    }

    /// The producer's CPU and the consumer's.
    fn cpus(&self) -> Result<[usize; 2], String> {
        let cpus = threads::cpus()
            .map_err(|error| format!("the list of CPUs could not be read: {error}"))?;
        match (self.cpus, cpus.as_slice()) {
            (1, [only, ..]) => Ok([*only, *only]),
            (_, [first, second, ..]) => Ok([*first, *second]),
            _ => Err("this process may use one CPU only; omit --cpus".to_string()),
        }
    }

    /// Returns the mechanisms to run, and a sentence for each one left out.
    fn mechanisms(&self, one_cpu: bool) -> Result<(Vec<&'static Mechanism>, Vec<String>), String> {
        let ready = |mechanism: &Mechanism| match mechanism.one_cpu && !one_cpu {
            true => Err(format!(
                "{} excludes the threads of one CPU only: its scope is SameCpu, and it needs --cpus 1",
                mechanism.name
            )),
            false => (mechanism.prepare)().map_err(|error| format!("{}: {error}", mechanism.name)),
        };
        let mut chosen: Vec<&Mechanism> = Vec::new();
        if self.all {
            let mut left_out = Vec::new();
            for mechanism in &mechanisms::ALL {
                match ready(mechanism) {
                    Ok(()) => chosen.push(mechanism),
                    Err(sentence) => left_out.push(sentence),
                }
            }
            return Ok((chosen, left_out));
        }
        for name in &self.mechanism {
            let mechanism = mechanisms::find(name)?;
            ready(mechanism)?;
            if !chosen.iter().any(|known| known.name == mechanism.name) {
                chosen.push(mechanism);
            }
        }
        if chosen.is_empty() {
            chosen.push(&mechanisms::ALL[0]);
        }
        Ok((chosen, Vec::new()))
    }
}
