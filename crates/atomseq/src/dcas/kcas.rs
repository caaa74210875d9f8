//! k-CAS: lock-free changes of several words under one version. A change of k words costs 2k + 2
//! compare-and-swaps.
//!
//! ```text
//! word        a value, or a reference: mark 63 | sequence 62 … 23 | descriptor 22 … 4 | entry 3 … 0
//! descriptor  status      sequence; number of entries; FREE, UNDER_WAY or OVER
//!             operation   the operation that references to this descriptor belong to
//!             entries     for each word: address, old value, new value; the version first
//!
//! owner       take a descriptor: status UNDER_WAY; fill it in
//!             version: v -> reference             decides: the operation will succeed
//!             each word: old value -> reference -> new value
//!             status: OVER
//!             version: reference -> v + 1
//! helper      finds a reference in the version and follows it to the descriptor
//!             each word: old value -> reference to the helper's own descriptor -> new value
//!             status: OVER
//!             version: reference -> v + 1
//!
//! a reference stands for the new value while its operation is UNDER_WAY, and for the old value
//! when the operation is OVER, or its descriptor FREE or reused
//! ```
//!
//! "Its operation" is that of the descriptor's operation field: the owner's, in a helper's
//! descriptor too. If the descriptor that the reference itself leads to has been reused, the
//! reference has left the word.
//!
//! The *owner* is the thread whose operation it is. A *helper* is a thread that finds the operation
//! under way and completes it. A *late* thread is one that still works on an operation that is
//! OVER.
//!
//! The two steps for each word are those of Harris, Fraser and Pratt, *A Practical Multi-Word
//! Compare-and-Swap Operation* (2002). A word holds a unique reference before it holds the new
//! value, and the reference counts only while its operation is under way. Three things are simpler
//! here, because one version covers all words. The compare-and-swap of the version decides the
//! operation, so no operation fails later. Two operations in progress never share a word, so the
//! words need no sorting. "Under way" is one word, the status in the descriptor. Descriptors are
//! reused as in Arbel-Raviv and Brown, *Reuse, Don't Recycle* (2017): a reader that finds another
//! sequence number than the reference's knows that the operation is over.
//!
//! Invariants:
//!
//! 1. No version recurs: it counts to 2^63. So the owner's first compare-and-swap succeeds only at
//!    the version that the old values belong to. From then until the version is a number again, no
//!    other operation changes the words.
//! 2. A reference is stored into one word, once. The owner tries each word until its
//!    compare-and-swap succeeds once or the word has changed; a helper takes a new descriptor for
//!    each attempt. So a compare-and-swap that expects a reference replaces this very occurrence.
//! 3. While the operation is under way, each of its words goes from the old value through
//!    references to the new value, and keeps it. A thread stores OVER only after it has found each
//!    word changed. So when the operation is OVER, no word holds a reference that was stored while
//!    it was under way.
//! 4. A late thread may find an old value that has recurred, and replace it by its reference. This
//!    reference stands for the old value, and every thread that finds it, including the late
//!    thread, restores the old value.
//! 5. OVER is stored before the version advances, and an old value can recur only after that. So a
//!    thread that reads a late reference also reads that its operation is over.
//! 6. An owner or helper marks its descriptor FREE only after all its references have left the
//!    words. So no word refers to a FREE descriptor. A thread has at most one descriptor that is
//!    not FREE, plus one for each of its signal handlers.
//!
//! When an operation has ended, the version is a plain number, and so is each word, except while it
//! holds the reference of a late thread. A late thread that exits leaves its reference there until
//! a change of the word meets it. `Cell::resolve` removes it before a word is moved.

use crate::sync::{AtomicU64, Ordering, SPINS, fence, spin_loop};

use super::blocks::{self, PLACES};
use super::descriptors::{
    self, FREE, OVER, PHASE, SEQUENCE_NUMBERS, Taken, UNDER_WAY, count_of, sequence_of,
};
use super::part::Part;

/// The maximum number of words in one operation.
pub(super) const MAX: usize = 8;

/// The bit that marks a reference. Values do not have it.
pub(super) const MARK: u64 = 1 << 63;

const ENTRY_BITS: u32 = 4;
const INDEX_BITS: u32 = 19;

/// The fields of a reference.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Reference {
    sequence: u64,
    index: usize,
    entry: usize,
}

impl Reference {
    #[inline(always)]
    fn to(taken: &Taken, entry: usize) -> Reference {
        Reference {
            sequence: taken.sequence,
            index: taken.index,
            entry,
        }
    }

