//! The stack in an array where the kernel helps: cells, and how many bytes of them are in use.
//!
//! ```text
//! shadow   lock | length | length | …           the version's parity says which length counts
//! cells    word | word | word | …
//! ```
//!
//! A value goes into a cell that is not in use, and comes out of one that still is when the length
//! says it no more: so no cell changes that anybody looks at, and the length alone has to change
//! with the version. Lengths are in bytes, for the sequences' sake.

use crate::dcas::Backoff;
use crate::dcas::Version;
use crate::dcas::shadow::{Change, Shadow};
use crate::heap::zeros;
use crate::sync::{AtomicU64, Ordering};

/// The bytes of a cell.
pub(super) const CELL: usize = 8;

#[derive(Debug)]
pub(super) struct Array {
    pub(super) shadow: Shadow,
    cells: Box<[AtomicU64]>,
    capacity: usize,
}

impl Array {
    /// Room for so many words, `capacity` of which may be in use; `None` if there is no memory for
    /// them.
    pub(super) fn new(cells: usize, capacity: usize) -> Option<Array> {
        Some(Array {
            shadow: Shadow::new(),
            cells: zeros(cells)?,
            capacity,
        })
    }

    /// Where the cells begin.
    #[inline(always)]
    pub(super) fn cells(&self) -> usize {
        self.cells.as_ptr() as usize
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// In bytes.
    #[inline(always)]
    pub(super) fn room(&self) -> usize {
        CELL * self.capacity
    }

    /// How many cells are in use.
    pub(super) fn len(&self) -> usize {
        self.shadow.state() as usize / CELL
    }

    pub(super) fn version(&self) -> Version {
        self.shadow.version()
    }

    /// The cell at so many bytes.
    fn cell(&self, bytes: u64) -> &AtomicU64 {
        &self.cells[bytes as usize / CELL]
    }

    /// Goes on with putting a word in; `false`: there is no room.
    #[cold]
    #[inline(never)]
    pub(super) fn put_slowly(&self, outcome: Option<usize>, how: Put, word: usize) -> bool {
        let mut putting = Putting {
            array: self,
            how,
            word,
        };
        self.shadow.change_slowly(&mut putting, outcome)
    }

    /// Goes on with taking a word out; `None`: there is none.
    #[cold]
    #[inline(never)]
    pub(super) fn take_slowly(&self, outcome: Option<usize>, how: Take) -> Option<usize> {
        let mut taking = Taking {
            array: self,
            how,
            word: 0,
        };
        let taken = self.shadow.change_slowly(&mut taking, outcome);
        taken.then_some(taking.word)
    }

    /// Leaves the array as a thread does that is stopped for ever at the end of putting a word in:
    /// to test recovery.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub(super) fn abandon(&self, cell: fn(&Array, u64, u64) -> u64) {
        // It goes no further, and so makes no attempt.
        let attempt = |_: &Array, _| None;
        self.shadow.abandon(&mut Putting {
            array: self,
            how: Put { attempt, cell },
            word: usize::MAX,
        });
    }
}

/// How one structure puts a word in.
#[derive(Clone, Copy)]
pub(super) struct Put {
    /// One attempt by a section: how it ended, if there are sections.
    pub(super) attempt: fn(&Array, usize) -> Option<usize>,
    /// Where the next cell is, at that version and length, in bytes.
    pub(super) cell: fn(&Array, u64, u64) -> u64,
}

/// How one structure takes a word out.
#[derive(Clone, Copy)]
pub(super) struct Take {
    pub(super) attempt: fn(&Array) -> Option<(usize, usize)>,
    pub(super) cell: fn(&Array, u64, u64) -> u64,
}

struct Putting<'a> {
    array: &'a Array,
    how: Put,
    word: usize,
}

impl Change for Putting<'_> {
    fn attempt(&mut self) -> Option<usize> {
        (self.how.attempt)(self.array, self.word)
    }

    fn is_refused(&self, length: u64) -> bool {
        length as usize == self.array.room()
    }

    fn store(&mut self, version: u64, length: u64) -> u64 {
        let cell = (self.how.cell)(self.array, version, length);
        // Relaxed: the lock is freed by a release.
        let cell = self.array.cell(cell);
        cell.store(self.word as u64, Ordering::Relaxed);
        length + CELL as u64
    }

    fn backoff(&self) -> Backoff {
        Backoff::of_container(self.array.capacity)
    }
}

struct Taking<'a> {
    array: &'a Array,
    how: Take,
    word: usize,
}

impl Change for Taking<'_> {
    fn attempt(&mut self) -> Option<usize> {
        let (outcome, word) = (self.how.attempt)(self.array)?;
        self.word = word;
        Some(outcome)
    }

    fn is_refused(&self, length: u64) -> bool {
        length == 0
    }

    fn store(&mut self, version: u64, length: u64) -> u64 {
        let cell = (self.how.cell)(self.array, version, length);
        // Relaxed: the lock was taken with an acquire.
        self.word = self.array.cell(cell).load(Ordering::Relaxed) as usize;
        length - CELL as u64
    }

    fn backoff(&self) -> Backoff {
        Backoff::of_container(self.array.capacity)
    }
}
