//! What this machine is, as far as the command needs to know it: for the report's heading, for
//! pinning threads, and for the peers that ask which CPU they run on. A fact that the system does
//! not report is `None`, never a guess.

use std::fs;

/// The processor's name, as the system gives it.
pub fn cpu_model() -> Option<String> {
    // arm64 kernels print numbers instead of a name.
    cpuinfo("model name").or_else(|| {
        let (implementer, part) = (cpuinfo("CPU implementer")?, cpuinfo("CPU part")?);
        Some(format!(
            "{} implementer {implementer} part {part}",
            std::env::consts::ARCH
        ))
    })
}

/// A field of `/proc/cpuinfo`, of the first CPU.
fn cpuinfo(field: &str) -> Option<String> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").ok()?;
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == field).then(|| value.trim().to_string())
    })
}

/// A processor's name without what every name has, and without its frequency.
pub fn short_model(model: &str) -> String {
    let name = model.split('@').next().unwrap_or(model);
    let name = name
        .replace("(R)", "")
        .replace("(TM)", "")
        .replace("(tm)", "");
    let is_telling = |word: &&str| !["CPU", "Processor", "processor"].contains(word);
    let words: Vec<_> = name.split_whitespace().filter(is_telling).collect();
    words.join(" ")
}

/// The processor's frequency: what its name says, or else the system.
pub fn gigahertz(model: &str) -> Option<f64> {
    let named = model.split('@').nth(1);
    let named = named.and_then(|rest| rest.trim().strip_suffix("GHz")?.trim().parse().ok());
    named.or_else(|| {
        let kilohertz = first_line("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
        let kilohertz = kilohertz.and_then(|text| text.parse::<f64>().ok());
        let megahertz = || cpuinfo("cpu MHz")?.parse::<f64>().ok();
        let of_system = kilohertz.map(|value| value / 1e6);
        of_system.or_else(|| Some(megahertz()? / 1e3))
    })
}

/// The frequency governor of the first CPU; absent on most virtual machines.
pub fn governor() -> Option<String> {
    first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
}

/// The CPUs this process may run on; at least one.
pub fn allowed_cpus() -> Vec<usize> {
    let cpus = atomseq_stress::system::allowed_cpus();
    if !cpus.is_empty() {
        return cpus;
    }
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}

/// How many CPU numbers the system may ever use; more than `allowed_cpus` where CPUs may be plugged
/// in.
pub fn possible_cpus() -> Option<usize> {
    let list = first_line("/sys/devices/system/cpu/possible")?;
    highest_in_list(&list).map(|highest| highest + 1)
}

/// The largest number in a kernel CPU list such as `0-3,8`.
fn highest_in_list(list: &str) -> Option<usize> {
    list.trim()
        .split([',', '-'])
        .filter_map(|number| number.parse().ok())
        .max()
}

fn first_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_string())
}

pub use system::{address_space, current_cpu, kernel, libc_version, pin};

#[cfg(target_os = "linux")]
mod system {
    use std::ffi::CStr;

    /// Bits for 8,192 CPUs, Linux's largest configuration.
    type CpuSet = [u64; 128];

    /// Binds this thread to one CPU; false when the system refuses.
    pub fn pin(cpu: usize) -> bool {
        let mut set: CpuSet = [0; 128];
        let Some(word) = set.get_mut(cpu / 64) else {
            return false;
        };
        *word = 1 << (cpu % 64);
        // SAFETY: the kernel reads `size_of::<CpuSet>()` bytes, all of them inside `set`.
        unsafe { libc::sched_setaffinity(0, size_of::<CpuSet>(), (&raw const set).cast()) == 0 }
    }

    /// The CPU this thread runs on, by the C library's fastest way (glibc from 2.35 reads it from
    /// rseq, older ones and musl ask the vDSO).
    #[inline(always)]
    pub fn current_cpu() -> usize {
        // SAFETY: it takes no argument and has no precondition.
        usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
    }

    /// The limit on this process's addresses (`ulimit -v`), in KiB, if there is one.
    pub fn address_space() -> Option<u64> {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the kernel fills in the structure given.
        let result = unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) };
        (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur / 1024)
    }

    /// The kernel's name and release.
    pub fn kernel() -> Option<String> {
        // SAFETY: `utsname` is arrays of bytes, for which zero is a value.
        let mut names: libc::utsname = unsafe { std::mem::zeroed() };
        // SAFETY: `names` is a valid place to write one to.
        if unsafe { libc::uname(&mut names) } != 0 {
            return None;
        }
        let text = |bytes: &[libc::c_char]| {
            // SAFETY: the kernel ends each name with a zero byte inside its array.
            let name = unsafe { CStr::from_ptr(bytes.as_ptr()) };
            name.to_string_lossy().into_owned()
        };
        Some(format!("{} {}", text(&names.sysname), text(&names.release)))
    }

    /// The C library and, where it reports one, its version.
    pub fn libc_version() -> Option<String> {
        #[cfg(target_env = "gnu")]
        {
            // SAFETY: glibc returns a constant string that ends with a zero byte.
            let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
            Some(format!("glibc {}", version.to_string_lossy()))
        }
        #[cfg(not(target_env = "gnu"))]
        {
            cfg!(target_env = "musl").then(|| "musl".to_string())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    /// Threads are not pinned here.
    pub fn pin(_cpu: usize) -> bool {
        false
    }

    /// The CPU is not known here, so all threads share the first slot.
    #[inline(always)]
    pub fn current_cpu() -> usize {
        0
    }

    /// The system's name.
    pub fn kernel() -> Option<String> {
        Some(std::env::consts::OS.to_string())
    }

    /// Not known here.
    pub fn libc_version() -> Option<String> {
        None
    }

    /// Not known here.
    pub fn address_space() -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_named_without_ornament() {
        let model = "Intel(R) Xeon(R) Processor @ 2.80GHz";
        assert_eq!(short_model(model), "Intel Xeon");
        assert_eq!(gigahertz(model), Some(2.8));
        assert_eq!(short_model("AMD EPYC 7B13"), "AMD EPYC 7B13");
    }

    #[test]
    fn the_highest_cpu_of_a_list() {
        assert_eq!(highest_in_list("0"), Some(0));
        assert_eq!(highest_in_list("0-1\n"), Some(1));
        assert_eq!(highest_in_list("0-3,8,10-11"), Some(11));
        assert_eq!(highest_in_list(""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pinned_thread_runs_on_its_cpu() {
        let cpus = allowed_cpus();
        let last = *cpus.last().unwrap();
        let cpu = std::thread::spawn(move || pin(last).then(current_cpu))
            .join()
            .unwrap();
        assert_eq!(cpu, Some(last));
        assert!(!pin(usize::MAX));
    }
}
