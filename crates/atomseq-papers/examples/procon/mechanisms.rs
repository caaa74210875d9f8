//! The mechanisms, by name: which guard the data of two threads, and which do not.

use atomseq::mutex::{BiasedFlag, Interlocked, OnCpu, TestAndSet};
use atomseq_papers::emulation::{Call, Trap};
use atomseq_papers::reservation::{Bundle, Bundled, Fenced, OneCpu, PerLock, Unfenced};

use super::copying::{Error, Job, Outcome, copy};
use super::locks::{ParkingLot, Relinquishing, Std};

/// A way to guard the buffer.
pub struct Mechanism {
    pub name: &'static str,
    pub about: &'static str,
    /// Only between threads of one CPU.
    pub one_cpu: bool,
    /// Makes it ready for use; an error is a sentence.
    pub prepare: fn() -> Result<(), String>,
    pub copy: fn(&Job<'_>) -> Result<Outcome, Error>,
}

/// Producer, consumer, and who starts them, when all three have one CPU.
pub struct Pinned;

// SAFETY: mechanisms of this group are used by `copying::copy` with both threads on one CPU and
// nowhere else (`options` refuses them with two CPUs); there every thread is pinned before it
// touches the lock. Nobody else has this bundle.
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

/// All that can guard the data of two threads.
pub static ALL: [Mechanism; 11] = [
    by::<Interlocked>("an interlocked instruction (B91 2.1)"),
    by::<OnCpu>("a sequence that the kernel restarts (B91 2.4); visits from other CPUs are fences"),
    Mechanism {
        name: "biased",
        ..by::<BiasedFlag>(
            "the same, at home on the CPU that uses it most; interlocked where several do",
        )
    },
    by::<PerLock<Fenced>>(
        "software reservation by Lamport's algorithm, an instance a lock (B91 2.2)",
    ),
    by::<Bundled<Fenced>>("software reservation, one instance for all locks (B91 figure 2)"),
    on_one_cpu::<PerLock<Unfenced<Pinned>>>(
        "reservation-a without fences, for threads of one CPU, as B91's was",
    ),
    on_one_cpu::<Bundled<Unfenced<Pinned>>>(
        "reservation-b without fences, for threads of one CPU, as B91's was",
    ),
    Mechanism {
        prepare: || Trap::start().map_err(|error| error.to_string()),
        ..by::<Trap>("kernel emulation: an undefined instruction traps, and is emulated (B91 2.3)")
    },
    Mechanism {
        prepare: || Call::start().map_err(|error| error.to_string()),
        ..by::<Call>("kernel emulation: a system call does it")
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

/// Their locks are not `Sync`: to put one into [`Relinquishing`] does not compile, since
/// [`Lock`](super::monitor::Lock) asks for threads to share it.
pub const FOR_HANDLERS: [&str; 3] = ["restarting", "rolling", "masked"];

/// The mechanism of that name, or a sentence.
pub fn find(name: &str) -> Result<&'static Mechanism, String> {
    if FOR_HANDLERS.contains(&name) {
        return Err(format!(
            "{name} excludes the signal handlers of one thread and no other thread: its scope is SameThread, and a lock \
             made of it around data of two threads does not compile; there are {}",
            names()
        ));
    }
    let found = ALL.iter().find(|mechanism| mechanism.name == name);
    found.ok_or_else(|| format!("there is no mechanism {name:?}; there are {}", names()))
}

/// All names.
pub fn names() -> String {
    let names: Vec<_> = ALL.iter().map(|mechanism| mechanism.name).collect();
    names.join(", ")
}
