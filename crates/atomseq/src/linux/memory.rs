//! Memory directly from the kernel, because the global allocator may be built on areas.

use crate::arch::syscall;
use core::ptr::NonNull;

/// Maps `bytes` of zeroed, page-aligned memory. Returns `None` if there is none or `bytes` is 0.
pub fn map(bytes: usize) -> Option<NonNull<u8>> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    // SAFETY: this requests a new anonymous mapping at an address of the kernel's choice, so it
    // affects no existing memory. -1 stands for no file.
    let address = unsafe { syscall(libc::SYS_mmap, [0, bytes, protection, flags, usize::MAX, 0]) };
    if (-4095..=0).contains(&address) {
        return None;
    }
    NonNull::new(address as *mut u8)
}

/// Unmaps memory that [`map`] returned. Returns `false` if the system refuses; the memory then
/// stays as it is. The kernel keeps adjacent mappings as one, and a process at its limit of
/// mappings (`vm.max_map_count`) may not split one. A sandbox may also refuse the call.
///
/// # Safety
/// `start` and `bytes` must be those of one `map`, and nothing may use the memory any more.
pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: by the contract, this is a whole mapping that nothing uses.
    let result = unsafe {
        syscall(
            libc::SYS_munmap,
            [start.as_ptr() as usize, bytes, 0, 0, 0, 0],
        )
    };
    result == 0
}

/// Returns the size of the system's pages in bytes.
pub fn page_size() -> usize {
    // SAFETY: the call takes a number. The C library knows the answer from program start.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// Discards memory but keeps its addresses, which read as zeros from then on. Returns `false` if
/// the system refuses part of it, for example because the program has locked some. Memory before
/// that part may read as zeros nevertheless.
///
/// # Safety
/// The range must be whole pages of one [`map`], whose users accept zeros at any time.
pub unsafe fn discard(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: by the contract, the pages' users accept zeros.
    unsafe { advise(start, bytes, libc::MADV_DONTNEED) }
}

/// Makes the memory read as zeros in the children of later forks. Returns `false` if the kernel
/// (before Linux 4.14) or a sandbox refuses.
///
/// # Safety
/// The range must be whole pages of one [`map`], whose users accept zeros in a child.
pub unsafe fn wipe_on_fork(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: by the contract, the pages' users accept zeros in a child.
    unsafe { advise(start, bytes, libc::MADV_WIPEONFORK) }
}

/// Gives the kernel advice about pages.
///
/// # Safety
/// The range must be whole pages of one [`map`], whose users accept the effect of the advice.
unsafe fn advise(start: NonNull<u8>, bytes: usize, advice: i32) -> bool {
    let arguments = [start.as_ptr() as usize, bytes, advice as usize, 0, 0, 0];
    // SAFETY: by the contract, the range is mapped and its users accept the effect.
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
        // SAFETY: just mapped with this size, and owned by this test.
        let memory = unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), bytes) };
        assert!(memory.iter().all(|&byte| byte == 0));
        memory.fill(7);
        // SAFETY: mapped above with this size, and the slice is not used again.
        unsafe { unmap(start, bytes) };
    }

    #[test]
    fn discarded_memory_reads_as_zeros() {
        let bytes = 2 * page_size();
        let start = map(bytes).expect("two pages");
        // SAFETY: just mapped with this size, whole pages, and owned by this test.
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
