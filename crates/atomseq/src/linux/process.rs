//! State that belongs to one process: a page that the kernel wipes in the child of each fork,
//! whichever system call made it.
//!
//! A process number does not distinguish a child from its parent: if the first process of a PID
//! namespace creates another namespace and forks, both have number 1. `pthread_atfork` handlers do
//! not either: other handlers run before atomseq's, and a raw fork runs none.
//!
//! Start-up maps the page first of all. Before that, no thread makes forks wait, and everything
//! belongs to the first generation. Kernels before Linux 4.14 and some sandboxes wipe nothing.
//! Static memory then replaces the page, and atomseq's own handler wipes it in the child. The
//! handler also wipes the page if the kernel (or an emulator) promised to but did not.

use super::memory;
use super::threads::process_number;
use super::traffic::Traffic;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The words of one process, zero at the start of a child.
pub(super) struct Own {
    /// The process's generation; 0 if not yet assigned.
    generation: AtomicU32,
    pub(super) traffic: Traffic,
    /// The number of [walks](super::fork::Walk) over the loaded objects in progress.
    pub(super) walks: AtomicU32,
}

/// Null before start-up.
static OWN: AtomicPtr<Own> = AtomicPtr::new(ptr::null_mut());

/// Replaces the page if the kernel cannot wipe one.
static UNWIPED: Own = Own::new();

const FIRST: u32 = 1;

/// The newest generation among this process and its ancestors.
static NEWEST: AtomicU32 = AtomicU32::new(FIRST);

/// Returns this process's words, once start-up has begun.
#[inline]
pub(super) fn own() -> Option<&'static Own> {
    // SAFETY: null, or words that are never unmapped once published. Acquire: pairs with the
    // Release in `set_up`.
    unsafe { OWN.load(Ordering::Acquire).as_ref() }
}

/// Returns a number that distinguishes a process from its ancestors: it counts forks, and may skip
/// numbers.
#[inline]
pub fn generation() -> u32 {
    own().map_or(FIRST, Own::generation)
}

/// Returns a number that distinguishes a process from its parent, as far as the kernel allows. It
/// is not 0, and below the highest number.
pub(super) fn identity() -> u32 {
    match own() {
        Some(own) if !own.is_unwiped() => own.generation(),
        // If a sandbox also hides the process number, only atomseq's atfork handler distinguishes
        // them.
        _ => process_number().unwrap_or_else(generation),
    }
}

impl Own {
    const fn new() -> Own {
        Own {
            generation: AtomicU32::new(FIRST),
            traffic: Traffic {
                word: AtomicU32::new(0),
                waiting: AtomicU32::new(0),
            },
            walks: AtomicU32::new(0),
        }
    }

    #[inline]
    pub(super) fn generation(&self) -> u32 {
        // Relaxed: the number orders no other data.
        match self.generation.load(Ordering::Relaxed) {
            0 => self.begin(),
            generation => generation,
        }
    }

    /// Assigns a generation on the first call in a child, later than those of all ancestors.
    /// Handlers and other threads may call this at once; the first assignment stands.
    #[cold]
    fn begin(&self) -> u32 {
        let next = NEWEST.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let begun = self.generation.compare_exchange(0, next, success, failure);
        begun.map_or_else(|first| first, |_| next)
    }

    fn is_unwiped(&self) -> bool {
        ptr::eq(self, &raw const UNWIPED)
    }
}

/// Wipes the words in a child, where the kernel does not. Called by atomseq's atfork handler;
/// `parent` is the generation of the parent.
pub(super) fn wipe(parent: u32) {
    let Some(own) = own() else { return };
    // Relaxed: this is the child's only thread, with its signals blocked.
    let is_parents = own.generation.load(Ordering::Relaxed) == parent;
    if is_parents || own.is_unwiped() {
        own.generation.store(0, Ordering::Relaxed);
        own.traffic.word.store(0, Ordering::Relaxed);
        own.traffic.waiting.store(0, Ordering::Relaxed);
        own.walks.store(0, Ordering::Relaxed);
    }
}

/// Gives this process its page, if it has none.
pub(super) fn set_up() {
    if own().is_some() {
        return;
    }
    let bytes = memory::page_size();
    let page = memory::map(bytes).filter(|page| {
        // SAFETY: the page was just mapped with this size, and nothing uses it.
        let wiped = unsafe { memory::wipe_on_fork(*page, bytes) };
        if !wiped {
            // SAFETY: the page was mapped above with this size, and nothing uses it.
            unsafe { memory::unmap(*page, bytes) };
        }
        wiped
    });
    let own = match page {
        // SAFETY: the mapping is page-aligned and large enough for an `Own`, as asserted below, and
        // not yet published.
        Some(page) => unsafe {
            page.cast::<Own>().write(Own::new());
            page.cast::<Own>().as_ptr()
        },
        None => (&raw const UNWIPED).cast_mut(),
    };
    // Release: pairs with the Acquire in `own`. Relaxed: a failure reads nothing of the other page.
    let (success, failure) = (Ordering::Release, Ordering::Relaxed);
    let set = OWN.compare_exchange(ptr::null_mut(), own, success, failure);
    if let (Err(_), Some(page)) = (set, page) {
        // Another thread published first.
        // SAFETY: the page was mapped above and not published, so no other thread knows it.
        unsafe { memory::unmap(page, bytes) };
    }
}

const _: () = assert!(size_of::<Own>() <= 4096);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::fork::tests::raw_fork;

    /// Reads the first words of a child in which no handler of atomseq's has run.
    #[test]
    fn a_child_is_a_generation_of_its_own_from_the_first_instruction() {
        crate::status();
        let before = generation();
        for _ in 0..3 {
            let code = raw_fork(|| {
                let own = own().expect("started");
                let traffic = own.traffic.word.load(Ordering::Relaxed);
                let early = generation();
                wipe(before);
                i32::from(!(traffic == 0 && early > before && generation() == early))
            });
            assert_eq!(code, 0);
            assert_eq!(generation(), before, "the parent's");
        }
    }
}
