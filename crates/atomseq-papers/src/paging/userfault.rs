//! `userfaultfd` as a region needs it: a page that is in the file but not mapped raises `SIGBUS`,
//! and the handler maps it.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;

use super::Error;

// From linux/userfaultfd.h; the libc crate has none of it.
const USER_MODE_ONLY: i32 = 1;
const API: u64 = 0xaa;
/// Faults are signals, not messages.
const FEATURE_SIGBUS: u64 = 1 << 7;
/// Pages of shared memory that are there but not mapped fault, too (Linux 5.14).
const FEATURE_MINOR_SHMEM: u64 = 1 << 10;
const REGISTER_MODE_MINOR: u64 = 1 << 2;
const UFFDIO_API: u32 = 0xc018_aa3f;
const UFFDIO_REGISTER: u32 = 0xc020_aa00;
const UFFDIO_CONTINUE: u32 = 0xc020_aa07;

/// A descriptor that reports the faults of one range of memory.
pub struct Userfault(File);

impl Userfault {
    /// Reports the faults of a mapping of shared memory, of which no page is in afterwards.
    ///
    /// # Errors
    ///
    /// If the system has no such descriptor, or not for this process.
    pub fn over(start: usize, bytes: usize) -> Result<Self, Error> {
        // SAFETY: a number. Faults of the kernel's own, in system calls, are errors of those calls.
        let descriptor =
            unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | USER_MODE_ONLY) };
        if descriptor < 0 {
            return Err(Error::last("userfaultfd"));
        }
        // SAFETY: a new descriptor that nothing else owns.
        let this = Self(unsafe { File::from_raw_fd(descriptor as i32) });
        // version, features, answer
        let mut api = [API, FEATURE_SIGBUS | FEATURE_MINOR_SHMEM, 0];
        this.control("UFFDIO_API", UFFDIO_API, &mut api)?;
        let memory = ptr::with_exposed_provenance_mut(start);
        // SAFETY: the caller's mapping, which this reads. Pages that are allocated and were never
        // accessed are not zeroed yet. The first kernels do not map such a page (before Linux 5.19,
        // 5.18.13 and 5.15.56).
        if unsafe { libc::madvise(memory, bytes, libc::MADV_POPULATE_READ) } != 0 {
            return Err(Error::last("MADV_POPULATE_READ"));
        }
        // start, length, mode, answer
        let mut register = [start as u64, bytes as u64, REGISTER_MODE_MINOR, 0];
        this.control("UFFDIO_REGISTER", UFFDIO_REGISTER, &mut register)?;
        // SAFETY: the caller's mapping, whose contents stay in its file. `mlockall` may have locked
        // it in advance: then it is mapped, and cannot be taken out. While the kernel makes a huge
        // page of others, it moves them out, also pinned ones.
        let result = unsafe {
            libc::munlock(memory, bytes);
            libc::madvise(memory, bytes, libc::MADV_NOHUGEPAGE);
            libc::madvise(memory, bytes, libc::MADV_DONTNEED)
        };
        match result {
            0 => Ok(this),
            _ => Err(Error::last("MADV_DONTNEED")),
        }
    }

    /// Maps pages that are in the file. Async-signal-safe.
    ///
    /// # Errors
    ///
    /// If the system refuses it.
    pub fn map(&self, start: usize, bytes: usize) -> Result<(), Error> {
        loop {
            // start, length, mode, answer
            let mut pages = [start as u64, bytes as u64, 0, 0];
            let result = self.control("UFFDIO_CONTINUE", UFFDIO_CONTINUE, &mut pages);
            let error = match &result {
                Err(Error::Refused { error, .. }) => error.raw_os_error(),
                _ => None,
            };
            match error {
                // Another thread has mapped it; or this is the child of a process that has exited,
                // and nothing reports its own faults.
                Some(libc::EEXIST | libc::ESRCH) => return Ok(()),
                // The kernel has just freed the table of a stretch of pages, none of which was in.
                Some(libc::EAGAIN) => {}
                _ => return result,
            }
        }
    }

    fn control<const N: usize>(
        &self,
        call: &'static str,
        request: u32,
        words: &mut [u64; N],
    ) -> Result<(), Error> {
        // SAFETY: each request's structure is that many words, which live through the call.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, words.as_mut_ptr()) } {
            0 => Ok(()),
            _ => Err(Error::last(call)),
        }
    }
}
