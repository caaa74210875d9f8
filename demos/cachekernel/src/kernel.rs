//! The kernel: caches of descriptors, page maps, the dependency map, and the write-back of a
//! descriptor that makes room for another.
//!
//! ```text
//! home: all spaces and guests          kernel: the loaded ones
//!
//! touches of a space       <──write-back── spaces           PageMap of each space: page -> stamp
//!                                                           MultiMap: frame -> (space, page, stamp)
//! runs, signals of a guest <──write-back── guests           lists: frame -> guests to be signalled
//! where a guest registered <──write-back──                         space -> guests that are registered
//! ```
//!
//! Invariants, between operations:
//!
//! 1. A valid mapping has one record under its frame, with the same stamp, and a record of a
//!    mapping has that mapping. No two mappings have the same stamp, so a late removal of one
//!    removes no other.
//! 2. A guest that is registered for signals is on two lists at once, that of the frame and that of
//!    its space, and its descriptor names the page. When a guest leaves the cache, it leaves both
//!    by itself; when a space does, it takes its guests off the frames' lists.
//!
//! Nothing here allocates from the global allocator or waits, so a handler may call all of it, and
//! a thread may exit anywhere in it. It first notes in its [`Level`] what it works on.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use atomseq::nonblocking::{
    HashMap, ListCache, Member, MemberInUse, MultiMap, PageMap, PriorityQueue, Queue, plain,
};
use atomseq::percpu::Counter;
use atomseq::type_stable::{Descriptor, Error, Gone, WriteBack, descriptor};

use crate::options::{Fault, Plan};

descriptor! {
    /// A loaded address space.
    pub struct Space {
        id: AtomicU64,
        touches: AtomicU64,
        /// 0: nothing to write back.
        dirty: AtomicU64,
    }
}

descriptor! {
    /// A loaded guest: a thread that the kernel schedules.
    pub struct Guest {
        pub id: AtomicU64,
        runs: AtomicU64,
        received: AtomicU64,
        /// One more than the page where it is registered for signals. 0: none.
        pub page: AtomicU64,
        /// 0: nothing to write back.
        dirty: AtomicU64,
    }
}

plain! {
    /// A mapping of a physical frame.
    #[derive(Debug, PartialEq, Eq)]
    pub struct Record {
        pub stamp: u64,
        pub space: u32,
        pub page: u32,
    }
}

impl Record {
    pub fn mapping(space: u64, page: u64, stamp: u64) -> Record {
        let (space, page) = (space as u32, page as u32);
        Record { stamp, space, page }
    }
}

/// What a thread, or the handler that interrupted it, works on. A word is 0, or one more than an
/// id. If the thread exits, these are the objects that it may have left half done.
#[derive(Default)]
pub struct Level {
    pub space: AtomicU64,
    pub guest: AtomicU64,
    pub victim_space: AtomicU64,
    pub victim_guest: AtomicU64,
    /// 1: it may have counted something in a descriptor and not in its [`Worker`].
    pub counting: AtomicU64,
    /// 1: it may have taken an entry out of a queue, and not noted which.
    pub popping: AtomicU64,
}

/// A kernel thread, and the queues of its CPU.
#[derive(Default)]
#[repr(align(128))]
pub struct Worker {
    /// Guests that can run, by the time when they became ready.
    pub ready: PriorityQueue<u64, u64>,
    /// Guests that wait for a signal, by the time when they stop waiting, each with its state.
    pub delayed: PriorityQueue<u64, [u64; 2]>,
    /// The thread's, and its handler's.
    pub levels: [Level; 2],
    /// One more than the space that is kept in use from one step to the next.
    pub held: AtomicU64,
    pub touches: AtomicU64,
    pub runs: AtomicU64,
    pub sent: AtomicU64,
    pub received: AtomicU64,
    pub dropped: AtomicU64,
}

/// The memory outside of the kernel, which has all objects, loaded or not.
pub struct Home {
    pub touches: Box<[AtomicU64]>,
    pub runs: Box<[AtomicU64]>,
    pub received: Box<[AtomicU64]>,
    /// One more than the page of each guest's registration.
    pub signals: Box<[AtomicU64]>,
}

/// Counts of events, on which no check depends.
pub struct Counts {
    pub faults: Counter,
    pub reclaimed: Counter,
    pub spaces: Counter,
    pub guests: Counter,
    pub mappings: Counter,
    pub registrations: Counter,
    pub skipped: Counter,
}

