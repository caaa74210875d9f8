//! Memory straight from the kernel, for areas: the global allocator may be built on them.

use crate::arch::syscall;
use core::ptr::NonNull;

/// `bytes` of zeroed, page-aligned memory, or `None` when there is none (or `bytes` is 0).
pub fn map(bytes: usize) -> Option<NonNull<u8>> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    // SAFETY: a fresh anonymous mapping where the kernel likes; -1 is the file descriptor of none.
    let address = unsafe { syscall(libc::SYS_mmap, [0, bytes, protection, flags, usize::MAX, 0]) };
    if (-4095..=0).contains(&address) {
        return None;
    }
    NonNull::new(address as *mut u8)
}

/// Gives back what [`map`] returned. `false`: the system would not take it, and it stays as it is.
/// The kernel keeps mappings that lie side by side as one, and a process at the limit of mappings
/// (`vm.max_map_count`) may not split one; or a sandbox refuses the call.
///
/// # Safety
/// `start` and `bytes` are those of one `map`, and nothing uses the memory any more.
pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the caller owns the whole mapping.
    let result = unsafe {
        syscall(
            libc::SYS_munmap,
            [start.as_ptr() as usize, bytes, 0, 0, 0, 0],
        )
    };
    result == 0
}

/// The size of the system's pages.
pub fn page_size() -> usize {
    // SAFETY: a plain question to the C library, which knows the answer from the program's start.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// Gives the memory behind addresses back, but not the addresses: from now on they read as zeros.
/// `false`: the system would not take all of it, as where the program has locked some; what lies
/// before that may read as zeros all the same.
///
/// # Safety
/// Whole pages of one [`map`], whose users expect zeros at any time.
pub unsafe fn discard(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the caller owns the pages, and lets them become zero.
    unsafe { advise(start, bytes, libc::MADV_DONTNEED) }
}

/// From now on the children of forks find zeros here. `false`: this kernel or a sandbox does not do
/// that (before Linux 4.14).
///
/// # Safety
/// Whole pages of one [`map`], whose users expect zeros in a child.
pub unsafe fn wipe_on_fork(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { advise(start, bytes, libc::MADV_WIPEONFORK) }
}

/// # Safety
/// Whole pages of one [`map`], whose users expect what the advice does.
unsafe fn advise(start: NonNull<u8>, bytes: usize, advice: i32) -> bool {
    let arguments = [start.as_ptr() as usize, bytes, advice as usize, 0, 0, 0];
    // SAFETY: the caller's promise.
    unsafe { syscall(libc::SYS_madvise, arguments) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_memory_is_zeroed_aligned_and_writable() {
        let bytes = 3 * 4096 + 8;
        let start = map(bytes).expect("twelve kilobytes");
        assert_eq!(start.as_ptr() as usize % 4096, 0);
        // SAFETY: just mapped, `bytes` long, owned by this test.
        let memory = unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), bytes) };
        assert!(memory.iter().all(|&byte| byte == 0));
        memory.fill(7);
        // SAFETY: the slice is not used again.
        unsafe { unmap(start, bytes) };
    }

    #[test]
    fn discarded_memory_reads_as_zeros() {
        let bytes = 2 * page_size();
        let start = map(bytes).expect("two pages");
        // SAFETY: just mapped, `bytes` long, owned by this test, whole pages.
        unsafe {
            start.write_bytes(7, bytes);
            assert!(discard(start, page_size()));
            assert_eq!(start.read(), 0);
            assert_eq!(start.add(page_size()).read(), 7);
            assert!(!discard(start.add(1), page_size()), "no whole page");
            unmap(start, bytes);
        }
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(map(0).is_none());
        assert!(map(usize::MAX / 2).is_none());
    }
}
