//! Compare-and-swap of several words: Guerraoui, Kogan, Marathe and Zablotchi, *Efficient Multi-word Compare and Swap*,
//! 2020. k + 1 compare-and-swaps, lock-free.
//!
//! ```text
//! word        a value, or a reference: mark 63 | sequence 62 … 25 | descriptor 24 … 4 | entry 3 … 0
//! descriptor  status: sequence, UNDECIDED or SUCCEEDED or FAILED; for each word its address, old and new value
//!
//! exchange    fill a descriptor; put a reference into each word that still has its old value, in the order of their
//!             addresses; UNDECIDED -> SUCCEEDED, or FAILED if one had another value
//! value of a reference: the new value if SUCCEEDED, else the old one
//! ```
//!
//! What holds:
//!
//! 1. A word's content never comes back: a plain value is only what the word began with, and a reference has the
//!    sequence number of its operation. So a late compare-and-swap of a helper, whose operation is decided, fails; or it
//!    puts in a reference of a FAILED one, whose old value is the word's value.
//! 2. Nobody replaces the reference of an undecided operation; who meets one helps it first, or reads its old value.
//! 3. Helping meets ever higher addresses, so it ends.
//!
//! References stay in the words after the operation; nothing is put back, and nothing is deferred to an epoch. A
//! descriptor is used again, with its next sequence number, when no word refers to it and nobody helps it:
//!
//! 4. Who puts a reference in says so in the entry (`installed`), who replaces one says so too (`released`). Both
//!    are marked with the sequence number, and made by the one thread whose compare-and-swap it was.
//! 5. A helper counts itself, and then looks whether the operation is still undecided. Who takes a descriptor again
//!    finds it decided, and then the count at zero: so no helper of that operation is there, nor will one come.
//!
//! A descriptor is therefore bound for as long as a word's last change was its. Descriptors are type-stable (GC96 2):
//! they are never unmapped, and a stale reference leads to a descriptor whose sequence number tells.

use crate::sync::{AtomicU64, Ordering, fence};

use super::blocks;
use super::descriptors::{self, Descriptor, SEQUENCES};

/// The most words that one operation changes or compares.
pub(super) const MOST: usize = 8;

/// A word that holds a reference, not a value.
pub(super) const MARK: u64 = 1 << 63;

const ENTRY_BITS: u32 = 4;
const INDEX_BITS: u32 = 21;

const UNDECIDED: u64 = 0;
const SUCCEEDED: u64 = 1;
const FAILED: u64 = 2;

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
    if descriptor.status.load(Ordering::Acquire) >> 2 != reference.sequence {
        return Resolved::Stale;
    }
    let (old, new) = (
        entry.old.load(Ordering::Relaxed),
        entry.new.load(Ordering::Relaxed),
    );
    // Acquire: pairs with the release fence before a descriptor is filled anew.
    fence(Ordering::Acquire);
    let status = descriptor.status.load(Ordering::SeqCst);
    if status >> 2 != reference.sequence {
        return Resolved::Stale;
    }
    match status & 3 {
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
            Resolved::Stale => {}
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
        true => blocks::take(),
        false => blocks::take_anyway(),
    };
    let (descriptor, sequence) = (taken.descriptor, taken.sequence);
    // Release: pairs with the acquire fence in `resolve`: who sees what is filled in next sees the new number.
    descriptor
        .status
        .store(sequence << 2 | UNDECIDED, Ordering::Relaxed);
    fence(Ordering::Release);
    descriptor
        .count
        .store(parts.len() as u64, Ordering::Relaxed);
    for (entry, part) in descriptor.entries.iter().zip(&*parts) {
        entry.word.store(part.word as usize, Ordering::Relaxed);
        entry.old.store(part.old, Ordering::Relaxed);
        entry.new.store(part.new, Ordering::Relaxed);
    }
    // SAFETY: the caller's promise. The references are put in with a release.
    unsafe { run::<RECLAIMS>(descriptor, taken.index, sequence) };
    let succeeded = descriptor.status.load(Ordering::SeqCst) & 3 == SUCCEEDED;
    if !RECLAIMS {
        std::mem::forget(taken);
    }
    succeeded
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

/// Brings an operation to its decision: the owner's, or one that a helper has counted itself in for.
unsafe fn run<const RECLAIMS: bool>(descriptor: &Descriptor, index: usize, sequence: u64) {
    let undecided = sequence << 2 | UNDECIDED;
    let decide = |decision: u64| {
        let decided = sequence << 2 | decision;
        // Whoever comes second finds it decided.
        let _ = descriptor.status.compare_exchange(
            undecided,
            decided,
            Ordering::SeqCst,
            Ordering::SeqCst,
        );
    };
    let count = descriptor.count.load(Ordering::Relaxed) as usize;
    for (number, entry) in descriptor.entries[..count].iter().enumerate() {
        let old = entry.old.load(Ordering::Relaxed);
        let address = entry.word.load(Ordering::Relaxed);
        // SAFETY: valid, for the operation's owner is in its call, or the caller's promise covers its helpers.
        let word = unsafe { &*(address as *const AtomicU64) };
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
                    Resolved::Stale => continue,
                    Resolved::Undecided(_) => {
                        // SAFETY: the caller's promise.
                        unsafe { help(reference) };
                        continue;
                    }
                    Resolved::Value(found) => value = found,
                }
            }
            if value != old {
                return decide(FAILED);
            }
            if descriptor.status.load(Ordering::SeqCst) != undecided {
                return;
            }
            let put =
                word.compare_exchange(content, own.word(), Ordering::SeqCst, Ordering::Relaxed);
            if put.is_ok() {
                if RECLAIMS {
                    // Release: pairs with the acquire of whoever takes the descriptor again.
                    entry.installed.store(sequence, Ordering::Release);
                    release(content);
                }
                break;
            }
        }
    }
    decide(SUCCEEDED);
}

/// Helps an operation that is in the way.
#[cold]
unsafe fn help(reference: Reference) {
    let descriptor = blocks::at(reference.index);
    // SeqCst: before the look at the status, as seen by whoever takes the descriptor again.
    descriptor.helpers.fetch_add(1, Ordering::SeqCst);
    let undecided = reference.sequence << 2 | UNDECIDED;
    if descriptor.status.load(Ordering::SeqCst) == undecided {
        // SAFETY: the caller's promise; undecided, so it is the operation that was filled in.
        unsafe { run::<true>(descriptor, reference.index, reference.sequence) };
    }
    // Release: pairs with the acquire of whoever takes the descriptor again.
    descriptor.helpers.fetch_sub(1, Ordering::SeqCst);
}

/// May this descriptor be filled anew? The one who asks is the only one who may.
#[inline]
pub(super) fn is_free(descriptor: &Descriptor) -> bool {
    let status = descriptor.status.load(Ordering::SeqCst);
    let sequence = status >> 2;
    if sequence == 0 {
        return true;
    }
    // SeqCst: after the look at the status; pairs with the helper's, in the other order.
    if status & 3 == UNDECIDED || descriptor.helpers.load(Ordering::SeqCst) != 0 {
        return false;
    }
    let count = descriptor.count.load(Ordering::Relaxed) as usize;
    descriptor.entries[..count].iter().all(|entry| {
        entry.installed.load(Ordering::Acquire) != sequence
            || entry.released.load(Ordering::Acquire) == sequence
    })
}
