//! Forks: a child must find every gate open, because the thread that would open a closed one exists
//! only in the parent.
//!
//! The prepare handler of `pthread_atfork` therefore waits until no thread [makes forks
//! wait](enter), and new ones wait until the fork is over; see
//! [`Traffic`](super::traffic::Traffic). A raw `fork` or `clone` system call runs no such handlers.
//! What another thread was doing may then be half done in the child, which takes over the gates
//! (see `process.rs`).

use super::process::{self, Own};
use super::rseq;
use super::signals::Blocked;
use super::traffic::MILLISECONDS;
use crate::sync::{Patience, wake_all};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// How many milliseconds a fork waits for walks to end.
const MILLISECONDS_FOR_WALKS: u32 = 1_000;

/// A thread's state concerning forks. A child inherits that of the forking thread. Used with
/// signals blocked, by loads and stores.
struct Thread {
    /// The nesting depth of stretches of this thread that forks wait for.
    entered: AtomicU32,
    /// The generation of the process in which its outermost fork started; 0 after the fork, and in
    /// the child.
    forks_in: AtomicU32,
    /// The number of this thread's own walks, which its forks do not wait for.
    walks: AtomicU32,
    /// The generation of the process that `walks` belongs to: the child of a raw fork counts none.
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
    // SAFETY: this is storage of the calling thread, made of atomics, and callers use it only
    // before the thread ends.
    unsafe { &*thread }
}

/// Makes forks on other threads wait for this one. Returns `false` if one is in progress. A thread
/// that is itself forking (an atfork or signal handler runs on it between prepare and parent or
/// child) is not counted: its work ends before the fork continues. The caller has blocked all
/// signals.
pub fn try_enter() -> bool {
    let is_inside = this_thread().entered.load(Ordering::Relaxed) > 0;
    // The generation is stored with the count: a child made by a raw fork does not count its
    // parent's threads.
    if let Some(own) = not_forking().filter(|_| !is_inside) {
        if !own.traffic.try_enter() {
            return false;
        }
        rseq::counted().store(own.generation(), Ordering::Relaxed);
    }
    enter_uncounted();
    true
}

