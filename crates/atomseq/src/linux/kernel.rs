//! Kernels that are known to break what atomseq relies on. The faults are races that no self-test
//! can provoke, so the version decides.
//!
//! **The lost fence.** A fence sets a bit in the interrupted thread's event mask from an
//! inter-processor interrupt, while the scheduler reads and clears the same mask with interrupts
//! enabled. The bit can be lost, and with it the abort. The fault exists since the fence does
//! (5.10). Commit 6eb350a22331 "rseq: Protect event mask against membarrier IPI" fixed it in 6.18
//! and in the stable releases of `FENCE_FIXED`. For a series that is not listed, no fix could be
//! established (for 5.15 and older the fix did not apply).
//!
//! **AArch64 without aborts.** Since 6.19, AArch64 kernels abort a section only if its thread
//! changed the CPU, not if another thread ran on the same CPU in between (reported April 2026,
//! after 7.0). x86-64 is not affected. The other change of that release (`cpu_id_start` is no
//! longer rewritten at every return) does not affect atomseq.

use super::cpus::KernelFile;
use crate::status::KernelVersion;

/// The first release of each maintained series before 6.18 that has the fix of the fence.
const FENCE_FIXED: [((u32, u32), u32); 4] = [
    ((6, 17), 4),  // 6.17.4 of October 2025
    ((6, 12), 54), // 6.12.54 of October 2025
    ((6, 6), 113), // 6.6.113 of October 2025
    ((6, 1), 157), // 6.1.157 of October 2025
];

/// The series whose AArch64 kernels do not abort sections on preemption.
const SECTIONS_FAULTY_ON_AARCH64: [(u32, u32); 2] = [
    (6, 19), // entry code moved to the generic one
    (7, 0),  // the same code; a fixed release could not be established
];

/// The oldest usable version. Before 5.5 a child that shares memory also shared its parent's
/// registration, and the kernel wrote the child's CPU number into it (commit 463f550fb47b "rseq:
/// Unregister rseq for clone CLONE_VM").
const OLDEST: KernelVersion = KernelVersion {
    major: 5,
    minor: 5,
    patch: 0,
};

/// The verdict on a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Sound,
    /// The fence can be lost.
    FenceFaulty(&'static str),
    /// Sections are not always aborted.
    SectionsFaulty(&'static str),
    /// Sections cannot be used, whatever was backported.
    TooOld,
}

pub(super) fn judge(version: KernelVersion, aarch64: bool) -> Verdict {
    let series = (version.major, version.minor);
    if version < OLDEST {
        return Verdict::TooOld;
    }
    if aarch64 && SECTIONS_FAULTY_ON_AARCH64.contains(&series) {
        return Verdict::SectionsFaulty("does not abort sections when it preempts their thread");
    }
    let fixed = FENCE_FIXED
        .iter()
        .any(|&(fixed, patch)| series == fixed && version.patch >= patch);
    if series >= (6, 18) || fixed {
        Verdict::Sound
    } else {
        Verdict::FenceFaulty(
            "can lose a membarrier fence (fixed in 6.18, 6.17.4, 6.12.54, 6.6.113 and 6.1.157)",
        )
    }
}

/// Returns the running kernel's version.
pub(super) fn version() -> Option<KernelVersion> {
    // SAFETY: `utsname` is plain data, for which zero is valid.
    let mut name: libc::utsname = unsafe { core::mem::zeroed() };
    // SAFETY: the buffer is valid for writes of a whole `utsname`.
    if unsafe { libc::uname(&mut name) } != 0 {
        return None;
    }
    let release = leading(bytes(&name.release))?;
    if release.patch != 0 {
        return Some(release);
    }
    // Distributions leave the last number at 0 and report elsewhere which release they are based
    // on.
    let mut text = [0u8; 256];
    let signature = KernelFile::in_procfs(c"version_signature").read(&mut text);
    Some(refine(
        release,
        bytes(&name.version),
        signature.unwrap_or_default(),
    ))
}

fn bytes(text: &[libc::c_char]) -> &[u8] {
    // SAFETY: the slice has this length, and a character has the size and alignment of a byte.
    let text = unsafe { core::slice::from_raw_parts(text.as_ptr().cast::<u8>(), text.len()) };
    let end = text
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(text.len());
    &text[..end]
}

/// Replaces a patch number of 0 by that of the base release. The sources are Debian's `uname -v`
/// ("... Debian 6.1.76-1 (2024-02-01)") and Ubuntu's `/proc/version_signature` ("Ubuntu
/// 6.8.0-31.31-generic 6.8.1"), if they name the same series.
fn refine(release: KernelVersion, version: &[u8], signature: &[u8]) -> KernelVersion {
    let debian = after(version, b"Debian ");
    let ubuntu =
        after(signature, b"Ubuntu ").and_then(|rest| rest.split(|&byte| byte == b' ').nth(1));
    [debian, ubuntu]
        .into_iter()
        .flatten()
        .filter_map(leading)
        .find(|found| (found.major, found.minor) == (release.major, release.minor))
        .unwrap_or(release)
}

fn after<'a>(text: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    let start = text.windows(mark.len()).position(|part| part == mark)?;
    Some(&text[start + mark.len()..])
}

