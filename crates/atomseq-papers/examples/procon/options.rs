//! The command line.

use std::path::PathBuf;

use clap::Parser;

use super::files::{self, Input};
use super::mechanisms::{self, Mechanism};
use super::threads;

/// Copies a file from one thread to another through a buffer of so many slots, guarded by a mutex
/// and two conditions, and compares what came out with what went in: procon-64 of B91, section 4.3.
///
/// Each block of the file is put into a slot and taken out of it under the mutex. Which mechanism
/// the mutex is made of is an option; its effect on the program is what B91's table 3 shows, so its
/// columns are printed.
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
    /// Where to copy it to; overwritten by each run. [default: what comes out is compared and
    /// discarded]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What the mutex is made of; may be given several times. [default: interlocked]
    #[arg(long, short, value_name = "NAME")]
    mechanism: Vec<String>,
    /// All mechanisms that there are for these CPUs, beside B91's row.
    #[arg(long)]
    all: bool,
    /// How many CPUs the two threads have: one for both, as in B91, or one each.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    cpus: u8,
    /// How many slots the buffer has, 1 to 65536.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    slots: u32,
    /// How many bytes a slot has room for, 1 to 1048576.
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    block: u32,
    /// How often each mechanism runs; the fastest run counts, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
}

fn after_help() -> String {
    let mut text = "Mechanisms:\n".to_string();
    for mechanism in &mechanisms::ALL {
        text += &format!("  {:<24}{}\n", mechanism.name, mechanism.about);
    }
    text += &format!(
        "\n{} exclude the signal handlers of one thread only (scope SameThread): a mutex made of them around \
         data of two threads does not compile.\n\nExit status: 0 what came out is what went in, 1 it is not or could not be \
         copied, 2 the arguments make no sense.",
        mechanisms::FOR_HANDLERS.join(", ")
    );
    text
}

/// What is to be done.
pub struct Plan {
    pub input: Input,
    pub output: Option<PathBuf>,
    pub mechanisms: Vec<&'static Mechanism>,
    /// The producer's CPU and the consumer's.
    pub cpus: [usize; 2],
    pub slots: usize,
    pub block: usize,
    pub runs: u16,
    /// Sentences about mechanisms that `--all` leaves out here.
    pub left_out: Vec<String>,
}

/// More than that a buffer must not take.
const MAX_BYTES: usize = 1 << 30;

impl Options {
    /// Looks at the file and the machine; an error is a sentence.
    pub fn plan(&self) -> Result<Plan, String> {
        let cpus = self.cpus()?;
        let one_cpu = cpus[0] == cpus[1];
        let (mechanisms, left_out) = self.mechanisms(one_cpu)?;
        let (slots, block) = (self.slots as usize, self.block as usize);
        if slots * block > MAX_BYTES {
            return Err(format!(
                "{slots} slots of {block} bytes are more than {MAX_BYTES} bytes; give fewer or smaller ones"
            ));
        }
        let input = match &self.file {
            Some(file) => Input::new(file, None)?,
            None => Input::default()?,
        };
        let lost = self.output.as_ref();
        if let Some(output) = lost.filter(|output| files::are_the_same(&input.path, output)) {
            return Err(format!(
                "{} is the input itself, which would be lost; give another output",
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
        let cpus = threads::cpus().map_err(|error| format!("the CPUs are not known: {error}"))?;
        match (self.cpus, cpus.as_slice()) {
            (1, [only, ..]) => Ok([*only, *only]),
            (_, [first, second, ..]) => Ok([*first, *second]),
            _ => Err("this process may use one CPU only; leave --cpus away".to_string()),
        }
    }

    /// Which are to run, and which not, and why.
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
