//! What this process can use: whether sections run, whether gates can be trusted, and if not, why
//! and what to do.
//!
//! Two environment variables, read once at start-up, overrule the decision:
//!
//! * `ATOMSEQ_DISABLE_RSEQ=1` sends every operation to the slow path. Use it to find out whether
//!   atomseq's fast path is involved in a fault.
//! * `ATOMSEQ_TRUST_KERNEL=1` ignores the list of kernels with a known fault. Use it for a kernel
//!   whose distribution carries the fix under an old version number. The self-test still has to
//!   pass.

use core::fmt;

/// Starts atomseq up, once for the process, and returns the result.
///
/// Every per-CPU structure calls this when it is created. Later calls cost one load. No call
/// allocates through Rust's global allocator, so an allocator may be built on atomseq.
///
/// The first call takes about half a millisecond, and some milliseconds on a busy machine. It
/// starts and reaps one or two short-lived children that share this process's memory, and registers
/// `pthread_atfork` handlers. So the first call
///
/// * must precede a seccomp filter that forbids `clone`, `rseq` or `membarrier`;
/// * must not be made in a signal handler, because the C library may allocate for what start-up
///   registers. Later calls may. [`signal::install`](crate::signal::install) starts atomseq up
///   first. Where a handler that was installed otherwise may be the first to use a static such as a
///   [`Biased`](crate::mutex::Biased), call `status()` before.
///
/// ```
/// let status = atomseq::status();
/// println!("{status}");
/// assert_eq!(status.gates_active(), status.reason().is_none());
/// ```
pub fn status() -> &'static Status {
    crate::platform::start()
}

/// What this process can use, decided once. Returned by [`status()`].
#[derive(Clone, Debug)]
pub struct Status {
    pub(crate) sections: bool,
    pub(crate) gates: bool,
    pub(crate) registrant: Option<Registrant>,
    pub(crate) reason: Option<Reason>,
    pub(crate) features: Features,
}

impl Status {
    /// Returns whether sections run, which start-up has tested: the kernel aborted one.
    ///
    /// Counters, gauges and histograms of [`percpu`](crate::percpu) need nothing more, so they are
    /// fast even on a kernel whose fence is faulty.
    pub fn is_active(&self) -> bool {
        self.sections
    }

    /// Returns whether gates can be closed as well: the kernel offers the rseq fence, and this
    /// kernel's fence is not known to get lost. All other structures of [`percpu`](crate::percpu)
    /// need it, and so do OS-assisted DCAS and the locks with a home CPU.
    pub fn gates_active(&self) -> bool {
        self.gates
    }

    /// Returns what registers this process's threads with the kernel; `None` when sections do not
    /// run.
    pub fn registered_by(&self) -> Option<Registrant> {
        self.registrant
    }

    /// Returns why sections do not run, or else why gates are closed permanently. `None` when
    /// everything is active.
    pub fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// Returns what the kernel offers, whether or not atomseq uses it.
    pub fn features(&self) -> Features {
        self.features
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.registrant, self.reason) {
            (Some(registrant), None) => write!(f, "active, registered by {registrant}"),
            (Some(registrant), Some(reason)) => write!(
                f,
                "counters active, registered by {registrant}; other structures on the slow path: {reason}"
            ),
            (None, Some(reason)) => write!(f, "slow path: {reason}"),
            (None, None) => f.write_str("slow path"),
        }
    }
}

/// What registered this process's threads with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Registrant {
    /// The C library did; atomseq uses its registration.
    Glibc,
    /// The C library does not; atomseq registers each thread on its first operation, and
    /// unregisters it before the thread's storage is freed.
    Atomseq,
}

impl fmt::Display for Registrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Registrant::Glibc => "glibc",
            Registrant::Atomseq => "atomseq",
        })
    }
}

/// A kernel's version: what `uname -r` starts with, or the version that the distribution says it is
/// based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelVersion {
    /// 6 in 6.18.4.
    pub major: u32,
    /// 18 in 6.18.4.
    pub minor: u32,
    /// 4 in 6.18.4.
    pub patch: u32,
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// What the kernel and the machine offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Features {
    /// How many bytes of `struct rseq` the kernel fills in for this process; 0 when it fills in
    /// none.
    pub rseq_size: u32,
    /// The alignment in bytes that the kernel asks for; 32 where it does not say.
    pub rseq_alignment: u32,
    /// The kernel keeps the NUMA node's number in `struct rseq`.
    pub node_id: bool,
    /// The kernel keeps a compact concurrency id in `struct rseq`.
    pub mm_cid: bool,
    /// The kernel knows time-slice extension requests.
    pub slice_ctrl: bool,
    /// The kernel offers the fence that aborts sections on another CPU.
    pub membarrier_rseq: bool,
    /// The largest possible CPU number plus one: how many slots every per-CPU structure has.
    pub cpus: usize,
    /// The kernel's version; `None` where it could not be read, and in portable builds.
    pub kernel: Option<KernelVersion>,
}

