//! The mechanisms, by name: which guard the data of two threads, and which do not.

use atomseq::mutex::Interlocked;

use super::copying::{Error, Job, Outcome, copy};
use super::locks::{ParkingLot, Relinquishing, Std};

/// A way to guard the buffer.
pub struct Mechanism {
    pub name: &'static str,
    pub about: &'static str,
    /// Only between threads of one CPU.
    pub one_cpu: bool,
    pub copy: fn(&Job<'_>) -> Result<Outcome, Error>,
}

/// All that can guard the data of two threads.
pub static ALL: [Mechanism; 3] = [
    Mechanism {
        name: "interlocked",
        about: "an interlocked instruction (B91 2.1)",
        one_cpu: false,
        copy: copy::<Relinquishing<Interlocked>>,
    },
    Mechanism {
        name: "std",
        about: "std::sync::Mutex and Condvar, to compare",
        one_cpu: false,
        copy: copy::<Std>,
    },
    Mechanism {
        name: "parking-lot",
        about: "the crate parking_lot's, to compare",
        one_cpu: false,
        copy: copy::<ParkingLot>,
    },
];

/// Their locks are not `Sync`: to put one into [`Relinquishing`] does not compile, since [`Lock`](super::monitor::Lock)
/// asks for threads to share it.
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
