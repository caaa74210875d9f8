//! Fork: a child must find every gate open, since the thread that would open a closed one exists
//! only in the parent.
//!
//! So `pthread_atfork`'s prepare handler waits until no thread [holds forks up](enter), and new
//! ones wait until the fork is over; [`Traffic`](super::traffic::Traffic) has the agreement. A
//! `fork` or `clone` made by a raw system call runs no such handlers: what another thread was just
//! doing may be half done in the child, which takes over the gates (see `process.rs`).

use super::process::{self, Own};
use super::rseq;
use super::signals::Blocked;
use super::traffic::MILLISECONDS;
use crate::sync::{Patience, wake_all};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// For how many milliseconds a fork waits for the end of walks.
const MILLISECONDS_FOR_WALKS: u32 = 1_000;

/// What a thread has to do with forks. A child inherits it with the thread that forks. Used with
/// signals blocked: loads and stores.
struct Thread {
    /// How many stretches this thread is inside in which forks wait for it, one inside the other.
    entered: AtomicU32,
    /// The generation of the process in which its outermost fork has begun; 0 after that, and in
    /// the child.
    forks_in: AtomicU32,
    /// How many walks are this thread's: its forks do not wait for them.
    walks: AtomicU32,
    /// The generation of the process whose walks these are: the child of a raw fork counts none.
    walks_in: AtomicU32,
}

fn this_thread() -> &'static Thread {
    let thread: *const Thread = crate::__thread_storage!(
        Thread,
        Thread {
            entered: AtomicU32::new(0),
            forks_in: AtomicU32::new(0),
            walks: AtomicU32::new(0),
            walks_in: AtomicU32::new(0),
        }
    );
    // SAFETY: storage of this thread, of atomic words; the callers are done with it before the
    // thread ends.
    unsafe { &*thread }
}

/// From now on forks on other threads wait for this one. `false`: one is under way. A thread that
/// is forking itself (an atfork handler or a signal handler runs on it between prepare and parent
/// or child) is not counted: what it does is done before the fork goes on. Called with all signals
/// blocked.
pub fn try_enter() -> bool {
    let is_inside = this_thread().entered.load(Ordering::Relaxed) > 0;
    // Where it is counted: a child made by a raw fork counts nobody.
    if let Some(own) = not_forking().filter(|_| !is_inside) {
        if !own.traffic.try_enter() {
            return false;
        }
        rseq::counted().store(own.generation(), Ordering::Relaxed);
    }
    enter_uncounted();
    true
}

