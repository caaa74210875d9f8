//! The stacks of coroutines: mappings with a guard page at their low end.

use std::cell::RefCell;
use std::io;
use std::ptr::{self, NonNull};

/// How many bytes of stacks a thread keeps at most for its next run: sixteen of the default size.
const KEPT: usize = 1024 * 1024;

thread_local! {
    /// Stacks that this thread has used. Their pages stay touched.
    static IDLE: RefCell<Vec<Stack>> = const { RefCell::new(Vec::new()) };
}

/// A stack of a coroutine. Its memory is touched by use alone.
///
/// ```text
/// base               limit                                        top
///  | guard: no access | grows down <───────────────────────────────| colour |
/// ```
///
/// Tops at the same place of their pages would compete for the same sets of the cache, so the
/// stacks of neighbouring pages begin at different lines.
///
/// Two words, which fit in registers: a copy of three would wait for its parts.
#[derive(Debug)]
pub(crate) struct Stack {
    base: NonNull<u8>,
    /// Bytes of the mapping, which are whole pages. In the low bits, the logarithm of the size of a
    /// page, which is the guard, and the colour.
    sizes: usize,
}

/// The bits of the logarithm of a page, and those of the colour, a multiple of a line of the cache.
const LOGARITHM: usize = 0x3f;
const COLOUR: usize = 0x3c0;

impl Stack {
    /// Returns a stack of at least `size` bytes, kept by this thread or new. Not in a tick.
    pub fn take(size: usize) -> io::Result<Stack> {
        // Without the list, as the thread exits: a new one.
        let kept = IDLE.try_with(|idle| {
            let mut idle = idle.borrow_mut();
            let fits = |stack: &mut Stack| {
                let spare = stack.size().checked_sub(size);
                spare.is_some_and(|spare| spare < page_size())
            };
            let last = idle.pop_if(fits);
            last.or_else(|| {
                // Of another size: they make room for those of this one.
                idle.clear();
                None
            })
        });
        match kept {
            Ok(Some(stack)) => Ok(stack),
            _ => Stack::new(size),
        }
    }

    /// Keeps a stack for this thread, or unmaps it if there are enough. Not in a tick.
    pub fn keep(self) {
        let mut stack = Some(self);
        // Without the list, as the thread exits: `stack` unmaps it.
        let _ = IDLE.try_with(|idle| {
            let mut idle = idle.borrow_mut();
            let kept: usize = idle.iter().chain(&stack).map(Stack::size).sum();
            if kept <= KEPT {
                idle.extend(stack.take());
            }
        });
    }

    /// Maps a stack of at least `size` bytes.
    fn new(size: usize) -> io::Result<Stack> {
        let page = page_size();
        let mapped = size
            .checked_next_multiple_of(page)
            .and_then(|size| size.checked_add(page))
            .filter(|&mapped| mapped <= isize::MAX as usize)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let colour = (base as usize / page * (LOGARITHM + 1)) & COLOUR;
        // Not much of a small stack.
        let colour = if mapped - page < 32 * COLOUR {
            0
        } else {
            colour
        };
        let stack = Stack {
            base: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            sizes: mapped | colour | page.trailing_zeros() as usize,
        };
        // SAFETY: the first page of the mapping, which nothing uses.
        match unsafe { libc::mprotect(base, page, libc::PROT_NONE) } {
            0 => Ok(stack),
            _ => Err(io::Error::last_os_error()),
        }
    }

    #[inline]
    fn guard(&self) -> usize {
        1 << (self.sizes & LOGARITHM)
    }

    #[inline]
    fn mapped(&self) -> usize {
        self.sizes & !(COLOUR | LOGARITHM)
    }

    /// Returns the lowest address that may be used.
    #[inline]
    pub fn limit(&self) -> *mut u8 {
        self.base.as_ptr().wrapping_add(self.guard())
    }

    /// Returns the address after the highest byte.
    #[inline]
    pub fn top(&self) -> *mut u8 {
        let mapped = self.base.as_ptr().wrapping_add(self.mapped());
        mapped.wrapping_sub(self.sizes & COLOUR)
    }

    /// Returns the number of bytes above the guard page. At most a 32nd of them is the colour.
    #[inline]
    pub fn size(&self) -> usize {
        self.mapped() - self.guard()
    }

    /// Returns whether `address` lies above the guard page.
    pub fn contains(&self, address: usize) -> bool {
        (self.limit() as usize..self.top() as usize).contains(&address)
    }

    /// Returns whether the guard page contains `address`.
    pub fn guards(&self, address: usize) -> bool {
        (self.base.as_ptr() as usize..self.limit() as usize).contains(&address)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`; the owner drops it after the last use. The kernel refuses
        // only if it has no memory to split a mapping; then this one stays.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped()) };
    }
}

/// Returns the size of a page, in bytes.
fn page_size() -> usize {
    // SAFETY: asks only.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> usize {
        IDLE.with_borrow(|idle| idle.iter().map(Stack::size).sum())
    }

    #[test]
    fn a_thread_keeps_no_more_than_its_limit() {
        Stack::take(KEPT + 1).unwrap().keep();
        assert_eq!(kept(), 0);
        Stack::take(KEPT).unwrap().keep();
        Stack::new(1).unwrap().keep();
        assert_eq!(kept(), KEPT);
        assert!(Stack::take(usize::MAX).is_err());
        assert_eq!(kept(), 0, "those of another size make room");
    }
}
