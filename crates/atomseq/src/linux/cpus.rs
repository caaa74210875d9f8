//! The possible CPUs, and the current one.
//!
//! A section uses its CPU number as an unchecked index, so the number of slots must cover every CPU
//! that the kernel can ever report. That is the list of *possible* CPUs, never a count, an affinity
//! mask or the online CPUs. Three sources give an upper bound, the tightest first:
//!
//! 1. the list of possible CPUs, in sysfs;
//! 2. the number of digits that procfs prints for a CPU mask: a multiple of 4 CPUs;
//! 3. the size of the mask that `sched_getaffinity` copies: a multiple of 64 CPUs.
//!
//! Containers and sandboxes replace the files of the first two, and a replacement may say anything.
//! A number that is too small would let sections access memory beyond the slots. So a file counts
//! only if it is the kernel's own: opened below the root of a file system of the right type,
//! without crossing into another mount ([`Descriptor::open_below`]). The third source cannot be
//! replaced.

use super::{memory, rseq};
use crate::arch::syscall;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::slice;
use core::sync::atomic::{AtomicUsize, Ordering};

/// More CPUs than any kernel is built for. A list with a larger number is invalid.
const MAX: usize = 1 << 16;

static SLOTS: AtomicUsize = AtomicUsize::new(1);

/// Returns the largest possible CPU number plus one, or 1 until start-up has counted. A structure
/// indexed by CPU numbers must not take its size from here before start-up has ended
/// (`percpu::started`).
#[inline]
pub fn cpu_slots() -> usize {
    // Relaxed: written once, before the Release that ends start-up.
    SLOTS.load(Ordering::Relaxed)
}

/// Returns the CPU that this thread is on, or was on a moment ago: less than [`cpu_slots`].
#[inline]
pub fn current_cpu() -> usize {
    let cpu = rseq::cpu_id();
    let cpu = if cpu >= 0 { cpu as usize } else { ask() };
    let slots = cpu_slots();
    if cpu < slots { cpu } else { cpu % slots }
}

#[cold]
fn ask() -> usize {
    // SAFETY: the call takes no arguments and is in the vDSO if there is one.
    let cpu = unsafe { libc::sched_getcpu() };
    // -1, the only failure, means that the kernel lacks the call. Any slot is then correct, since
    // the slow path locks it.
    cpu.max(0) as usize
}

/// The source of the number of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The kernel's list of possible CPUs.
    List,
    /// The width of the kernel's CPU masks.
    Mask,
    /// Neither was readable: a guess, which sections cannot rely on.
    Guess,
}

/// Determines the number of slots, once, during start-up.
pub(super) fn count() -> (usize, Source) {
    let read = |room: &mut [u8]| {
        let listed = POSSIBLE.read(room).and_then(parse);
        let digits = STATUS.read(room).and_then(mask_digits);
        (listed, digits, mask(room))
    };
    let (listed, digits, mask) = with_room(read);
    let (slots, source) = decide(listed, digits, mask);
    SLOTS.store(slots, Ordering::Relaxed);
    (slots, source)
}

/// Lends a buffer for files and masks. It is not on the stack if there is memory, because some
/// threads' stacks are no larger than this.
fn with_room<R>(work: impl FnOnce(&mut [u8]) -> R) -> R {
    const BYTES: usize = 16384;
    /// Holds the mask of 8,192 CPUs, as many as distributions build kernels for, and a list.
    const FEWER: usize = 1024;
    let Some(start) = memory::map(BYTES) else {
        return work(&mut [0; FEWER]);
    };
    // SAFETY: just mapped with this size, zeroed, and used by this function only.
    let result = work(unsafe { slice::from_raw_parts_mut(start.as_ptr(), BYTES) });
    // SAFETY: mapped above with this size, and no longer borrowed.
    unsafe { memory::unmap(start, BYTES) };
    result
}

/// An affinity mask: the upper bound that its size gives, and the highest CPU that this thread may
/// run on.
#[derive(Clone, Copy)]
struct Mask {
    bound: usize,
    highest: usize,
}

/// Returns the tightest upper bound that no other source contradicts. `listed` and `digits` come
/// from the kernel's own files. `digits` is the number of hexadecimal digits of a printed CPU mask,
/// one for every four CPUs.
fn decide(listed: Option<usize>, digits: Option<usize>, mask: Option<Mask>) -> (usize, Source) {
    let believable =
        |slots: &usize| mask.is_none_or(|mask| mask.highest < *slots && *slots <= mask.bound);
    let list = listed.map(|largest| largest + 1).filter(believable);
    let width = digits.map(|digits| digits * 4).filter(believable);
    match (list, width, mask) {
        (Some(list), width, _) if width.is_none_or(|width| list <= width) => (list, Source::List),
        (list, Some(width), _) => (width.max(list.unwrap_or(0)), Source::Mask),
        (_, None, Some(mask)) => (mask.bound, Source::Mask),
        (_, None, None) => {
            // SAFETY: the call takes a number and accesses no memory of ours.
            let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
            (configured.clamp(1, MAX as i64) as usize, Source::Guess)
        }
    }
}