/// What the kernel and the owners of its descriptors share.
pub struct World {
    pub plan: Plan,
    pub home: Home,
    pub maps: Box<[PageMap<u64>]>,
    pub dependencies: MultiMap<u64, Record>,
    pub workers: Box<[Worker]>,
    pub counts: Counts,
    stamps: AtomicU64,
}

thread_local! {
    /// The number of this thread's [`Worker`].
    pub static ME: Cell<Option<usize>> = const { Cell::new(None) };
    /// 1 in the handler.
    pub static LEVEL: Cell<usize> = const { Cell::new(0) };
}

impl World {
    pub fn new(plan: Plan) -> Result<World, Error> {
        let words = |count: u64| (0..count).map(|_| AtomicU64::new(0)).collect();
        let page = |guest| AtomicU64::new(guest * 7 % plan.pages + 1);
        let counter = || {
            let counter = Counter::new();
            // Otherwise the first use does it, perhaps in a handler.
            _ = counter.prepare();
            counter
        };
        Ok(World {
            home: Home {
                touches: words(plan.spaces),
                runs: words(plan.guests),
                received: words(plan.guests),
                signals: (0..plan.guests).map(page).collect(),
            },
            maps: (0..plan.spaces).map(|_| PageMap::new()).collect(),
            dependencies: MultiMap::try_with_limit_and_hasher(
                plan.frames() as usize,
                plan.records() as usize,
                std::hash::RandomState::new(),
            )?,
            workers: (0..plan.threads).map(|_| Worker::default()).collect(),
            counts: Counts {
                faults: counter(),
                reclaimed: counter(),
                spaces: counter(),
                guests: counter(),
                mappings: counter(),
                registrations: counter(),
                skipped: counter(),
            },
            stamps: AtomicU64::new(1),
            plan,
        })
    }

    /// Returns the worker of this thread, and what it notes at this level.
    pub fn here(&self) -> Option<(&Worker, &Level)> {
        let worker = &self.workers[ME.get()?];
        Some((worker, &worker.levels[LEVEL.get()]))
    }

    /// Notes what this thread works on.
    fn note(&self, word: fn(&Level) -> &AtomicU64, id: Option<u64>) {
        if let Some((_, level)) = self.here() {
            word(level).store(id.map_or(0, |id| id + 1), SeqCst);
        }
    }

    /// Returns the frame that a page is in. Several spaces share each.
    pub fn frame(&self, space: u64, page: u64) -> u64 {
        (space * 5 + page) % self.plan.frames()
    }

    /// Ends the mapping of a page if it is still the one with this stamp.
    fn invalidate(&self, space: u64, page: u64, stamp: u64) {
        let unless_other = |found| if found == stamp { 0 } else { found };
        self.maps[space as usize].update(page, unless_other);
    }

    /// Removes the mappings of a frame, to make room for other records.
    pub fn reclaim(&self, frame: u64) {
        self.counts.reclaimed.increment();
        // Others may add records meanwhile, so there is a bound.
        for _ in 0..64 {
            let first = |first: Option<Record>, record| first.or(Some(record));
            let Some(record) = self.dependencies.fold(&frame, None, first) else {
                break;
            };
            let (space, page) = (u64::from(record.space), u64::from(record.page));
            self.note(|level| &level.victim_space, Some(space));
            if self.dependencies.remove(&frame, &record) {
                self.invalidate(space, page, record.stamp);
                self.counts.mappings.increment();
            }
        }
        self.note(|level| &level.victim_space, None);
    }

    /// Maps a page of a space that the caller has in use.
    pub fn fault(&self, space: u64, page: u64) {
        self.counts.faults.increment();
        let (map, frame) = (&self.maps[space as usize], self.frame(space, page));
        let stamp = self.stamps.fetch_add(1, Relaxed);
        let record = |stamp| Record::mapping(space, page, stamp);
        match map.insert(page, stamp) {
            Ok(None | Some(0)) => {}
            // Another thread has mapped it too. It removes its record if it finds this stamp.
            Ok(Some(other)) => _ = self.dependencies.remove(&frame, &record(other)),
            Err(_) => return self.counts.skipped.increment(),
        }
        if self.dependencies.insert(frame, record(stamp)).is_err() {
            self.invalidate(space, page, stamp);
            self.reclaim(stamp % self.plan.frames());
        } else if map.get(page) != Some(stamp) {
            self.dependencies.remove(&frame, &record(stamp));
        }
    }

