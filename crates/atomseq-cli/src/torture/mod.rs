//! `atomseq torture`: the structures under everything that could disturb them, on the user's own
//! machine.
//!
//! Every target has laws, such as "a value that went in comes out once". The first one found broken
//! ends the command with what is needed to look for it again.

pub mod harness;
pub mod needs;
mod report;
mod subjects;
mod system;
pub mod targets;

use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use self::harness::Target;
use self::harness::crew::Orders;
use self::harness::interrupts;
use self::harness::sabotage::Sabotage;
use self::harness::watch::{self, End};
use self::report::{Incident, Summary};
use crate::error::Error;
use crate::machine;

/// What is to be tortured.
pub struct Plan {
    /// The targets, each once.
    pub targets: Vec<&'static Target>,
    /// How long, for all of them together.
    pub length: Duration,
    /// Chooses the operations.
    pub seed: u64,
    /// A fault to inject.
    pub sabotage: Option<Sabotage>,
}

/// Tortures; what happened goes to `output`, progress to standard error.
///
/// # Errors
///
/// [`Error::Tortured`] if a law was broken, or nothing went on any more; also if the system refuses
/// threads, or `output` does not take what is written.
pub fn run(plan: &Plan, output: &mut impl Write) -> Result<(), Error> {
    let cpus = machine::allowed_cpus();
    let orders = Orders {
        seed: plan.seed,
        workers: workers(cpus.len()),
        cpus,
        sabotage: plan.sabotage,
    };
    let opening = report::opening(plan, &orders);
    match write!(output, "{opening}").and_then(|()| output.flush()) {
        // Without a reader, the exit code is still the verdict.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written?,
    }

    let bar = bar(plan.length);
    let each = plan.length / plan.targets.len() as u32;
    let mut summary = Summary::new(orders.workers);
    for (index, target) in plan.targets.iter().enumerate() {
        bar.set_message(target.name);
        let incident = |end: &End| Incident::of(end, target, plan, &orders);
        system::on_crash(report::last_words(target, plan, &orders));
        // After it: atomseq's handler of faults passes on those that are not its own.
        interrupts::install(target.interruptions);
        let before = each * index as u32;
        let end = watch::run(target, &orders, each, |passed| {
            bar.set_position((before + passed.min(each)).as_millis() as u64);
        })
        .map_err(Error::Torturer)?;
        summary.add(target, &end);
        if let Some(incident) = incident(&end) {
            bar.finish_and_clear();
            // A reader who has left must not turn this into a success.
            let _ = write!(output, "\n{summary}").and_then(|()| output.flush());
            return Err(Error::Tortured(incident.to_string()));
        }
    }
    bar.finish_and_clear();
    write!(output, "\n{summary}")?;
    Ok(output.flush()?)
}

/// More workers than CPUs, so that they are preempted in the middle of everything.
fn workers(cpus: usize) -> usize {
    cpus + cpus.min(32) + 2
}

/// The bar, on standard error and only on a terminal.
fn bar(length: Duration) -> ProgressBar {
    let bar = ProgressBar::new(length.as_millis() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    bar
}

/// A seed that nobody chose: from the time.
pub fn any_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // Short enough to be typed again.
    harness::mix(now.unwrap_or_default().as_nanos() as u64) % 1_000_000_000
}