/// Returns the number of digits of the mask in `/proc/self/status`.
fn mask_digits(text: &[u8]) -> Option<usize> {
    let mask = text
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"Cpus_allowed:\t"))?;
    let plausible = mask
        .iter()
        .all(|&byte| byte == b',' || byte.is_ascii_hexdigit());
    let digits = mask.iter().filter(|&&byte| byte != b',').count();
    (plausible && (1..=MAX / 4).contains(&digits)).then_some(digits)
}

/// Reads the affinity mask. The buffer is large enough for any kernel.
fn mask(set: &mut [u8]) -> Option<Mask> {
    // SAFETY: the kernel writes at most the length given to the buffer; 0 means this thread.
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

/// A small file in one of the kernel's own file systems.
#[derive(Clone, Copy)]
pub(super) struct KernelFile {
    /// Where the file system is mounted by convention.
    root: &'static CStr,
    /// The number of the file system's type.
    magic: u64,
    path: &'static CStr,
}

impl KernelFile {
    const fn in_sysfs(path: &'static CStr) -> KernelFile {
        KernelFile {
            root: c"/sys",
            magic: libc::SYSFS_MAGIC as u64,
            path,
        }
    }

    pub(super) const fn in_procfs(path: &'static CStr) -> KernelFile {
        KernelFile {
            root: c"/proc",
            magic: libc::PROC_SUPER_MAGIC as u64,
            path,
        }
    }

    /// Reads the whole file. `None`: it is unreadable, it fills the buffer and may be longer, it is
    /// not the kernel's file, or the kernel cannot check that (before Linux 5.6).
    pub(super) fn read(self, buffer: &mut [u8]) -> Option<&[u8]> {
        let root = Descriptor::open(self.root)?;
        if root.file_system()? != self.magic {
            return None;
        }
        root.open_below(self.path)?.read(buffer)
    }
}

const POSSIBLE: KernelFile = KernelFile::in_sysfs(c"devices/system/cpu/possible");
const STATUS: KernelFile = KernelFile::in_procfs(c"self/status");

/// An open file, closed when dropped.
struct Descriptor(usize);

impl Descriptor {
    /// Opens a directory as the base of [`open_below`](Descriptor::open_below).
    fn open(path: &CStr) -> Option<Descriptor> {
        let flags = (libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC) as usize;
        let (directory, path) = (libc::AT_FDCWD as usize, path.as_ptr() as usize);
        // SAFETY: the path is null-terminated and outlives the call.
        let file = unsafe { syscall(libc::SYS_openat, [directory, path, flags, 0, 0, 0]) };
        usize::try_from(file).ok().map(Descriptor)
    }

    /// Opens a file below this directory, and fails if it or a directory on the way is in another
    /// mount.
    fn open_below(&self, path: &CStr) -> Option<Descriptor> {
        let how = [
            (libc::O_RDONLY | libc::O_CLOEXEC) as u64,
            0,
            libc::RESOLVE_NO_XDEV | libc::RESOLVE_BENEATH,
        ];
        let (path, how) = (path.as_ptr() as usize, &how);
        let arguments = [self.0, path, how.as_ptr() as usize, size_of_val(how), 0, 0];
        // SAFETY: the path is null-terminated and outlives the call. The three words are a `struct
        // open_how`: flags, mode, resolve.
        let file = unsafe { syscall(libc::SYS_openat2, arguments) };
        usize::try_from(file).ok().map(Descriptor)
    }

    /// Returns the type number of the file system that the file is in.
    fn file_system(&self) -> Option<u64> {
        let mut status = MaybeUninit::<libc::statfs>::uninit();
        let to = status.as_mut_ptr() as usize;
        // SAFETY: the kernel writes a `struct statfs` to memory of that size.
        let result = unsafe { syscall(libc::SYS_fstatfs, [self.0, to, 0, 0, 0, 0]) };
        // SAFETY: the call succeeded, so the kernel has filled the structure in.
        (result == 0).then(|| unsafe { status.assume_init() }.f_type as u64)
    }

    fn read<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let mut filled = 0;
        let whole = loop {
            let rest = &mut buffer[filled..];
            let (to, length) = (rest.as_mut_ptr() as usize, rest.len());
            // SAFETY: the kernel writes at most the length given to the borrowed buffer.
            let got = unsafe { syscall(libc::SYS_read, [self.0, to, length, 0, 0, 0]) };
            match got {
                0 => break filled < buffer.len(),
                got if got > 0 => filled += got as usize,
                got if got == -(libc::EINTR as isize) => {}
                _ => break false,
            }
        };
        whole.then(|| &buffer[..filled])
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: this structure opened the file and is its only user.
        unsafe { syscall(libc::SYS_close, [self.0, 0, 0, 0, 0, 0]) };
    }
}

