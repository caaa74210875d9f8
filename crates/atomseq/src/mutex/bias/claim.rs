//! The slow path of setting a flag, for threads that cannot do so at once.
//!
//! ```text
//! claim     block signals and delay forks; replace the home by CLAIM if it is unchanged;
//!           fence the old home
//! take      set held to HELD once it is FREE; give up after a moment
//! publish   store the next home; wake the threads that wait for it
//! ```

use super::super::home::{
    SignalsBlocked, can_be_fenced, current_cpu, generation, membarrier_rseq, register_this_thread,
    take_at_home,
};
use super::{
    CLAIM, FREE, FREE_INTERLOCKED, HELD, HELD_INTERLOCKED, HomeFlag, INTERLOCKED, Policy, SPECIAL,
    UNSET,
};
use crate::sync::{Ordering, SPINS, spin_loop, wait, wake_all};

/// A bit of the home: a thread waits for the end of the claim.
const AWAITED: usize = 4;
/// The shift of a claimant's generation. The highest bits of a large generation are cut off.
const GENERATION: u32 = 8;
const GENERATIONS: usize = (SPECIAL - 1) >> GENERATION;

/// How often a thread on the home CPU retries the sequence after an abort, a migration or a
/// concurrent clear, before it visits.
const TRIES: u32 = 3;

/// The home of a flag that a thread of this process is claiming.
fn claimed() -> usize {
    CLAIM | (generation() as usize & GENERATIONS) << GENERATION
}

/// Sets the flag. Returns false if it was set already.
#[cold]
#[inline(never)]
pub(super) fn take_slowly(flag: &HomeFlag, policy: &impl Policy) -> bool {
    register_this_thread();
    let mut tries = 0;
    loop {
        // Acquire: pairs with the Release that published the home.
        let home = flag.home.load(Ordering::Acquire);
        let taken = match home {
            INTERLOCKED => exchange(flag),
            UNSET => set_first_home(flag),
            home if home >= SPECIAL => await_claim(flag, home),
            home if tries < TRIES && home == current_cpu() => {
                tries += 1;
                // Relaxed: a hint. If the flag is clear, the attempt was aborted too often, or this
                // thread has migrated, or the flag has been cleared since.
                let taken = take_at_home(flag);
                (taken || flag.held.load(Ordering::Relaxed) != FREE).then_some(taken)
            }
            home => visit(flag, home, policy),
        };
        if let Some(taken) = taken {
            return taken;
        }
    }
}

/// Sets an interlocked flag. `None` if it is no longer interlocked.
fn exchange(flag: &HomeFlag) -> Option<bool> {
    match flag.exchange() {
        Ok(_) => Some(true),
        Err(HELD | HELD_INTERLOCKED) => Some(false),
        Err(_) => None,
    }
}

/// Decides the first home of the flag.
fn set_first_home(flag: &HomeFlag) -> Option<bool> {
    if can_be_fenced() {
        // Release: pairs with the Acquire of threads that read this home and rely on what start-up
        // has found. Relaxed: the caller's loop reads the home again.
        let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
        _ = flag
            .home
            .compare_exchange(UNSET, current_cpu(), release, relaxed);
        return None;
    }
    let claim = Claim::of(flag, UNSET)?;
    // Relaxed: no other thread sets a flag without a home, and the publication of the home orders
    // this store.
    flag.held.store(HELD_INTERLOCKED, Ordering::Relaxed);
    claim.publish(INTERLOCKED);
    Some(true)
}

/// Sets the flag from another CPU than its home. `None` if the home has changed.
fn visit(flag: &HomeFlag, home: usize, policy: &impl Policy) -> Option<bool> {
    let claim = Claim::of(flag, home)?;
    // The system call orders the fence after the claim. Sequences that start from now on find no
    // home. Those that started before were aborted, or have set the flag, and this thread sees
    // that.
    membarrier_rseq(home);
    Some(claim.take(home, policy))
}

