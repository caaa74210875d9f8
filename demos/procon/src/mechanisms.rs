//! The mechanisms by name: those that guard data of two threads, and those that do not.

use atomseq::mutex::{BiasedFlag, Interlocked, OnCpu, TestAndSet};
use atomseq_papers::emulation::{Call, Trap};
use atomseq_papers::reservation::{Bundle, Bundled, Fenced, OneCpu, PerLock, Unfenced};

use super::copying::{Error, Job, Outcome, copy};
use super::locks::{ParkingLot, Relinquishing, Std};

/// A mechanism of the mutex around the buffer.
pub struct Mechanism {
    /// Its name on the command line.
    pub name: &'static str,
    pub(crate) about: &'static str,
    /// Whether it excludes only threads of the same CPU.
    pub one_cpu: bool,
    /// Prepares the process for it. An error is a sentence.
    pub(crate) prepare: fn() -> Result<(), String>,
    pub(crate) copy: fn(&Job<'_>) -> Result<Outcome, Error>,
}

/// Producer, consumer and the thread that starts them, when all three are on one CPU.
pub struct Pinned;

// SAFETY: only `copying::copy` uses mechanisms of this group, with both threads on one CPU
// (`options` refuses them with two CPUs). Every thread is pinned before it uses the lock. The
// bundle has no other user.
unsafe impl OneCpu for Pinned {
    fn bundle() -> &'static Bundle {
        static BUNDLE: Bundle = Bundle::new();
        &BUNDLE
    }
}

const fn by<M: TestAndSet + Send + Sync>(about: &'static str) -> Mechanism {
    Mechanism {
        name: M::NAME,
        about,
        one_cpu: false,
        prepare: || Ok(()),
        copy: copy::<Relinquishing<M>>,
    }
}

const fn on_one_cpu<M: TestAndSet + Send + Sync>(about: &'static str) -> Mechanism {
    Mechanism {
        one_cpu: true,
        ..by::<M>(about)
    }
}

/// The mechanisms that can guard data of two threads.
pub static ALL: [Mechanism; 11] = [
    by::<Interlocked>("an interlocked instruction (B91 2.1)"),
    by::<OnCpu>("a sequence that the kernel restarts (B91 2.4); other CPUs use fences"),
    Mechanism {
        name: "biased",
        ..by::<BiasedFlag>(
            "likewise, on the CPU that uses it most; interlocked where several CPUs use it",
        )
    },
    by::<PerLock<Fenced>>(
        "software reservation by Lamport's algorithm, one instance for each lock (B91 2.2)",
    ),
    by::<Bundled<Fenced>>("software reservation, one instance for all locks (B91 figure 2)"),
    on_one_cpu::<PerLock<Unfenced<Pinned>>>(
        "reservation-a without fences, for threads of one CPU, as in B91",
    ),
    on_one_cpu::<Bundled<Unfenced<Pinned>>>(
        "reservation-b without fences, for threads of one CPU, as in B91",
    ),
    Mechanism {
        prepare: || Trap::start().map_err(|error| error.to_string()),
        ..by::<Trap>("kernel emulation of an undefined instruction, which traps (B91 2.3)")
    },
    Mechanism {
        prepare: || Call::start().map_err(|error| error.to_string()),
        ..by::<Call>("kernel emulation by a system call")
    },
    Mechanism {
        name: "std",
        about: "std::sync::Mutex and Condvar, to compare",
        one_cpu: false,
        prepare: || Ok(()),
        copy: copy::<Std>,
    },
    Mechanism {
        name: "parking-lot",
        about: "the crate parking_lot's, to compare",
        one_cpu: false,
        prepare: || Ok(()),
        copy: copy::<ParkingLot>,
    },
];

/// The mechanisms that exclude the signal handlers of one thread only. Their locks are not `Sync`,
/// so they do not implement the demo's `Lock`.
pub const FOR_HANDLERS: [&str; 3] = ["restarting", "rolling", "masked"];

/// Returns the mechanism of that name. An error is a sentence.
pub fn find(name: &str) -> Result<&'static Mechanism, String> {
    if FOR_HANDLERS.contains(&name) {
        return Err(format!(
            "{name} excludes the signal handlers of one thread and no other thread: its scope is SameThread, and \
             a lock on it around data of two threads does not compile; give one of {}",
            names()
        ));
    }
    let found = ALL.iter().find(|mechanism| mechanism.name == name);
    found.ok_or_else(|| format!("there is no mechanism {name:?}; give one of {}", names()))
}

/// Returns all names.
pub fn names() -> String {
    let names: Vec<_> = ALL.iter().map(|mechanism| mechanism.name).collect();
    names.join(", ")
}
