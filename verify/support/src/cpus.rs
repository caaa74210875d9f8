//! Which CPUs this process may use, and moving threads between them.

use std::io::Error;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The CPUs that this thread may use.
pub fn allowed() -> Vec<usize> {
    // SAFETY: a CPU set is plain bits, for which zero is valid; the kernel fills it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let result = libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        assert_eq!(result, 0, "{}", Error::last_os_error());
        (0..libc::CPU_SETSIZE as usize)
            .filter(|cpu| libc::CPU_ISSET(*cpu, &set))
            .collect()
    }
}

/// Lets a thread run on these CPUs only; 0 is the calling thread. Returns `false` if the thread has
/// exited or the kernel refuses.
pub fn restrict(thread: libc::pid_t, cpus: &[usize]) -> bool {
    // SAFETY: a CPU set is plain bits, for which zero is valid, filled here.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
        libc::sched_setaffinity(thread, size_of_val(&set), &set) == 0
    }
}

/// Moves this thread to a CPU; it runs there when this returns.
pub fn move_to(cpu: usize) {
    assert!(restrict(0, &[cpu]), "{}", Error::last_os_error());
}

/// Returns the CPU that this thread is on, asked of the kernel itself: the C library's answer comes
/// from rseq.
pub fn kernel_cpu() -> i32 {
    let mut cpu = 0u32;
    // SAFETY: the kernel writes one word.
    let result = unsafe { libc::syscall(libc::SYS_getcpu, &raw mut cpu, 0, 0) };
    assert_eq!(result, 0);
    cpu as i32
}

/// Keeps this thread on the CPU that it is on, and returns that.
pub fn pin() -> i32 {
    let cpu = kernel_cpu();
    move_to(cpu as usize);
    cpu
}

/// The CPUs a test works on.
#[derive(Clone, Copy, Debug)]
pub struct Cpus {
    /// Where operations run.
    pub home: usize,
    /// Where an interruption moves them; `None` on a machine with one CPU.
    pub other: Option<usize>,
}

impl Cpus {
    /// The first two CPUs that this process might use when it first asked.
    pub fn allowed() -> Cpus {
        // Once: a thread that works on CPUs pins itself to one.
        static ALLOWED: OnceLock<Cpus> = OnceLock::new();
        *ALLOWED.get_or_init(|| {
            let mut allowed = allowed().into_iter();
            Cpus {
                home: allowed.next().expect("a process may use some CPU"),
                other: allowed.next(),
            }
        })
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
