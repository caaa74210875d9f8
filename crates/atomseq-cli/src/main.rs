//! The `atomseq` command: what this machine offers per-CPU code, and what it is worth here.

mod arguments;
mod bench;
mod conclusions;
mod doctor;
mod error;
mod machine;
mod process;
mod report;
mod torture;

use std::io::{self, Write};

#[cfg(target_os = "linux")]
use atomseq_stress::child;
use atomseq_stress::{memory, patience};

use self::arguments::{Arguments, Bench, Command, Doctor, Torture};
use self::conclusions::{Sections, sentences};
use self::doctor::Diagnosis;
use self::error::Error;
use self::report::{Lines, Tables};

/// The build scripts of both crates must agree on whether there are sections.
const _: () = assert!(cfg!(atomseq_sections) == atomseq::internals::SECTIONS);

fn main() {
    process::begin();
    let arguments = Arguments::here();
    let result = match &arguments.command {
        None => doctor_and_bench(),
        Some(Command::Doctor(arguments)) => doctor(arguments),
        Some(Command::Bench(arguments)) => bench(arguments),
        Some(Command::Torture(arguments)) => torture(arguments),
    };
    process::end(result)
}

fn doctor_and_bench() -> Result<(), Error> {
    doctor(&Doctor { json: false })?;
    writeln!(process::output()?)?;
    bench(&Bench::quick())
}

fn doctor(arguments: &Doctor) -> Result<(), Error> {
    let mut output = process::output()?;
    let diagnosis = Diagnosis::take();
    if arguments.json {
        let json = serde_json::to_string(&diagnosis).map_err(io::Error::from)?;
        writeln!(output, "{json}")?;
    } else {
        write!(output, "{diagnosis}")?;
    }
    Ok(output.flush()?)
}

fn bench(arguments: &Bench) -> Result<(), Error> {
    let plan = arguments.plan();
    let mut output = process::output()?;
    process::check()?;
    if arguments.json {
        let outcomes = bench::run(&plan, &mut Lines(&mut output))?;
        return bench::verdict(&outcomes);
    }
    let outcomes = bench::run(&plan, &mut Tables(&mut output))?;
    let concluded = conclude(&sentences(&Sections::here(), &outcomes), &mut output);
    // The verdict comes first: a reader who has left must not hide a wrong case.
    bench::verdict(&outcomes)?;
    concluded
}

/// Writes the sentences, after an empty line.
fn conclude(sentences: &[String], output: &mut impl Write) -> Result<(), Error> {
    if !sentences.is_empty() {
        writeln!(output)?;
    }
    for sentence in sentences {
        writeln!(output, "{sentence}")?;
    }
    Ok(output.flush()?)
}

fn torture(arguments: &Torture) -> Result<(), Error> {
    let plan = arguments.plan();
    let mut output = process::output()?;
    process::check()?;
    torture::run(&plan, &mut output)
}