/// As [`try_enter`], but no fork waits: this thread has waited too long for one.
pub fn enter_uncounted() {
    let entered = &this_thread().entered;
    entered.store(entered.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// As [`try_enter`], but waits a little for a fork, and then goes on uncounted.
pub(super) fn enter() {
    let mut patience = Patience::new(MILLISECONDS);
    let mut waiting = None;
    while !try_enter() {
        waiting.get_or_insert_with(Waiting::start);
        if !await_fork(&mut patience) {
            return enter_uncounted();
        }
    }
}

/// While one lives, the next fork on another thread waits a little for this thread to
/// [enter](try_enter).
pub struct Waiting {
    /// Where it is counted, and the generation of that.
    counted: Option<(&'static Own, u32)>,
}

impl Waiting {
    /// Called before the wait.
    pub fn start() -> Waiting {
        // A fork in a handler would come between the generation and the count, here and below.
        let _blocked = Blocked::enter();
        let counted = not_forking().map(|own| (own, own.generation()));
        if let Some((own, _)) = counted {
            own.traffic.begin_to_wait();
        }
        Waiting { counted }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _blocked = Blocked::enter();
        // A child made by a raw fork counts nobody.
        let is_same = |(own, begun_in): &(&Own, u32)| own.generation() == *begun_in;
        if let Some((own, _)) = self.counted.filter(is_same) {
            own.traffic.end_wait();
        }
    }
}

/// While one lives, this thread walks through the loaded objects, for which forks on other threads
/// wait about a second. The C library's lock is then held, which a fork does not take.
pub struct Walk {
    /// The generation of the process that counts it.
    begun_in: u32,
}

impl Walk {
    /// Called where forks wait for this thread, if they do.
    pub fn start() -> Walk {
        // A fork in a handler would come between the counts, here and below.
        let _blocked = Blocked::enter();
        let begun_in = process::generation();
        if let Some(own) = process::own() {
            let thread = this_thread();
            thread.walks.store(own_walks(own) + 1, Ordering::Relaxed);
            thread.walks_in.store(begun_in, Ordering::Relaxed);
            // Relaxed: a fork sees it, for which this thread is counted.
            own.walks.fetch_add(1, Ordering::Relaxed);
        }
        Walk { begun_in }
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        let _blocked = Blocked::enter();
        // A child has counted none of its parent's.
        if let Some(own) = process::own().filter(|own| own.generation() == self.begun_in) {
            // Release: pairs with the Acquire in `await_walks`, so that the child has the walk's
            // end.
            own.walks.fetch_sub(1, Ordering::Release);
            wake_all(&own.walks);
            let walks = &this_thread().walks;
            walks.store(own_walks(own) - 1, Ordering::Relaxed);
        }
    }
}

/// How many of this process's walks are this thread's.
fn own_walks(own: &Own) -> u32 {
    let thread = this_thread();
    match thread.walks_in.load(Ordering::Relaxed) == own.generation() {
        true => thread.walks.load(Ordering::Relaxed),
        false => 0,
    }
}

/// Sleeps a little while another thread's fork is under way; `false`: there is no patience left.
pub(crate) fn await_fork(patience: &mut Patience) -> bool {
    not_forking().is_none_or(|own| own.traffic.await_fork(patience))
}

/// Undoes one of these. Called with all signals blocked.
pub fn leave() {
    let entered = &this_thread().entered;
    let times = entered.load(Ordering::Relaxed) - 1;
    entered.store(times, Ordering::Relaxed);
    if times == 0 {
        count_no_longer();
    }
}

fn count_no_longer() {
    // A load and a store: a word of this thread's, on which no handler runs now.
    let counted = rseq::counted().load(Ordering::Relaxed);
    if counted == 0 {
        return;
    }
    rseq::counted().store(0, Ordering::Relaxed);
    if let Some(own) = process::own().filter(|own| own.generation() == counted) {
        own.traffic.leave();
    }
}

/// This process's words, unless this thread is in the middle of a fork: of this process, for a
/// child of a raw fork that a handler has made in between is not.
fn not_forking() -> Option<&'static Own> {
    let is_forking = |own: &Own| {
        rseq::forks().load(Ordering::Relaxed) > 0
            && this_thread().forks_in.load(Ordering::Relaxed) == own.generation()
    };
    process::own().filter(|own| !is_forking(own))
}

/// What else is done in the child of a fork, with signals blocked. Returns those that are blocked
/// no longer.
pub type Hook = fn() -> u64;

/// Null, or a pointer to a [`Hook`] that lives as long as the program.
static HOOK: AtomicPtr<Hook> = AtomicPtr::new(core::ptr::null_mut());

/// From now on this is called in each child. `Err` holds an error number. After start-up.
pub fn watch(hook: &'static Hook) -> Result<(), i32> {
    let hook = core::ptr::from_ref(hook).cast_mut();
    // Release: pairs with the Acquire in `child`.
    HOOK.store(hook, Ordering::Release);
    install()
}

/// Registers the handlers, unless they are, in this process or in one that it descends from. `Err`
/// holds an error number. Called without a lock: older C libraries register handlers under one of
/// theirs, which a fork holds while handlers run. (So threads that do this at the same time
/// register them several times: forks are then one inside the other.)
pub(super) fn install() -> Result<(), i32> {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    // Relaxed: a word on its own.
    if IS_DONE.load(Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: three handlers that live as long as the program (objects that hold atomseq are not
    // unloaded).
    match unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) } {
        0 => {
            IS_DONE.store(true, Ordering::Relaxed);
            Ok(())
        }
        errno => Err(errno),
    }
}

unsafe extern "C" fn prepare() {
    let Some(own) = not_forking() else {
        // A fork inside another one, or handlers that are registered several times.
        rseq::forks().fetch_add(1, Ordering::Relaxed);
        return;
    };
    // A handler in between would wait for this fork, or close a gate uncounted while another fork
    // is under way.
    let blocked = Blocked::enter();
    // What this thread is in the middle of goes on in the child.
    count_no_longer();
    own.traffic.fork();
    let forks_in = &this_thread().forks_in;
    forks_in.store(own.generation(), Ordering::Relaxed);
    // A child of a raw fork begins anew.
    rseq::forks().store(1, Ordering::Relaxed);
    drop(blocked);
    // With signals as they were: what a walk waits for may wait for a handler on this thread.
    await_walks(own);
}

/// Waits for other threads' walks.
fn await_walks(own: &Own) {
    let mut patience = Patience::new(MILLISECONDS_FOR_WALKS);
    loop {
        // Acquire: pairs with the Release at a walk's end.
        let walks = own.walks.load(Ordering::Acquire);
        if walks <= own_walks(own) || !patience.sleep(&own.walks, walks) {
            return;
        }
    }
}

unsafe extern "C" fn parent() {
    let forks = rseq::forks().load(Ordering::Relaxed);
    if forks != 1 {
        // 0: installed by another thread in the middle of this fork, there was no prepare to undo.
        rseq::forks().store(forks.saturating_sub(1), Ordering::Relaxed);
        return;
    }
    let _blocked = Blocked::enter();
    rseq::forks().store(0, Ordering::Relaxed);
    let begun_in = this_thread().forks_in.swap(0, Ordering::Relaxed);
    // A child of a raw fork that a handler in between has made finds its traffic open.
    if let Some(own) = process::own().filter(|own| own.generation() == begun_in) {
        own.traffic.forked();
    }
}

unsafe extern "C" fn child() {
    // A handler in between would find two generations, where the kernel has not wiped the first.
    let mut blocked = Blocked::enter();
    // Once: in the child of a fork that was inside another one, or if the handlers are registered
    // twice, this is called again, when threads of the child may have a generation already.
    let parent = this_thread().forks_in.swap(0, Ordering::Relaxed);
    if parent != 0 {
        process::wipe(parent);
    }
    rseq::forks().store(0, Ordering::Relaxed);
    // SAFETY: null, or from `watch`. Acquire: pairs with the Release there.
    if let Some(hook) = unsafe { HOOK.load(Ordering::Acquire).as_ref() } {
        blocked.leave_open(hook());
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::arch::syscall;

    /// Runs `child` in a child of a raw fork, and returns its exit code.
    pub fn raw_fork(child: impl FnOnce() -> i32) -> i32 {
        let arguments = [libc::SIGCHLD as usize, 0, 0, 0, 0, 0];
        // SAFETY: a fork without handlers; the child calls nothing that needs another thread.
        let pid = unsafe { syscall(libc::SYS_clone, arguments) } as i32;
        if pid == 0 {
            // SAFETY: ends the child.
            unsafe { libc::_exit(child()) };
        }
        let mut status = 0;
        // SAFETY: waits for the child.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert!(libc::WIFEXITED(status), "{status:#x}");
        libc::WEXITSTATUS(status)
    }

    /// What atomseq's handlers do, without a fork.
    fn call(handler: unsafe extern "C" fn()) {
        // SAFETY: handlers need nothing but to be called in their order.
        unsafe { handler() };
    }

    fn traffic() -> u32 {
        let own = process::own().expect("started");
        own.traffic.word.load(Ordering::Relaxed)
    }

    /// A child of a raw fork, made in the middle of a fork. A thread of it forks while the first
    /// one ends the fork that its parent has begun.
    #[test]
    fn a_child_does_not_end_a_fork_that_its_parent_has_begun() {
        crate::status();
        let fork = 1 << 20;
        call(prepare);
        let code = raw_fork(|| {
            let begun_in = this_thread().forks_in.load(Ordering::Relaxed);
            let be = |forks, forks_in| {
                rseq::forks().store(forks, Ordering::Relaxed);
                this_thread().forks_in.store(forks_in, Ordering::Relaxed);
            };
            // As the other thread.
            be(0, 0);
            call(prepare);
            let is_begun = traffic() == fork;
            be(1, begun_in);
            call(parent);
            let is_left_alone = traffic() == fork;
            be(1, process::generation());
            call(parent);
            let is_over = traffic() == 0;
            i32::from(!(is_begun && is_left_alone && is_over))
        });
        call(parent);
        assert_eq!(code, 0);
    }

    /// A child of a raw fork, made in the middle of a fork: it goes on behind that one's prepare
    /// handler.
    #[test]
    fn a_child_made_in_the_middle_of_a_fork_is_not_forking() {
        crate::status();
        call(prepare);
        let code = raw_fork(|| {
            enter();
            let is_counted = traffic() == 1;
            leave();
            call(prepare);
            let is_outermost = traffic() == 1 << 20;
            call(parent);
            let is_over = traffic() == 0;
            // That of the fork in whose middle it was made.
            call(parent);
            i32::from(!(is_counted && is_outermost && is_over && traffic() == 0))
        });
        call(parent);
        assert_eq!(code, 0);
    }

    /// The child of a fork in whose course the child's handler runs twice: it was inside another
    /// fork, or the handlers are registered twice. In between, threads of the child have begun
    /// something.
    #[test]
    fn a_child_is_told_once_that_it_is_one() {
        crate::status();
        call(prepare);
        let code = raw_fork(|| {
            call(child);
            let generation = process::generation();
            enter();
            call(child);
            let is_same = process::generation() == generation && traffic() == 1;
            leave();
            i32::from(!(is_same && traffic() == 0))
        });
        call(parent);
        assert_eq!(code, 0);
    }

    /// A handler that nothing holds back forks while its thread holds forks up.
    #[test]
    fn a_fork_does_not_wait_for_its_own_thread() {
        crate::status();
        let counts = || rseq::counted().load(Ordering::Relaxed) != 0;
        let code = raw_fork(|| {
            enter();
            enter();
            let was_counted = counts() && traffic() == 1;
            call(prepare);
            let is_counted = counts();
            call(parent);
            leave();
            leave();
            i32::from(!(was_counted && !is_counted && traffic() == 0))
        });
        assert_eq!(code, 0);
    }

    /// A handler that forks in the middle of a walk, and whose child goes on with it.
    #[test]
    fn a_child_counts_no_walk_of_its_parent_s() {
        crate::status();
        let counts = || {
            let own = process::own().expect("started");
            (own.walks.load(Ordering::Relaxed), own_walks(own))
        };
        for has_handlers in [false, true] {
            let code = raw_fork(|| {
                let walk = Walk::start();
                let before = counts();
                let code = raw_fork(|| {
                    if has_handlers {
                        call(child);
                    }
                    let at_first = counts();
                    let own_walk = Walk::start();
                    let inside = counts();
                    drop(walk);
                    let still = counts();
                    drop(own_walk);
                    let found = [at_first, inside, still, counts()];
                    i32::from(found != [(0, 0), (1, 1), (1, 1), (0, 0)])
                });
                // Dropped here, too.
                code + i32::from([before, counts()] != [(1, 1), (0, 0)])
            });
            assert_eq!(code, 0);
        }
    }

    /// Those of other threads are waited for, this thread's own are not; both, also, in the middle
    /// of a fork.
    #[test]
    fn a_fork_waits_for_the_walks_of_others() {
        crate::status();
        let code = raw_fork(|| {
            let own = process::own().expect("started");
            let time = || crate::clock::now().expect("the time");
            let walk = Walk::start();
            let begun = time();
            await_walks(own);
            let own_one = time() - begun;
            let thread = this_thread();
            // As if it were another's.
            thread.walks.store(0, Ordering::Relaxed);
            let begun = time();
            await_walks(own);
            let others = time() - begun;
            thread.walks.store(1, Ordering::Relaxed);
            drop(walk);
            let patience = core::time::Duration::from_millis(MILLISECONDS_FOR_WALKS.into());
            i32::from(!(own_one < patience && others >= patience))
        });
        assert_eq!(code, 0);
    }
}
