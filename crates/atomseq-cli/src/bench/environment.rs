//! The machine and the build that the figures were taken with: the first record of every benchmark,
//! without which the others mean nothing on another machine.

use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::error::Error;
use crate::machine;

/// The first record of a benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// The version of atomseq measured.
    pub atomseq: &'static str,
    /// The commit it was built from, when it was built from a git checkout.
    pub commit: Option<&'static str>,
    /// Whether the tree differed from that commit.
    pub modified: Option<bool>,
    /// The compiler.
    pub rustc: Option<&'static str>,
    /// `release` or `debug`; figures of the latter mean nothing.
    pub profile: &'static str,
    /// When the benchmark started, UTC, ISO 8601.
    pub date: String,
    /// The processor's name.
    pub cpu: Option<String>,
    /// The CPUs this process may use.
    pub cpus: Vec<usize>,
    /// How many CPUs the system may ever use.
    pub possible_cpus: Option<usize>,
    /// The CPUs that threads are pinned to, in turn; `null` where the system does not let a thread
    /// be pinned.
    pub pinned: Option<Vec<usize>>,
    /// The frequency governor, where there is one.
    pub governor: Option<String>,
    /// The kernel's name and release.
    pub kernel: Option<String>,
    /// The C library.
    pub libc: Option<String>,
    /// Whether atomseq's sections run, what registered the threads, and why they do not run.
    pub rseq: Rseq,
    /// Whether gates can be closed, which all structures need but counters and histograms.
    pub gates: bool,
    /// The numbers of threads that were asked for.
    pub threads: Vec<usize>,
    /// Whether the runs were few and short.
    pub quick: bool,
    /// The meaning of one `ns/op`.
    pub ns_per_op: &'static str,
}

/// Whether atomseq's sections run.
#[derive(Clone, Debug, Serialize)]
pub struct Rseq {
    /// Whether they do.
    pub active: bool,
    /// What registered the threads.
    pub registered_by: Option<String>,
    /// Why they, or else gates, do not.
    pub reason: Option<String>,
}

impl Rseq {
    fn here() -> Self {
        let status = atomseq::status();
        Self {
            active: status.is_active(),
            registered_by: status
                .registered_by()
                .map(|registrant| registrant.to_string()),
            reason: status.reason().map(|reason| reason.to_string()),
        }
    }
}

impl Environment {
    /// Describes this machine and this build.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] if the system refuses a thread.
    pub fn take(threads: &[usize], quick: bool) -> Result<Self, Error> {
        let cpus = machine::allowed_cpus();
        // Asked on a thread of its own: this one is to stay free.
        let first = cpus[0];
        let asked = thread::Builder::new().spawn(move || machine::pin(first));
        let asked = asked.map_err(|source| Error::Thread {
            started: 0,
            wanted: 1,
            source,
        })?;
        let pinnable = asked.join().unwrap_or(false);
        Ok(Self {
            atomseq: env!("CARGO_PKG_VERSION"),
            commit: option_env!("ATOMSEQ_COMMIT"),
            modified: option_env!("ATOMSEQ_MODIFIED").map(|modified| modified == "true"),
            rustc: option_env!("ATOMSEQ_RUSTC"),
            profile: if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            },
            date: iso8601(
                SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .map_or(0, |d| d.as_secs()),
            ),
            cpu: machine::cpu_model(),
            pinned: pinnable.then(|| cpus.clone()),
            cpus,
            possible_cpus: machine::possible_cpus(),
            governor: machine::governor(),
            kernel: machine::kernel(),
            libc: machine::libc_version(),
            rseq: Rseq::here(),
            gates: atomseq::status().gates_active(),
            threads: threads.to_vec(),
            quick,
            ns_per_op: "wall time of a run, all threads running, divided by the operations of one thread; by those of all, where \
                        the case's threads share one CPU and the operations",
        })
    }
}

/// A second since 1970 as UTC date and time.
fn iso8601(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant's civil_from_days: years start in March, so the leap day is the last.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::iso8601;

    #[test]
    fn dates() {
        assert_eq!(iso8601(0), "1970-01-01T00:00:00Z");
        assert_eq!(iso8601(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(iso8601(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(iso8601(1_709_251_200), "2024-03-01T00:00:00Z");
        assert_eq!(iso8601(4_102_444_799), "2099-12-31T23:59:59Z");
    }
}