/// Enters as [`try_enter`] does, but without making forks wait: this thread has waited too long for
/// one.
pub fn enter_uncounted() {
    let entered = &this_thread().entered;
    entered.store(entered.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Enters as [`try_enter`] does. Waits a bounded time for a fork, then enters uncounted.
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

/// A guard: while it lives, the next fork on another thread waits briefly for this thread to
/// [enter](try_enter).
pub struct Waiting {
    /// The words in which it is counted, and their generation.
    counted: Option<(&'static Own, u32)>,
}

impl Waiting {
    /// Creates the guard, before the wait.
    pub fn start() -> Waiting {
        // A fork in a signal handler could otherwise run between reading the generation and
        // counting, here and below.
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
        // A child made by a raw fork does not count its parent's threads.
        let is_same = |(own, begun_in): &(&Own, u32)| own.generation() == *begun_in;
        if let Some((own, _)) = self.counted.filter(is_same) {
            own.traffic.end_wait();
        }
    }
}

/// A guard: while it lives, this thread walks over the loaded objects, and forks on other threads
/// wait about a second for it. The walk holds a lock of the C library that a fork does not take.
pub struct Walk {
    /// The generation of the process that counts it.
    begun_in: u32,
}

impl Walk {
    /// Starts a walk. If forks must wait for it, the caller has made them wait.
    pub fn start() -> Walk {
        // A fork in a signal handler could otherwise run between the two counts, here and below.
        let _blocked = Blocked::enter();
        let begun_in = process::generation();
        if let Some(own) = process::own() {
            let thread = this_thread();
            thread.walks.store(own_walks(own) + 1, Ordering::Relaxed);
            thread.walks_in.store(begun_in, Ordering::Relaxed);
            // Relaxed: this thread is counted in `traffic`, whose Release orders this before a
            // fork's Acquire.
            own.walks.fetch_add(1, Ordering::Relaxed);
        }
        Walk { begun_in }
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        let _blocked = Blocked::enter();
        // A child does not count its parent's walks.
        if let Some(own) = process::own().filter(|own| own.generation() == self.begun_in) {
            // Release: pairs with the Acquire in `await_walks`, so that the child's copy contains
            // the end of the walk.
            own.walks.fetch_sub(1, Ordering::Release);
            wake_all(&own.walks);
            let walks = &this_thread().walks;
            walks.store(own_walks(own) - 1, Ordering::Relaxed);
        }
    }
}

/// Returns the number of this process's walks that belong to this thread.
fn own_walks(own: &Own) -> u32 {
    let thread = this_thread();
    match thread.walks_in.load(Ordering::Relaxed) == own.generation() {
        true => thread.walks.load(Ordering::Relaxed),
        false => 0,
    }
}

/// Sleeps briefly while another thread's fork is in progress. Returns `false` if the waiting time
/// is over.
pub(crate) fn await_fork(patience: &mut Patience) -> bool {
    not_forking().is_none_or(|own| own.traffic.await_fork(patience))
}

/// Ends a `try_enter` or `enter_uncounted`. The caller has blocked all signals.
pub fn leave() {
    let entered = &this_thread().entered;
    let times = entered.load(Ordering::Relaxed) - 1;
    entered.store(times, Ordering::Relaxed);
    if times == 0 {
        count_no_longer();
    }
}

fn count_no_longer() {
    // A load and a store suffice: the word belongs to this thread, on which no handler runs now.
    let counted = rseq::counted().load(Ordering::Relaxed);
    if counted == 0 {
        return;
    }
    rseq::counted().store(0, Ordering::Relaxed);
    if let Some(own) = process::own().filter(|own| own.generation() == counted) {
        own.traffic.leave();
    }
}

/// Returns this process's words, unless this thread is in the middle of a fork. A fork of the
/// parent does not count: this may be a child of a raw fork that a handler made in between.
fn not_forking() -> Option<&'static Own> {
    let is_forking = |own: &Own| {
        rseq::forks().load(Ordering::Relaxed) > 0
            && this_thread().forks_in.load(Ordering::Relaxed) == own.generation()
    };
    process::own().filter(|own| !is_forking(own))
}

/// Further work in the child of a fork, with signals blocked. Returns the signals that are to be
/// unblocked.
pub type Hook = fn() -> u64;

/// Null, or a pointer to a [`Hook`] that lives as long as the program.
static HOOK: AtomicPtr<Hook> = AtomicPtr::new(core::ptr::null_mut());

/// Sets the hook that is called in each child. Called after start-up. `Err` holds an error number.
pub fn watch(hook: &'static Hook) -> Result<(), i32> {
    let hook = core::ptr::from_ref(hook).cast_mut();
    // Release: pairs with the Acquire in `child`.
    HOOK.store(hook, Ordering::Release);
    install()
}

/// Registers the handlers, unless this process or an ancestor has. `Err` holds an error number.
/// Called without a lock: older C libraries register handlers under a lock that a fork holds while
/// handlers run. (Threads that call this at once may thus register the handlers several times;
/// forks are then nested.)
pub(super) fn install() -> Result<(), i32> {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    // Relaxed: the flag orders no other data.
    if IS_DONE.load(Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: the three handlers live as long as the program, because objects that contain atomseq
    // are never unloaded.
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
        // A nested fork, or handlers that are registered several times.
        rseq::forks().fetch_add(1, Ordering::Relaxed);
        return;
    };
    // A signal handler in between would wait for this fork, or close a gate uncounted while another
    // fork is in progress.
    let blocked = Blocked::enter();
    // The unfinished work of this thread continues in the child, so its fork does not wait for it.
    count_no_longer();
    own.traffic.fork();
    let forks_in = &this_thread().forks_in;
    forks_in.store(own.generation(), Ordering::Relaxed);
    // Starts at 1: the count may be a remnant, in a child of a raw fork.
    rseq::forks().store(1, Ordering::Relaxed);
    drop(blocked);
    // With signals open again: a walk may wait for a thread that waits for a handler on this one.
    await_walks(own);
}

/// Waits for other threads' walks.
fn await_walks(own: &Own) {
    let mut patience = Patience::new(MILLISECONDS_FOR_WALKS);
    loop {
        // Acquire: pairs with the Release at the end of a walk.
        let walks = own.walks.load(Ordering::Acquire);
        if walks <= own_walks(own) || !patience.sleep(&own.walks, walks) {
            return;
        }
    }
}

unsafe extern "C" fn parent() {
    let forks = rseq::forks().load(Ordering::Relaxed);
    if forks != 1 {
        // 0: another thread registered the handlers in the middle of this fork, so there was no
        // prepare.
        rseq::forks().store(forks.saturating_sub(1), Ordering::Relaxed);
        return;
    }
    let _blocked = Blocked::enter();
    rseq::forks().store(0, Ordering::Relaxed);
    let begun_in = this_thread().forks_in.swap(0, Ordering::Relaxed);
    // In a child of a raw fork that a handler made in between, no fork is counted.
    if let Some(own) = process::own().filter(|own| own.generation() == begun_in) {
        own.traffic.forked();
    }
}

unsafe extern "C" fn child() {
    // A signal handler in between would see two generations, if the kernel has not wiped the first.
    let mut blocked = Blocked::enter();
    // Wipes only once. If forks were nested or the handlers are registered twice, this is called
    // again, when threads of the child may already have a generation.
    let parent = this_thread().forks_in.swap(0, Ordering::Relaxed);
    if parent != 0 {
        process::wipe(parent);
    }
    rseq::forks().store(0, Ordering::Relaxed);
    // SAFETY: null, or a `&'static Hook` from `watch`. Acquire: pairs with the Release there.
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
        // SAFETY: a fork without handlers; `child` must not and does not need any other thread.
        let pid = unsafe { syscall(libc::SYS_clone, arguments) } as i32;
        if pid == 0 {
            // SAFETY: ends only the child process.
            unsafe { libc::_exit(child()) };
        }
        let mut status = 0;
        // SAFETY: `pid` is a child of this process, and `status` is valid for writes.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert!(libc::WIFEXITED(status), "{status:#x}");
        libc::WEXITSTATUS(status)
    }

    /// Calls one of atomseq's handlers without a fork.
    fn call(handler: unsafe extern "C" fn()) {
        // SAFETY: the handlers have no requirement except their order, which the tests keep.
        unsafe { handler() };
    }

    fn traffic() -> u32 {
        let own = process::own().expect("started");
        own.traffic.word.load(Ordering::Relaxed)
    }

    /// A raw fork in the middle of a fork makes a child. A thread of the child forks while the
    /// first one ends the fork that its parent has started.
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
            // Acts as the other thread.
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

    /// A child made by a raw fork in the middle of a fork continues after that fork's prepare
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
            // Ends the fork in whose middle the child was made.
            call(parent);
            i32::from(!(is_counted && is_outermost && is_over && traffic() == 0))
        });
        call(parent);
        assert_eq!(code, 0);
    }

    /// A caller of `allocate_at_once` has another way, so it does not wait for a fork.
    #[test]
    fn memory_at_once_is_refused_during_a_fork() {
        use crate::percpu::memory::{allocate_at_once, free};
        use crate::platform::kernel_mask;

        crate::status();
        let [has_begun, is_done] = [const { AtomicBool::new(false) }; 2];
        let await_flag = |flag: &AtomicBool| {
            while !flag.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        };
        let found = std::thread::scope(|scope| {
            scope.spawn(|| {
                call(prepare);
                has_begun.store(true, Ordering::Release);
                await_flag(&is_done);
                call(parent);
            });
            await_flag(&has_begun);
            let before = kernel_mask();
            let found = (allocate_at_once(512), kernel_mask() == before);
            is_done.store(true, Ordering::Release);
            found
        });
        assert_eq!(found, (None, true));
        // Afterwards there is memory, unless another test forks or holds the lock just then.
        let piece = std::iter::repeat_with(|| allocate_at_once(512)).find_map(|piece| piece);
        // SAFETY: `allocate_at_once` returned the piece for 512 bytes, and it is not used.
        unsafe { free(piece.expect("memory"), 512) };
    }

    /// The child's handler runs twice: the fork was nested, or the handlers are registered twice.
    /// In between, threads of the child have started something.
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

    /// A handler with open signals forks while its thread makes forks wait.
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

    /// A handler forks in the middle of a walk, and its child continues the walk.
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
                // The parent drops the walk too.
                code + i32::from([before, counts()] != [(1, 1), (0, 0)])
            });
            assert_eq!(code, 0);
        }
    }

    /// A fork waits for other threads' walks but not for its own, also in the middle of a fork.
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
            // Acts as if the walk were another thread's.
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
