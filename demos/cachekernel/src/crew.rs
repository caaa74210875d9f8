//! The kernel threads: their work, how they are stopped and made to exit inside an operation, and
//! how all of them pause for an audit.
//!
//! The state of a guest is a number of two parts: how often it was scheduled, and its activity.
//!
//! ```text
//! READY, in one ready queue ──> RUNNING, on one kernel thread ──> READY
//!                     ^                  │
//!                     └── WAITING, in one delay queue: until a signal or its time comes
//! ```

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64};
use std::time::Duration;

use demo_common::timer;
use fastrand::Rng;

use crate::kernel::{Guest, Kernel, LEVEL, ME, OF_FRAME, SpaceInUse};
use crate::options::Fault;

pub const READY: u64 = 0;
pub const RUNNING: u64 = 1;
pub const WAITING: u64 = 2;

/// Returns the activity of a guest in a state.
pub fn activity(state: u64) -> u64 {
    state & 3
}

/// What all threads do, in the lowest bits of `Shared::phase`. A phase differs from all before it.
pub const RUN: u64 = 0;
/// They pause outside of operations, and start a new use of what they keep in use.
pub const PARK: u64 = 1;
/// They exit.
pub const LEAVE: u64 = 2;

/// The signal by which guests are signalled.
const DELIVER: i32 = libc::SIGUSR1;
/// The signal that stops a thread or makes it exit.
const INTERRUPT: i32 = libc::SIGUSR2;

/// The orders that an interrupted thread carries out.
pub const STOP: u64 = 1;
pub const EXIT: u64 = 2;

/// The state of a kernel thread.
#[derive(Default)]
pub struct Post {
    tid: AtomicI32,
    /// The phase in which it parked last.
    parked: AtomicU64,
    /// The order of its next interruption; 0 once it is carried out.
    order: AtomicU64,
    /// 1: it has exited inside an operation, or is about to.
    exited: AtomicU64,
}

impl Post {
    pub fn has_exited(&self) -> bool {
        self.exited.load(SeqCst) != 0
    }

    /// Prepares the post for another thread. The thread that exited was joined.
    pub fn vacate(&self) {
        self.order.store(0, SeqCst);
        self.exited.store(0, SeqCst);
    }
}

/// What the kernel threads share.
pub struct Shared<'k> {
    pub kernel: &'k Kernel,
    pub posts: Box<[Post]>,
    phase: AtomicU64,
}

/// The kernel threads, as the main thread sees them.
pub struct Crew<'k> {
    pub shared: &'k Shared<'k>,
    threads: Vec<Option<libc::pthread_t>>,
    before: [libc::sigaction; 2],
    pub stops: u64,
    pub exits: u64,
}

/// The crew's shared state, for handlers and new threads. Null without a crew.
static SHARED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

fn shared<'a>() -> Option<&'a Shared<'a>> {
    // SAFETY: null, or from the reference that `Crew::start` was given, which outlives the crew.
    // Only its threads use the result, and they are joined before the crew is dropped.
    unsafe { SHARED.load(SeqCst).cast::<Shared<'a>>().as_ref() }
}

fn sleep(time: Duration) {
    let time = libc::timespec {
        tv_sec: time.as_secs() as _,
        tv_nsec: time.subsec_nanos() as _,
    };
    // SAFETY: the time is valid. A signal may end it early.
    unsafe { libc::nanosleep(&time, ptr::null_mut()) };
}

impl<'k> Shared<'k> {
    pub fn new(kernel: &'k Kernel) -> Shared<'k> {
        let threads = kernel.world.workers.len();
        for guest in 0..kernel.world.plan.guests {
            let ready = &kernel.world.workers[guest as usize % threads].ready;
            ready.insert(guest, guest).expect("memory for the guests");
        }
        Shared {
            kernel,
            posts: (0..threads).map(|_| Post::default()).collect(),
            phase: AtomicU64::new(RUN),
        }
    }
}

impl<'k> Crew<'k> {
    /// Starts the threads. There is only one crew at a time.
    ///
    /// # Errors
    ///
    /// The kernel's, if it refuses a thread.
    pub fn start(shared: &'k Shared<'k>) -> io::Result<Crew<'k>> {
        SHARED.store(ptr::from_ref(shared).cast_mut().cast(), SeqCst);
        let mut crew = Crew {
            shared,
            threads: vec![None; shared.posts.len()],
            before: [handle(DELIVER, on_deliver), handle(INTERRUPT, on_interrupt)],
            stops: 0,
            exits: 0,
        };
        crew.replace_exited()?;
        Ok(crew)
    }

