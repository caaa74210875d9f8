//! Memory whose pages the process moves in and out.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atomseq::internals::change_mask;
use atomseq::signal::Event;

use super::gate::Gate;
use super::userfault::Userfault;
use super::{Error, handler};
use crate::faults;

/// How a region sees its faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// By `userfaultfd` (Linux 5.14), where the system allows it. Pages that the system swaps out
    /// are out as well.
    Userfaultfd,
    /// By pages that may not be accessed.
    ///
    /// Neighbours of which one is in and one is out are separate mappings, whose number the system
    /// limits (`vm.max_map_count`, 65,530 by default). Beyond that no page can be moved.
    Protection,
}

/// Memory whose pages are moved in at their first access, and again after each
/// [`page_out`](Region::page_out). Stays until the process ends, since handlers read it.
///
/// Pages that are out keep their contents. If the system refuses to move one in, its fault ends the
/// process. So does a fault whose signal the thread blocks: while it holds a
/// [gate of a CPU](atomseq::percpu::GateGuard), for example. A system call that is given memory
/// which is out fails with `EFAULT`, or ends at that page.
///
/// In a forked child all pages are the parent's, shared, and pages that were out fault there as in
/// the parent only with [`Means::Protection`]. With [`Means::Userfaultfd`], a child that pins a
/// page moves it in for its parent as well. A child must not move, pin or unpin pages if another
/// thread may have been doing so at the fork: the child would wait for that thread.
pub struct Region {
    start: usize,
    page: usize,
    /// Of each page, its gate and how often it is pinned.
    pages: Box<[(AtomicPtr<Gate>, AtomicUsize)]>,
    /// Held while a page is moved out, pinned, or no longer pinned.
    moving: Mutex<()>,
    userfault: Option<Userfault>,
    wait: fn(),
}

