//! A progress bar on standard error. Without a terminal there, nothing is shown.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar, which disappears when it is dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// Returns a bar that is full after `total` units of work.
    pub fn new(total: u64) -> Progress {
        let target = match io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
            bar.set_style(style);
        }
        Progress(bar)
    }

    /// Shows what is being done now.
    pub fn stage(&self, name: &str) {
        self.0.set_message(name.to_owned());
    }

    /// Adds units of work done.
    pub fn add(&self, units: u64) {
        self.0.inc(units);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
