// The page cache itself: fast paths, and what they fall back on.

use atomseq::percpu::Error;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of a page, from 1 to `N - 1`. Its holder owns the page.
#[derive(Debug, PartialEq, Eq)]
pub struct Page<const N: usize>(usize);

/// Hands out pages: on each CPU those that were released there, else new ones.
pub struct Pages<const N: usize> {
    area: Area,
    links: [AtomicUsize; N],
    next_new: AtomicUsize,
}

impl<const N: usize> Pages<N> {
    /// Creates a cache from which no page has been taken.
    pub fn try_new() -> Result<Pages<N>, Error> {
        const { assert!(N <= PAGE, "a page's number has sixteen bits") };
        Ok(Pages {
            area: Area::try_new(0)?,
            links: [const { AtomicUsize::new(0) }; N],
            next_new: AtomicUsize::new(1),
        })
    }

    /// Takes a page.
    #[inline]
    pub fn take(&self) -> Option<Page<N>> {
        // SAFETY: it loads the slot's word and the link of a page, whose number is below `N`
        // because only `release` inserts pages. Both live as long as `self`.
        match unsafe { take::on_cpu(self.area.slots(), self.links()) } {
            Ok(Some(page)) => Some(Page(page)),
            Ok(None) => self.take_new(),
            Err(_) => self.take_slowly(),
        }
    }

    #[cold]
    fn take_slowly(&self) -> Option<Page<N>> {
        let page = self.area.on_slow_path(|held| {
            // SAFETY: as in `take`, and the gate is held.
            unsafe { take::gated(held, self.links()) }
        });
        page.map(Page).or_else(|| self.take_new())
    }

    #[cold]
    fn take_new(&self) -> Option<Page<N>> {
        let following = |page| (page < N).then_some(page + 1);
        // Relaxed: a number on its own.
        self.next_new
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, following)
            .ok()
            .map(Page)
    }

    /// Returns a page to this CPU's list.
    #[inline]
    pub fn release(&self, page: Page<N>) {
        // SAFETY: it prepares the link of a page that the caller owns, so no other
        // thread reads that link before the commit.
        if unsafe { release::on_cpu(self.area.slots(), self.links(), page.0) }.is_err() {
            self.release_slowly(page);
        }
    }

    #[cold]
    fn release_slowly(&self, page: Page<N>) {
        self.area.on_slow_path(|held| {
            // SAFETY: as in `release`, and the gate is held.
            unsafe { release::gated(held, self.links(), page.0) }
        });
    }

    fn links(&self) -> usize {
        self.links.as_ptr() as usize
    }
}