impl Region {
    /// Maps that many pages, all of them out, by `userfaultfd` if that is allowed, else by
    /// protection. The memory is zero, and allocated at once, while signals wait. More than the
    /// system has in all is refused; for more than is free, it may end processes.
    ///
    /// The handler of each fault calls `wait` before it moves the page in: there other threads run.
    /// `wait` may access other pages that are out, but not that one.
    ///
    /// # Errors
    ///
    /// If [`start`](super::start) has not been called, if there are too many regions, or if the
    /// system refuses the memory.
    ///
    /// # Safety
    ///
    /// `wait` is async-signal-safe.
    pub unsafe fn map(pages: usize, wait: fn()) -> Result<&'static Self, Error> {
        // SAFETY: the caller's promise.
        unsafe {
            Self::map_by(Means::Userfaultfd, pages, wait).or_else(|error| match error {
                Error::Refused { .. } => Self::map_by(Means::Protection, pages, wait),
                error => Err(error),
            })
        }
    }

    /// As [`map`](Region::map), by the given means only.
    ///
    /// # Errors
    ///
    /// As [`map`](Region::map), and if the system does not allow the means.
    ///
    /// # Safety
    ///
    /// As for [`map`](Region::map).
    pub unsafe fn map_by(means: Means, pages: usize, wait: fn()) -> Result<&'static Self, Error> {
        // SAFETY: takes a number and has no precondition.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let no_memory = || Error::Refused {
            call: "mmap",
            error: io::Error::from_raw_os_error(libc::ENOMEM),
        };
        let bytes = pages.checked_mul(page).ok_or_else(no_memory)?;
        if bytes as u64 > all_memory() {
            return Err(no_memory());
        }
        let mut all = Vec::new();
        all.try_reserve_exact(pages).map_err(|_| no_memory())?;
        all.resize_with(pages, Default::default);
        let file = memory()?;
        // Before the memory is allocated: it may be beyond the limit of addresses. SAFETY: a new
        // mapping at an address of the kernel's choice, of a file that is empty.
        let start = unsafe {
            let (all, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
            libc::mmap(ptr::null_mut(), bytes, all, shared, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(Error::last("mmap"));
        }
        let start = start.expose_provenance();
        let unmap = |error| {
            // SAFETY: the mapping of above, which nothing uses yet.
            unsafe { libc::munmap(ptr::with_exposed_provenance_mut(start), bytes) };
            error
        };
        allocate(&file, bytes).map_err(unmap)?;
        let userfault = match means {
            Means::Userfaultfd => Some(Userfault::over(start, bytes).map_err(unmap)?),
            Means::Protection => {
                // Not when it is mapped: a sandbox that refuses this would refuse to move pages in.
                protect(start, bytes, libc::PROT_NONE).map_err(unmap)?;
                None
            }
        };
        let region = Self {
            start,
            page,
            pages: all.into(),
            moving: Mutex::new(()),
            userfault,
            wait,
        };
        handler::enter(Box::new(region)).map_err(unmap)
    }

    /// Returns how the region sees its faults.
    pub fn means(&self) -> Means {
        match self.userfault {
            Some(_) => Means::Userfaultfd,
            None => Means::Protection,
        }
    }

    /// Returns the address of a page.
    ///
    /// # Panics
    ///
    /// If the region has no such page.
    #[track_caller]
    pub fn address(&self, page: usize) -> usize {
        assert!(page < self.pages.len(), "the region has no page {page}");
        self.start + page * self.page
    }

    /// Makes a gate that of the object on these pages. A page has one gate. One that is replaced
    /// while it is closed stays closed, unless the thread that has closed it waits for it.
    ///
    /// # Panics
    ///
    /// If the region has no such pages.
    #[track_caller]
    pub fn guard(&self, pages: Range<usize>, gate: &'static Gate) {
        for (of, _) in &self.pages[pages] {
            // Release: pairs with the Acquire in `gate`.
            of.store(ptr::from_ref(gate).cast_mut(), Ordering::Release);
        }
    }

    /// Moves a page out: the next access to it faults. Takes a lock, as [`pin`](Region::pin) does.
    ///
    /// # Errors
    ///
    /// [`Error::Pinned`] if it is pinned, or if the system refuses it, for example because
    /// `mlockall` has locked the page.
    ///
    /// # Panics
    ///
    /// If the region has no such page.
    #[track_caller]
    pub fn page_out(&self, page: usize) -> Result<(), Error> {
        let address = self.address(page);
        let _moving = self.moving();
        // Relaxed: under the lock.
        if self.pages[page].1.load(Ordering::Relaxed) > 0 {
            return Err(Error::Pinned);
        }
        if self.userfault.is_none() {
            return protect(address, self.page, libc::PROT_NONE);
        }
        let start = ptr::with_exposed_provenance_mut(address);
        // SAFETY: a page of this region's, whose contents stay in its file.
        match unsafe { libc::madvise(start, self.page, libc::MADV_DONTNEED) } {
            0 => Ok(()),
            _ => Err(Error::last("MADV_DONTNEED")),
        }
    }

    /// Moves pages in and keeps them there until the guard is dropped (`mlock`). That also unlocks
    /// what `mlockall` has locked of them, unless another guard pins it.
    ///
    /// # Errors
    ///
    /// If the system refuses it, for example beyond the limit on locked memory (`ulimit -l`).
    ///
    /// # Panics
    ///
    /// If the region has no such pages.
    #[track_caller]
    pub fn pin(&'static self, pages: Range<usize>) -> Result<Pinned, Error> {
        let _moving = self.moving();
        for page in pages.clone() {
            self.page_in(page)?;
        }
        let start = ptr::with_exposed_provenance(self.start + pages.start * self.page);
        // SAFETY: pages of this region's.
        if unsafe { libc::mlock(start, pages.len() * self.page) } != 0 {
            let error = Error::last("mlock");
            // It may have locked some, or all and then found one moved out by other code.
            self.unlock(pages);
            return Err(error);
        }
        for (_, pins) in &self.pages[pages.clone()] {
            pins.fetch_add(1, Ordering::Relaxed);
        }
        let region = self;
        Ok(Pinned { region, pages })
    }

    /// Unlocks those of these pages that are not pinned. Under the lock.
    fn unlock(&self, pages: Range<usize>) {
        for page in pages {
            // Relaxed: under the lock.
            if self.pages[page].1.load(Ordering::Relaxed) == 0 {
                let start = ptr::with_exposed_provenance(self.address(page));
                // SAFETY: a page of this region's.
                unsafe { libc::munlock(start, self.page) };
            }
        }
    }

    fn moving(&self) -> MutexGuard<'_, ()> {
        self.moving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves a page in. Async-signal-safe.
    #[track_caller]
    pub(super) fn page_in(&self, page: usize) -> Result<(), Error> {
        let address = self.address(page);
        match &self.userfault {
            Some(userfault) => userfault.map(address, self.page),
            None => protect(address, self.page, libc::PROT_READ | libc::PROT_WRITE),
        }
    }

    /// Returns the page that holds an address.
    pub(super) fn page_of(&self, address: usize) -> Option<usize> {
        let page = address.checked_sub(self.start)? / self.page;
        (page < self.pages.len()).then_some(page)
    }

    /// Returns the gate of a page.
    pub(super) fn gate(&self, page: usize) -> Option<&'static Gate> {
        // Acquire: pairs with the Release in `guard`.
        let gate = self.pages[page].0.load(Ordering::Acquire);
        // SAFETY: null, or from a static reference.
        unsafe { gate.as_ref() }
    }

    /// Returns whether a fault on one of its pages is that of a page that is out. Moving the page
    /// in does not end others: a jump into the region, a protection that other code has set,
    /// memory that has gone bad.
    pub(super) fn has_raised(&self, event: &Event<'_>) -> bool {
        /// From asm-generic/siginfo.h; the libc crate does not have it.
        const SEGV_ACCERR: i32 = 2;
        let own = match self.userfault {
            Some(_) => (libc::SIGBUS, libc::BUS_ADRERR),
            None => (libc::SIGSEGV, SEGV_ACCERR),
        };
        let is_jump = self.page_of(event.original_pc()).is_some();
        (event.signal(), event.info().si_code) == own && !is_jump
    }

    /// Iterates over the gates of all pages.
    pub(super) fn gates(&self) -> impl Iterator<Item = &'static Gate> {
        (0..self.pages.len()).filter_map(|page| self.gate(page))
    }

    /// Lets other threads run.
    pub(super) fn wait(&self) {
        (self.wait)();
    }
}

