//! `atomseq torture`: runs the stress engine on the user's machine. The first violation of an
//! invariant ends the command, with what is needed to look for it again.

mod report;

use std::io::{self, Write};
use std::time::Duration;

use atomseq_stress::engine::watch::{self, Goal};
use atomseq_stress::engine::{self, Options, Sabotage, Target};
use atomseq_stress::system;
use indicatif::{ProgressBar, ProgressStyle};

use self::report::{Incident, Summary};
use crate::error::Error;

/// What to run.
pub struct Plan {
    /// The targets, each once.
    pub targets: Vec<&'static Target>,
    /// How long, for all of them together.
    pub length: Duration,
    /// Determines the operations.
    pub seed: u64,
    /// A fault to inject.
    pub sabotage: Option<Sabotage>,
}

/// Runs the targets; writes the outcome to `output`, progress to standard error.
///
/// # Errors
///
/// [`Error::Tortured`] if an invariant was violated or no thread made progress; also if the system
/// refuses threads, or `output` cannot be written.
pub fn run(plan: &Plan, output: &mut impl Write) -> Result<(), Error> {
    let options = Options {
        sabotage: plan.sabotage,
        ..Options::new(plan.seed)
    };
    let opening = report::opening(plan, &options);
    match write!(output, "{opening}").and_then(|()| output.flush()) {
        // Without a reader, the exit code is still the verdict.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written?,
    }

    let bar = bar(plan.length);
    let each = plan.length / plan.targets.len() as u32;
    let mut summary = Summary::new(options.workers);
    for (index, target) in plan.targets.iter().enumerate() {
        bar.set_message(target.name);
        // Before the target's handlers: atomseq's handler of faults passes on those of other code.
        system::on_crash(report::last_words(target, plan, &options));
        let before = each * index as u32;
        let goal = Goal {
            time: each,
            ..Goal::default()
        };
        let end = watch::run(target, &options, goal, |passed| {
            bar.set_position((before + passed.min(each)).as_millis() as u64);
        })
        .map_err(Error::Torturer)?;
        summary.add(target, &end);
        if let Some(incident) = Incident::of(&end, target, plan, &options) {
            bar.finish_and_clear();
            // Without a reader, this is still a failure.
            let _ = write!(output, "\n{summary}").and_then(|()| output.flush());
            return Err(Error::Tortured(incident.to_string()));
        }
    }
    bar.finish_and_clear();
    write!(output, "\n{summary}")?;
    Ok(output.flush()?)
}

/// Returns a progress bar, which is shown on standard error if that is a terminal.
fn bar(length: Duration) -> ProgressBar {
    let bar = ProgressBar::new(length.as_millis() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    bar
}

/// Returns a seed from the clock.
pub fn any_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // Short enough to be typed.
    engine::mix(now.unwrap_or_default().as_nanos() as u64) % 1_000_000_000
}