    #[inline(always)]
    fn of(word: u64) -> Reference {
        Reference {
            sequence: (word & !MARK) >> (ENTRY_BITS + INDEX_BITS),
            index: (word >> ENTRY_BITS) as usize & ((1 << INDEX_BITS) - 1),
            entry: word as usize & ((1 << ENTRY_BITS) - 1),
        }
    }

    #[inline(always)]
    fn word(self) -> u64 {
        MARK | self.sequence << (ENTRY_BITS + INDEX_BITS)
            | (self.index as u64) << ENTRY_BITS
            | self.entry as u64
    }

    /// Returns whether the operation that this refers to is not over yet.
    #[inline(always)]
    fn is_under_way(self) -> bool {
        // Acquire: pairs with the release that stored OVER, so a thread that reads OVER sees all
        // words changed.
        let status = blocks::at(self.index).status.load(Ordering::Acquire);
        sequence_of(status) == self.sequence && status & PHASE == UNDER_WAY
    }
}

const _: () = assert!(63 - ENTRY_BITS - INDEX_BITS == SEQUENCE_NUMBERS.trailing_zeros());
const _: () = assert!(descriptors::MAX == 1 << INDEX_BITS && MAX < 1 << ENTRY_BITS);
const _: () = assert!(descriptors::MAX == PLACES * blocks::BLOCKS);

/// Returns the value that a reference stands for. Returns `None` if its descriptor has been reused,
/// which means that the word has changed.
fn resolve(reference: Reference) -> Option<u64> {
    // Relaxed: the reference was loaded with acquire, which pairs with the release of the
    // compare-and-swap that stored it. So this is the matching operation, or a later one, which
    // `part_of` detects.
    let operation = (blocks::at(reference.index).operation).load(Ordering::Relaxed);
    let part = part_of(reference, reference.entry)?;
    match Reference::of(operation).is_under_way() {
        true => Some(part.new),
        false => Some(part.old),
    }
}

/// Returns the value of a word at some time during the call. Values of several words belong
/// together if the version is the same before and after.
#[inline(always)]
pub(super) fn load(word: &AtomicU64) -> u64 {
    // Relaxed: the acquire fence in `is_still` follows, or a compare-and-swap of the version, which
    // succeeds only once at each version. A reference is loaded again.
    let content = word.load(Ordering::Relaxed);
    match content & MARK {
        0 => content,
        _ => load_referenced(word),
    }
}

/// Does the same, and acquires what the thread that stored the value has done before: for a value
/// that is used whether or not the version is unchanged.
#[inline(always)]
pub(super) fn load_acquire(word: &AtomicU64) -> u64 {
    match word.load(Ordering::Acquire) {
        value if value & MARK == 0 => value,
        _ => load_referenced(word),
    }
}

/// Does the same for a word that held a reference.
#[cold]
#[inline(never)]
fn load_referenced(word: &AtomicU64) -> u64 {
    loop {
        // Acquire: pairs with the release of the compare-and-swap that stored the value or
        // reference.
        let content = word.load(Ordering::Acquire);
        if content & MARK == 0 {
            return content;
        }
        match resolve(Reference::of(content)) {
            // Relaxed: this load only confirms the earlier one. References are unique, so if the
            // reference is still there, it was there when its operation's status was read.
            Some(value) if word.load(Ordering::Relaxed) == content => return value,
            _ => spin_loop(),
        }
    }
}

/// Returns the version at a time when no operation is under way. Helps an operation that is.
#[inline(always)]
pub(super) fn begin(version: &AtomicU64) -> u64 {
    loop {
        // Acquire: pairs with the release that ended the last operation, so all of its changes are
        // visible.
        let content = version.load(Ordering::Acquire);
        if content & MARK == 0 {
            return content;
        }
        help(version, content);
    }
}

/// Returns whether the version is unchanged. If so, all values loaded since `begin` were current at
/// one time.
#[inline(always)]
pub(super) fn is_still(version: &AtomicU64, number: u64) -> bool {
    // Acquire fence: pairs with the releases of the compare-and-swaps that stored the loaded
    // values, and with the release fence of a thread that passed a node to its next owner.
    fence(Ordering::Acquire);
    version.load(Ordering::Relaxed) == number
}

