//! The lock of the thread that changes handlers, and what a fork waits for.
//!
//! ```text
//! change   wait for forks │ block, hold forks up │ lock │ change handlers │ unlock │ let forks go, unblock
//! walk     wait for forks │ block, hold forks up │ count it │ let forks go, unblock │ glibc's lock, callbacks │ end it
//! fork     wait for who holds forks up │ wait for the walks' end │ others' atfork handlers, copy the process
//! ```
//!
//! A change waits for the end of other threads' forks, so that no child inherits it half done: for
//! a tenth of a second, since an atfork handler may wait for a lock that the thread which wants to
//! change holds. It waits with its caller's mask: another thread, which the fork waits for, may
//! wait for a handler on it. A collector that stops all threads by a signal does.
//!
//! A walk through the loaded objects takes a lock of glibc's that a fork does not: it is copied as
//! it is. In the child of a fork that copies it locked, `dl_iterate_phdr` waits indefinitely, and
//! so does all that calls it. The walk holds no lock of this module's, for a callback of the
//! program's, called with glibc's lock held, may fork or change handlers: a fork waits for a walk
//! for about a second.
//!
//! The lock's word holds the generation of the process that locked it, and walks are counted where
//! a child begins anew: what a child finds held by its parent is free, whichever system call made
//! the child.

use core::sync::atomic::AtomicU32;

use super::actions::FAULT_SET;
use crate::percpu::lock;
use crate::platform::objects;
use crate::platform::{
    RESERVED_SET, Waiting, Walk, await_fork, bit, change_mask, enter_uncounted, generation, leave,
    start, try_enter,
};
use crate::sequence::table;
use crate::sync::Patience;

static LOCK: AtomicU32 = AtomicU32::new(0);

/// For how many milliseconds a change or a walk waits for the end of a fork.
const PATIENCE: u32 = 100;

/// What is blocked while handlers are changed: a handler could change handlers, or jump away. Open
/// are the signals of faults, with one of which a sandbox may answer a system call, and those that
/// a thread waits for which changes the process's user.
const BLOCKED: u64 = !(FAULT_SET | RESERVED_SET);

/// What is blocked while this is noted for forks: a handler could fork.
const ALL: u64 = !(bit(libc::SIGSYS) | RESERVED_SET);

/// While one lives, no fork copies what this thread does, and no handler runs on it but those that
/// cannot be held back.
struct Uncopied {
    mask: u64,
    /// Does a fork wait? Not if this has waited too long for one.
    is_counted: bool,
}

impl Uncopied {
    fn start() -> Uncopied {
        // Before start-up, forks are not watched, and processes have no generations.
        start();
        let mut patience = Patience::new(PATIENCE);
        let mut is_over = false;
        let mut waiting = None;
        loop {
            let mask = change_mask(libc::SIG_BLOCK, ALL);
            let is_entered = try_enter();
            if is_over && !is_entered {
                enter_uncounted();
            }
            if is_over || is_entered {
                change_mask(libc::SIG_SETMASK, mask | BLOCKED);
                return Uncopied {
                    mask,
                    is_counted: is_entered,
                };
            }
            change_mask(libc::SIG_SETMASK, mask);
            waiting.get_or_insert_with(Waiting::start);
            is_over = !await_fork(&mut patience);
        }
    }
}

impl Drop for Uncopied {
    fn drop(&mut self) {
        change_mask(libc::SIG_BLOCK, ALL);
        leave();
        change_mask(libc::SIG_SETMASK, self.mask);
    }
}

/// The right to change handlers.
pub struct Changing {
    _uncopied: Uncopied,
    generation: u32,
}

impl Changing {
    pub fn start() -> Changing {
        let changing = Changing {
            _uncopied: Uncopied::start(),
            generation: generation(),
        };
        lock::lock(&LOCK);
        changing
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        // Unless this thread has forked since: in the child, another one may have it.
        if self.generation == generation() {
            lock::unlock(&LOCK);
        }
    }
}

/// Finds the sequences of all loaded objects; `false`: there is no memory for that. Other threads,
/// which hold the dynamic linker's locks, may wait for handlers on this one: none is blocked.
pub fn refresh_table() -> bool {
    // Not inside the walk, for which forks wait: this may wait for the constructor of an object
    // that another thread loads.
    objects::look_finder_up();
    let uncopied = Uncopied::start();
    if !uncopied.is_counted && table::finds_new_objects() {
        // A child that is copied in the middle of a walk could make none.
        return true;
    }
    let _walk = Walk::start();
    drop(uncopied);
    table::refresh()
}
