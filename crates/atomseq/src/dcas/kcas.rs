//! Compare-and-swap of several words: Guerraoui, Kogan, Marathe and Zablotchi, *Efficient Multi-word Compare and Swap*,
//! 2020. k + 1 compare-and-swaps, lock-free.
//!
//! ```text
//! word        a value, or a reference: mark 63 | sequence 62 … 25 | descriptor 24 … 4 | entry 3 … 0
//! descriptor  status: sequence, count of words, UNDECIDED or SUCCEEDED or FAILED; for each word its address, old and new value
//!
//! exchange    take a descriptor and fill it; put a reference into each word that still has its old value, in the order of their
//!             addresses; UNDECIDED -> SUCCEEDED, or FAILED if one had another value
//! value of a reference: the new value if SUCCEEDED, else the old one
//! ```
//!
//! What holds:
//!
//! 1. A word's content never comes back: a plain value is only what the word began with, and a reference has the
//!    sequence number of its operation. So a late compare-and-swap of a helper, whose operation is decided, fails; or it
//!    puts in a reference of a FAILED one, whose old value is the word's value.
//! 2. Nobody replaces the reference of an undecided operation; who meets one waits a little and then helps it, or reads its old
//!    value.
//! 3. Helping meets ever higher addresses, so it ends.
//!
//! References stay in the words after the operation; nothing is put back, and nothing is deferred to an epoch. A
//! descriptor is used again, with its next sequence number, when no word refers to it and nobody helps it:
//!
//! 4. All words refer to an operation that has succeeded. Of one that has failed, who has put references in says so before
//!    going (`installed`). Who has replaced a reference marks its entry with the sequence number before going (`released`).
//! 5. The owner says with the sequence number that it has gone (`left`). A helper counts itself, and then looks whether the
//!    operation is still undecided. Who looks for a descriptor finds it decided, and then the owner gone and the count at
//!    zero: so nobody of that operation is there, nor will anybody come.
//! 6. Several may find the same descriptor free: it is theirs whose compare-and-swap gives its status the next number.
//!
//! A descriptor is therefore bound for as long as a word's last change was its. Descriptors are type-stable (GC96 2):
//! they are never unmapped, and a stale reference leads to a descriptor whose sequence number tells.

use crate::sync::{AtomicU64, Ordering, SPINS, fence, spin_loop};

use super::blocks;
use super::descriptors::{
    self, DECISION, Descriptor, FAILED, SEQUENCES, SUCCEEDED, UNDECIDED, sequence_of, undecided,
};

/// The most words that one operation changes or compares.
pub(super) const MOST: usize = 8;

/// A word that holds a reference, not a value.
pub(super) const MARK: u64 = 1 << 63;

const ENTRY_BITS: u32 = 4;
const INDEX_BITS: u32 = 21;

/// One word's part: where it is, what it should hold, what it shall hold. The same to compare only.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) word: *const AtomicU64,
    pub(super) old: u64,
    pub(super) new: u64,
}

/// A reference, taken apart.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Reference {
    sequence: u64,
    index: usize,
    entry: usize,
}

impl Reference {
    fn of(word: u64) -> Reference {
        Reference {
            sequence: (word & !MARK) >> (ENTRY_BITS + INDEX_BITS),
            index: (word >> ENTRY_BITS) as usize & ((1 << INDEX_BITS) - 1),
            entry: word as usize & ((1 << ENTRY_BITS) - 1),
        }
    }

    fn word(self) -> u64 {
        MARK | self.sequence << (ENTRY_BITS + INDEX_BITS)
            | (self.index as u64) << ENTRY_BITS
            | self.entry as u64
    }
}

const _: () = assert!(63 - ENTRY_BITS - INDEX_BITS == SEQUENCES.trailing_zeros());
const _: () = assert!(descriptors::MOST == 1 << INDEX_BITS && MOST < 1 << ENTRY_BITS);

/// What a reference stands for.
enum Resolved {
    /// The descriptor is in use for something else: the word has changed.
    Stale,
    /// The word has its old value for now.
    Undecided(u64),
    Value(u64),
}