    /// Stores outside of the kernel where a guest was registered, which is on no frame's list now.
    fn write_registration_back(&self, guest: &Guest) {
        let page = guest.page.swap(0, SeqCst);
        if page != 0 {
            self.home.signals[guest.id.load(SeqCst) as usize].store(page, SeqCst);
            self.counts.registrations.increment();
        }
    }

    /// Counts an event in a descriptor that is in use, and in this thread's worker.
    fn count(&self, of_descriptor: [&AtomicU64; 2], of_worker: fn(&Worker) -> &AtomicU64) {
        let [count, dirty] = of_descriptor;
        let Some((worker, level)) = self.here() else {
            return;
        };
        level.counting.store(1, SeqCst);
        dirty.store(1, SeqCst);
        count.fetch_add(1, SeqCst);
        of_worker(worker).fetch_add(1, SeqCst);
        level.counting.store(0, SeqCst);
    }

    pub fn count_touch(&self, space: &Space) {
        self.count([&space.touches, &space.dirty], |worker| &worker.touches);
    }

    pub fn count_run(&self, guest: &Guest) {
        self.count([&guest.runs, &guest.dirty], |worker| &worker.runs);
    }

    pub fn count_signal(&self, guest: &Guest) {
        self.count([&guest.received, &guest.dirty], |worker| &worker.received);
    }
}

/// Writes spaces back: their mappings, the registrations on their pages, and how often they were
/// touched. May be called again after a thread has exited inside.
pub struct Spaces {
    world: Arc<World>,
    guests: Arc<Loads<Guest, Guests, 2>>,
}

impl WriteBack<Member<Space, 0>> for Spaces {
    fn write_back(&self, victim: &Member<Space, 0>) {
        let (world, id) = (&*self.world, victim.id.load(SeqCst));
        // Clean, as a copy is that was not published because another thread had loaded it.
        if victim.dirty.load(SeqCst) == 0 {
            return;
        }
        world.note(|level| &level.victim_space, Some(id));
        for leaf in (0..world.plan.pages).step_by(64) {
            world.maps[id as usize].unload(leaf, |page, stamp| {
                let record = Record::mapping(id, page, stamp);
                if stamp != 0 && world.dependencies.remove(&world.frame(id, page), &record) {
                    world.counts.mappings.increment();
                }
            });
        }
        let registered = self.guests.cache.list(OF_SPACE, id as usize);
        while let Some(guest) = registered.pop_front() {
            self.guests.cache.remove(OF_FRAME, &guest);
            world.write_registration_back(&guest);
        }
        world.home.touches[id as usize].store(victim.touches.load(SeqCst), SeqCst);
        // A thread that loads it next may exit before it has filled it in.
        victim.dirty.store(0, SeqCst);
        world.counts.spaces.increment();
        world.note(|level| &level.victim_space, None);
    }
}

/// Writes guests back: their registrations, and how often they ran and were signalled. They have
/// left their lists.
pub struct Guests(Arc<World>);

impl WriteBack<Member<Guest, 2>> for Guests {
    fn write_back(&self, victim: &Member<Guest, 2>) {
        let (world, id) = (&*self.0, victim.id.load(SeqCst));
        if victim.dirty.load(SeqCst) == 0 {
            return;
        }
        world.note(|level| &level.victim_guest, Some(id));
        world.write_registration_back(victim);
        let number = world.counts.guests.sum();
        // The fault that the audit must find: counts that are not written back.
        if world.plan.fault != Some(Fault::Skip) || number % 16 != 0 {
            world.home.runs[id as usize].store(victim.runs.load(SeqCst), SeqCst);
            world.home.received[id as usize].store(victim.received.load(SeqCst), SeqCst);
        }
        victim.dirty.store(0, SeqCst);
        world.counts.guests.increment();
        world.note(|level| &level.victim_guest, None);
    }
}

/// The links of a guest: of a list for each frame, and of one for each space.
pub const OF_FRAME: usize = 0;
pub const OF_SPACE: usize = 1;

/// The use of a guest's descriptor.
pub type GuestInUse<'a> = MemberInUse<'a, Guest, Guests, 2>;
/// The use of a space's descriptor, which is on no list.
pub type SpaceInUse<'a> = MemberInUse<'a, Space, Spaces, 0>;

/// The cache of one kind of descriptor, and the last load of each id.
pub struct Loads<T: Descriptor, W: WriteBack<Member<T, LINKS>>, const LINKS: usize> {
    pub cache: ListCache<T, W, LINKS>,
    names: HashMap<u64, [u64; 2]>,
}