/// Parses the version that a text starts with: two or three numbers, then anything.
fn leading(text: &[u8]) -> Option<KernelVersion> {
    let mut rest = text;
    let major = number(&mut rest)?;
    rest = rest.strip_prefix(b".")?;
    let minor = number(&mut rest)?;
    let patch = match rest.strip_prefix(b".") {
        Some(mut rest) if rest.first().is_some_and(u8::is_ascii_digit) => number(&mut rest)?,
        _ => 0,
    };
    Some(KernelVersion {
        major,
        minor,
        patch,
    })
}

fn number(text: &mut &[u8]) -> Option<u32> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let (number, rest) = text.split_at(digits);
    *text = rest;
    number.iter().try_fold(0u32, |value, digit| {
        value.checked_mul(10)?.checked_add(u32::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(major: u32, minor: u32, patch: u32) -> KernelVersion {
        KernelVersion {
            major,
            minor,
            patch,
        }
    }

    #[test]
    fn releases() {
        for (text, version) in [
            ("6.18.4", v(6, 18, 4)),
            ("6.18.44-fc-v657", v(6, 18, 44)),
            ("6.1.0-18-amd64", v(6, 1, 0)),
            ("5.15.0-91-generic", v(5, 15, 0)),
            ("5.14.0-427.13.1.el9_4.x86_64", v(5, 14, 0)),
            ("6.12.48+deb13-amd64", v(6, 12, 48)),
            ("6.18-rc1", v(6, 18, 0)),
            ("6.18.0-rc1+", v(6, 18, 0)),
            ("6.6.87.2-microsoft-standard-WSL2", v(6, 6, 87)),
            ("7.0", v(7, 0, 0)),
            ("6.18.", v(6, 18, 0)),
        ] {
            assert_eq!(leading(text.as_bytes()), Some(version), "{text}");
        }
        for text in [
            "",
            "6",
            "6.",
            "linux",
            "v6.1",
            ".6.1",
            "6..1",
            "99999999999.1",
            "6.99999999999",
        ] {
            assert_eq!(leading(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn distributions_say_what_they_are_based_on() {
        let debian = b"#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)";
        assert_eq!(refine(v(6, 1, 0), debian, b""), v(6, 1, 76));
        assert_eq!(
            refine(v(6, 12, 0), debian, b""),
            v(6, 12, 0),
            "another series"
        );
        let ubuntu = b"Ubuntu 6.17.0-19.19-generic 6.17.9\n";
        assert_eq!(refine(v(6, 17, 0), b"#19-Ubuntu SMP", ubuntu), v(6, 17, 9));
        assert_eq!(
            refine(v(6, 17, 0), b"#19-Ubuntu SMP", b"Ubuntu"),
            v(6, 17, 0)
        );
        assert_eq!(refine(v(6, 17, 0), b"Debian ", b"Ubuntu a b"), v(6, 17, 0));
    }

    #[test]
    fn the_lost_fence() {
        for version in [
            v(6, 18, 0),
            v(6, 18, 44),
            v(6, 19, 0),
            v(7, 2, 0),
            v(6, 17, 4),
            v(6, 12, 54),
            v(6, 6, 113),
            v(6, 1, 157),
        ] {
            assert_eq!(judge(version, false), Verdict::Sound, "{version}");
        }
        for version in [
            v(6, 17, 3),
            v(6, 12, 53),
            v(6, 6, 112),
            v(6, 1, 156),
            v(6, 16, 99),
            v(6, 8, 0),
            v(5, 15, 300),
            v(5, 10, 500),
            v(5, 5, 0),
        ] {
            assert!(
                matches!(judge(version, false), Verdict::FenceFaulty(_)),
                "{version}"
            );
        }
    }

    #[test]
    fn sections() {
        for version in [v(6, 19, 0), v(6, 19, 12), v(7, 0, 3)] {
            assert!(
                matches!(judge(version, true), Verdict::SectionsFaulty(_)),
                "{version}"
            );
            assert_eq!(judge(version, false), Verdict::Sound, "{version}");
        }
        assert_eq!(judge(v(6, 18, 3), true), Verdict::Sound);
        for version in [v(5, 4, 300), v(4, 18, 0), v(2, 6, 78)] {
            assert_eq!(judge(version, false), Verdict::TooOld, "{version}");
        }
    }

    #[test]
    fn this_kernel_has_a_version() {
        assert!(version().is_some());
    }
}
