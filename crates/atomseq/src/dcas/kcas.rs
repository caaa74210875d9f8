//! Changes of several words under one version number: k-CAS, lock-free. 2k + 2 compare-and-swaps
//! for k words.
//!
//! ```text
//! word        a value, or a reference: mark 63 | sequence 62 … 23 | descriptor 22 … 4 | entry 3 … 0
//! descriptor  status: sequence, count of entries, FREE or UNDER_WAY or OVER; the operation that its references belong to;
//!             for each entry a word's address, its old and its new value
//!
//! exchange    version: v -> reference         the operation will succeed, and all others wait or help
//!             each word: old -> reference -> new
//!             the descriptor is OVER
//!             version: reference -> v + 1
//! helper      each word: old -> reference to the helper's own descriptor -> new; then the same end
//!
//! value of a reference: the new value while its operation is under way, else the old one
//! ```
//!
//! The steps are those of Harris, Fraser and Pratt, *A Practical Multi-Word Compare-and-Swap
//! Operation* (2002): a word holds a unique reference before it holds the new value, and that
//! reference counts only if the operation is still under way. Three things are simpler here,
//! because a version covers all words. Taking the version decides the operation, so no operation
//! fails later. Operations on the same words never meet in a word, so their order does not matter.
//! And "under way" is one word, the descriptor's status. The descriptors are Arbel-Raviv and
//! Brown's *Reuse, Don't Recycle* (2017): a reader that finds another sequence number knows that
//! the operation is over.
//!
//! What holds:
//!
//! 1. No version comes back, so the owner's first compare-and-swap succeeds only at the version
//!    that the old values belong to. From then on until the version is a number again, the
//!    operation is under way or OVER, and no other one changes its words.
//! 2. A reference is put into one word, once: the owner tries each word until it succeeds once or
//!    finds it changed, and a helper takes a descriptor anew for each attempt. So a
//!    compare-and-swap that replaces a reference replaces that one.
//! 3. While the operation is under way, each of its words goes from the old value, through
//!    references, to the new value, and stays there. OVER is stored by a thread that has found each
//!    word changed. So no reference that was put in while the operation was under way is left when
//!    it is OVER.
//! 4. A late thread, whose operation is OVER, may find an old value that has come back, and replace
//!    it by its reference. That stands for the old value, which everybody puts back who meets it,
//!    the late thread included.
//! 5. OVER is stored before the version moves on, and the old value comes back later than that. So
//!    a thread that reads a late reference also reads that its operation is over.
//! 6. An owner makes its descriptor FREE after it has taken all of its own references out, so
//!    nothing refers to a descriptor that is FREE. A thread has at most one that is not; each of
//!    its signal handlers may have one more.
//!
//! A value or a version is a number again as soon as its operation has ended: no word keeps a
//! descriptor.

use crate::sync::{AtomicU64, Ordering, SPINS, fence, spin_loop};

use super::blocks::{self, PLACES};
use super::descriptors::{
    self, FREE, OVER, PHASE, SEQUENCES, Taken, UNDER_WAY, count_of, sequence_of,
};
use super::part::Part;

/// The most words that one operation changes.
pub(super) const MAX: usize = 8;

/// A word that holds a reference, not a value.
pub(super) const MARK: u64 = 1 << 63;

const ENTRY_BITS: u32 = 4;
const INDEX_BITS: u32 = 19;

/// A reference, taken apart.
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

    /// Has nobody stored yet that the operation is over?
    #[inline(always)]
    fn is_under_way(self) -> bool {
        // Acquire: pairs with the release that stored OVER: a thread that reads it may rely on all
        // words being changed.
        let status = blocks::at(self.index).status.load(Ordering::Acquire);
        sequence_of(status) == self.sequence && status & PHASE == UNDER_WAY
    }
}

const _: () = assert!(63 - ENTRY_BITS - INDEX_BITS == SEQUENCES.trailing_zeros());
const _: () = assert!(descriptors::MAX == 1 << INDEX_BITS && MAX < 1 << ENTRY_BITS);
const _: () = assert!(descriptors::MAX == PLACES * blocks::BLOCKS);

/// The value that a reference stands for. `None`: its descriptor is in use for something else, so
/// the word has changed.
fn resolve(reference: Reference) -> Option<u64> {
    // Relaxed: the reference was read with an acquire, so this is what belongs to it, or something
    // later.
    let operation = (blocks::at(reference.index).operation).load(Ordering::Relaxed);
    let part = part_of(reference, reference.entry)?;
    match Reference::of(operation).is_under_way() {
        true => Some(part.new),
        false => Some(part.old),
    }
}

/// The value of a word at a time of its own. Those of several words belong together if the version
/// is the same before and after.
///
/// Never inlined: its callers are mostly on the way of OS-assisted DCAS, whose registers it would
/// take.
#[inline(never)]
pub(super) fn load(word: &AtomicU64) -> u64 {
    loop {
        // Acquire: pairs with the release of the compare-and-swap that stored it.
        let content = word.load(Ordering::Acquire);
        if content & MARK == 0 {
            return content;
        }
        match resolve(Reference::of(content)) {
            // Relaxed: no value follows from what is read here. The reference is unique: if it is
            // there still, it was when its operation was looked at.
            Some(value) if word.load(Ordering::Relaxed) == content => return value,
            _ => spin_loop(),
        }
    }
}

