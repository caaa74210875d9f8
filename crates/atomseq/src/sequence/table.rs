//! The table of sequences that are protected against signal handlers: the addresses of each copy in
//! this process, and of its clone.
//!
//! ```text
//! .note.atomseq of all loaded objects ──refresh──> Index: sorted rows ──find──> the row around
//!                      └───── an object loaded since: read in place ─────────┘  a program counter
//! ```
//!
//! M94, section 2.1.2, calls this static registration, and rules it out for inlined code because
//! there is no list of the copies. Here the linker makes the list: the assembler places a note
//! beside each copy, and the notes of an object are a segment that the dynamic linker knows.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::index::{Entry, Index};
use super::inspect::{self, Refused, Why};
use crate::platform::objects::{self, Holder, Identity, NoteKind, Object};

/// The addresses of one copy of a sequence in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The address of the first instruction.
    pub start: usize,
    /// The address after the last instruction.
    pub end: usize,
    /// The clone in which the sequence is rolled forward. A sequence without one is restarted.
    pub clone: Option<Clone>,
}

/// The addresses of a sequence's clone: a copy of its instructions, followed by its *ends*, one for
/// each way out of the sequence. An end returns to the signal handler that runs the clone. The last
/// word of an end, its *landing*, says where the original continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clone {
    /// The address of the first instruction, a copy of the sequence's first one.
    pub start: usize,
    /// The address after the last of its ends.
    pub limit: usize,
}

impl Row {
    /// Returns whether `pc` is strictly inside: at least one instruction has been executed, and at
    /// least one is left.
    fn holds(&self, pc: usize) -> bool {
        self.start < pc && pc < self.end
    }

    /// Returns the address in the original that corresponds to an address in the clone. For one of
    /// the clone's ends, this is the address where the original continues.
    pub fn original(&self, pc: usize) -> Option<usize> {
        let clone = self.clone.filter(|_| self.clone_holds(pc))?;
        let offset = pc - clone.start;
        Some(match offset.checked_sub(self.end - self.start) {
            None => self.start + offset,
            Some(behind) => {
                let place = pc - behind % END_BYTES + END_BYTES - size_of::<i32>();
                // SAFETY: the ends follow the instructions of the clone, one after the other, so
                // `place` is the landing of the end that holds `pc`.
                unsafe { landing(place) }
            }
        })
    }

    fn clone_holds(&self, pc: usize) -> bool {
        self.clone
            .is_some_and(|clone| clone.start <= pc && pc < clone.limit)
    }
}

/// The size in bytes of one of a clone's ends: the instructions that return to the handler, and the
/// landing, which says where the original continues.
#[cfg(target_arch = "x86_64")]
const END_BYTES: usize = 3 + 4;
#[cfg(target_arch = "aarch64")]
const END_BYTES: usize = 16 + 4;

/// The name of the notes, and the type of those with this layout. Must agree with `emit/protect.rs`
/// of the compiler.
static NOTES: NoteKind = NoteKind {
    head: [12, 20, 2],
    name: b"atomseq\0\0\0\0\0",
};

/// The index that handlers read.
static CURRENT: AtomicPtr<Index> = AtomicPtr::new(core::ptr::null_mut());

/// A chain of replaced indices that a handler may still be reading.
static REPLACED: AtomicPtr<Index> = AtomicPtr::new(core::ptr::null_mut());

/// The number of readers.
static READERS: AtomicUsize = AtomicUsize::new(0);

/// The number of refreshes started.
static REFRESHES: AtomicUsize = AtomicUsize::new(0);

/// While a `Reader` exists, the index that it returned is not unmapped.
struct Reader;

impl Reader {
    fn enter() -> Reader {
        // SeqCst, together with the exchange in `publish` and the load in `release_replaced`: a
        // reader that `release_replaced` does not count finds the new index.
        READERS.fetch_add(1, Ordering::SeqCst);
        Reader
    }