    /// Starts a thread at each post that has none.
    ///
    /// # Errors
    ///
    /// The kernel's, if it refuses a thread.
    pub fn replace_exited(&mut self) -> io::Result<()> {
        for (number, thread) in self.threads.iter_mut().enumerate() {
            if thread.is_some() {
                continue;
            }
            let mut new = MaybeUninit::uninit();
            let argument = ptr::without_provenance_mut(number);
            // SAFETY: there is room for the thread; the argument is a number.
            let failed =
                unsafe { libc::pthread_create(new.as_mut_ptr(), ptr::null(), body, argument) };
            if failed != 0 {
                return Err(io::Error::from_raw_os_error(failed));
            }
            // SAFETY: written, because the call has succeeded.
            *thread = Some(unsafe { new.assume_init() });
        }
        Ok(())
    }

    /// Stops a random thread at a random instruction, or makes it exit there.
    pub fn interrupt(&mut self, rng: &mut Rng, order: u64) {
        let post = &self.shared.posts[rng.usize(..self.threads.len())];
        let tid = post.tid.load(SeqCst);
        // A thread that was not started yet, or was interrupted just now.
        if tid == 0 || post.has_exited() || post.order.load(SeqCst) != 0 {
            return;
        }
        post.order.store(order, SeqCst);
        send(tid, INTERRUPT);
        match order {
            STOP => self.stops += 1,
            _ => self.exits += 1,
        }
    }

    /// Has all threads enter a phase, and waits until each has entered it or exited. Joins those
    /// that have exited.
    pub fn enter(&mut self, kind: u64) {
        let phase = ((self.shared.phase.load(SeqCst) & !3) + 4) | kind;
        self.shared.phase.store(phase, SeqCst);
        for (post, thread) in self.shared.posts.iter().zip(&mut self.threads) {
            let Some(id) = *thread else {
                continue;
            };
            // A signal that was sent and not handled yet could still make a parked thread exit.
            let is_parked = || post.parked.load(SeqCst) == phase && post.order.load(SeqCst) == 0;
            while kind != RUN && !post.has_exited() && !is_parked() {
                sleep(Duration::from_micros(50));
            }
            if kind == LEAVE || post.has_exited() {
                *thread = None;
                post.tid.store(0, SeqCst);
                // SAFETY: started by `replace_exited`, and joined once.
                unsafe { libc::pthread_join(id, ptr::null_mut()) };
            }
        }
    }
}

impl Drop for Crew<'_> {
    fn drop(&mut self) {
        self.enter(LEAVE);
        for (signal, before) in [DELIVER, INTERRUPT].into_iter().zip(&self.before) {
            // SAFETY: restores what `sigaction` has returned.
            unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
        }
        SHARED.store(ptr::null_mut(), SeqCst);
    }
}

fn handle(signal: i32, handler: extern "C" fn(i32)) -> libc::sigaction {
    // SAFETY: zeros are valid in every field; the handler has the type that these flags ask for.
    unsafe {
        let (mut new, mut old): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        new.sa_sigaction = handler as *const () as usize;
        new.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &new, &mut old);
        old
    }
}

fn send(tid: i32, signal: i32) {
    // SAFETY: sends a signal to a thread of this process; an error means that it has exited.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal) };
}

