//! Threads that are pinned to a CPU, and what the kernel counts of a thread: how often it blocked,
//! was preempted, and met a page that was not mapped.

use std::io;
use std::thread::{self, Scope, ScopedJoinHandle};

/// Starts a thread that is pinned to a CPU from its first instruction on.
///
/// # Errors
///
/// The kernel's.
pub fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    cpu: usize,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    // A thread inherits the CPUs of the thread that starts it.
    let _restored = Pinned::to(cpu)?;
    thread::Builder::new()
        .name(name.to_string())
        .spawn_scoped(scope, work)
}

pub use system::{Pinned, cpus, switches};

/// What the kernel has counted of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Switches {
    /// How often it blocked in the kernel: voluntary context switches.
    pub blocks: u64,
    /// How often another thread was to run: involuntary ones.
    pub preemptions: u64,
    /// Page faults.
    pub page_faults: u64,
}

impl Switches {
    /// Returns what was counted since then.
    pub fn since(self, before: Switches) -> Switches {
        Switches {
            blocks: self.blocks - before.blocks,
            preemptions: self.preemptions - before.preemptions,
            page_faults: self.page_faults - before.page_faults,
        }
    }
}

impl std::ops::Add for Switches {
    type Output = Switches;

    fn add(self, other: Switches) -> Switches {
        Switches {
            blocks: self.blocks + other.blocks,
            preemptions: self.preemptions + other.preemptions,
            page_faults: self.page_faults + other.page_faults,
        }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::io;

    use super::Switches;

    /// Bits for 8,192 CPUs, Linux's largest configuration.
    type CpuSet = [u64; 128];

    fn affinity() -> io::Result<CpuSet> {
        let mut set: CpuSet = [0; 128];
        // SAFETY: the kernel writes at most `size_of::<CpuSet>()` bytes, all of them inside `set`.
        let written =
            unsafe { libc::sched_getaffinity(0, size_of::<CpuSet>(), (&raw mut set).cast()) };
        match written {
            0 => Ok(set),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn set_affinity(set: &CpuSet) -> io::Result<()> {
        // SAFETY: the kernel reads `size_of::<CpuSet>()` bytes, all of them inside `set`.
        let result =
            unsafe { libc::sched_setaffinity(0, size_of::<CpuSet>(), (&raw const *set).cast()) };
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns the CPUs that this process may use.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn cpus() -> io::Result<Vec<usize>> {
        let set = affinity()?;
        let bit = |cpu: &usize| set[cpu / 64] >> (cpu % 64) & 1 == 1;
        Ok((0..set.len() * 64).filter(bit).collect())
    }

    /// Pins the calling thread to one CPU until it is dropped.
    pub struct Pinned(CpuSet);

    impl Pinned {
        /// Pins the calling thread to this CPU.
        ///
        /// # Errors
        ///
        /// The kernel's.
        pub fn to(cpu: usize) -> io::Result<Pinned> {
            let before = affinity()?;
            let mut set: CpuSet = [0; 128];
            set[cpu / 64] = 1 << (cpu % 64);
            set_affinity(&set).map(|()| Pinned(before))
        }
    }

    impl Drop for Pinned {
        fn drop(&mut self) {
            // If the kernel refuses, the thread stays on this CPU.
            let _ = set_affinity(&self.0);
        }
    }

    /// Returns what the kernel has counted of this thread, or `None` where it does not.
    pub fn switches() -> Option<Switches> {
        // SAFETY: consists of integers, for which zero is valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one `rusage`.
        let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
        (result == 0).then_some(Switches {
            blocks: usage.ru_nvcsw as u64,
            preemptions: usage.ru_nivcsw as u64,
            page_faults: (usage.ru_minflt + usage.ru_majflt) as u64,
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    /// Returns one number for each CPU. Threads are not pinned here.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn cpus() -> io::Result<Vec<usize>> {
        Ok((0..std::thread::available_parallelism()?.get()).collect())
    }

    /// Does nothing: threads are pinned on Linux only.
    pub struct Pinned;

    impl Pinned {
        /// Does nothing.
        ///
        /// # Errors
        ///
        /// None.
        pub fn to(_cpu: usize) -> io::Result<Pinned> {
            Ok(Pinned)
        }
    }

    /// Not counted here.
    pub fn switches() -> Option<super::Switches> {
        None
    }
}
