//! Addresses that cannot be written, each for a reason of its own.

use std::ffi::c_int;

const PAGE: usize = 4096;

/// Fresh memory, never unmapped.
pub fn pages(count: usize, protection: c_int) -> usize {
    // SAFETY: a new mapping.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            count * PAGE,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(start, libc::MAP_FAILED);
    start as usize
}

/// Changes what may be done with a page.
pub fn protect(page: usize, protection: c_int) {
    // SAFETY: a page of `pages`.
    let result = unsafe { libc::mprotect(page as *mut _, PAGE, protection) };
    assert_eq!(result, 0);
}

/// A page that may be read, and holds 0.
pub fn read_only() -> usize {
    let page = pages(1, libc::PROT_READ);
    // SAFETY: it may be read.
    assert_eq!(unsafe { (page as *const u32).read_volatile() }, 0);
    page
}

/// A page that is not there any more.
pub fn unmapped() -> usize {
    let page = pages(1, libc::PROT_READ);
    // SAFETY: nobody uses it.
    assert_eq!(unsafe { libc::munmap(page as *mut _, PAGE) }, 0);
    page
}

/// A page of a file that has none.
pub fn beyond_the_end_of_a_file() -> usize {
    // SAFETY: a new file without a name, and a new mapping of it.
    let page = unsafe {
        let file = libc::memfd_create(c"empty".as_ptr(), 0);
        assert!(file >= 0);
        libc::mmap(
            std::ptr::null_mut(),
            PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file,
            0,
        )
    };
    assert_ne!(page, libc::MAP_FAILED);
    page as usize
}
