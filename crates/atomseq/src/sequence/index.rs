//! The rows of all loaded objects, sorted, in a mapping of their own.

use core::cell::Cell;
use core::ptr::NonNull;
use core::slice::from_raw_parts_mut;

use super::table::Row;
use crate::platform::objects::Identity;
use crate::platform::{map, unmap};

/// What a refresh comes across.
#[derive(Clone, Copy)]
pub enum Entry {
    /// An object, before its rows.
    Object(Identity),
    /// A row.
    Row(Row),
}

/// ```text
/// this header │ rows by start │ rows with clones, by the clone's start │ objects by start
/// ```
#[repr(C)]
pub struct Index {
    bytes: usize,
    number: usize,
    rows: Part<Row>,
    clones: Part<Row>,
    objects: Part<Identity>,
    linked: Cell<*mut Index>,
}

/// So many, from here.
struct Part<T> {
    first: NonNull<T>,
    length: usize,
}

impl<T> Part<T> {
    fn slice(&self) -> &[T] {
        // SAFETY: `build` wrote so many there, in the mapping that holds this part as well.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.length) }
    }
}

/// How many entries there are.
#[derive(Clone, Copy, Default)]
struct Counts {
    rows: usize,
    clones: usize,
    objects: usize,
}

impl Counts {
    fn count(&mut self, entry: &Entry) {
        match entry {
            Entry::Object(_) => self.objects += 1,
            Entry::Row(row) => {
                self.rows += 1;
                self.clones += usize::from(row.clone.is_some());
            }
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Index>()
            + (self.rows + self.clones) * size_of::<Row>()
            + self.objects * size_of::<Identity>()
    }
}

impl Index {
    /// The index of all that `each` calls with; `number` tells a later one from an earlier.
    pub fn build(number: usize, each: impl Fn(&mut dyn FnMut(Entry))) -> NonNull<Index> {
        loop {
            let mut counts = Counts::default();
            each(&mut |entry| counts.count(&entry));
            if let Some(index) = Index::fill(number, counts, &each) {
                return index;
            }
            // An object was loaded in between.
        }
    }

    /// `None` if there are more entries than were counted.
    fn fill(
        number: usize,
        room: Counts,
        each: impl Fn(&mut dyn FnMut(Entry)),
    ) -> Option<NonNull<Index>> {
        let bytes = room.bytes();
        let start = map(bytes).expect(
            "no memory for the table of sequences: allow this process a few more pages of memory",
        );
        // SAFETY: `room.bytes()` holds them one after the other; each type's alignment is a word's, and so is
        // a multiple of all their sizes.
        let (rows, clones, objects) = unsafe {
            let rows = start.add(size_of::<Index>()).cast::<Row>();
            let clones = rows.add(room.rows);
            (rows, clones, clones.add(room.clones).cast::<Identity>())
        };
        let mut counts = Counts::default();
        each(&mut |entry| {
            let before = counts;
            counts.count(&entry);
            if counts.rows > room.rows
                || counts.clones > room.clones
                || counts.objects > room.objects
            {
                return;
            }
            // SAFETY: below what there is room for, and nobody else's yet.
            unsafe {
                match entry {
                    Entry::Object(identity) => objects.add(before.objects).write(identity),
                    Entry::Row(row) => {
                        rows.add(before.rows).write(row);
                        if row.clone.is_some() {
                            clones.add(before.clones).write(row);
                        }
                    }
                }
            }
        });
        if counts.rows > room.rows || counts.clones > room.clones || counts.objects > room.objects {
            // SAFETY: the whole mapping, which nobody has seen.
            unsafe { unmap(start, bytes) };
            return None;
        }
        // SAFETY: so many were written, and nobody else has seen them.
        unsafe {
            from_raw_parts_mut(rows.as_ptr(), counts.rows).sort_unstable_by_key(|row| row.start);
            from_raw_parts_mut(clones.as_ptr(), counts.clones)
                .sort_unstable_by_key(|row| row.clone.map(|clone| clone.start));
            from_raw_parts_mut(objects.as_ptr(), counts.objects)
                .sort_unstable_by_key(|object| object.start);
        }
        let index = start.cast::<Index>();
        // SAFETY: the mapping begins with room for it, and pages are aligned for anything.
        unsafe {
            index.write(Index {
                bytes,
                number,
                rows: Part {
                    first: rows,
                    length: counts.rows,
                },
                clones: Part {
                    first: clones,
                    length: counts.clones,
                },
                objects: Part {
                    first: objects,
                    length: counts.objects,
                },
                linked: Cell::new(core::ptr::null_mut()),
            });
        }
        Some(index)
    }

    /// Gives the memory back.
    ///
    /// # Safety
    ///
    /// Made by [`Index::build`], and nobody uses it any more.
    pub unsafe fn release(index: NonNull<Index>) {
        // SAFETY: the caller's promise.
        unsafe {
            let bytes = index.as_ref().bytes;
            unmap(index.cast(), bytes);
        }
    }

    /// What `build` was told.
    pub fn number(&self) -> usize {
        self.number
    }

    /// All rows, by start.
    pub fn rows(&self) -> &[Row] {
        self.rows.slice()
    }

    /// The last row that begins before this address.
    pub fn around(&self, pc: usize) -> Option<Row> {
        before(self.rows(), |row| row.start < pc)
    }

    /// The last row whose clone begins at or before this address.
    pub fn cloned_around(&self, pc: usize) -> Option<Row> {
        before(self.clones.slice(), |row| {
            row.clone.is_some_and(|clone| clone.start <= pc)
        })
    }

    /// Was this object there?
    pub fn knows(&self, identity: &Identity) -> bool {
        before(self.objects.slice(), |object| {
            object.start <= identity.start
        })
        .as_ref()
            == Some(identity)
    }

    /// The next in a chain of replaced ones.
    pub fn linked(&self) -> *mut Index {
        self.linked.get()
    }

    /// Puts one before a chain of replaced ones.
    ///
    /// # Safety
    ///
    /// It was replaced, and belongs to the caller.
    pub unsafe fn link(&self, chain: *mut Index) {
        self.linked.set(chain);
    }
}

/// The last of those at the front that are so.
fn before<T: Copy>(sorted: &[T], is: impl Fn(&T) -> bool) -> Option<T> {
    let count = sorted.partition_point(is);
    sorted.get(count.checked_sub(1)?).copied()
}
