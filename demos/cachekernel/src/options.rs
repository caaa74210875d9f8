//! The command line.

use clap::{Parser, ValueEnum};

/// Runs GC96's Cache Kernel in miniature for some seconds, and audits it.
///
/// Kernel threads schedule guests, which touch pages of address spaces and signal each other.
/// Descriptors of spaces and guests, and the records of mappings, are in caches that are too small,
/// so some are written back all the time to make room for others. Signals are real ones: a handler
/// interrupts a kernel thread at any instruction, and changes the same structures. Meanwhile kernel
/// threads are stopped inside operations, or exit there.
#[derive(Parser)]
#[command(
    name = "cachekernel",
    max_term_width = 100,
    after_help = "Exit status: 0 if the audits account for everything, 1 if not, 2 if the arguments make no sense."
)]
pub struct Plan {
    /// The time of the run in seconds, up to 86400. One round of 0.1 s is run at least.
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
    /// The share of spaces and guests that can be loaded, and of these spaces' pages that can be
    /// mapped, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub loaded: u64,
    /// The maximum number of kernel threads that exit inside an operation in a second, up to 1000.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(..=1000))]
    pub exits: u64,
    /// The seed of the random choices. The interleaving still differs from run to run.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Makes a fault that the audits must find.
    #[arg(long, value_name = "FAULT")]
    pub fault: Option<Fault>,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// Some uses of descriptors never end, although their thread continues.
    Leak,
    /// Some write-backs of guests are skipped.
    Skip,
}

impl Plan {
    /// Checks the options. An error is a sentence.
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

    /// Returns the maximum number of records of mappings.
    pub fn records(&self) -> u64 {
        self.loaded(self.loaded(self.spaces * self.pages)) + 8
    }
}