#[inline]
fn resolve(reference: Reference) -> Resolved {
    let descriptor = blocks::at(reference.index);
    let entry = &descriptor.entries[reference.entry];
    // Acquire: pairs with the release that began the operation.
    if sequence_of(descriptor.status.load(Ordering::Acquire)) != reference.sequence {
        return Resolved::Stale;
    }
    let (old, new) = (
        entry.old.load(Ordering::Relaxed),
        entry.new.load(Ordering::Relaxed),
    );
    // Acquire: pairs with the release fence before a descriptor is filled anew.
    fence(Ordering::Acquire);
    // Acquire: pairs with the decision; what was changed with this word is seen as well.
    let status = descriptor.status.load(Ordering::Acquire);
    if sequence_of(status) != reference.sequence {
        return Resolved::Stale;
    }
    match status & DECISION {
        UNDECIDED => Resolved::Undecided(old),
        SUCCEEDED => Resolved::Value(new),
        _ => Resolved::Value(old),
    }
}

/// The value of a word. Helps nobody: an undecided operation has changed nothing.
///
/// Never inlined: its callers are mostly on the way of OS-assisted DCAS, whose registers it would take.
#[inline(never)]
pub(super) fn load(word: &AtomicU64) -> u64 {
    loop {
        // Acquire: pairs with the compare-and-swap that put the reference in.
        let content = word.load(Ordering::Acquire);
        if content & MARK == 0 {
            return content;
        }
        match resolve(Reference::of(content)) {
            Resolved::Stale => spin_loop(),
            Resolved::Undecided(value) | Resolved::Value(value) => return value,
        }
    }
}

/// Says that a word no longer refers to a descriptor: it is dropped, or was just changed.
#[inline]
pub(super) fn release(content: u64) {
    if content & MARK != 0 {
        let reference = Reference::of(content);
        let entry = &blocks::at(reference.index).entries[reference.entry];
        // Release: pairs with the acquire of whoever takes the descriptor again.
        entry.released.store(reference.sequence, Ordering::Release);
    }
}

/// Changes all words if each holds its old value.
///
/// # Safety
///
/// The words are valid and none is reinitialised as long as any thread may be inside this function for an operation that
/// shares a word with this one, or with one that does, and so on. They are changed in no other way.
///
/// # Panics
///
/// If there are more than [`MOST`] + 1, or a word twice.
#[inline(always)]
pub(super) unsafe fn exchange(parts: &mut [Part]) -> bool {
    // SAFETY: the caller's promise.
    unsafe { exchange_with::<true>(parts) }
}

/// The same; without `RECLAIMS` descriptors are used again whether they are free or not, to measure what it costs to know.
///
/// # Safety
///
/// As for [`exchange`]. Without `RECLAIMS` no other thread uses the words, and all of them change with every exchange.
#[inline(always)]
pub(super) unsafe fn exchange_with<const RECLAIMS: bool>(parts: &mut [Part]) -> bool {
    assert!(parts.len() <= MOST + 1, "too many words for one operation");
    sort(parts);
    assert!(
        parts.windows(2).all(|pair| pair[0].word != pair[1].word),
        "a word is there twice"
    );
    let taken = match RECLAIMS {
        true => blocks::take(parts.len()),
        false => blocks::take_anyway(parts.len()),
    };
    let (descriptor, sequence) = (taken.descriptor, taken.sequence);
    // Release: pairs with the acquire fence in `resolve`: who sees what is filled in next sees the new number.
    fence(Ordering::Release);
    for (entry, part) in descriptor.entries.iter().zip(&*parts) {
        entry.word.store(part.word as usize, Ordering::Relaxed);
        entry.old.store(part.old, Ordering::Relaxed);
        entry.new.store(part.new, Ordering::Relaxed);
    }
    // SAFETY: the caller's promise. The references are put in with a release.
    let decision = unsafe { run::<RECLAIMS>(descriptor, taken.index, sequence, parts) };
    if RECLAIMS {
        // Release: pairs with the acquire of whoever takes the descriptor again.
        descriptor.left.store(sequence, Ordering::Release);
    }
    decision == SUCCEEDED
}

