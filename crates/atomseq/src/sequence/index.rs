//! The rows of all loaded objects, sorted, in a mapping of their own.

use core::cell::Cell;
use core::ptr::NonNull;
use core::slice::from_raw_parts_mut;

use super::table::Row;
use crate::mappings::{map, unmap};
use crate::platform::objects::Identity;

/// What a refresh comes across.
#[derive(Clone, Copy)]
pub enum Entry {
    /// An object, before its rows.
    Object(Identity),
    /// A row.
    Row(Row),
    /// A note that names no sequence.
    Refused,
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
    refused: usize,
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
    /// The index of all that `each` calls with; `number` tells a later one from an earlier. `None`:
    /// the kernel gives no memory.
    pub fn build(number: usize, each: impl Fn(&mut dyn FnMut(Entry))) -> Option<NonNull<Index>> {
        loop {
            let mut counts = Counts::default();
            each(&mut |entry| counts.count(&entry));
            let bytes = counts.bytes();
            let start = map(bytes)?;
            // SAFETY: just mapped, with so many bytes.
            if let Some(index) = unsafe { Index::fill(start, number, counts, &each) } {
                return Some(index);
            }
            // An object was loaded in between.
            // SAFETY: the whole mapping, which nobody has seen.
            unsafe { unmap(start, bytes) };
        }
    }

    /// `None` if there are more entries than were counted.
    ///
    /// # Safety
    ///
    /// `start` is that of a mapping for so many entries, which is the caller's alone.
    unsafe fn fill(
        start: NonNull<u8>,
        number: usize,
        room: Counts,
        each: impl Fn(&mut dyn FnMut(Entry)),
    ) -> Option<NonNull<Index>> {
        // SAFETY: `room.bytes()` holds them one after the other; each type's alignment is a word's,
        // and so is a multiple of all their sizes.
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
                    Entry::Refused => {}
                }
            }
        });
        if counts.rows > room.rows || counts.clones > room.clones || counts.objects > room.objects {
            return None;
        }
        // SAFETY: so many were written, and nobody else has seen them.
        unsafe {
            // A row that ends where it starts comes before the one that starts there and holds
            // something: `around` finds the last.
            from_raw_parts_mut(rows.as_ptr(), counts.rows)
                .sort_unstable_by_key(|row| (row.start, row.end));
            from_raw_parts_mut(clones.as_ptr(), counts.clones)
                .sort_unstable_by_key(|row| row.clone.map(|clone| clone.start));
            from_raw_parts_mut(objects.as_ptr(), counts.objects)
                .sort_unstable_by_key(|object| object.start);
        }
        let index = start.cast::<Index>();
        // SAFETY: the mapping begins with room for it, and pages are aligned for anything.
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

    /// All rows, by start and end.
    pub fn rows(&self) -> &[Row] {
        self.rows.slice()
    }

    /// How many notes name no sequence.
    pub fn refused(&self) -> usize {
        self.refused
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of no instruction, as objects that an earlier version compiled may have, hides none
    /// that starts in the same place, wherever the notes have it. 200 look-ups.
    #[test]
    fn a_row_of_nothing_hides_no_other() {
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
            // SAFETY: nobody else has seen it.
            unsafe { Index::release(index) };
        }
    }
}
