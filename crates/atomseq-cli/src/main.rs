//! The `atomseq` command: what works on this machine, what it is worth here, and whether it holds.

mod arguments;
mod bench;
mod doctor;
mod error;
mod machine;
mod overview;
mod process;
mod report;
#[cfg(unix)]
mod run;
mod terminal;
mod torture;

use std::io::{self, Write};

#[cfg(target_os = "linux")]
use atomseq_stress::child;
use atomseq_stress::{memory, patience};

use self::arguments::{Arguments, Bench, Command, Doctor, Torture};
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
use self::bench::experiments;
use self::doctor::Diagnosis;
use self::error::Error;
use self::report::{Lines, Markdown, Tables};

/// The build scripts of both crates must agree on whether there are sections.
const _: () = assert!(cfg!(atomseq_sections) == atomseq::internals::SECTIONS);

fn main() {
    #[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
    {
        let arguments: Vec<String> = std::env::args_os()
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect();
        if arguments
            .get(1)
            .is_some_and(|first| first == experiments::DROP_IN_WORKER)
        {
            experiments::drop_in_worker(&arguments[2..])
        }
    }
    let arguments = Arguments::here();
    // Before anything of this process is changed: the program inherits it.
    #[cfg(unix)]
    if let Some(Command::Run(arguments)) = &arguments.command {
        run::run(arguments)
    }
    process::begin();
    let result = match &arguments.command {
        None => overview::run(),
        Some(Command::Doctor(arguments)) => doctor(arguments),
        Some(Command::Bench(arguments)) => bench(arguments),
        Some(Command::Torture(arguments)) => torture(arguments),
        #[cfg(unix)]
        Some(Command::Run(_)) => unreachable!("ran above"),
    };
    process::end(result)
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
    let outcomes = if arguments.json {
        bench::run(&plan, &mut Lines(&mut output))?
    } else if arguments.markdown {
        bench::run(&plan, &mut Markdown::new(&mut output))?
    } else {
        let tables = &mut Tables {
            to: &mut output,
            verbose: arguments.verbose,
            named: !arguments.experiments.is_empty(),
        };
        bench::run(&plan, tables)?
    };
    bench::verdict(&outcomes)
}

fn torture(arguments: &Torture) -> Result<(), Error> {
    let plan = arguments.plan();
    let mut output = process::output()?;
    process::check()?;
    torture::run(&plan, &mut output)
}