/// Makes this CPU the home of an interlocked flag, if the fence works, and makes the flag biased.
/// Called by its holder.
///
/// This needs a claim, because the two words are changed one after the other. A handler could end
/// an ordinary holder between the two stores, and a fork could copy that state. After
/// `force_unlock` no thread could set such a flag. A claimant runs no handlers, and a child takes
/// over its claim.
pub(super) fn move_to(flag: &HomeFlag, cpu: usize) -> bool {
    if !can_be_fenced() {
        return false;
    }
    let Some(claim) = Claim::of(flag, INTERLOCKED) else {
        return false;
    };
    // Relaxed: publishing the home orders this store.
    flag.held.store(HELD, Ordering::Relaxed);
    claim.publish(cpu);
    true
}

/// Waits for the end of a claim. If the claimant was a thread of this process's parent, takes over
/// the claim and ends it.
fn await_claim(flag: &HomeFlag, home: usize) -> Option<bool> {
    if home & !AWAITED != claimed() {
        // No sequence sets the flag during a claim, and the threads of the parent do not exist
        // here.
        let claim = Claim::of(flag, home)?;
        // Relaxed: the claimant owns the flag's state.
        let next = match flag.held.load(Ordering::Relaxed) {
            // The claim is one of `set_first_home`.
            FREE if !can_be_fenced() => {
                flag.held.store(FREE_INTERLOCKED, Ordering::Relaxed);
                INTERLOCKED
            }
            FREE | HELD => current_cpu(),
            _ => INTERLOCKED,
        };
        claim.publish(next);
        return None;
    }
    for _ in 0..SPINS {
        // Relaxed: the caller reads the home again.
        if flag.home.load(Ordering::Relaxed) & !AWAITED != claimed() {
            return None;
        }
        spin_loop();
    }
    // Acquire, here and below: `ended` is read before the home is marked, so the end of a claim
    // between the two is noticed.
    let ended = flag.ended.load(Ordering::Acquire);
    // Relaxed: on failure nothing that depends on the value is read.
    let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
    let awaited = claimed() | AWAITED;
    let marked = flag
        .home
        .compare_exchange(claimed(), awaited, acquire, relaxed);
    if marked.is_ok() || marked == Err(awaited) {
        wait(&flag.ended, ended);
    }
    None
}

/// Exclusive ownership of a flag's state, whose home this thread has replaced by a claim.
struct Claim<'a> {
    flag: &'a HomeFlag,
    /// A handler on this thread would wait for the claim, and a child would inherit it.
    _signals: SignalsBlocked,
}

impl Claim<'_> {
    /// Claims the flag if its home is still `home`.
    fn of(flag: &HomeFlag, home: usize) -> Option<Claim<'_>> {
        let signals = SignalsBlocked::enter();
        // SeqCst: orders the claim before the fence and before the read of `held`.
        let claim =
            flag.home
                .compare_exchange(home, claimed(), Ordering::SeqCst, Ordering::Relaxed);
        claim.is_ok().then_some(Claim {
            flag,
            _signals: signals,
        })
    }

    /// Sets the flag if it is clear or becomes clear within a moment, and publishes a home. Returns
    /// whether it has set it.
    fn take(self, home: usize, policy: &impl Policy) -> bool {
        let here = current_cpu();
        for _ in 0..SPINS {
            // Acquire: pairs with the Release that cleared the flag.
            if self.flag.held.load(Ordering::Acquire) == FREE {
                let next = policy.next(home, here);
                let held = match next {
                    INTERLOCKED => HELD_INTERLOCKED,
                    _ => HELD,
                };
                // Relaxed: publishing the home orders this store.
                self.flag.held.store(held, Ordering::Relaxed);
                self.publish(next);
                return true;
            }
            spin_loop();
        }
        self.publish(home);
        false
    }

    /// Ends the claim: stores the next home, and wakes the threads that wait for it.
    fn publish(self, home: usize) {
        // Release: pairs with the Acquire of threads that read this home. Acquire: pairs with the
        // exchange that set `AWAITED`.
        let before = self.flag.home.swap(home, Ordering::AcqRel);
        if before & AWAITED != 0 {
            // Release: pairs with the Acquire in `await_claim`.
            self.flag.ended.fetch_add(1, Ordering::Release);
            wake_all(&self.flag.ended);
        }
    }
}
