//! The index: the rows of all loaded objects, sorted, in a mapping of its own.

use core::cell::Cell;
use core::ptr::NonNull;
use core::slice::from_raw_parts_mut;

use super::table::Row;
use crate::mappings::{map, unmap};
use crate::platform::objects::Identity;

/// What the enumeration of loaded objects yields.
#[derive(Clone, Copy)]
pub enum Entry {
    /// An object. Its rows follow.
    Object(Identity),
    /// A row.
    Row(Row),
    /// A note that does not describe a sequence.
    Refused,
}

/// The index of one refresh. One mapping holds all of it:
///
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
    refused: usize,
    linked: Cell<*mut Index>,
}

/// A sorted array in the mapping.
struct Part<T> {
    first: NonNull<T>,
    length: usize,
}

impl<T> Part<T> {
    fn slice(&self) -> &[T] {
        // SAFETY: `build` wrote `length` elements there. They are in the mapping that holds this
        // part as well.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.length) }
    }
}

/// The numbers of entries of each kind.
#[derive(Clone, Copy, Default)]
struct Counts {
    rows: usize,
    clones: usize,
    objects: usize,
    refused: usize,
}

impl Counts {
    fn count(&mut self, entry: &Entry) {
        match entry {
            Entry::Object(_) => self.objects += 1,
            Entry::Row(row) => {
                self.rows += 1;
                self.clones += usize::from(row.clone.is_some());
            }
            Entry::Refused => self.refused += 1,
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Index>()
            + (self.rows + self.clones) * size_of::<Row>()
            + self.objects * size_of::<Identity>()
    }
}

impl Index {
    /// Builds the index of all entries that `each` enumerates. `number` orders indices by age.
    /// `None` if the kernel refuses the memory.
    pub fn build(number: usize, each: impl Fn(&mut dyn FnMut(Entry))) -> Option<NonNull<Index>> {
        loop {
            let mut counts = Counts::default();
            each(&mut |entry| counts.count(&entry));
            let bytes = counts.bytes();
            let start = map(bytes)?;
            // SAFETY: `map` returned `bytes` bytes, which are not shared yet.
            if let Some(index) = unsafe { Index::fill(start, number, counts, &each) } {
                return Some(index);
            }
            // More entries than were counted: an object has been loaded in between.
            // SAFETY: the whole mapping, to which no reference exists.
            unsafe { unmap(start, bytes) };
        }
    }

    /// Writes the index into a mapping. `None` if there are more entries than `room`.
    ///
    /// # Safety
    ///
    /// `start` is a mapping of `room.bytes()` bytes that only the caller uses.
    unsafe fn fill(
        start: NonNull<u8>,
        number: usize,
        room: Counts,
        each: impl Fn(&mut dyn FnMut(Entry)),
    ) -> Option<NonNull<Index>> {
        // SAFETY: the mapping has `room.bytes()` bytes, which holds the parts one after the other.
        // Each type has a word's alignment, and all sizes are multiples of it.
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
            // SAFETY: the positions are below `room`, and only the caller uses the mapping.
            unsafe {
                match entry {
                    Entry::Object(identity) => objects.add(before.objects).write(identity),
                    Entry::Row(row) => {
                        rows.add(before.rows).write(row);
                        if row.clone.is_some() {
                            clones.add(before.clones).write(row);
                        }
                    }
                    Entry::Refused => {}
                }
            }
        });
        if counts.rows > room.rows || counts.clones > room.clones || counts.objects > room.objects {
            return None;
        }
        // SAFETY: `counts` elements of each part were written, and only the caller uses the
        // mapping.
        unsafe {
            // An empty row comes before a non-empty one with the same start, because `around`
            // returns the last.
            from_raw_parts_mut(rows.as_ptr(), counts.rows)
                .sort_unstable_by_key(|row| (row.start, row.end));
            from_raw_parts_mut(clones.as_ptr(), counts.clones)
                .sort_unstable_by_key(|row| row.clone.map(|clone| clone.start));
            from_raw_parts_mut(objects.as_ptr(), counts.objects)
                .sort_unstable_by_key(|object| object.start);
        }
        let index = start.cast::<Index>();
        // SAFETY: the mapping starts with room for the header, and a page is sufficiently aligned.
        unsafe {
            index.write(Index {
                bytes: room.bytes(),
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
                refused: counts.refused,
                linked: Cell::new(core::ptr::null_mut()),
            });
        }
        Some(index)
    }

    /// Unmaps the index.
    ///
    /// # Safety
    ///
    /// [`Index::build`] returned it, and no reference to it is left.
    pub unsafe fn release(index: NonNull<Index>) {
        // SAFETY: the caller guarantees an index of `build`, with `bytes` bytes, and no reference
        // left.
        unsafe {
            let bytes = index.as_ref().bytes;
            unmap(index.cast(), bytes);
        }
    }

    /// Returns the number passed to `build`.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns all rows, sorted by start and end.
    pub fn rows(&self) -> &[Row] {
        self.rows.slice()
    }

    /// Returns the number of notes that do not describe a sequence.
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// Returns the last row that starts before this address.
    pub fn around(&self, pc: usize) -> Option<Row> {
        before(self.rows(), |row| row.start < pc)
    }

    /// Returns the last row whose clone starts at or before this address.
    pub fn cloned_around(&self, pc: usize) -> Option<Row> {
        before(self.clones.slice(), |row| {
            row.clone.is_some_and(|clone| clone.start <= pc)
        })
    }

    /// Returns whether the index contains this object.
    pub fn knows(&self, identity: &Identity) -> bool {
        before(self.objects.slice(), |object| {
            object.start <= identity.start
        })
        .as_ref()
            == Some(identity)
    }

    /// Returns the next index in a chain of replaced ones.
    pub fn linked(&self) -> *mut Index {
        self.linked.get()
    }

    /// Links this index in front of a chain of replaced ones.
    ///
    /// # Safety
    ///
    /// The index was replaced, and the caller owns it.
    pub unsafe fn link(&self, chain: *mut Index) {
        self.linked.set(chain);
    }
}

/// Returns the last element of the prefix for which `is` holds.
fn before<T: Copy>(sorted: &[T], is: impl Fn(&T) -> bool) -> Option<T> {
    let count = sorted.partition_point(is);
    sorted.get(count.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects compiled by an earlier version may have rows without instructions. Such a row must
    /// not hide a row with the same start, in whatever order the notes have them. 200 look-ups.
    #[test]
    fn an_empty_row_does_not_hide_another() {
        let row = |start, end| Row {
            start,
            end,
            clone: None,
        };
        for nothing_first in [true, false] {
            let pairs = (1..=100usize).rev().map(|pair| 64 * pair);
            let index = Index::build(1, |with| {
                for start in pairs.clone() {
                    let (nothing, something) = (row(start, start), row(start, start + 8));
                    let both = match nothing_first {
                        true => [nothing, something],
                        false => [something, nothing],
                    };
                    both.into_iter().for_each(|row| with(Entry::Row(row)));
                }
            });
            let index = index.expect("the kernel gives memory");
            for start in pairs {
                // SAFETY: built above, and released below.
                let found = unsafe { index.as_ref() }.around(start + 1);
                assert_eq!(found, Some(row(start, start + 8)), "{nothing_first}");
            }
            // SAFETY: `build` returned it, and no reference is left.
            unsafe { Index::release(index) };
        }
    }
}
