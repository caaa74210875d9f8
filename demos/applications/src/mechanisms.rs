//! The mechanisms by name, and the thread package that each of them is for.

use std::sync::Arc;

use atomseq::mutex::{BiasedFlag, Interlocked, Interventions, OnCpu, RawMutex, TestAndSet};
use atomseq_papers::emulation::{Call, Trap};
use atomseq_papers::reservation::{Bundle, Bundled, Fenced, OneCpu, PerLock, Unfenced};

use super::fs_bench::FsBench;
use super::package::{Outcome, on_kernel_threads};
use super::parthenon::Parthenon;
use super::text_format::TextFormat;

/// Runs one application. An error is a sentence.
type Run<A> = fn(&Arc<A>, fn() -> Interventions) -> Result<Outcome, String>;

/// A mechanism of the locks, in a thread package.
pub struct Mechanism {
    /// Its name on the command line.
    pub name: &'static str,
    pub(crate) about: &'static str,
    /// Whether the threads are the kernel's, and not coroutines of one.
    pub is_kernel: bool,
    /// Prepares the process for it. An error is a sentence.
    pub(crate) prepare: fn() -> Result<(), String>,
    pub(crate) interventions: fn() -> Interventions,
    pub(crate) parthenon: Run<Parthenon>,
    pub(crate) fs_bench: Run<FsBench>,
    pub(crate) text_format: Run<TextFormat>,
}

/// All threads of an application, which are on one CPU.
pub struct Pinned;

// SAFETY: only `on_kernel_threads` uses mechanisms of this group, and pins all threads to one CPU.
// The bundle has no other user.
unsafe impl OneCpu for Pinned {
    fn bundle() -> &'static Bundle {
        static BUNDLE: Bundle = Bundle::new();
        &BUNDLE
    }
}

const fn of_kernel<R: lock_api::RawMutex + Send + Sync + 'static>(
    name: &'static str,
    about: &'static str,
    interventions: fn() -> Interventions,
) -> Mechanism {
    Mechanism {
        name,
        about,
        is_kernel: true,
        prepare: || Ok(()),
        interventions,
        parthenon: on_kernel_threads::<Parthenon, R>,
        fs_bench: on_kernel_threads::<FsBench, R>,
        text_format: on_kernel_threads::<TextFormat, R>,
    }
}

const fn by<M: TestAndSet + Send + Sync + 'static>(about: &'static str) -> Mechanism {
    of_kernel::<RawMutex<M>>(M::NAME, about, M::interventions)
}

fn start_trap() -> Result<(), String> {
    Trap::start().map_err(|error| error.to_string())
}

/// Those for kernel threads of one CPU.
static KERNEL: [Mechanism; 10] = [
    by::<OnCpu>("a sequence that the kernel restarts (B91 2.4)"),
    Mechanism {
        prepare: start_trap,
        ..by::<Trap>("kernel emulation of an undefined instruction, which traps (B91 2.3)")
    },
    Mechanism {
        prepare: || Call::start().map_err(|error| error.to_string()),
        ..by::<Call>("kernel emulation by a system call")
    },
    by::<Interlocked>("an interlocked instruction (B91 2.1)"),
    Mechanism {
        name: "biased",
        ..by::<BiasedFlag>("as on-cpu, with a home CPU that it finds itself")
    },
    by::<PerLock<Fenced>>("software reservation, one instance for each lock (B91 2.2)"),
    by::<Bundled<Fenced>>("software reservation, one instance for all locks (B91 figure 2)"),
    by::<PerLock<Unfenced<Pinned>>>("reservation-a without fences, as in B91"),
    by::<Bundled<Unfenced<Pinned>>>("reservation-b without fences, as in B91"),
    of_kernel::<parking_lot::RawMutex>(
        "parking-lot",
        "the mutex of the crate parking_lot, to compare",
        Interventions::default,
    ),
];

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod coroutines {
    use atomseq::mutex::{Masked, Restarting, Rolling};
    use atomseq_threads::coroutine::RawMutex;

    use super::*;
    use crate::coroutines::{Yielding, on_coroutines};

    const fn of_coroutines<R: lock_api::RawMutex + 'static, M: TestAndSet>(
        name: &'static str,
        about: &'static str,
    ) -> Mechanism {
        Mechanism {
            name,
            about,
            is_kernel: false,
            prepare: || Ok(()),
            interventions: M::interventions,
            parthenon: on_coroutines::<Parthenon, R>,
            fs_bench: on_coroutines::<FsBench, R>,
            text_format: on_coroutines::<TextFormat, R>,
        }
    }

    const fn by<M: TestAndSet + 'static>(name: &'static str, about: &'static str) -> Mechanism {
        of_coroutines::<Yielding<M>, M>(name, about)
    }

    /// Those for coroutines of one kernel thread, which a signal preempts.
    pub static COROUTINES: [Mechanism; 6] = [
        by::<Restarting>(
            "restarting",
            "a sequence that signal handlers restart (B91 3.2)",
        ),
        by::<Rolling>("rolling", "a sequence that signal handlers roll forward"),
        by::<Masked>("masked", "signals deferred during the test-and-set"),
        of_coroutines::<RawMutex, Restarting>(
            "coroutine-mutex",
            "as restarting, with a queue of waiters: coroutine::Mutex of atomseq-threads",
        ),
        by::<Interlocked>("coroutine-interlocked", "an interlocked instruction"),
        Mechanism {
            prepare: start_trap,
            ..by::<Trap>(
                "coroutine-trap",
                "kernel emulation of an undefined instruction",
            )
        },
    ];
}

/// Returns all mechanisms that this target has.
pub fn all() -> impl Iterator<Item = &'static Mechanism> + Clone {
    #[cfg(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    let coroutines = coroutines::COROUTINES.iter();
    #[cfg(not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )))]
    let coroutines = [].iter();
    KERNEL.iter().chain(coroutines)
}

/// Returns the mechanism of that name. An error is a sentence.
pub fn find(name: &str) -> Result<&'static Mechanism, String> {
    let found = all().find(|mechanism| mechanism.name == name);
    found.ok_or_else(|| {
        let names: Vec<_> = all().map(|mechanism| mechanism.name).collect();
        format!(
            "there is no mechanism {name:?}; give one of {}",
            names.join(", ")
        )
    })
}