/// Changes all words, advances the version and returns `true`, if the version is still `number`.
/// Otherwise returns `false`, having changed nothing.
///
/// # Safety
///
/// The words are different, and at version `number` they have the old values of `parts`: the caller
/// has found them there by [`load`], after [`begin`] returned `number`. (It need not check that the
/// version [is still](is_still) the same. If a value was of a later version, another operation has
/// changed the version from `number`, and this call fails.) Old and new values are below [`MARK`].
/// Words of one version change only by exchanges of that version. They are valid as long as a
/// thread may be inside `begin` or `exchange` for this version; if a `siglongjmp` has left such a
/// call, as long as the version is used.
///
/// # Panics
///
/// If there are more than [`MAX`] words.
#[inline(always)]
pub(super) unsafe fn exchange(version: &AtomicU64, number: u64, parts: &[Part]) -> bool {
    // SAFETY: the caller's promise.
    unsafe { exchange_with::<true>(version, number, number + 1, parts) }
}

/// Does the same, and changes the version to `next` instead of `number + 1`: a version that lies
/// beside other fields in its word changes together with them.
///
/// # Safety
///
/// As for [`exchange`]. The word of the version holds `number` and `next` at most once each, except
/// that other fields may change and change back without a change of the covered words.
///
/// # Panics
///
/// As for [`exchange`].
pub(super) unsafe fn exchange_to(
    version: &AtomicU64,
    number: u64,
    next: u64,
    parts: &[Part],
) -> bool {
    // SAFETY: the caller's promise.
    unsafe { exchange_with::<true>(version, number, next, parts) }
}

/// Stores to all words, advances the version and returns `true`, if the version is `number`.
/// Otherwise returns `false`, having changed nothing. `number` need not be a version from an
/// earlier `begin`.
///
/// # Safety
///
/// As for [`exchange`], except for the old values. The words may be the same if the version is not
/// `number` any more: they are changed only after it has been exchanged.
///
/// # Panics
///
/// As for [`exchange`].
#[inline(always)]
pub(super) unsafe fn store_pair_if<const N: usize>(
    version: &AtomicU64,
    number: u64,
    words: [(&AtomicU64, u64); N],
) -> bool {
    // Acquire: pairs with the release that ended the last operation. Without this check, the loads
    // below could return values of an earlier version, and the version could reach `number` after
    // them.
    if version.load(Ordering::Acquire) != number {
        return false;
    }
    let parts = words.map(|(word, new)| Part {
        word,
        old: load(word),
        new,
    });
    // SAFETY: the caller's promise covers all but the old values. These were loaded after the
    // version was `number`.
    unsafe { exchange(version, number, &parts) }
}

/// Does the same as [`exchange`]. Without `RECLAIMS`, the thread reuses its next descriptor whether
/// or not it is free, to measure the cost of reclamation.
///
/// # Safety
///
/// As for [`exchange`]. Without `RECLAIMS`, no other thread uses the words.
#[inline(always)]
pub(super) unsafe fn exchange_with<const RECLAIMS: bool>(
    version: &AtomicU64,
    number: u64,
    next_number: u64,
    parts: &[Part],
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match parts.iter().all(Part::changes) {
            true => exchange_changing::<RECLAIMS>(version, number, next_number, parts),
            false => exchange_some::<RECLAIMS>(version, number, next_number, parts),
        }
    }
}

/// Does the same if some words keep their values. These need no reference: the version proves their
/// values.
///
/// # Safety
///
/// As for [`exchange_with`].
#[inline(never)]
unsafe fn exchange_some<const RECLAIMS: bool>(
    version: &AtomicU64,
    number: u64,
    next_number: u64,
    parts: &[Part],
) -> bool {
    assert!(parts.len() <= MAX, "too many words for one operation");
    let mut changing = [Part::NONE; MAX];
    let mut count = 0;
    for part in parts.iter().filter(|part| part.changes()) {
        changing[count] = *part;
        count += 1;
    }
    if count == 0 {
        // Release: pairs with the acquire in `begin`, as at the end of an operation that changes
        // words.
        let (next, other) = (Ordering::Release, Ordering::Relaxed);
        return version
            .compare_exchange(number, next_number, next, other)
            .is_ok();
    }
    // SAFETY: the caller's promise.
    unsafe { exchange_changing::<RECLAIMS>(version, number, next_number, &changing[..count]) }
}