impl<T, W, const LINKS: usize> Loads<T, W, LINKS>
where
    T: Descriptor,
    W: WriteBack<Member<T, LINKS>>,
{
    fn new(ids: u64, loaded: u64, lists: [usize; LINKS], owner: W) -> Result<Self, Error> {
        let names = HashMap::with_capacity(ids as usize);
        for id in 0..ids {
            names.insert(id, [0; 2])?;
        }
        let cache = ListCache::try_new(loaded as usize, lists, owner)?;
        Ok(Loads { cache, names })
    }

    /// Returns a use of a descriptor if it is loaded.
    pub fn get(&self, id: u64) -> Result<MemberInUse<'_, T, W, LINKS>, Gone> {
        let name = self.names.get(&id).unwrap_or_default();
        let load = self.cache.loaded_from_words(name);
        load.map_or(Err(Gone::Unloaded), |load| load.get())
    }

    /// Returns a use of a descriptor, and loads it if need be. `None` if all are in use, or the
    /// descriptor is being written back. It does not wait for the write-back: that thread may have
    /// exited, or be the one that this handler has interrupted.
    fn load(&self, id: u64, fill: impl Fn(&T)) -> Option<MemberInUse<'_, T, W, LINKS>> {
        loop {
            let name = self.names.get(&id)?;
            match self.get(id) {
                Ok(found) => return Some(found),
                Err(Gone::BeingWrittenBack) => return None,
                Err(Gone::Unloaded) => {}
            }
            let new = self.cache.load().ok()?;
            fill(&new);
            let renamed = Some(new.loaded().to_words());
            if self.names.compare_exchange(id, Some(name), renamed).is_ok() {
                return Some(new);
            }
            // Another thread has loaded it meanwhile.
            _ = new.unload();
        }
    }
}

/// The kernel.
pub struct Kernel {
    pub world: Arc<World>,
    pub spaces: Loads<Space, Spaces, 0>,
    pub guests: Arc<Loads<Guest, Guests, 2>>,
    /// The guests of each worker to which signals were sent.
    pub inboxes: Box<[Queue<u64>]>,
    /// Of each guest, see [`crew`](crate::crew).
    pub states: Box<[AtomicU64]>,
}

impl Kernel {
    pub fn new(plan: Plan) -> Result<Kernel, Error> {
        let world = Arc::new(World::new(plan)?);
        let plan = &world.plan;
        let lists = [plan.frames(), plan.spaces].map(|count| count as usize);
        let owner = Guests(world.clone());
        let guests = Loads::new(plan.guests, plan.loaded(plan.guests), lists, owner)?;
        let guests = Arc::new(guests);
        let owner = Spaces {
            world: world.clone(),
            guests: guests.clone(),
        };
        Ok(Kernel {
            spaces: Loads::new(plan.spaces, plan.loaded(plan.spaces), [], owner)?,
            guests,
            inboxes: (0..plan.threads)
                .map(|_| Queue::with_capacity(64))
                .collect(),
            states: (0..plan.guests).map(|_| AtomicU64::new(0)).collect(),
            world,
        })
    }

    /// Returns a use of a space: see [`Loads::load`].
    pub fn space(&self, id: u64) -> Option<SpaceInUse<'_>> {
        self.spaces.load(id, |space| {
            space.id.store(id, SeqCst);
            space.dirty.store(0, SeqCst);
            let touches = self.world.home.touches[id as usize].load(SeqCst);
            space.touches.store(touches, SeqCst);
        })
    }

    /// Returns a use of a guest: see [`Loads::load`].
    pub fn guest(&self, id: u64) -> Option<GuestInUse<'_>> {
        self.guests.load(id, |guest| {
            let home = &self.world.home;
            guest.id.store(id, SeqCst);
            guest.dirty.store(0, SeqCst);
            guest.page.store(0, SeqCst);
            guest
                .runs
                .store(home.runs[id as usize].load(SeqCst), SeqCst);
            guest
                .received
                .store(home.received[id as usize].load(SeqCst), SeqCst);
        })
    }

    /// Registers a guest, which the caller has in use with its space, for signals on a page, unless
    /// it is registered.
    pub fn register(&self, space: u64, id: u64, guest: &GuestInUse<'_>) {
        let (world, lists) = (&*self.world, &self.guests.cache);
        let page = world.home.signals[id as usize].load(SeqCst) - 1;
        guest.dirty.store(1, SeqCst);
        guest.page.store(page + 1, SeqCst);
        lists.list(OF_SPACE, space as usize).push_front(guest);
        let frame = world.frame(space, page) as usize;
        lists.list(OF_FRAME, frame).push_front(guest);
    }
}