/// Returns the largest CPU of a list such as `0-3,8-11`, or `None` if the text is no such list.
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
        (value < MAX).then_some(value)
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

    /// For any number of CPUs and any subset of readable sources, no result is too small, and the
    /// tightest bound is taken. 6,300 decisions.
    #[test]
    fn every_number_is_an_upper_bound() {
        for cpus in 1..=300usize {
            let sources = [
                (cpus, Source::List),
                (cpus.next_multiple_of(4), Source::Mask),
                (cpus.next_multiple_of(64), Source::Mask),
            ];
            for highest in [0, cpus / 2, cpus - 1] {
                for readable in 1..8 {
                    let [list, width, bound] = [0, 1, 2]
                        .map(|source| readable >> source & 1 != 0)
                        .map(Some);
                    let listed = list.filter(|readable| *readable).map(|_| cpus - 1);
                    let digits = width.filter(|readable| *readable).map(|_| cpus.div_ceil(4));
                    let mask = bound.filter(|readable| *readable).map(|_| Mask {
                        bound: cpus.next_multiple_of(64),
                        highest,
                    });
                    let tightest = sources[(readable as u32).trailing_zeros() as usize];
                    assert_eq!(decide(listed, digits, mask), tightest, "{cpus} CPUs");
                }
            }
        }
    }

    #[test]
    fn sources_that_contradict_each_other_give_way() {
        let mask = |bound, highest| Some(Mask { bound, highest });
        let masks = Source::Mask;
        assert_eq!(decide(Some(2), Some(1), mask(64, 3)), (4, masks), "short");
        assert_eq!(decide(Some(4), Some(1), mask(64, 3)), (5, masks), "long");
        assert_eq!(decide(Some(3), Some(1), mask(64, 4)), (64, masks), "both");
        assert_eq!(decide(Some(3), None, mask(64, 5)), (64, masks));
        assert_eq!(decide(Some(200), None, mask(64, 5)), (64, masks));
        assert_eq!(decide(Some(4), Some(1), None), (5, masks));
        assert_eq!(decide(None, None, None).1, Source::Guess);
    }

    /// A file that is not the kernel's, or is reached through another mount, is not read, whatever
    /// it contains.
    #[test]
    fn only_the_kernels_own_files_count() {
        let mut buffer = [0u8; 16384];
        assert!(STATUS.read(&mut buffer).is_some());
        // A world-writable directory with such a file in it.
        let elsewhere = std::env::temp_dir().join(format!("atomseq-cpus-{}", std::process::id()));
        let directory = elsewhere.join("devices/system/cpu");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("possible"), "0\n").unwrap();
        let root = std::ffi::CString::new(elsewhere.to_str().unwrap()).unwrap();
        let root: &'static CStr = Box::leak(root.into_boxed_c_str());
        let replaced = KernelFile { root, ..POSSIBLE };
        assert_eq!(replaced.read(&mut buffer), None);
        std::fs::remove_dir_all(&elsewhere).unwrap();
        // The right file, but through other mounts: it cannot be distinguished from a file mounted
        // over it.
        let through = KernelFile {
            path: c"self/root/sys/devices/system/cpu/possible",
            ..STATUS
        };
        assert!(std::fs::exists("/proc/self/root/sys/devices/system/cpu/possible").unwrap());
        assert_eq!(through.read(&mut buffer), None);
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
        assert_ne!(source, Source::Guess);
        if POSSIBLE.read(&mut [0; 16384]).is_some() {
            assert_eq!(source, Source::List);
        }
        assert_eq!(slots, cpu_slots());
        let mask = with_room(mask).expect("sched_getaffinity");
        assert!(mask.highest < slots && slots <= mask.bound);
        crate::status();
        for _ in 0..1000 {
            assert!(current_cpu() < slots);
        }
    }

    #[test]
    fn files_that_are_missing_or_too_long_are_none() {
        let mut buffer = [0u8; 4];
        let nowhere = KernelFile::in_procfs(c"nonexistent/file");
        assert_eq!(nowhere.read(&mut buffer), None);
        assert_eq!(STATUS.read(&mut buffer), None);
    }
}