/// Does the same if every word changes. Callers pass arrays, so that each number of words has its
/// own code, without loops.
///
/// # Safety
///
/// As for [`exchange_with`], and there is at least one word.
#[inline(always)]
unsafe fn exchange_changing<const RECLAIMS: bool>(
    version: &AtomicU64,
    number: u64,
    next_number: u64,
    parts: &[Part],
) -> bool {
    assert!(parts.len() <= MAX, "too many words for one operation");
    let count = parts.len() + 1;
    let taken = match RECLAIMS {
        true => blocks::take(count),
        false => blocks::take_anyway(count),
    };
    let descriptor = taken.descriptor;
    // Release fence: pairs with the acquire fence in `part_of`. A reader that sees an entry filled
    // in below also sees the new sequence number in the status.
    fence(Ordering::Release);
    descriptor.entries[0].fill(&Part {
        word: version,
        old: number,
        new: next_number,
    });
    for (entry, part) in descriptor.entries[1..].iter().zip(parts) {
        entry.fill(part);
    }
    let operation_word = Reference::to(&taken, 0).word();
    descriptor
        .operation
        .store(operation_word, Ordering::Relaxed);
    // Release: pairs with the acquire in `begin`, so that a helper sees the descriptor filled in.
    let (taken_by_this, by_another) = (Ordering::Release, Ordering::Relaxed);
    let is_taken = version
        .compare_exchange(number, operation_word, taken_by_this, by_another)
        .is_ok();
    if is_taken {
        for (entry, part) in parts.iter().enumerate() {
            // SAFETY: the caller's promise: the word is valid while the operation is under way.
            unsafe { carry_out(&taken, count, entry + 1, part) };
        }
        // Release: pairs with the acquire in `is_under_way`, so that a thread that reads OVER sees
        // all words changed.
        let over = descriptors::status(taken.sequence, count, OVER);
        descriptor.status.store(over, Ordering::Release);
        end(version, operation_word, next_number);
    }
    if RECLAIMS {
        taken.leave();
    }
    is_taken
}

/// Advances the version: the last step of an operation, made by the owner or a helper.
#[inline(always)]
fn end(version: &AtomicU64, operation: u64, next: u64) {
    // Release: pairs with the acquire in `begin`, so that all changes, and OVER, are visible at the
    // next version. If it fails, another thread has made this step.
    let (ended, is_ended) = (Ordering::Release, Ordering::Relaxed);
    let _ = version.compare_exchange(operation, next, ended, is_ended);
}

/// Changes a word for the owner, through a reference to this entry of the owner's descriptor, which
/// has `count` entries. Returns when the word is changed, or the operation is over.
///
/// # Safety
///
/// The word is valid.
#[inline(always)]
unsafe fn carry_out(taken: &Taken, count: usize, entry: usize, part: &Part) {
    // SAFETY: the caller's promise.
    let word = unsafe { &*part.word };
    let own = Reference::to(taken, entry);
    // Acquire: as in `Reference::is_under_way`. Only the owner changes the sequence number.
    let under_way = descriptors::status(taken.sequence, count, UNDER_WAY);
    let is_under_way = || taken.descriptor.status.load(Ordering::Acquire) == under_way;
    loop {
        // Acquire on success: pairs with the release of the last store to the word. If the
        // operation is over, that store came after OVER (invariant 5), so this thread sees OVER.
        // Release: pairs with the acquire in `load`; a thread that reads this reference sees OVER
        // too. Acquire on failure: pairs with the release that stored the reference found.
        let put = word.compare_exchange(part.old, own.word(), Ordering::AcqRel, Ordering::Acquire);
        match put {
            Ok(_) => {
                let value = match is_under_way() {
                    true => part.new,
                    // Late: the old value had recurred.
                    false => part.old,
                };
                return replace(word, own, value);
            }
            // A helper has changed the word.
            Err(content) if content & MARK == 0 => return,
            Err(content) => {
                clear(word, Reference::of(content));
                if !is_under_way() {
                    return;
                }
            }
        }
    }
}

/// Replaces a reference by the value that it stands for.
#[inline(always)]
fn replace(word: &AtomicU64, reference: Reference, value: u64) {
    // Release: pairs with the acquire of threads that load the value. If it fails, another thread
    // has replaced the reference.
    let (put, is_put) = (Ordering::Release, Ordering::Relaxed);
    let _ = word.compare_exchange(reference.word(), value, put, is_put);
}

/// Resolves a reference that was found in a word, and replaces it by its value.
#[cold]
#[inline(never)]
fn clear(word: &AtomicU64, reference: Reference) {
    if let Some(value) = resolve(reference) {
        replace(word, reference, value);
    }
}

