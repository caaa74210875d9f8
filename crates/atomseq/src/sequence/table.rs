//! The table of sequences that are protected against signal handlers: where each copy of each lies
//! in this process, and where its clone.
//!
//! ```text
//! .note.atomseq of every loaded object ──refresh──> Index: sorted rows ──find──> the row around a program counter
//!                      └───────an object loaded since: read in place───────────┘
//! ```
//!
//! M94 2.1.2 calls this static registration, and thought that it could not go with inlining, for
//! want of a list. The linker makes the list: the assembler puts a note beside each copy, and the
//! notes of an object are a segment that the dynamic linker knows.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::index::{Entry, Index};
use super::inspect::{self, Refused, Why};
use crate::platform::objects::{self, Holder, NoteKind, Object};

/// A sequence's place in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The first instruction.
    pub start: usize,
    /// After the last one.
    pub end: usize,
    /// Where it is rolled forward; without one it is restarted.
    pub clone: Option<Clone>,
}

/// A sequence's clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clone {
    /// The first instruction: the same as the sequence's.
    pub start: usize,
    /// After its last end.
    pub limit: usize,
}

impl Row {
    /// Strictly inside: an instruction of this sequence was done, and one is left to do.
    fn holds(&self, pc: usize) -> bool {
        self.start < pc && pc < self.end
    }

    /// Where in the original a place in the clone is; in one of the clone's ends, where that leads.
    pub fn original(&self, pc: usize) -> Option<usize> {
        let clone = self.clone.filter(|_| self.clone_holds(pc))?;
        let offset = pc - clone.start;
        Some(match offset.checked_sub(self.end - self.start) {
            None => self.start + offset,
            Some(behind) => {
                let place = pc - behind % END_BYTES + END_BYTES - size_of::<i32>();
                // SAFETY: the ends follow the steps, one after the other.
                unsafe { landing(place) }
            }
        })
    }

    fn clone_holds(&self, pc: usize) -> bool {
        self.clone
            .is_some_and(|clone| clone.start <= pc && pc < clone.limit)
    }
}

/// How long one of a clone's ends is: the way back to the handler, and the place that says where to
/// go on.
#[cfg(target_arch = "x86_64")]
const END_BYTES: usize = 3 + 4;
#[cfg(target_arch = "aarch64")]
const END_BYTES: usize = 16 + 4;

/// What the notes are called, and the type of those of this layout; must agree with the compiler's
/// `emit/protect.rs`.
static NOTES: NoteKind = NoteKind {
    head: [12, 20, 2],
    name: b"atomseq\0\0\0\0\0",
};

/// The index that handlers read.
static CURRENT: AtomicPtr<Index> = AtomicPtr::new(core::ptr::null_mut());

/// Those that it has replaced, and that a handler may still be reading.
static REPLACED: AtomicPtr<Index> = AtomicPtr::new(core::ptr::null_mut());

/// How many readers there are.
static READERS: AtomicUsize = AtomicUsize::new(0);

/// How many refreshes have begun.
static REFRESHES: AtomicUsize = AtomicUsize::new(0);

/// While one lives, the index that was read through it stays.
struct Reader;

impl Reader {
    fn enter() -> Reader {
        // SeqCst, as the exchange in `publish` and the load in `release_replaced`: a reader that is
        // not counted there finds the new index.
        READERS.fetch_add(1, Ordering::SeqCst);
        Reader
    }

