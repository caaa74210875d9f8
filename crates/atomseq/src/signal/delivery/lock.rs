//! The lock that a thread holds while it changes handlers, and what forks wait for.
//!
//! ```text
//! change   wait for forks │ block, hold up forks │ lock │ change handlers │ unlock │ release forks, unblock
//! walk     wait for forks │ block, hold up forks │ count it │ release forks, unblock │ glibc's lock, callbacks │ end it
//! fork     wait for holders │ wait for the walks' end │ atfork handlers of other code, copy the process
//! ```
//!
//! A change waits for the end of other threads' forks, so that no child inherits it half done. It
//! waits at most a tenth of a second, because an atfork handler may wait for a lock that the
//! changing thread holds. Meanwhile the thread keeps its caller's mask, because the thread that the
//! fork waits for may itself wait for a handler on this thread, as a collector does that stops all
//! threads by a signal.
//!
//! A walk through the loaded objects takes a lock of glibc's that a fork does not take. A fork
//! copies this lock as it is. In a child that inherits it locked, `dl_iterate_phdr` waits
//! indefinitely, and so do all its callers. So a fork waits for a walk, for about a second. The
//! walk holds no lock of this module, because a callback of the program, called with glibc's lock
//! held, may fork or change handlers.
//!
//! The lock's word contains the generation of the process that locked it, and walks are counted in
//! memory that starts afresh in a child. So what a child inherits as held by its parent is free,
//! whichever system call made the child.

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

/// How long a change or a walk waits for the end of a fork, in milliseconds.
const PATIENCE: u32 = 100;

/// The signals that are blocked while handlers are changed, since a handler could change handlers
/// or jump away. Fault signals stay open, because a sandbox may answer a system call by one. So do
/// the C library's, for whose handlers a thread waits that changes the process's user.
const BLOCKED: u64 = !(FAULT_SET | RESERVED_SET);

/// The signals that are blocked while this thread registers for forks, since a handler could fork.
const ALL: u64 = !(bit(libc::SIGSYS) | RESERVED_SET);

/// While one lives, no fork copies the process, and only handlers of faults and of the C library
/// run on this thread.
struct Uncopied {
    mask: u64,
    /// Whether forks wait for this thread. Not if it has waited too long for one.
    is_counted: bool,
}

impl Uncopied {
    fn start() -> Uncopied {
        // Before start-up, forks are not watched and processes have no generations.
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
        // Unless this thread has forked since: in the child, another thread may hold the lock.
        if self.generation == generation() {
            lock::unlock(&LOCK);
        }
    }
}

/// Finds the sequences of all loaded objects. Returns `false` if there is no memory for that.
/// Blocks no signal during the walk, because threads that hold the dynamic linker's locks may wait
/// for handlers on this thread.
pub fn refresh_table() -> bool {
    // Before the walk, for which forks wait: this may wait for the constructor of an object that
    // another thread loads.
    objects::look_finder_up();
    let uncopied = Uncopied::start();
    if !uncopied.is_counted && table::finds_new_objects() {
        // A child that is copied in the middle of a walk could not walk itself.
        return true;
    }
    let _walk = Walk::start();
    drop(uncopied);
    table::refresh()
}