/// Completes the operation that the version refers to, after waiting briefly for its owner. While
/// other threads stay away, the words' cache lines stay with the CPU that is about to complete it.
#[cold]
#[inline(never)]
fn help(version: &AtomicU64, content: u64) {
    for _ in 0..SPINS {
        // Relaxed: a hint. `begin` loads the version again with acquire.
        if version.load(Ordering::Relaxed) != content {
            return;
        }
        spin_loop();
    }
    let operation = Reference::of(content);
    let descriptor = blocks::at(operation.index);
    // Acquire: pairs with the release in `Taken::leave`. If the descriptor is free or reused, the
    // version has advanced, and `begin` loads the new one next. The status is not older than the
    // operation, because `begin` loaded the version with acquire.
    let status = descriptor.status.load(Ordering::Acquire);
    if sequence_of(status) != operation.sequence || status & PHASE == FREE {
        return;
    }
    for entry in 1..count_of(status) {
        let Some(part) = part_of(operation, entry) else {
            return;
        };
        // SAFETY: `begin` found this operation in the version, so the owner's promise covers this
        // thread: the word is valid while a thread is inside `begin` for this version.
        unsafe { carry_out_for(operation, &part) };
    }
    let Some(of_version) = part_of(operation, 0) else {
        return;
    };
    descriptor.mark_over(operation.sequence);
    end(version, content, of_version.new);
}

/// Returns one entry of the descriptor that a reference leads to. Returns `None` if the descriptor
/// has been reused: a helper must not touch the words of its new use, which may not be valid.
fn part_of(reference: Reference, entry: usize) -> Option<Part> {
    let descriptor = blocks::at(reference.index);
    // Relaxed: the sequence number below shows whether the entry is consistent and belongs to this
    // reference.
    let part = descriptor.entries[entry].part();
    // Acquire fence: pairs with the release fence before a descriptor is filled in again.
    fence(Ordering::Acquire);
    let sequence = sequence_of(descriptor.status.load(Ordering::Relaxed));
    (sequence == reference.sequence).then_some(part)
}

/// Changes a word for another thread's operation. Returns when the word is changed, or the
/// operation is over.
///
/// # Safety
///
/// The word is valid.
unsafe fn carry_out_for(operation: Reference, part: &Part) {
    // SAFETY: the caller's promise.
    let word = unsafe { &*part.word };
    loop {
        // Acquire: pairs with the release of the last store to the word, so that a value stored
        // after OVER shows OVER below.
        let content = word.load(Ordering::Acquire);
        if !operation.is_under_way() {
            return;
        }
        if content & MARK != 0 {
            // A reference of this operation, or a late one of an operation that is over.
            clear(word, Reference::of(content));
        } else if content == part.old {
            put_in_for(operation, word, part);
        } else {
            return;
        }
    }
}

/// Stores a reference to a descriptor of the helper's own into a word, and then the value that it
/// stands for.
fn put_in_for(operation: Reference, word: &AtomicU64, part: &Part) {
    let taken = blocks::take(1);
    let own = Reference::to(&taken, 0);
    // Release fence: pairs with the acquire fence in `part_of`, as in `exchange_with`.
    fence(Ordering::Release);
    taken.descriptor.entries[0].fill(part);
    (taken.descriptor.operation).store(operation.word(), Ordering::Relaxed);
    // Acquire: pairs with the release of the last store to the word. Release: pairs with the
    // acquire in `load`. Both as in `carry_out`.
    let put = word.compare_exchange(part.old, own.word(), Ordering::AcqRel, Ordering::Relaxed);
    if put.is_ok() {
        clear(word, own);
    }
    taken.leave();
}

#[cfg(test)]
/// Begins an exchange and makes its first change, like a thread that is stopped there: its
/// descriptor stays taken.
///
/// # Safety
///
/// As for [`exchange`]. All words change, and the version is `number` throughout.
pub(super) unsafe fn stop_in_exchange(version: &AtomicU64, number: u64, parts: &[Part]) {
    let count = parts.len() + 1;
    let taken = blocks::take(count);
    let of_version = Part {
        word: version,
        old: number,
        new: number + 1,
    };
    let all = std::iter::once(&of_version).chain(parts);
    (taken.descriptor.entries.iter().zip(all)).for_each(|(entry, part)| entry.fill(part));
    let operation = Reference::to(&taken, 0).word();
    let field = &taken.descriptor.operation;
    field.store(operation, Ordering::Relaxed);
    let order = (Ordering::Release, Ordering::Relaxed);
    let begun = version.compare_exchange(number, operation, order.0, order.1);
    assert_eq!(begun, Ok(number));
    // SAFETY: the caller's promise.
    unsafe { carry_out(&taken, count, 1, &parts[0]) };
}