/// Why something is unavailable. `Display` prints the reason and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Built for a system without rseq, or with `--cfg atomseq_portable`.
    Portable,
    /// `status()` was called from inside start-up, which had not decided yet.
    StartingUp,
    /// `ATOMSEQ_DISABLE_RSEQ` is set.
    Disabled,
    /// The kernel is too old for sections.
    KernelTooOld(KernelVersion),
    /// This kernel is known to break sections.
    SectionsFaulty(KernelVersion, &'static str),
    /// The kernel refused to register this thread (an error number).
    RegistrationRefused(i32),
    /// The C library gives no thread-exit hook that works without allocating (an error number, or
    /// 0).
    NoThreadExitHook(i32),
    /// Neither the kernel's list of possible CPUs nor its CPU mask can be read.
    CpusUnknown,
    /// The self-test could not start or reap its helper (an error number).
    SelfTestBlocked(i32),
    /// The kernel does not say on which CPU this thread is (an error number), so its rseq CPU
    /// number cannot be checked.
    CpuNumberUnchecked(i32),
    /// The CPU number that the kernel keeps for this thread is wrong.
    CpuNumberWrong,
    /// The self-test interrupted a section, and the kernel did not abort it.
    SelfTestFailed,
    /// The self-test never managed to interrupt a section.
    SelfTestInconclusive,
    /// The kernel has no rseq fence, or it is forbidden (an error number). Only gates are off.
    FenceUnavailable(i32),
    /// The self-test's fence returned before the section was aborted. Only gates are off.
    FenceFailed,
    /// This kernel's fence is known to get lost now and then. Only gates are off.
    FenceFaulty(KernelVersion, &'static str),
    /// The C library took no fork handlers (an error number), so a child could find a gate closed.
    /// Only gates are off.
    NoForkHandlers(i32),
    /// The kernel's version could not be read, so its fence cannot be trusted. Only gates are off.
    KernelUnknown,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Portable => f.write_str(
                "this is a portable build; build for Linux on x86-64 or AArch64 without --cfg atomseq_portable",
            ),
            Reason::StartingUp => f.write_str(
                "the status was requested during atomseq's own start-up; retry after the first call has returned",
            ),
            Reason::Disabled => f.write_str("ATOMSEQ_DISABLE_RSEQ is set; unset it to use rseq"),
            Reason::KernelTooOld(version) => {
                write!(f, "Linux {version} is too old for rseq; use Linux 5.5 or newer")
            }
            Reason::SectionsFaulty(version, why) => write!(
                f,
                "Linux {version} {why}; use a kernel with the fix, or set ATOMSEQ_TRUST_KERNEL=1 if yours has it"
            ),
            Reason::RegistrationRefused(errno) => match *errno {
                ENOSYS => f.write_str(
                    "the kernel has no rseq system call (or a sandbox, valgrind or qemu hides it); use Linux 5.5 or newer with CONFIG_RSEQ",
                ),
                EPERM => f.write_str("a sandbox forbids the rseq system call; allow rseq in its filter"),
                EINVAL | EBUSY => f.write_str(
                    "another library has registered this thread for rseq; keep it from doing so, or let glibc register for both",
                ),
                other => write!(f, "the kernel refused to register this thread for rseq (error {other})"),
            },
            Reason::NoThreadExitHook(0) => f.write_str(
                "the C library's first 32 thread-specific keys are taken; call atomseq::status() earlier in the program",
            ),
            Reason::NoThreadExitHook(errno) => write!(
                f,
                "the C library has no thread-specific key left (error {errno}); call atomseq::status() earlier in the program"
            ),
            Reason::CpusUnknown => f.write_str(
                "the possible CPUs cannot be read; mount /sys, or allow the sched_getaffinity system call",
            ),
            Reason::SelfTestBlocked(errno) => write!(
                f,
                "the self-test could not start or reap its helper process (error {errno}); allow the clone and wait4 system calls until atomseq::status() has returned"
            ),
            Reason::CpuNumberUnchecked(errno) => write!(
                f,
                "the kernel's rseq CPU number cannot be checked (error {errno}); allow the getcpu system call until atomseq::status() has returned"
            ),
            Reason::CpuNumberWrong => f.write_str(
                "the kernel's rseq CPU number differs from getcpu; something else writes to this thread's rseq area",
            ),
            Reason::SelfTestFailed => f.write_str(
                "the self-test interrupted a section and the kernel did not restart it; use another kernel",
            ),
            Reason::SelfTestInconclusive => f.write_str(
                "the self-test could not interrupt a section in time; call atomseq::status() while the machine is less busy, and not from a real-time thread",
            ),
            Reason::FenceUnavailable(errno) => match *errno {
                EPERM => f.write_str("a sandbox forbids the membarrier system call; allow membarrier in its filter"),
                other => write!(
                    f,
                    "the kernel has no membarrier fence for rseq (error {other}); use Linux 5.10 or newer with CONFIG_MEMBARRIER and CONFIG_RSEQ"
                ),
            },
            Reason::FenceFailed => f.write_str(
                "the self-test's membarrier fence returned before the section was aborted; use another kernel",
            ),
            Reason::FenceFaulty(version, why) => write!(
                f,
                "Linux {version} {why}; use a kernel with the fix, or set ATOMSEQ_TRUST_KERNEL=1 if yours has it"
            ),
            Reason::NoForkHandlers(errno) => write!(
                f,
                "the C library has no memory for fork handlers (error {errno}); call atomseq::status() earlier in the program"
            ),
            Reason::KernelUnknown => f.write_str(
                "the kernel's version cannot be read; set ATOMSEQ_TRUST_KERNEL=1 if it is Linux 6.18 or newer",
            ),
        }
    }
}

