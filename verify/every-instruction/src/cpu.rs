//! Which CPUs this test may use, and moving between them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The CPUs a test works on.
#[derive(Clone, Copy, Debug)]
pub struct Cpus {
    /// Where operations run.
    pub home: usize,
    /// Where an interruption moves them; `None` on a machine with one CPU.
    pub other: Option<usize>,
}

impl Cpus {
    /// The first two CPUs this process might use when it first asked.
    pub fn allowed() -> Cpus {
        // Once: whoever works on CPUs pins itself to one.
        static ALLOWED: OnceLock<Cpus> = OnceLock::new();
        *ALLOWED.get_or_init(Cpus::ask)
    }

    fn ask() -> Cpus {
        // SAFETY: a CPU set is plain bits, for which zero is valid.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set is this large.
        let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        let mut allowed = (0..libc::CPU_SETSIZE as usize)
            // SAFETY: the number is below the set's size.
            .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) });
        Cpus {
            home: allowed.next().expect("a process may use some CPU"),
            other: allowed.next(),
        }
    }
}

/// Whether the other CPU takes part at all: work on it waits for its turn there.
static USE_OTHER: AtomicBool = AtomicBool::new(false);

/// Says whether [`both`] includes the other CPU.
pub fn use_other(use_it: bool) {
    // Relaxed: only this thread asks.
    USE_OTHER.store(use_it, Ordering::Relaxed);
}

/// The CPUs that take part, the home CPU last.
pub fn both() -> impl Iterator<Item = usize> {
    let Cpus { home, other } = Cpus::allowed();
    let other = other.filter(|_| USE_OTHER.load(Ordering::Relaxed));
    other.into_iter().chain([home])
}

/// Moves this thread to a CPU; it runs there when this returns.
pub fn move_to(cpu: usize) {
    // SAFETY: a CPU set is plain bits, for which zero is valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number came from such a set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is this large.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
