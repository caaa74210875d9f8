//! How a flag is set by those that cannot do so at once.
//!
//! ```text
//! claim     signals blocked, forks kept out: home := CLAIM, if it is still what it was; the fence there
//! take      held := HELD, once it is FREE; or not, after a moment
//! publish   home := the next one; wake who waited for that
//! ```

use super::super::home::{
    SignalsBlocked, can_be_fenced, current_cpu, generation, membarrier_rseq, register_this_thread,
    take_at_home,
};
use super::{
    Bias, CLAIM, FREE, FREE_INTERLOCKED, HELD, HELD_INTERLOCKED, INTERLOCKED, Policy, SPECIAL,
    UNSET,
};
use crate::sync::{Ordering, SPINS, spin_loop, wait, wake_all};

/// Somebody waits for a claim's end.
const AWAITED: usize = 4;
/// Where the generation of a claimant begins; the highest bits of a very late one are left out.
const GENERATION: u32 = 8;
const GENERATIONS: usize = (SPECIAL - 1) >> GENERATION;

/// How often a thread tries what another CPU, or an interruption, has kept it from at home.
const TRIES: u32 = 3;

/// The home of a flag that this thread's process is claiming.
fn claimed() -> usize {
    CLAIM | (generation() as usize & GENERATIONS) << GENERATION
}

/// Sets it; false if it was set already.
#[cold]
#[inline(never)]
pub(super) fn take_slowly(flag: &Bias, policy: &impl Policy) -> bool {
    register_this_thread();
    let mut tries = 0;
    loop {
        // Acquire: pairs with the Release that published it.
        let home = flag.home.load(Ordering::Acquire);
        let taken = match home {
            INTERLOCKED => exchange(flag),
            UNSET => set_first_home(flag),
            home if home >= SPECIAL => await_claim(flag, home),
            home if tries < TRIES && home == current_cpu() => {
                tries += 1;
                // Relaxed: a hint. Not set, it was interrupted too often, or moved, or somebody has
                // cleared it since.
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

/// Sets an interlocked flag; `None`: it is interlocked no more.
fn exchange(flag: &Bias) -> Option<bool> {
    match flag.exchange() {
        Ok(_) => Some(true),
        Err(HELD | HELD_INTERLOCKED) => Some(false),
        Err(_) => None,
    }
}

/// Decides, for whoever comes first, where it is at home.
fn set_first_home(flag: &Bias) -> Option<bool> {
    if can_be_fenced() {
        // Release: pairs with the Acquire of whoever finds it there, who relies on what start-up
        // found. Relaxed: the loop looks again.
        let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
        _ = flag
            .home
            .compare_exchange(UNSET, current_cpu(), release, relaxed);
        return None;
    }
    let claim = Claim::of(flag, UNSET)?;
    // Nobody sets a flag without a home.
    flag.held.store(HELD_INTERLOCKED, Ordering::Relaxed);
    claim.publish(INTERLOCKED);
    Some(true)
}

/// Sets it from another CPU than its home; `None`: the home has changed.
fn visit(flag: &Bias, home: usize, policy: &impl Policy) -> Option<bool> {
    let claim = Claim::of(flag, home)?;
    // After the claim: the system call orders them. Sequences that begin from now on do not pass;
    // those that began before have been aborted, or have set the flag, which this thread sees.
    membarrier_rseq(home);
    Some(claim.take(home, policy))
}

/// Gives an interlocked flag a home, where it can have one, and makes it biased. For its holder.
/// Each word is changed in a step of its own: a holder that a handler ended between the two, or
/// that a fork left behind there, would leave a flag which, once cleared by force, nobody could
/// set. A claimant runs no handlers, and a child takes its claim over.
pub(super) fn move_to(flag: &Bias, cpu: usize) -> bool {
    if !can_be_fenced() {
        return false;
    }
    let Some(claim) = Claim::of(flag, INTERLOCKED) else {
        return false;
    };
    // Relaxed: published with the home.
    flag.held.store(HELD, Ordering::Relaxed);
    claim.publish(cpu);
    true
}

/// Waits for the end of somebody's claim; or ends it, if they stayed behind in this process's
/// parent.
fn await_claim(flag: &Bias, home: usize) -> Option<bool> {
    if home & !AWAITED != claimed() {
        // No sequence has passed since, and no thread that had begun one is here.
        let claim = Claim::of(flag, home)?;
        // Relaxed: nobody else is near it.
        let next = match flag.held.load(Ordering::Relaxed) {
            // The claim was one of `set_first_home`'s.
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
        // Relaxed: the caller looks again.
        if flag.home.load(Ordering::Relaxed) & !AWAITED != claimed() {
            return None;
        }
        spin_loop();
    }
    // Acquire, here and below: in this order, so that an end between the two is noticed.
    let ended = flag.ended.load(Ordering::Acquire);
    // Relaxed: nothing is read that hangs on it.
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

/// A flag whose home this thread has taken away.
struct Claim<'a> {
    flag: &'a Bias,
    /// A handler on this thread would wait for it; a child would find it claimed.
    _quiet: SignalsBlocked,
}

impl Claim<'_> {
    /// Takes it away if it is still `home`.
    fn of(flag: &Bias, home: usize) -> Option<Claim<'_>> {
        let quiet = SignalsBlocked::enter();
        // SeqCst: before the fence, and before the look at the flag.
        let claim =
            flag.home
                .compare_exchange(home, claimed(), Ordering::SeqCst, Ordering::Relaxed);
        claim.is_ok().then_some(Claim {
            flag,
            _quiet: quiet,
        })
    }

    /// Sets it, if it is clear or soon will be, and gives it back.
    fn take(self, home: usize, policy: &impl Policy) -> bool {
        let here = current_cpu();
        for _ in 0..SPINS {
            // Acquire: pairs with the Release of whoever cleared it.
            if self.flag.held.load(Ordering::Acquire) == FREE {
                let next = policy.next(home, here);
                let held = match next {
                    INTERLOCKED => HELD_INTERLOCKED,
                    _ => HELD,
                };
                // Relaxed: published with the home.
                self.flag.held.store(held, Ordering::Relaxed);
                self.publish(next);
                return true;
            }
            spin_loop();
        }
        self.publish(home);
        false
    }

    /// Gives it a home.
    fn publish(self, home: usize) {
        // Release: pairs with the Acquire of whoever finds it there. Acquire: pairs with the one
        // that marked it.
        let before = self.flag.home.swap(home, Ordering::AcqRel);
        if before & AWAITED != 0 {
            // Release: pairs with the Acquire in `await_claim`.
            self.flag.ended.fetch_add(1, Ordering::Release);
            wake_all(&self.flag.ended);
        }
    }
}
