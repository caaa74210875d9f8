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

/// Gives back what [`map`] returned.
///
/// # Safety
/// `start` and `bytes` are those of one `map`, and nothing uses the memory any more.
pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller owns the whole mapping.
    let result = unsafe {
        syscall(
            libc::SYS_munmap,
            [start.as_ptr() as usize, bytes, 0, 0, 0, 0],
        )
    };
    debug_assert_eq!(result, 0, "munmap of a mapping of our own");
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
    fn impossible_sizes_are_refused() {
        assert!(map(0).is_none());
        assert!(map(usize::MAX / 2).is_none());
    }
}
