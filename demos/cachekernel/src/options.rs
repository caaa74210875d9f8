//! The command line.

use clap::{Parser, ValueEnum};

/// Runs GC96's Cache Kernel in miniature for some seconds, and audits it.
///
/// Kernel threads schedule guests, which touch pages of address spaces and signal each other.
/// Descriptors of spaces and guests, and the records of mappings, are in caches that are too small,
/// so all the time some are written back to make room for others. Signals are real ones: a handler
/// interrupts a kernel thread in whatever it does, and changes the same structures. Meanwhile
/// kernel threads are stopped, and exited, inside operations.
#[derive(Parser)]
#[command(
    name = "cachekernel",
    max_term_width = 100,
    after_help = "Exit status: 0 if the audits account for everything, 1 if not, 2 if the arguments make no sense."
)]
pub struct Plan {
    /// For how long it runs, up to 86400.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub seconds: f64,
    /// The number of kernel threads, 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub threads: u64,
    /// The number of address spaces, 1 to 1024.
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub spaces: u64,
    /// The number of pages of each space, 1 to 4096.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub pages: u64,
    /// The number of guests, 1 to 65536.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub guests: u64,
    /// How much of everything can be loaded, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub loaded: u64,
    /// How many kernel threads exit inside an operation in a second, at most; up to 1000.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(..=1000))]
    pub exits: u64,
    /// The seed of all random choices. The interleaving differs in each run all the same.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Makes a fault that the audits must find.
    #[arg(long, value_name = "FAULT")]
    pub fault: Option<Fault>,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// Some uses of descriptors never end, although their thread goes on.
    Leak,
    /// Some write-backs of guests are skipped.
    Skip,
}

impl Plan {
    /// Returns a sentence about what makes no sense.
    pub fn check(&self) -> Result<(), String> {
        match self.seconds {
            seconds if seconds > 0.0 && seconds <= 86400.0 => Ok(()),
            seconds => Err(format!(
                "--seconds is {seconds}, not above 0 and up to 86400"
            )),
        }
    }

    /// Returns how many of this many descriptors can be loaded.
    pub fn loaded(&self, all: u64) -> u64 {
        (all * self.loaded / 100).max(1)
    }

    /// Returns the number of physical frames.
    pub fn frames(&self) -> u64 {
        (self.spaces * self.pages / 8).max(1)
    }

    /// Returns how many mappings and registrations fit in.
    pub fn records(&self) -> u64 {
        self.loaded(self.loaded(self.spaces * self.pages)) + 8
    }
}