/// Stops this thread for a while at the instruction that it has reached, or makes it exit there.
extern "C" fn on_interrupt(_: i32) {
    let (Some(shared), Some(me)) = (shared(), ME.get()) else {
        return;
    };
    let post = &shared.posts[me];
    if post.order.load(SeqCst) == EXIT {
        post.exited.store(1, SeqCst);
        // SAFETY: ends this thread only. It is joined before its stack is freed. It holds no lock
        // of the C library: once it has started, it calls nothing that takes one.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    keeping_errno(|| sleep(Duration::from_millis(2)));
    post.order.store(0, SeqCst);
}

/// Delivers signals to the guests in this worker's inbox.
extern "C" fn on_deliver(_: i32) {
    let (Some(shared), Some(me)) = (shared(), ME.get()) else {
        return;
    };
    LEVEL.set(1);
    keeping_errno(|| {
        while let Some(guest) = shared.kernel.inboxes[me].pop() {
            shared.deliver(me, guest);
        }
    });
    LEVEL.set(0);
}

/// Does a handler's work. The interrupted code may be about to read `errno`.
fn keeping_errno(work: impl FnOnce()) {
    // SAFETY: the address is this thread's, and valid as long as the thread.
    unsafe {
        let errno = *libc::__errno_location();
        work();
        *libc::__errno_location() = errno;
    }
}

impl Shared<'_> {
    fn ready(&self, worker: usize, guest: u64) {
        // Fails only if exited threads hold the memory for it. Then the audit finds the guest in no
        // queue.
        let ready = &self.kernel.world.workers[worker].ready;
        _ = ready.insert(timer::now(), guest);
    }

    fn deliver(&self, me: usize, id: u64) {
        let (kernel, worker) = (self.kernel, &self.kernel.world.workers[me]);
        let level = &worker.levels[1];
        level.guest.store(id + 1, SeqCst);
        // Best effort, as in GC96: a guest that cannot be loaded now misses the signal.
        match kernel.guest(id) {
            Some(guest) => kernel.world.count_signal(&guest),
            None => _ = worker.dropped.fetch_add(1, SeqCst),
        }
        let state = kernel.states[id as usize].load(SeqCst);
        if activity(state) == WAITING {
            self.wake(me, id, state);
        }
        level.guest.store(0, SeqCst);
    }

    /// Makes a waiting guest ready, if it is still in this state.
    fn wake(&self, me: usize, id: u64, state: u64) {
        let state_of = &self.kernel.states[id as usize];
        let ready = state - WAITING + READY;
        if state_of
            .compare_exchange(state, ready, SeqCst, SeqCst)
            .is_ok()
        {
            self.ready(me, id);
        }
    }

    /// Signals the guests that are registered on a page.
    fn signal(&self, me: usize, space: u64, page: u64) {
        let world = &self.kernel.world;
        // A signal reaches at most four guests.
        let collect = |(mut guests, count): ([u64; 4], usize), guest: &Guest| {
            if count < guests.len() {
                guests[count] = guest.id.load(SeqCst);
                return (guests, count + 1);
            }
            (guests, count)
        };
        let frame = world.frame(space, page) as usize;
        let registered = self.kernel.guests.cache.list(OF_FRAME, frame);
        let (guests, count) = registered.fold(([0; 4], 0), collect);
        for &guest in &guests[..count] {
            let worker = (guest as usize) % self.posts.len();
            world.workers[me].sent.fetch_add(1, SeqCst);
            match self.kernel.inboxes[worker].push(guest) {
                Ok(()) => match self.posts[worker].tid.load(SeqCst) {
                    0 => {}
                    tid => send(tid, DELIVER),
                },
                Err(_) => _ = world.workers[me].dropped.fetch_add(1, SeqCst),
            }
        }
    }

    /// Takes the next guest to run, of this worker or another one, and notes it.
    fn next(&self, me: usize) -> Option<u64> {
        let workers = &self.kernel.world.workers;
        let level = &workers[me].levels[0];
        level.popping.store(1, SeqCst);
        while let Some((_, [guest, state])) = workers[me].delayed.pop_due(timer::now()) {
            level.guest.store(guest + 1, SeqCst);
            self.wake(me, guest, state);
            level.guest.store(0, SeqCst);
        }
        let others = (0..workers.len()).map(|step| (me + step) % workers.len());
        let mut popped = others.filter_map(|worker| workers[worker].ready.pop());
        let guest = popped.next().map(|(_, guest)| guest);
        level
            .guest
            .store(guest.map_or(0, |guest| guest + 1), SeqCst);
        level.popping.store(0, SeqCst);
        guest
    }

    /// Runs one guest for a while.
    fn step<'a>(&'a self, me: usize, rng: &mut Rng, held: &mut Option<SpaceInUse<'a>>) {
        let Some(id) = self.next(me) else {
            return sleep(Duration::from_micros(20));
        };
        let (kernel, world) = (self.kernel, &*self.kernel.world);
        let (worker, state) = (&world.workers[me], &kernel.states[id as usize]);
        let scheduled = (state.load(SeqCst) | 3) + 1;
        state.store(scheduled | RUNNING, SeqCst);
        let space_id = id % world.plan.spaces;
        worker.levels[0].space.store(space_id + 1, SeqCst);
        if let (Some(space), Some(guest)) = (kernel.space(space_id), kernel.guest(id)) {
            kernel.register(space_id, id, &guest);
            for _ in 0..8 {
                let page = rng.u64(..world.plan.pages);
                world.count_touch(&space);
                if matches!(world.maps[space_id as usize].get(page), None | Some(0)) {
                    world.fault(space_id, page);
                }
            }
            if rng.bool() {
                // The page of another guest of the same space, unless the number wraps around.
                let other = (id + world.plan.spaces * rng.u64(1..8)) % world.plan.guests;
                let page = world.home.signals[other as usize].load(SeqCst) - 1;
                self.signal(me, other % world.plan.spaces, page);
            }
            world.count_run(&guest);
            if world.plan.fault == Some(Fault::Leak) && rng.u32(..256) == 0 {
                std::mem::forget(guest);
            }
            // The space is noted before the use of the one that was kept ends.
            worker.held.store(space_id + 1, SeqCst);
            *held = Some(space);
        } else {
            world.counts.skipped.increment();
            *held = None;
            worker.held.store(0, SeqCst);
        }
        if rng.u32(..4) == 0 {
            let until = timer::now() + rng.u64(..2_000_000);
            let waiting = scheduled | WAITING;
            state.store(waiting, SeqCst);
            _ = worker.delayed.insert(until, [id, waiting]);
        } else {
            state.store(scheduled | READY, SeqCst);
            self.ready(me, id);
        }
        worker.levels[0].space.store(0, SeqCst);
        worker.levels[0].guest.store(0, SeqCst);
    }

    fn work(&self, me: usize) {
        // SAFETY: no arguments.
        let tid = unsafe { libc::gettid() };
        let mut rng = Rng::with_seed(self.kernel.world.plan.seed ^ ((tid as u64) << 32));
        let mut held = None;
        // The first steps may allocate memory for this thread, under locks of the C library, so it
        // can be interrupted only afterwards.
        for _ in 0..16 {
            self.step(me, &mut rng, &mut held);
        }
        self.posts[me].tid.store(tid, SeqCst);
        loop {
            let phase = self.phase.load(SeqCst);
            match phase & 3 {
                RUN => self.step(me, &mut rng, &mut held),
                kind => {
                    // No handler runs an operation while this thread is parked.
                    block(libc::SIG_BLOCK, DELIVER);
                    if kind == LEAVE {
                        held = None;
                        self.kernel.world.workers[me].held.store(0, SeqCst);
                    }
                    // The new use starts before the old one ends: see `Cache::audit`.
                    held = held.and_then(|held| held.loaded().get().ok());
                    self.posts[me].parked.store(phase, SeqCst);
                    if kind == LEAVE {
                        return;
                    }
                    while self.phase.load(SeqCst) == phase {
                        sleep(Duration::from_micros(50));
                    }
                    block(libc::SIG_UNBLOCK, DELIVER);
                }
            }
        }
    }
}

fn block(how: i32, signal: i32) {
    // SAFETY: an empty set is initialized, to which one signal is added.
    unsafe {
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(how, set.as_ptr(), ptr::null_mut());
    }
}

extern "C" fn body(number: *mut c_void) -> *mut c_void {
    ME.set(Some(number.addr()));
    if let Some(shared) = shared() {
        shared.work(number.addr());
    }
    ptr::null_mut()
}