/// The version, at a time when no operation is under way. Helps the one that is.
#[inline(always)]
pub(super) fn begin(version: &AtomicU64) -> u64 {
    loop {
        // Acquire: pairs with the release that ended the last operation, and so with all of its
        // changes.
        let content = version.load(Ordering::Acquire);
        if content & MARK == 0 {
            return content;
        }
        help(version, content);
    }
}

/// Is the version still this one? Then what was loaded since `begin` was so at one time.
#[inline(always)]
pub(super) fn is_still(version: &AtomicU64, number: u64) -> bool {
    // Acquire: pairs with the releases of the exchanges that stored what was loaded, and with the
    // release fence of a thread that gave a node to its next owner.
    fence(Ordering::Acquire);
    version.load(Ordering::Relaxed) == number
}

/// Changes all words, and the version to the next number, if it is still this one.
///
/// # Safety
///
/// The words are different, and at this version they have the old values that the parts say; old
/// and new ones are below [`MARK`]. Words of one version are changed by exchanges of that version
/// alone, and are valid as long as a thread may be inside `begin` or `exchange` for it; and as long
/// as the version is used, if one of these was left by a `siglongjmp`.
///
/// # Panics
///
/// If there are more than [`MAX`].
#[inline(always)]
pub(super) unsafe fn exchange(version: &AtomicU64, number: u64, parts: &[Part]) -> bool {
    // SAFETY: the caller's promise.
    unsafe { exchange_with::<true>(version, number, parts) }
}

/// Sets all words, whatever they hold, and the version to the next number, if it is this one. It
/// need not be a number that this version has had: one that it reaches only now is as good as any
/// other.
///
/// # Safety
///
/// As for [`exchange`], but for the old values.
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
    // Acquire: pairs with the release that ended the last operation. Without this look, what is
    // loaded might be older than the version, which would reach the number afterwards.
    if version.load(Ordering::Acquire) != number {
        return false;
    }
    let parts = words.map(|(word, new)| Part {
        word,
        old: load(word),
        new,
    });
    // SAFETY: the caller's promise; the version was the same before and after the old values were
    // loaded.
    is_still(version, number) && unsafe { exchange(version, number, &parts) }
}

/// As [`exchange`]; without `RECLAIMS` the thread's next descriptor is used again whether it is
/// free or not, to measure what it costs to know.
///
/// # Safety
///
/// As for [`exchange`]. Without `RECLAIMS` no other thread uses the words.
#[inline(always)]
pub(super) unsafe fn exchange_with<const RECLAIMS: bool>(
    version: &AtomicU64,
    number: u64,
    parts: &[Part],
) -> bool {
    assert!(parts.len() <= MAX, "too many words for one operation");
    // A word that keeps its value needs no reference: the version says that it has it.
    let changing = || parts.iter().filter(|part| part.old != part.new);
    let count = changing().count();
    if count == 0 {
        // Release: pairs with the acquire in `begin`, as an operation that changes words does.
        let (next, other) = (Ordering::Release, Ordering::Relaxed);
        return version
            .compare_exchange(number, number + 1, next, other)
            .is_ok();
    }
    let taken = match RECLAIMS {
        true => blocks::take(count + 1),
        false => blocks::take_anyway(count + 1),
    };
    let descriptor = taken.descriptor;
    let operation = Reference::to(&taken, 0);
    // Release: pairs with the acquire fence of readers: one that sees what is filled in next sees
    // the new number.
    fence(Ordering::Release);
    let of_version = Part {
        word: version,
        old: number,
        new: number + 1,
    };
    for (entry, part) in
        (descriptor.entries.iter()).zip([&of_version].into_iter().chain(changing()))
    {
        entry.fill(part);
    }
    let operation_word = operation.word();
    descriptor
        .operation
        .store(operation_word, Ordering::Relaxed);
    // Release: pairs with the acquire in `begin`: what is filled in.
    let (taken_by_this, by_another) = (Ordering::Release, Ordering::Relaxed);
    let is_taken = version
        .compare_exchange(number, operation_word, taken_by_this, by_another)
        .is_ok();
    if is_taken {
        for (entry, part) in changing().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { carry_out(operation, Reference::to(&taken, entry + 1), part) };
        }
        // Release: pairs with the acquire in `is_under_way`: all words are changed.
        let over = descriptors::status(taken.sequence, count + 1, OVER);
        descriptor.status.store(over, Ordering::Release);
        end(version, operation_word, number + 1);
    }
    if RECLAIMS {
        taken.leave();
    }
    is_taken
}

/// The last step of an operation, whichever thread makes it.
#[inline(always)]
fn end(version: &AtomicU64, operation: u64, next: u64) {
    // Release: pairs with the acquire in `begin`: all words are changed, and the operation is over.
    // If it fails, another thread has made this step.
    let (ended, is_ended) = (Ordering::Release, Ordering::Relaxed);
    let _ = version.compare_exchange(operation, next, ended, is_ended);
}

