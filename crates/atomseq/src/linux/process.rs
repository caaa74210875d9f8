//! What is one process's own: a page that the kernel wipes in the child of each fork, whatever
//! system call made it.
//!
//! The number of a process does not tell a child from its parent: where the first process of a PID
//! namespace makes another namespace and forks, both are number 1. Nor do `pthread_atfork`
//! handlers: others' run before atomseq's, and a raw fork runs none.
//!
//! Start-up maps the page, before anything else. Before that nothing asks forks to wait, and all is
//! the first generation's. Kernels before Linux 4.14 and some sandboxes wipe nothing: static memory
//! then takes the page's place, which atomseq's own handler wipes in the child. It does so as well
//! where the kernel, as emulators do, has promised to wipe the page and has not.

use super::memory;
use super::threads::process_number;
use super::traffic::Traffic;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Words that are zero at the start of a child.
pub(super) struct Own {
    /// The process's generation; 0 if it has not got one yet.
    generation: AtomicU32,
    pub(super) traffic: Traffic,
    /// How many [walks](super::fork::Walk) through the loaded objects are under way.
    pub(super) walks: AtomicU32,
}

/// Null before start-up.
static OWN: AtomicPtr<Own> = AtomicPtr::new(ptr::null_mut());

/// In the page's place.
static UNWIPED: Own = Own::new();

const FIRST: u32 = 1;

/// The newest generation among this process and those that it descends from.
static NEWEST: AtomicU32 = AtomicU32::new(FIRST);

/// This process's words, once start-up has begun.
#[inline]
pub(super) fn own() -> Option<&'static Own> {
    // SAFETY: null, or words that stay until the process ends. Acquire: pairs with the Release in
    // `set_up`.
    unsafe { OWN.load(Ordering::Acquire).as_ref() }
}

/// Tells a process from those that it descends from: counts forks, and may leave numbers out.
#[inline]
pub fn generation() -> u32 {
    own().map_or(FIRST, Own::generation)
}

/// Tells a process from its parent, as far as the kernel lets it: not 0, and below the highest
/// number.
pub(super) fn identity() -> u32 {
    match own() {
        Some(own) if !own.is_unwiped() => own.generation(),
        // Where a sandbox keeps the number back, too, only atomseq's atfork handler tells them
        // apart.
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
        // Relaxed: a number on its own.
        match self.generation.load(Ordering::Relaxed) {
            0 => self.begin(),
            generation => generation,
        }
    }

    /// The first question in a child: a generation later than any that it descends from. Handlers
    /// and other threads may ask at the same time: the first answer stands.
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

/// Called by atomseq's atfork handler in a child of a process of generation `parent`: does the
/// kernel's work where it does not.
pub(super) fn wipe(parent: u32) {
    let Some(own) = own() else { return };
    // Relaxed: the child's only thread, with its signals blocked.
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
        // SAFETY: just mapped, and used by nobody.
        let wiped = unsafe { memory::wipe_on_fork(*page, bytes) };
        if !wiped {
            // SAFETY: as above.
            unsafe { memory::unmap(*page, bytes) };
        }
        wiped
    });
    let own = match page {
        // SAFETY: a page is large enough, and aligned; nobody else knows it.
        Some(page) => unsafe {
            page.cast::<Own>().write(Own::new());
            page.cast::<Own>().as_ptr()
        },
        None => (&raw const UNWIPED).cast_mut(),
    };
    // Release: pairs with the Acquire in `own`.
    let (success, failure) = (Ordering::Release, Ordering::Relaxed);
    let set = OWN.compare_exchange(ptr::null_mut(), own, success, failure);
    if let (Err(_), Some(page)) = (set, page) {
        // Another thread was faster.
        // SAFETY: mapped above, and nobody else knows it.
        unsafe { memory::unmap(page, bytes) };
    }
}

const _: () = assert!(size_of::<Own>() <= 4096);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::fork::tests::raw_fork;

    /// The first words of a child, in which no handler of atomseq's has run.
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