/// By address. For so few, rustc makes less of a general one.
#[inline(always)]
fn sort(parts: &mut [Part]) {
    for end in 1..parts.len() {
        let mut place = end;
        while place > 0 && parts[place - 1].word > parts[place].word {
            parts.swap(place - 1, place);
            place -= 1;
        }
    }
}

/// Brings an operation to its decision, which it returns: the owner's, or one that a helper has counted itself in for. What it
/// puts references to takes the place of the old value in `parts`.
#[inline(always)]
unsafe fn run<const RECLAIMS: bool>(
    descriptor: &Descriptor,
    index: usize,
    sequence: u64,
    parts: &mut [Part],
) -> u64 {
    let undecided = undecided(sequence, parts.len());
    let mut put = 0_u64;
    let found = 'search: {
        for (number, part) in parts.iter_mut().enumerate() {
            // SAFETY: valid, for the operation's owner is in its call, or the caller's promise covers its helpers.
            let word = unsafe { &*part.word };
            let own = Reference {
                sequence,
                index,
                entry: number,
            };
            loop {
                let content = word.load(Ordering::Acquire);
                if content == own.word() {
                    break;
                }
                let mut value = content;
                if content & MARK != 0 {
                    let reference = Reference::of(content);
                    match resolve(reference) {
                        Resolved::Stale => {
                            spin_loop();
                            continue;
                        }
                        Resolved::Undecided(_) => {
                            // SAFETY: the caller's promise.
                            unsafe { make_way(reference) };
                            continue;
                        }
                        Resolved::Value(found) => value = found,
                    }
                }
                if value != part.old {
                    break 'search FAILED;
                }
                // Relaxed: who comes late does no harm, it only need not.
                if descriptor.status.load(Ordering::Relaxed) != undecided {
                    // Decided by a helper: what is found here does not count.
                    break 'search FAILED;
                }
                if word
                    .compare_exchange(content, own.word(), Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok()
                {
                    put |= 1 << number;
                    part.old = content;
                    break;
                }
            }
        }
        SUCCEEDED
    };
    let decided = descriptor.status.compare_exchange(
        undecided,
        undecided | found,
        Ordering::SeqCst,
        Ordering::SeqCst,
    );
    // Whoever comes second finds it decided.
    let decision = decided.map_or_else(|status| status & DECISION, |_| found);
    if RECLAIMS {
        if decision == FAILED && put != 0 {
            // Relaxed: whoever takes the descriptor again sees first that the one who is here has gone.
            descriptor.installed.fetch_or(put, Ordering::Relaxed);
        }
        for (number, part) in parts.iter().enumerate() {
            if put & 1 << number != 0 {
                release(part.old);
            }
        }
    }
    decision
}

/// Waits a little for an operation that is in the way, and then helps it. As long as others stay away, its words and its
/// descriptor stay with the processor that is about to end it.
///
/// # Safety
///
/// As for [`exchange`], for an operation that shares a word with the one that meets it.
#[cold]
#[inline(never)]
unsafe fn make_way(reference: Reference) {
    let descriptor = blocks::at(reference.index);
    let is_undecided = || {
        let status = descriptor.status.load(Ordering::SeqCst);
        sequence_of(status) == reference.sequence && status & DECISION == UNDECIDED
    };
    for _ in 0..SPINS {
        if !is_undecided() {
            return;
        }
        spin_loop();
    }
    // SeqCst: before the look at the status, as seen by whoever takes the descriptor again.
    descriptor.helpers.fetch_add(1, Ordering::SeqCst);
    if is_undecided() {
        let count = descriptors::count_of(descriptor.status.load(Ordering::Relaxed));
        let mut parts: [Part; MOST + 1] = std::array::from_fn(|number| {
            let entry = &descriptor.entries[number];
            Part {
                word: entry.word.load(Ordering::Relaxed) as *const AtomicU64,
                old: entry.old.load(Ordering::Relaxed),
                new: entry.new.load(Ordering::Relaxed),
            }
        });
        let parts = &mut parts[..count];
        // SAFETY: the caller's promise; undecided, so it is the operation that was filled in.
        unsafe { run::<true>(descriptor, reference.index, reference.sequence, parts) };
    }
    // Release: pairs with the acquire of whoever takes the descriptor again.
    descriptor.helpers.fetch_sub(1, Ordering::SeqCst);
}