/// Changes a word on the way of the operation's owner, by a reference of its own. Returns when the
/// word is changed, or the operation is over.
///
/// # Safety
///
/// The word is valid.
#[inline(always)]
unsafe fn carry_out(operation: Reference, own: Reference, part: &Part) {
    // SAFETY: the caller's promise.
    let word = unsafe { &*part.word };
    loop {
        // Acquire: pairs with whatever was stored last. If the operation is over, that came later,
        // so this thread sees that it is. Release: a thread that reads the reference sees that as
        // well. Acquire, if it fails: pairs with the release of the reference that is found.
        let put = word.compare_exchange(part.old, own.word(), Ordering::AcqRel, Ordering::Acquire);
        match put {
            Ok(_) => {
                let value = match operation.is_under_way() {
                    true => part.new,
                    // Late: the old value had come back.
                    false => part.old,
                };
                return replace(word, own, value);
            }
            // A helper has changed it.
            Err(content) if content & MARK == 0 => return,
            Err(content) => {
                clear(word, Reference::of(content));
                if !operation.is_under_way() {
                    return;
                }
            }
        }
    }
}

/// Puts a reference's value in its place.
#[inline(always)]
fn replace(word: &AtomicU64, reference: Reference, value: u64) {
    // Release: pairs with the acquire of readers of the value. If it fails, another thread has done
    // the same.
    let (put, is_put) = (Ordering::Release, Ordering::Relaxed);
    let _ = word.compare_exchange(reference.word(), value, put, is_put);
}

/// Replaces a reference that was found in a word by the value that it stands for.
fn clear(word: &AtomicU64, reference: Reference) {
    if let Some(value) = resolve(reference) {
        replace(word, reference, value);
    }
}

/// Waits a little for the operation that a version refers to, and then brings it to its end. As
/// long as others stay away, its words stay with the processor that is about to end it.
#[cold]
#[inline(never)]
fn help(version: &AtomicU64, content: u64) {
    for _ in 0..SPINS {
        // Relaxed: `begin` looks again.
        if version.load(Ordering::Relaxed) != content {
            return;
        }
        spin_loop();
    }
    let operation = Reference::of(content);
    let descriptor = blocks::at(operation.index);
    // Acquire: pairs with the release that left the descriptor: then the version has moved on, and
    // is read so next. It is no earlier status than the operation's, since `begin` has read the
    // version with an acquire.
    let status = descriptor.status.load(Ordering::Acquire);
    if sequence_of(status) != operation.sequence || status & PHASE == FREE {
        return;
    }
    for entry in 1..count_of(status) {
        let Some(part) = part_of(operation, entry) else {
            return;
        };
        // SAFETY: the owner's promise, of an operation that the caller's version referred to.
        unsafe { carry_out_for(operation, &part) };
    }
    let Some(of_version) = part_of(operation, 0) else {
        return;
    };
    descriptor.is_over(operation.sequence);
    end(version, content, of_version.new);
}

/// What was filled in for one word, in the descriptor that a reference leads to. `None`: that is in
/// use for something else by now. A helper must not touch the words of what it is used for then,
/// which may be gone.
fn part_of(reference: Reference, entry: usize) -> Option<Part> {
    let descriptor = blocks::at(reference.index);
    // Relaxed: the sequence number tells whether it belongs together, and to this reference.
    let part = descriptor.entries[entry].part();
    // Acquire: pairs with the release fence before a descriptor is filled anew.
    fence(Ordering::Acquire);
    let sequence = sequence_of(descriptor.status.load(Ordering::Relaxed));
    (sequence == reference.sequence).then_some(part)
}

/// Changes a word for the owner of an operation. Returns when the word is changed, or the operation
/// is over.
///
/// # Safety
///
/// The word is valid.
unsafe fn carry_out_for(operation: Reference, part: &Part) {
    // SAFETY: the caller's promise.
    let word = unsafe { &*part.word };
    loop {
        // Acquire: pairs with the release of whatever was stored last.
        let content = word.load(Ordering::Acquire);
        if !operation.is_under_way() {
            return;
        }
        if content & MARK != 0 {
            // This operation's, or a late one of an operation that is over.
            clear(word, Reference::of(content));
        } else if content == part.old {
            put_in_for(operation, word, part);
        } else {
            return;
        }
    }
}

/// Puts a reference to a descriptor of the helper's own into a word, and then what it stands for.
fn put_in_for(operation: Reference, word: &AtomicU64, part: &Part) {
    let taken = blocks::take(1);
    let own = Reference::to(&taken, 0);
    // Release: as in `exchange_with`.
    fence(Ordering::Release);
    taken.descriptor.entries[0].fill(part);
    (taken.descriptor.operation).store(operation.word(), Ordering::Relaxed);
    // Acquire and release: as in `carry_out`.
    let put = word.compare_exchange(part.old, own.word(), Ordering::AcqRel, Ordering::Relaxed);
    if put.is_ok() {
        clear(word, own);
    }
    taken.leave();
}
