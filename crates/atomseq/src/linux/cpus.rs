//! Which CPUs there can be, and which one this is.
//!
//! A section uses its CPU number as an index without a test, so the number of slots must hold for every CPU that the
//! kernel can ever name: the list of *possible* CPUs, never a count, an affinity mask or the CPUs online. Where the
//! list is unreadable, or contradicts the kernel (containers may put a file of their own in its place), the width
//! of the kernel's own CPU masks serves, which is never too small.

use super::rseq;
use crate::arch::syscall;
use core::sync::atomic::{AtomicUsize, Ordering};

/// More CPUs than any kernel is built for; a longer list is not one.
const MOST: usize = 1 << 16;

static SLOTS: AtomicUsize = AtomicUsize::new(1);

/// The largest possible CPU number plus one. 1 before start-up.
#[inline]
pub fn cpu_slots() -> usize {
    // Relaxed: written once, before the Release that ends start-up.
    SLOTS.load(Ordering::Relaxed)
}

/// The CPU that this thread is on, or was a moment ago; less than [`cpu_slots`].
#[inline]
pub fn current_cpu() -> usize {
    let cpu = rseq::cpu_id();
    let cpu = if cpu >= 0 { cpu as usize } else { ask() };
    let slots = cpu_slots();
    if cpu < slots { cpu } else { cpu % slots }
}

#[cold]
fn ask() -> usize {
    // SAFETY: no arguments; in the vDSO where there is one.
    let cpu = unsafe { libc::sched_getcpu() };
    // -1, the one failure, is a kernel without the call: any slot will do, since the slow path locks it.
    cpu.max(0) as usize
}

/// Where the number of slots came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The kernel's list of possible CPUs.
    List,
    /// The width of the kernel's CPU masks.
    Mask,
    /// Neither could be read: a guess, too small for sections.
    Guess,
}

/// Finds out the number of slots, once, at start-up.
pub(super) fn count() -> (usize, Source) {
    let mut text = [0u8; 16384];
    let listed = read(c"/sys/devices/system/cpu/possible", &mut text).and_then(parse);
    let digits = read(c"/proc/self/status", &mut text).and_then(mask_digits);
    let (slots, source) = decide(listed, digits, mask());
    SLOTS.store(slots, Ordering::Relaxed);
    (slots, source)
}

/// What the mask says: the upper bound that its size is, and the largest CPU that this thread may run on.
struct Mask {
    bound: usize,
    highest: usize,
}

/// `digits`: how many hexadecimal digits the kernel prints a CPU mask with: one for every four CPUs it knows.
fn decide(listed: Option<usize>, digits: Option<usize>, mask: Option<Mask>) -> (usize, Source) {
    let slots = listed.map(|largest| largest + 1);
    match (slots, digits, mask) {
        (Some(slots), Some(digits), _) if slots.div_ceil(4) == digits => (slots, Source::List),
        (_, Some(digits), _) => (digits * 4, Source::Mask),
        (Some(slots), None, None) => (slots, Source::List),
        (Some(slots), None, Some(mask)) if slots <= mask.bound && mask.highest < slots => {
            (slots, Source::List)
        }
        (_, None, Some(mask)) => (mask.bound, Source::Mask),
        (None, None, None) => {
            // SAFETY: a plain question to the C library.
            let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
            (configured.clamp(1, MOST as i64) as usize, Source::Guess)
        }
    }
}

/// The digits of the mask in `/proc/self/status`.
fn mask_digits(text: &[u8]) -> Option<usize> {
    let mask = text
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"Cpus_allowed:\t"))?;
    let plausible = mask
        .iter()
        .all(|&byte| byte == b',' || byte.is_ascii_hexdigit());
    let digits = mask.iter().filter(|&&byte| byte != b',').count();
    (plausible && (1..=MOST / 4).contains(&digits)).then_some(digits)
}

fn mask() -> Option<Mask> {
    let mut set = [0u8; MOST / 8];
    // SAFETY: the kernel writes at most the length given; 0 is this thread.
    let written = unsafe {
        syscall(
            libc::SYS_sched_getaffinity,
            [0, set.len(), set.as_mut_ptr() as usize, 0, 0, 0],
        )
    };
    let set = set.get(..usize::try_from(written).ok()?)?;
    let byte = set.iter().rposition(|&byte| byte != 0)?;
    Some(Mask {
        bound: set.len() * 8,
        highest: byte * 8 + set[byte].ilog2() as usize,
    })
}

