//! Finding what exited threads held: values that are in no map, and guards (GC96, sections 2 and
//! 5.1).
//!
//! A thread that exits with a guard leaves a count that never returns to zero, so the value is
//! never dropped. One that exits between its last guard and the end of an operation leaves a node.
//!
//! ```text
//! get, clone         claim;  word + 1
//! insert, remove     claim the value that leaves the map;  take its address out
//! audit, value in the map        one guard: claim       more: word | MAPPED, not claimed
//! audit, value unclaimed         MAPPED: 1 guard, the map's        else: 0 guards, drop the value
//! ```
//!
//! Each operation that acquires a guard claims the node before. So all guards of a node that was
//! not claimed for some time are older than that, except the map's, which is there as long as the
//! value. The audit claims a value in the map only if it has no other guard; otherwise it notes in
//! the word that the map has one of the guards. The note may remain when the value has left the map
//! since. Then this audit leaves one guard too many, and the next one releases it.
//!
//! A guard may be acquired after the audit has found the node unclaimed. The audit loads the word,
//! then looks whether the node was claimed, and changes the word if it is unchanged. The claim
//! comes before the new guard: either the audit sees it, or the change fails.

use std::hash::{BuildHasher, Hash};
use std::mem::ManuallyDrop;
use std::time::Duration;

use super::counted::{GUARDS, MAPPED, Node, RefHashMap};
use super::iteration::in_bucket;
use super::table::{Changed, index_at};
use crate::nonblocking::nodes::at_least_some;
use crate::nonblocking::plain::Plain;
use crate::sync::Ordering;
use crate::type_stable::{Audit, Unclaimed};

/// What an audit has found an unclaimed node to be.
enum Found {
    /// In use, or in use again.
    InUse,
    /// In the map, with guards of exited threads, which were released.
    Released,
    /// Out of the map, with guards of exited threads alone, which were released.
    Ended,
    /// Out of the map, without a guard.
    Lost,
}