// Error numbers that the sentences above tell apart: the same on every Linux.
const EPERM: i32 = 1;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_one_sentence_that_fits_after_a_colon() {
        let version = KernelVersion {
            major: 6,
            minor: 12,
            patch: 1,
        };
        let reasons = [
            Reason::Portable,
            Reason::StartingUp,
            Reason::Disabled,
            Reason::KernelTooOld(version),
            Reason::SectionsFaulty(version, "does not abort sections"),
            Reason::RegistrationRefused(ENOSYS),
            Reason::RegistrationRefused(EPERM),
            Reason::RegistrationRefused(EINVAL),
            Reason::RegistrationRefused(5),
            Reason::NoThreadExitHook(0),
            Reason::NoThreadExitHook(11),
            Reason::CpusUnknown,
            Reason::SelfTestBlocked(EPERM),
            Reason::CpuNumberUnchecked(EPERM),
            Reason::CpuNumberWrong,
            Reason::SelfTestFailed,
            Reason::SelfTestInconclusive,
            Reason::FenceUnavailable(EPERM),
            Reason::FenceUnavailable(EINVAL),
            Reason::FenceFailed,
            Reason::FenceFaulty(version, "can lose a fence"),
            Reason::NoForkHandlers(12),
            Reason::KernelUnknown,
        ];
        for reason in reasons {
            let sentence = reason.to_string();
            assert!(
                sentence.contains("; ") || sentence.contains("(error 5)"),
                "{sentence}: says not what to do"
            );
            assert!(!sentence.ends_with('.'), "{sentence}");
        }
    }

    #[test]
    fn status_is_consistent_and_stays() {
        let status = status();
        assert!(core::ptr::eq(status, super::status()));
        assert_eq!(status.gates_active(), status.reason().is_none());
        assert_eq!(status.is_active(), status.registered_by().is_some());
        assert!(status.is_active() || !status.gates_active());
        assert!(status.features().cpus >= 1);
    }

    #[test]
    fn display_names_registrant_and_reason() {
        let mut status = status().clone();
        (status.sections, status.gates) = (true, true);
        (status.registrant, status.reason) = (Some(Registrant::Glibc), None);
        assert_eq!(status.to_string(), "active, registered by glibc");
        status.reason = Some(Reason::FenceFailed);
        assert!(
            status
                .to_string()
                .starts_with("counters active, registered by glibc; other")
        );
        (status.registrant, status.reason) = (None, Some(Reason::Disabled));
        assert_eq!(
            status.to_string(),
            "slow path: ATOMSEQ_DISABLE_RSEQ is set; unset it to use rseq"
        );
    }
}