    fn index(&self) -> Option<&Index> {
        let index = NonNull::new(CURRENT.load(Ordering::SeqCst))?;
        // SAFETY: an index is unmapped when it was replaced and nobody is counted.
        Some(unsafe { index.as_ref() })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        READERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Finds the rows of all loaded objects. To be called before the first look-up and, without glibc
/// 2.35 or newer, after each object that is loaded later. Takes the dynamic linker's lock and
/// memory from the kernel: not for signal handlers. `false`: the kernel gives no memory, and what
/// was known before is known.
pub fn refresh() -> bool {
    objects::look_finder_up();
    // Counted before the objects are looked at: whoever began later saw at least as many.
    let number = REFRESHES.fetch_add(1, Ordering::SeqCst) + 1;
    let Some(index) = Index::build(number, each_row) else {
        return false;
    };
    publish(index);
    release_replaced();
    true
}

/// Do look-ups find the rows of objects that are loaded after this, and of all others?
pub fn finds_new_objects() -> bool {
    objects::is_finder_known() && !CURRENT.load(Ordering::SeqCst).is_null()
}

/// Calls with the identity, if it is known, of every object that has notes, and with every row.
/// Other objects may be unloaded, and then another one of the same identity may be loaded in their
/// place: each look-up reads their notes, if it can.
fn each_row(with: &mut dyn FnMut(Entry)) {
    objects::each(|object| {
        let mut rows = noted(object).peekable();
        for address in object.addresses() {
            if let Holder::Object(identity) = objects::containing(address)
                && (rows.peek().is_some() || !object.is_found_by(identity))
            {
                with(Entry::Object(identity));
            }
        }
        rows.for_each(|row| {
            let row = row.filter(|row| is_sequence(object, row));
            with(row.map_or(Entry::Refused, Entry::Row));
        });
    });
}

/// Is what a note of this object names a sequence, and its clone? Notes or code may have been moved
/// after they were linked: then anything may lie there.
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
    // SAFETY: loaded code that may be read, as was just found.
    match unsafe { inspect::inspect(row) } {
        // Somebody debugs or traces this program.
        Ok(_)
        | Err(Refused {
            why: Why::Breakpoint,
            ..
        }) => true,
        Err(_) => false,
    }
}

/// What an object's notes say; `None` for one that says nothing.
fn noted(object: Object) -> impl Iterator<Item = Option<Row>> {
    object.notes(&NOTES).map(move |description| {
        let (place, to_beginning) = word(description, 4)?;
        row(
            description,
            object.moved(place.wrapping_add_signed(to_beginning))?,
        )
    })
}

/// One of the words of a description: where it lies, and what it says.
fn word(description: &[u8], index: usize) -> Option<(usize, isize)> {
    let at = description.get(4 * index..4 * index + 4)?;
    let offset = i32::from_ne_bytes(at.try_into().ok()?);
    Some((at.as_ptr() as usize, offset as isize))
}

/// Four offsets, each from its own place as it was before it was moved so far.
fn row(description: &[u8], moved: isize) -> Option<Row> {
    let word = |index: usize| -> Option<Option<usize>> {
        let (place, offset) = word(description, index)?;
        let target = place.wrapping_add_signed(offset).wrapping_add_signed(moved);
        Some((offset != 0).then_some(target))
    };
    let clone = match (word(2)?, word(3)?) {
        (None, None) => None,
        // Half a clone is none that can be.
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

/// Makes an index the current one, unless a later refresh was faster.
fn publish(index: NonNull<Index>) {
    let reader = Reader::enter();
    let mut current = CURRENT.load(Ordering::SeqCst);
    loop {
        // SAFETY: not unmapped while this reader is counted; ours is nobody else's yet.
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

/// Puts a chain of replaced indices aside.
fn retire(first: NonNull<Index>, last: NonNull<Index>) {
    let mut head = REPLACED.load(Ordering::SeqCst);
    loop {
        // SAFETY: a replaced index belongs to whoever took it from the chain, and readers leave its
        // link alone.
        unsafe { last.as_ref().link(head) };
        match REPLACED.compare_exchange(head, first.as_ptr(), Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => return,
            Err(other) => head = other,
        }
    }
}

/// Unmaps what was replaced if nobody reads; else a later refresh does.
fn release_replaced() {
    // Taken first: what is in the chain was replaced before the readers are counted.
    let Some(first) = NonNull::new(REPLACED.swap(core::ptr::null_mut(), Ordering::SeqCst)) else {
        return;
    };
    let nobody_reads = READERS.load(Ordering::SeqCst) == 0;
    let mut last = first;
    let mut next = Some(first);
    while let Some(index) = next {
        // SAFETY: in the chain that this thread took.
        next = NonNull::new(unsafe { index.as_ref().linked() });
        last = index;
        if nobody_reads {
            // SAFETY: replaced, and every reader that found it has left.
            unsafe { Index::release(index) };
        }
    }
    if !nobody_reads {
        retire(first, last);
    }
}

/// The row around a program counter: `start < pc < end`. At `start` nothing was done yet, at `end`
/// everything is. Async-signal-safe; logarithmic in the number of rows, or
/// linear in the notes of an object that has none.
pub fn find(pc: usize) -> Option<Row> {
    search(pc, |index| index.around(pc), |row| row.holds(pc))
}

/// The row whose clone, or one of the clone's ends, holds this program counter. Async-signal-safe;
/// its cost is that of [`find`].
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
        Holder::Object(identity) if !index.knows(&identity) => {
            let object = objects::object(identity)?;
            noted(object)
                .flatten()
                .find(|row| holds(row) && is_sequence(object, row))
        }
        Holder::Object(_) | Holder::Unknown => indexed(index).filter(holds),
    }
}

/// Where in the original to go on after one of a clone's ends.
///
/// # Safety
///
/// This is the place in one of the ends of a clone that [`find_clone`] has found: after its
/// instructions.
pub unsafe fn landing(place: usize) -> usize {
    // SAFETY: four bytes that tell.
    let offset = unsafe { (place as *const i32).read_unaligned() };
    place.wrapping_add_signed(offset as isize)
}

/// How many notes the latest [`refresh`] found that name no sequence.
pub fn refused() -> usize {
    Reader::enter().index().map_or(0, Index::refused)
}

/// Every row of the latest [`refresh`], by start.
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
        /// Takes the first of a list.
        unsafe fn take(list: Word) -> Word {
            let first = load(list);
            if first == 0 { return 0 }
            let next = load(first);
            commit(list, next);
            first
        }

        /// Stores twice.
        unsafe fn both(a: Word, b: Word, value: Word) {
            store(a, value);
            store(b, value);
        }
    }

    /// Two words that the sequences work on.
    #[inline(never)]
    fn run() -> (usize, usize, [usize; 2]) {
        let last = 0usize;
        let mut list = &raw const last as usize;
        let mut words = [0usize; 2];
        // SAFETY: words of this function's own.
        unsafe {
            let taken = take::restarting(&raw mut list as usize);
            let again = take::rolling(&raw mut list as usize);
            both::rolling(&raw mut words[0] as usize, &raw mut words[1] as usize, 7);
            (usize::from(taken == &raw const last as usize), again, words)
        }
    }

    /// Look-ups never miss, however often the index is replaced under them; and what was replaced
    /// is given back.
    #[test]
    fn look_ups_and_refreshes_meet() {
        use std::sync::atomic::AtomicBool;

        run();
        refresh();
        let row = rows().next().expect("this program has rows");
        let done = AtomicBool::new(false);
        let looked_up = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let lookers = [(); 2].map(|()| {
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
                && !lookers.iter().all(|looker| looker.is_finished())
            {
                std::thread::yield_now();
            }
            // First of all: the lookers wait for it.
            done.store(true, Ordering::SeqCst);
            for refreshed in refreshed {
                refreshed.expect("no panic");
            }
        });
        // Other tests look up and refresh as well: now and then nobody does.
        let given_back = (0..10_000).any(|_| {
            refresh();
            REPLACED.load(Ordering::SeqCst).is_null()
        });
        assert!(given_back);
        // A reader that stays keeps what was replaced.
        let reader = Reader::enter();
        refresh();
        // A refresh of another test has it in its hands for a moment.
        assert!((0..10_000).any(|_| !REPLACED.load(Ordering::SeqCst).is_null()));
        drop(reader);
    }

    /// Only an object that stays is known by its identity.
    #[test]
    fn objects_without_rows_are_looked_at_each_time() {
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
        // A static program has no other object, and other C libraries do not tell.
        let of_the_c_library = knows(libc::dl_iterate_phdr as *const () as usize);
        if of_this_program.is_some() && !cfg!(target_feature = "crt-static") {
            assert_eq!(
                (of_this_program, of_the_c_library),
                (Some(true), Some(false))
            );
        }
    }

    /// Offsets as a note has them, each from its own place.
    fn described(offsets: [i32; 4]) -> Option<Row> {
        row(&*offsets.map(i32::to_ne_bytes).concat().leak(), 0)
    }

    #[test]
    fn rows_that_cannot_be_are_not_taken() {
        let is_possible =
            |offsets| described(offsets).is_some_and(|row| inspect::is_possible(&row));
        // The end's place is 4 bytes after the start's, and so on.
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
            // SAFETY: a row of this program.
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