impl<K: Plain + Eq + Hash, V: Send + Sync, S: BuildHasher> RefHashMap<K, V, S> {
    /// Recovers what exited threads held: GC96's audit. Returns how many values are in the map or
    /// have guards, and how many of them were recovered.
    ///
    /// The second audit recovers a value if `time` has passed since the first one:
    ///
    /// * A thread has exited with guards of it, or inside an operation that inserts or removes it:
    ///   the guards are released, and if the value is not in the map, it is dropped here. Each new
    ///   guard postpones this to the second audit after it, and a removal may postpone it by one
    ///   audit more.
    /// * A thread has exited while it dropped the value: its memory is reused.
    ///
    /// A thread that exits inside an insertion, a removal or a resize may also withhold one place
    /// of the map. That returns when the map is dropped.
    ///
    /// Takes time in proportion to the buckets and values. Costs up to three atomic instructions
    /// for each value, and makes the next operation that acquires a guard of it, or removes it,
    /// cost one more. Retried while a bucket changes, so it may starve. `time` is rounded up to
    /// milliseconds, and is one at least.
    ///
    /// ```
    /// use atomseq::nonblocking::RefHashMap;
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// let ada = Arc::new("ada");
    /// let names = RefHashMap::new();
    /// names.insert(1, ada.clone())?;
    /// // As if the thread had exited with the guard.
    /// std::mem::forget(names.remove(&1));
    ///
    /// let time = Duration::from_millis(5);
    /// for _ in 0..2 {
    ///     // SAFETY: the only thread is here, and holds no guard.
    ///     unsafe { names.audit(time) };
    ///     std::thread::sleep(2 * time);
    /// }
    /// assert_eq!(Arc::strong_count(&ada), 1);
    /// # Ok::<(), atomseq::nonblocking::NoMemory<Arc<&str>>>(())
    /// ```
    ///
    /// # Safety
    ///
    /// * Until this returns, no thread that continues has held the same
    ///   [`HashMapRef`](super::HashMapRef), or been inside one operation on this map, for longer
    ///   than `time`, even if it was stopped there. The time of a guard includes the operation that
    ///   acquired it. Operations of handlers are part of the interrupted one. To keep a value for
    ///   longer, [`clone`](Clone::clone) the guard between two audits, before the old one is
    ///   dropped. A guard that was forgotten counts as that of an exited thread, and so do the
    ///   references into its value.
    /// * No other audit of this map runs at the same time.
    ///
    /// Otherwise a thread might use a value that was dropped.
    pub unsafe fn audit(&self, time: Duration) -> Audit {
        let mut recovered = 0;
        let found = |unclaimed: Unclaimed<'_, Node<V>>| {
            let node = unclaimed.descriptor();
            let found = recover(&unclaimed);
            recovered += usize::from(!matches!(found, Found::InUse));
            match found {
                Found::InUse | Found::Released => {}
                Found::Ended => {
                    let last = ManuallyDrop::new(self.guard(node));
                    // SAFETY: `recover` alone has just taken the number of guards to zero. No
                    // thread that continues had one: each claims the node before it acquires a
                    // guard, and so before more than `time` ago. The caller promises that it does
                    // not continue then.
                    drop(unsafe { last.end() });
                }
                Found::Lost => {
                    // SAFETY: a node without a guard is out of the map, and belongs to the thread
                    // that has allocated it, or has dropped the last guard. That thread has claimed
                    // it before, and so was inside one operation, or held the same guard, for
                    // longer than `time`. The caller promises that it does not continue.
                    drop(unsafe { unclaimed.reclaim() });
                }
            }
        };
        let audit = (self.values).audit_after(at_least_some(time), || self.claim_all(), found);
        Audit {
            unclaimed: recovered,
            ..audit
        }
    }

    /// Claims all values in the map that have no other guard, and notes of the others that the map
    /// has one.
    fn claim_all(&self) {
        self.map.each_bucket(|index, bucket, state| {
            let table = &self.map.table;
            table.each_entry(bucket, state, &in_bucket(index), |_, hash, _, address| {
                // Foreign nodes do not belong to the bucket: see `resize.rs`.
                if index_at(hash, state.depth()) == index {
                    self.claim_or_note(self.node(address));
                }
                Ok(())
            })?;
            match bucket.is_still(state) {
                true => Ok(()),
                false => Err(Changed),
            }
        });
    }

    fn claim_or_note(&self, node: &Node<V>) {
        // Relaxed: a guard that this misses was claimed, so the node counts as claimed.
        let mut word = node.word.load(Ordering::Relaxed);
        while word & GUARDS > 1 && word & MAPPED == 0 {
            // Relaxed: the note orders nothing. This audit is the only one, and reads it next.
            let order = Ordering::Relaxed;
            match node
                .word
                .compare_exchange(word, word | MAPPED, order, order)
            {
                Ok(_) => return,
                Err(seen) => word = seen,
            }
        }
        if word & GUARDS <= 1 {
            self.claim(node);
        }
    }
}

/// Releases the guards of an unclaimed node, except the map's.
fn recover<V: Send + Sync>(unclaimed: &Unclaimed<'_, Node<V>>) -> Found {
    let word = &unclaimed.descriptor().word;
    loop {
        // Acquire: pairs with the release in `Node::acquire`. If this sees a new guard, the next
        // line sees the claim before it.
        let seen = word.load(Ordering::Acquire);
        if !unclaimed.is_still() {
            return Found::InUse;
        }
        let (kept, found) = match (seen & GUARDS, seen & MAPPED) {
            (0, _) => return Found::Lost,
            (_, 0) => (0, Found::Ended),
            (1, _) => (1, Found::InUse),
            _ => (1, Found::Released),
        };
        // Acquire: pairs with the release of guards that were dropped before. Release: as in
        // `into_inner`.
        let (changed, another) = (Ordering::AcqRel, Ordering::Relaxed);
        let released = seen & !(GUARDS | MAPPED) | kept;
        if word
            .compare_exchange(seen, released, changed, another)
            .is_ok()
        {
            return found;
        }
    }
}