/// The whole of a small file, or `None`: unreadable, or as long as the buffer and so perhaps longer.
pub(super) fn read<'a>(path: &core::ffi::CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    // SAFETY: the path is null-terminated; a result below 0 is an error.
    let file = unsafe {
        syscall(
            libc::SYS_openat,
            [
                libc::AT_FDCWD as usize,
                path.as_ptr() as usize,
                flags,
                0,
                0,
                0,
            ],
        )
    };
    let file = usize::try_from(file).ok()?;
    let mut filled = 0;
    let whole = loop {
        let rest = &mut buffer[filled..];
        // SAFETY: the kernel writes at most the length given to a buffer that is ours.
        let got = unsafe {
            syscall(
                libc::SYS_read,
                [file, rest.as_mut_ptr() as usize, rest.len(), 0, 0, 0],
            )
        };
        match got {
            0 => break filled < buffer.len(),
            got if got > 0 => filled += got as usize,
            got if got == -(libc::EINTR as isize) => {}
            _ => break false,
        }
    };
    // SAFETY: closes the descriptor that was opened above.
    unsafe { syscall(libc::SYS_close, [file, 0, 0, 0, 0, 0]) };
    if whole { Some(&buffer[..filled]) } else { None }
}

/// The largest CPU of a list such as `0-3,8-11`; `None` for anything that is not such a list.
fn parse(text: &[u8]) -> Option<usize> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let mut largest = None;
    for range in text.split(|&byte| byte == b',') {
        let mut ends = range.split(|&byte| byte == b'-');
        let first = number(ends.next()?)?;
        let last = ends.next().map_or(Some(first), number)?;
        if ends.next().is_some() || last < first {
            return None;
        }
        largest = largest.max(Some(last));
    }
    largest
}

fn number(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0usize, |value, &digit| {
        let value = value * 10 + usize::from(digit.is_ascii_digit().then(|| digit - b'0')?);
        (value < MOST).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (text, largest) in [
            ("0\n", 0),
            ("0-1\n", 1),
            ("0-3,8-11\n", 11),
            ("8-11,0-3", 11),
            ("0,2,4,6\n", 6),
            ("0-8191\n", 8191),
            ("65535\n", 65535),
            ("0007\n", 7),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(largest), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in [
            "",
            "\n",
            "-",
            "0-",
            "-1",
            "0-1-2",
            "3-1",
            "a",
            "0 1",
            " 0",
            "0,",
            ",0",
            "0,,1",
            "0-1\n\n",
            "1e3",
            "65536",
            "99999999999999999999999999",
            "0-18446744073709551616",
            "\0",
            "0\0",
            "٣",
            "+1",
            "0x1f",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn a_list_that_contradicts_the_kernel_gives_way_to_the_mask() {
        let mask = |bound, highest| Some(Mask { bound, highest });
        for listed in [0, 1, 3] {
            assert_eq!(
                decide(Some(listed), Some(1), None),
                (listed + 1, Source::List)
            );
        }
        assert_eq!(decide(Some(4), Some(2), mask(64, 3)), (5, Source::List));
        assert_eq!(
            decide(Some(3), Some(2), mask(64, 3)),
            (8, Source::Mask),
            "list too short"
        );
        assert_eq!(
            decide(Some(4), Some(1), mask(64, 3)),
            (4, Source::Mask),
            "list too long"
        );
        assert_eq!(decide(None, Some(3), None), (12, Source::Mask));
        // Without the digits, the mask's size and content must do.
        assert_eq!(decide(Some(3), None, mask(64, 3)), (4, Source::List));
        assert_eq!(decide(Some(3), None, mask(64, 5)), (64, Source::Mask));
        assert_eq!(decide(Some(200), None, mask(64, 5)), (64, Source::Mask));
        assert_eq!(decide(None, None, mask(128, 5)), (128, Source::Mask));
        assert_eq!(decide(Some(3), None, None), (4, Source::List));
        assert_eq!(decide(None, None, None).1, Source::Guess);
    }

    #[test]
    fn digits_of_the_kernels_mask() {
        for (text, digits) in [
            (
                "Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n",
                Some(1),
            ),
            ("Cpus_allowed:\tff,ffffffff\n", Some(10)),
            ("Cpus_allowed:\t\n", None),
            ("Cpus_allowed:\tlots\n", None),
            ("Cpus_allowed_list:\t0-1\n", None),
            ("", None),
        ] {
            assert_eq!(mask_digits(text.as_bytes()), digits, "{text:?}");
        }
    }

    #[test]
    fn this_machine() {
        let (slots, source) = count();
        assert_eq!(source, Source::List);
        assert_eq!(slots, cpu_slots());
        let mask = mask().expect("sched_getaffinity");
        assert!(mask.highest < slots && slots <= mask.bound);
        crate::status();
        for _ in 0..1000 {
            assert!(current_cpu() < slots);
        }
    }

    #[test]
    fn files_that_are_missing_or_too_long_are_none() {
        let mut buffer = [0u8; 4];
        assert_eq!(read(c"/nonexistent/file", &mut buffer), None);
        assert_eq!(read(c"/proc/self/status", &mut buffer), None);
    }
}