/// Pages that stay in.
#[must_use = "the pages may be moved out when this is dropped"]
pub struct Pinned {
    region: &'static Region,
    pages: Range<usize>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _moving = self.region.moving();
        for (_, pins) in &self.region.pages[self.pages.clone()] {
            // Relaxed: under the lock.
            pins.fetch_sub(1, Ordering::Relaxed);
        }
        // A page that is pinned twice stays locked.
        self.region.unlock(self.pages.clone());
    }
}

/// Changes how memory of a region may be accessed. Async-signal-safe.
fn protect(start: usize, bytes: usize, protection: libc::c_int) -> Result<(), Error> {
    let start = ptr::with_exposed_provenance_mut(start);
    // SAFETY: the callers' memory is a region's, whose contents stay in its file.
    match unsafe { libc::mprotect(start, bytes, protection) } {
        0 => Ok(()),
        _ => Err(Error::last("mprotect")),
    }
}

/// Returns how many bytes of memory the system has, used or not, with what it can swap out. To
/// allocate more, the kernel would end processes, also others, before it refused the rest.
fn all_memory() -> u64 {
    let mut system = MaybeUninit::<libc::sysinfo>::zeroed();
    // SAFETY: room for what the call writes; zeros otherwise.
    let (result, system) = unsafe { (libc::sysinfo(system.as_mut_ptr()), system.assume_init()) };
    match result {
        0 => (system.totalram + system.totalswap).saturating_mul(system.mem_unit.into()),
        _ => u64::MAX,
    }
}

/// A file of memory, without any yet.
fn memory() -> Result<File, Error> {
    // SAFETY: a name, and a number.
    let descriptor = unsafe { libc::memfd_create(c"atomseq-pages".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(Error::last("memfd_create"));
    }
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Allocates the memory of a file.
fn allocate(file: &File, bytes: usize) -> Result<(), Error> {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the limit lives through the call.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    if bytes as u64 > limit.rlim_cur {
        // `fallocate` would also send `SIGXFSZ`.
        return Err(Error::Refused {
            call: "fallocate",
            error: io::Error::from_raw_os_error(libc::EFBIG),
        });
    }
    // Before Linux 6.11 any signal interrupts the call, which frees what it has allocated: under a
    // timer it might never end. Signals that cannot wait are those of faults, as a sandbox's is.
    let can_wait = (1..=64).filter(|signal| faults::can_wait(*signal));
    let blocked = can_wait.fold(0, |set, signal| set | 1 << (signal - 1));
    let mask = change_mask(libc::SIG_BLOCK, blocked);
    let result = loop {
        // SAFETY: a descriptor, and numbers. Allocated pages fault as present ones that are not
        // mapped.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes as libc::off_t) } == 0 {
            break Ok(());
        }
        let error = io::Error::last_os_error();
        // What is left: a debugger, or `SIGSTOP`.
        if error.kind() != io::ErrorKind::Interrupted {
            let call = "fallocate";
            break Err(Error::Refused { call, error });
        }
    };
    change_mask(libc::SIG_SETMASK, mask);
    result
}