    fn index(&self) -> Option<&Index> {
        let index = NonNull::new(CURRENT.load(Ordering::SeqCst))?;
        // SAFETY: an index is unmapped only after it was replaced and `READERS` was zero, and this
        // reader is counted.
        Some(unsafe { index.as_ref() })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        READERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Indexes the rows of all loaded objects. Returns `false` if the kernel refuses the memory; then
/// the old index remains.
///
/// Must be called before the first look-up and, without glibc 2.35 or newer, after each object that
/// is loaded later. Takes the dynamic linker's lock, and memory from the kernel, so it must not be
/// called in a signal handler.
pub fn refresh() -> bool {
    objects::look_finder_up();
    // Counted before the objects are enumerated: a refresh with a higher number has seen at least
    // as many.
    let number = REFRESHES.fetch_add(1, Ordering::SeqCst) + 1;
    let Some(index) = Index::build(number, each_row) else {
        return false;
    };
    publish(index);
    release_replaced();
    true
}

/// Returns whether look-ups find the rows of objects that are loaded later.
pub fn finds_new_objects() -> bool {
    objects::is_finder_known() && !CURRENT.load(Ordering::SeqCst).is_null()
}

/// Enumerates all rows, and the identity of every object that has notes and is never unloaded, if
/// it is known. The identities of other objects are left out: they may be unloaded, and another
/// object with the same identity, such as the plug-in's next version, may be loaded in their place.
/// Each look-up reads the notes of such an object itself.
fn each_row(with: &mut dyn FnMut(Entry)) {
    let lasting = objects::Lasting::look_up();
    objects::each(|object| {
        let mut rows = noted(object).peekable();
        for address in object.addresses() {
            if let Holder::Object(identity) = objects::containing(address) {
                let has_rows = rows.peek().is_some();
                if has_rows && lasting.has(object, identity) || !object.is_found_by(identity) {
                    with(Entry::Object(identity));
                }
            }
        }
        rows.for_each(|row| {
            let row = row.filter(|row| is_sequence(object, row));
            with(row.map_or(Entry::Refused, Entry::Row));
        });
    });
}

/// Returns whether a note of this object describes a sequence and its clone. If notes or code were
/// moved after they were linked, its addresses may be anything.
fn is_sequence(object: Object, row: &Row) -> bool {
    let is_code = |start, end| object.has_code(start..end);
    if !inspect::is_possible(row)
        || !is_code(row.start, row.end)
        || !row
            .clone
            .is_none_or(|clone| is_code(clone.start, clone.limit))
    {
        return false;
    }
    // SAFETY: `has_code` has just found that both ranges are readable code of a loaded object.
    match unsafe { inspect::inspect(row) } {
        // A breakpoint of a debugger or tracer is no fault of the row.
        Ok(_)
        | Err(Refused {
            why: Why::Breakpoint,
            ..
        }) => true,
        Err(_) => false,
    }
}

/// Returns the row of each of an object's notes; `None` for a note that describes none.
fn noted(object: Object) -> impl Iterator<Item = Option<Row>> {
    let notes = object.notes(&NOTES);
    notes.map(move |description| described(object, description))
}

/// What one note says.
fn described(object: Object, description: &[u8]) -> Option<Row> {
    let (place, to_beginning) = word(description, 4)?;
    let beginning = place.wrapping_add_signed(to_beginning);
    row(description, object.moved(beginning)?)
}

/// Returns a word of a note's description: its address and its value.
fn word(description: &[u8], index: usize) -> Option<(usize, isize)> {
    let at = description.get(4 * index..4 * index + 4)?;
    let offset = i32::from_ne_bytes(at.try_into().ok()?);
    Some((at.as_ptr() as usize, offset as isize))
}

/// Reads a row: four offsets, each relative to the address that its own word had before the note
/// was moved by `moved`.
fn row(description: &[u8], moved: isize) -> Option<Row> {
    let word = |index: usize| -> Option<Option<usize>> {
        let (place, offset) = word(description, index)?;
        let target = place.wrapping_add_signed(offset).wrapping_add_signed(moved);
        Some((offset != 0).then_some(target))
    };
    let clone = match (word(2)?, word(3)?) {
        (None, None) => None,
        // Half a clone is invalid: `inspect` rejects these addresses.
        (start, limit) => Some(Clone {
            start: start.unwrap_or(usize::MAX),
            limit: limit.unwrap_or(0),
        }),
    };
    Some(Row {
        start: word(0)??,
        end: word(1)??,
        clone,
    })
}

/// Makes an index the current one, unless a later refresh has already replaced it.
fn publish(index: NonNull<Index>) {
    let reader = Reader::enter();
    let mut current = CURRENT.load(Ordering::SeqCst);
    loop {
        // SAFETY: `current` is not unmapped while this reader is counted, and `index` is not shared
        // yet.
        let is_newer =
            unsafe { current.is_null() || (*current).number() < index.as_ref().number() };
        let replaced = match is_newer {
            false => index.as_ptr(),
            true => match CURRENT.compare_exchange(
                current,
                index.as_ptr(),
                Ordering::SeqCst,
                Ordering::SeqCst,
            ) {
                Ok(_) => current,
                Err(other) => {
                    current = other;
                    continue;
                }
            },
        };
        drop(reader);
        if let Some(replaced) = NonNull::new(replaced) {
            retire(replaced, replaced);
        }
        return;
    }
}

/// Adds a chain of replaced indices to `REPLACED`.
fn retire(first: NonNull<Index>, last: NonNull<Index>) {
    let mut head = REPLACED.load(Ordering::SeqCst);
    loop {
        // SAFETY: the caller took the chain out of `REPLACED` or has just replaced this index, so
        // it owns the link. Readers do not access links.
        unsafe { last.as_ref().link(head) };
        match REPLACED.compare_exchange(head, first.as_ptr(), Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => return,
            Err(other) => head = other,
        }
    }
}

/// Unmaps the replaced indices if there is no reader. Otherwise a later refresh does.
fn release_replaced() {
    // The chain is taken first: everything in it was replaced before the readers are counted.
    let Some(first) = NonNull::new(REPLACED.swap(core::ptr::null_mut(), Ordering::SeqCst)) else {
        return;
    };
    let has_no_readers = READERS.load(Ordering::SeqCst) == 0;
    let mut last = first;
    let mut next = Some(first);
    while let Some(index) = next {
        // SAFETY: this thread has taken the chain out of `REPLACED` and owns it.
        next = NonNull::new(unsafe { index.as_ref().linked() });
        last = index;
        if has_no_readers {
            // SAFETY: the index was replaced before the readers were counted, and there was none.
            unsafe { Index::release(index) };
        }
    }
    if !has_no_readers {
        retire(first, last);
    }
}

/// Returns the row around a program counter: `start < pc < end`. At `start` nothing has been
/// executed, at `end` everything has.
///
/// Async-signal-safe. The cost is logarithmic in the number of rows, or linear in the number of
/// notes of an object that is not in the index.
pub fn find(pc: usize) -> Option<Row> {
    search(pc, |index| index.around(pc), |row| row.holds(pc))
}

/// Returns the row whose clone, ends included, contains a program counter.
///
/// Async-signal-safe, at the cost of [`find`].
pub fn find_clone(pc: usize) -> Option<Row> {
    search(
        pc,
        |index| index.cloned_around(pc),
        |row| row.clone_holds(pc),
    )
}

fn search(
    pc: usize,
    indexed: impl Fn(&Index) -> Option<Row>,
    holds: impl Fn(&Row) -> bool,
) -> Option<Row> {
    let reader = Reader::enter();
    let index = reader.index()?;
    match objects::containing(pc) {
        Holder::Nothing => None,
        Holder::Object(identity) if !index.knows(&identity) => search_notes(identity, holds),
        Holder::Object(_) | Holder::Unknown => indexed(index).filter(holds),
    }
}

/// Searches the notes of an object that the index does not know. In a frame of its own: other
/// look-ups have to do with little stack.
#[inline(never)]
fn search_notes(identity: Identity, holds: impl Fn(&Row) -> bool) -> Option<Row> {
    let object = objects::object(identity)?;
    for description in object.notes(&NOTES) {
        let row = described(object, description).filter(&holds);
        if row.is_some_and(|row| is_sequence(object, &row)) {
            return row;
        }
    }
    None
}

/// Returns where the original continues after one of a clone's ends.
///
/// # Safety
///
/// `place` follows the instructions of one of the ends of a clone that [`find_clone`] has returned.
pub unsafe fn landing(place: usize) -> usize {
    // SAFETY: the caller guarantees that four readable bytes follow: the landing of an end.
    let offset = unsafe { (place as *const i32).read_unaligned() };
    place.wrapping_add_signed(offset as isize)
}

/// Returns the number of notes in the latest [`refresh`] that do not describe a sequence.
pub fn refused() -> usize {
    Reader::enter().index().map_or(0, Index::refused)
}

/// Returns an iterator over the rows of the latest [`refresh`], sorted by start.
#[cfg(any(test, feature = "unstable-internals"))]
pub fn rows() -> impl Iterator<Item = Row> {
    let reader = Reader::enter();
    let mut at = 0;
    core::iter::from_fn(move || {
        at += 1;
        reader.index()?.rows().get(at - 1).copied()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::sequence! {
        /// Removes the first node of a list.
        unsafe fn take(list: Word) -> Word {
            let first = load(list);
            if first == 0 { return 0 }
            let next = load(first);
            commit(list, next);
            first
        }

        /// Stores two words.
        unsafe fn both(a: Word, b: Word, value: Word) {
            store(a, value);
            store(b, value);
        }
    }

    /// Runs the sequences on local words.
    #[inline(never)]
    fn run() -> (usize, usize, [usize; 2]) {
        let last = 0usize;
        let mut list = &raw const last as usize;
        let mut words = [0usize; 2];
        // SAFETY: the addresses are those of local words.
        unsafe {
            let taken = take::restarting(&raw mut list as usize);
            let again = take::rolling(&raw mut list as usize);
            both::rolling(&raw mut words[0] as usize, &raw mut words[1] as usize, 7);
            (usize::from(taken == &raw const last as usize), again, words)
        }
    }

    /// Look-ups find their row while other threads replace the index, and replaced indices are
    /// unmapped.
    #[test]
    fn look_ups_succeed_during_refreshes() {
        use std::sync::atomic::AtomicBool;

        run();
        refresh();
        let row = rows().next().expect("this program has rows");
        let done = AtomicBool::new(false);
        let looked_up = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let readers = [(); 2].map(|()| {
                scope.spawn(|| {
                    while !done.load(Ordering::SeqCst) {
                        assert_eq!(find(row.start + 1), Some(row));
                        looked_up.fetch_add(1, Ordering::SeqCst);
                    }
                })
            });
            let refreshers = [(); 2].map(|()| scope.spawn(|| (0..300).for_each(|_| _ = refresh())));
            let refreshed = refreshers.map(|refresher| refresher.join());
            while looked_up.load(Ordering::SeqCst) < 1000
                && !readers.iter().all(|reader| reader.is_finished())
            {
                std::thread::yield_now();
            }
            // Before any assertion may panic, because the other threads wait for it.
            done.store(true, Ordering::SeqCst);
            for refreshed in refreshed {
                refreshed.expect("no panic");
            }
        });
        // Other tests look up and refresh too, so there is not always a moment without readers.
        let unmapped = (0..10_000).any(|_| {
            refresh();
            REPLACED.load(Ordering::SeqCst).is_null()
        });
        assert!(unmapped);
        // While a reader exists, a replaced index is kept.
        let reader = Reader::enter();
        refresh();
        // The refresh of another test may have taken the chain for a moment.
        assert!((0..10_000).any(|_| !REPLACED.load(Ordering::SeqCst).is_null()));
        drop(reader);
    }

    /// Only an object that cannot be unloaded is known by its identity.
    #[test]
    fn the_index_knows_only_objects_that_stay_loaded() {
        run();
        refresh();
        let knows = |address| match objects::containing(address) {
            Holder::Object(identity) => Some({
                let reader = Reader::enter();
                reader.index().expect("refreshed").knows(&identity)
            }),
            _ => None,
        };
        let of_this_program = knows(run as *const () as usize);
        // A static program has no other object, and other C libraries do not provide identities.
        let of_the_c_library = knows(libc::dl_iterate_phdr as *const () as usize);
        if of_this_program.is_some() && !cfg!(target_feature = "crt-static") {
            assert_eq!(
                (of_this_program, of_the_c_library),
                (Some(true), Some(false))
            );
        }
    }

    /// Returns the row of a note with these offsets, each relative to its own word.
    fn described(offsets: [i32; 4]) -> Option<Row> {
        row(&*offsets.map(i32::to_ne_bytes).concat().leak(), 0)
    }

    #[test]
    fn impossible_rows_are_rejected() {
        let is_possible =
            |offsets| described(offsets).is_some_and(|row| inspect::is_possible(&row));
        // The word for the end lies 4 bytes after that for the start, and so on.
        assert!(is_possible([1000, 1020, 0, 0]) && is_possible([1000, 1020, 5000, 5060]));
        for offsets in [
            [1000, 992, 0, 0],
            [1000, 100_000, 0, 0],
            [0, 1020, 0, 0],
            [1000, 0, 0, 0],
            [1000, 1020, 5000, 0],
            [1000, 1020, 0, 5060],
            [1000, 1020, 5000, 4900],
            [1000, 1020, 5000, 5010],
            [1000, 1020, 5000, 100_000],
        ] {
            assert!(!is_possible(offsets), "{offsets:?}");
        }
        assert_eq!(row(&[1; 15], 0), None);
    }

    #[test]
    fn rows_of_this_program_are_found() {
        assert_eq!(run(), (1, 0, [7, 7]));
        refresh();
        assert_eq!(refused(), 0);
        let all: Vec<Row> = rows().collect();
        assert!(
            all.iter().any(|row| row.clone.is_none()),
            "the restarting one"
        );
        assert!(
            all.iter().any(|row| row.clone.is_some()),
            "the rolling ones"
        );
        for row in all {
            // SAFETY: a row of this program, whose code is loaded and readable.
            let instructions = unsafe { inspect::inspect(&row) };
            assert!(
                instructions.is_ok_and(|count| count > 0),
                "{instructions:?}"
            );
            assert_eq!(find(row.start), None);
            assert_eq!(find(row.end), None);
            for pc in row.start + 1..row.end {
                assert_eq!(find(pc), Some(row));
                assert_eq!(find_clone(pc), None);
            }
            let Some(clone) = row.clone else { continue };
            for pc in clone.start..clone.limit {
                assert_eq!(find_clone(pc), Some(row));
                assert_eq!(find(pc), None);
            }
            assert_eq!(find_clone(clone.limit).filter(|found| *found == row), None);
            for offset in 0..row.end - row.start {
                assert_eq!(row.original(clone.start + offset), Some(row.start + offset));
            }
            for offset in row.end - row.start..row.end - row.start + END_BYTES {
                assert_eq!(row.original(clone.start + offset), Some(row.end));
            }
            assert_eq!(row.original(clone.limit), None);
        }
    }
}
