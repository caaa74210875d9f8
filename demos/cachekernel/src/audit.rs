//! The audit: the fate of everything that was ever claimed.
//!
//! It runs while no thread is inside an operation: each is parked, or has exited and was joined. An
//! exited thread may have left half done only what it noted in its levels. Nothing else may be
//! wrong.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::sleep;
use std::time::Duration;

use atomseq::nonblocking::Member;
use atomseq::type_stable::{Audit, Descriptor, WriteBack};

use crate::crew::{Crew, LEAVE, PARK, Post, READY, activity};
use crate::kernel::{Kernel, Level, Loads, OF_FRAME, OF_SPACE, Record, Worker, World};

/// The time after which an audit recovers a descriptor that an earlier one found in use.
const TIME: Duration = Duration::from_millis(1);

/// The fate of the descriptors of one cache.
#[derive(Clone, Copy, Default)]
pub struct Fate {
    /// All that are not free.
    pub claimed: usize,
    /// Those that an id has loaded.
    pub loaded: usize,
    /// Of these, those that live threads have in use.
    pub held: usize,
    /// Those that were recovered from exited threads, so far.
    pub recovered: usize,
    /// Those whose load an exited thread did not publish. They are written back as clean ones.
    pub unpublished: usize,
    /// Those that are neither claimed nor free at the end.
    pub leaked: usize,
}

/// What the audits have found.
#[derive(Default)]
pub struct Findings {
    pub audits: u64,
    pub spaces: Fate,
    pub guests: Fate,
    /// Nodes of the dependency map, and records, mappings and registrations without the other half.
    pub nodes: usize,
    pub halves: usize,
    /// Guests that were in no queue.
    pub lost: usize,
    /// How many events may have been counted in a descriptor only, and how many threads exited.
    pending: u64,
    exited: u64,
    /// A sentence for each thing that no exited thread explains.
    pub faults: Vec<String>,
}

/// The notes of exited threads.
struct Notes(Vec<[u64; 6]>);

impl Notes {
    fn of(workers: &[&Worker]) -> Notes {
        let levels = workers.iter().flat_map(|worker| &worker.levels);
        Notes(
            levels
                .map(|level| words(level).map(|word| word.load(SeqCst)))
                .collect(),
        )
    }

    fn space(&self, id: u64) -> bool {
        self.0
            .iter()
            .any(|note| [note[0], note[2]].contains(&(id + 1)))
    }

    fn guest(&self, id: u64) -> bool {
        self.0
            .iter()
            .any(|note| [note[1], note[3]].contains(&(id + 1)))
    }

    fn sum(&self, word: usize) -> u64 {
        self.0.iter().map(|note| note[word]).sum()
    }
}

fn words(level: &Level) -> [&AtomicU64; 6] {
    let Level {
        space,
        guest,
        victim_space,
        victim_guest,
        counting,
        popping,
    } = level;
    [space, guest, victim_space, victim_guest, counting, popping]
}

/// Audits the three pools once. Recovers what an audit more than `time` ago found in use.
fn look(kernel: &Kernel, time: Duration) -> [Audit; 3] {
    // SAFETY: no live thread is inside an operation, and each has begun a new use of what it keeps
    // in use since the last call with as short a time. Exited threads do not continue. This thread
    // alone audits.
    unsafe {
        [
            kernel.spaces.cache.audit(time),
            kernel.guests.cache.audit(time),
            kernel.world.dependencies.audit(time),
        ]
    }
}

impl Findings {
    /// Audits everything, repairs what exited threads have left, and replaces them.
    pub fn audit(&mut self, crew: &mut Crew<'_>) {
        crew.enter(PARK);
        let mut looks = [look(crew.shared.kernel, TIME); 3];
        sleep(2 * TIME);
        // The live threads start new uses, which the next look finds.
        crew.enter(PARK);
        looks[1] = look(crew.shared.kernel, TIME);
        // A third one, to count what is allocated now. Its time is so long that it recovers
        // nothing: the live threads have not begun new uses since the second one.
        looks[2] = look(crew.shared.kernel, Duration::from_secs(86_400));
        let (kernel, posts) = (crew.shared.kernel, &crew.shared.posts);
        let world = &*kernel.world;
        let by_exit = |has_exited: bool| {
            let of = posts.iter().zip(&world.workers);
            of.filter(move |(post, _)| post.has_exited() == has_exited)
        };
        let exited = by_exit(true).map(|(_, worker)| worker).collect::<Vec<_>>();
        let live = by_exit(false).map(|(_, worker)| worker.held.load(SeqCst));
        let mut held = live.filter_map(|id| id.checked_sub(1)).collect::<Vec<_>>();
        held.sort_unstable();
        held.dedup();
        let notes = Notes::of(&exited);
        self.audits += 1;
        self.exited += exited.len() as u64;
        self.pending += notes.sum(4);
        let [spaces, guests, nodes] = [0, 1, 2].map(|pool| {
            let unclaimed = looks.iter().map(|look| look[pool].unclaimed);
            (unclaimed.sum::<usize>(), looks[2][pool].allocated)
        });
        self.spaces.add(spaces, &kernel.spaces, world.plan.spaces);
        self.guests.add(guests, &kernel.guests, world.plan.guests);
        self.nodes += nodes.0;
        // A thread keeps one space in use, works on a second, and may be replacing a third. It uses
        // one guest at each level.
        let recovered = [
            ("spaces", self.spaces.recovered, 3),
            ("guests", self.guests.recovered, 2),
            ("nodes of records", self.nodes, 2),
        ];
        for (name, recovered, per_thread) in recovered {
            if recovered > per_thread * self.exited as usize {
                let exited = self.exited;
                self.fault(format!(
                    "{recovered} {name} were recovered, of {exited} exited threads"
                ));
            }
        }
        for space in &held {
            if kernel.spaces.get(*space).is_err() {
                self.fault(format!("space {space} is in use, and not loaded"));
            }
        }
        self.spaces.held = held.len();
        for (name, fate) in [("spaces", self.spaces), ("guests", self.guests)] {
            if fate.claimed < fate.loaded || fate.unpublished > 2 * self.exited as usize {
                self.fault(format!(
                    "{} {name} are claimed, and {} loaded",
                    fate.claimed, fate.loaded
                ));
            }
        }
        self.check_records(kernel, &notes);
        self.check_guests(kernel, &notes);
        // The notes are dealt with.
        for worker in &exited {
            worker
                .levels
                .iter()
                .flat_map(words)
                .for_each(|word| word.store(0, SeqCst));
            worker.held.store(0, SeqCst);
        }
        posts
            .iter()
            .filter(|post| post.has_exited())
            .for_each(Post::vacate);
    }

    fn fault(&mut self, sentence: String) {
        if self.faults.len() < 20 {
            self.faults.push(sentence);
        }
    }

    /// Compares records with mappings, and the lists of frames with those of spaces, and removes
    /// each entry that lacks the other half.
    fn check_records(&mut self, kernel: &Kernel, notes: &Notes) {
        let world = &*kernel.world;
        let mut wrong = Vec::new();
        for (frame, record) in world.dependencies.snapshot() {
            let (space, page) = (u64::from(record.space), u64::from(record.page));
            let is_right = world.maps[space as usize].get(page) == Some(record.stamp);
            if !is_right || world.frame(space, page) != frame {
                world.dependencies.remove(&frame, &record);
                wrong.push((
                    notes.space(space),
                    format!("nothing corresponds to the record {record:?} of frame {frame}"),
                ));
            }
        }
        for space in 0..world.plan.spaces {
            for page in 0..world.plan.pages {
                let stamp = world.maps[space as usize].get(page).unwrap_or(0);
                let record = Record::mapping(space, page, stamp);
                if stamp != 0
                    && !world
                        .dependencies
                        .contains(&world.frame(space, page), &record)
                {
                    world.maps[space as usize].remove(page);
                    wrong.push((
                        notes.space(space),
                        format!("page {page} of space {space} is mapped without a record"),
                    ));
                }
            }
        }
        let cache = &kernel.guests.cache;
        let all = |link, count| {
            (0..count).flat_map(move |number| {
                let list = cache.list(link, number as usize);
                let ids = list.fold(Vec::new(), |mut ids, guest| {
                    ids.push(guest.id.load(SeqCst));
                    ids
                });
                ids.into_iter().map(move |id| (id, number))
            })
        };
        let of_frames = all(OF_FRAME, world.plan.frames()).collect::<Vec<_>>();
        let of_spaces = all(OF_SPACE, world.plan.spaces).collect::<Vec<_>>();
        for id in 0..world.plan.guests {
            let of = |lists: &[(u64, u64)]| {
                let numbers = lists.iter().filter(|(other, _)| *other == id);
                numbers.map(|(_, number)| *number).collect::<Vec<_>>()
            };
            let (frames, spaces) = (of(&of_frames), of(&of_spaces));
            if frames.is_empty() && spaces.is_empty() {
                continue;
            }
            let space = id % world.plan.spaces;
            // No list has a guest that is not loaded.
            let Ok(guest) = kernel.guests.get(id) else {
                self.fault(format!("guest {id} is on a list, and not loaded"));
                continue;
            };
            let page = guest.page.load(SeqCst);
            let is_right =
                page != 0 && frames == [world.frame(space, page - 1)] && spaces == [space];
            if !is_right {
                _ = [OF_FRAME, OF_SPACE].map(|link| cache.remove(link, &guest));
                wrong.push((
                    notes.guest(id) || notes.space(space),
                    format!(
                        "guest {id} is on the lists of frames {frames:?} and spaces {spaces:?}"
                    ),
                ));
            }
        }
        self.halves += wrong.len();
        wrong
            .into_iter()
            .filter(|(is_explained, _)| !is_explained)
            .for_each(|(_, sentence)| self.fault(sentence));
    }

    /// Empties the queues, checks that each guest is in one, and fills them again.
    fn check_guests(&mut self, kernel: &Kernel, notes: &Notes) {
        let world = &*kernel.world;
        let mut places = vec![0; world.plan.guests as usize];
        let mut queues = Vec::new();
        for worker in &world.workers {
            let ready = worker.ready.drain().collect::<Vec<_>>();
            let delayed = worker.delayed.drain().collect::<Vec<_>>();
            for (_, guest) in &ready {
                places[*guest as usize] += 1;
                if activity(kernel.states[*guest as usize].load(SeqCst)) != READY {
                    self.fault(format!("guest {guest} is in a ready queue, and not ready"));
                }
            }
            for (_, [guest, state]) in &delayed {
                places[*guest as usize] +=
                    usize::from(kernel.states[*guest as usize].load(SeqCst) == *state);
            }
            queues.push((ready, delayed));
        }
        let mut unnamed = 0;
        for (guest, count) in (0..).zip(&places) {
            let state = &kernel.states[guest as usize];
            match count {
                1 => {}
                0 => {
                    self.lost += 1;
                    unnamed += u64::from(!notes.guest(guest));
                    state.store((state.load(SeqCst) | 3) + 1 + READY, SeqCst);
                    let worker = guest as usize % queues.len();
                    queues[worker].0.push((0, guest));
                }
                _ => self.fault(format!("guest {guest} is in {count} queues")),
            }
        }
        // A thread that exits as it takes a guest out of a queue has not noted which.
        if unnamed > notes.sum(5) {
            self.fault(format!(
                "{unnamed} guests are in no queue, nor on an exited thread"
            ));
        }
        for (worker, (ready, delayed)) in world.workers.iter().zip(queues) {
            // The memory that they had before suffices.
            ready
                .into_iter()
                .for_each(|(time, guest)| _ = worker.ready.insert(time, guest));
            delayed
                .into_iter()
                .for_each(|(time, entry)| _ = worker.delayed.insert(time, entry));
        }
    }

    /// Ends the run: all threads exit, and everything is written back and compared with the
    /// threads' own counts.
    pub fn finish(&mut self, crew: &mut Crew<'_>) {
        crew.enter(LEAVE);
        self.audit(crew);
        let kernel = crew.shared.kernel;
        kernel.guests.cache.write_back();
        kernel.spaces.cache.write_back();
        let left = look(kernel, TIME).map(|audit| audit.allocated);
        for (name, left) in ["spaces", "guests", "records"].into_iter().zip(left) {
            if left > 0 {
                self.fault(format!(
                    "{left} {name} are left after everything was written back"
                ));
            }
        }
        let cache = &kernel.guests.cache;
        let lists = [
            (OF_FRAME, kernel.world.plan.frames()),
            (OF_SPACE, kernel.world.plan.spaces),
        ];
        let lists = lists.map(|(link, count)| (0..count).map(move |number| (link, number)));
        for (link, number) in lists.into_iter().flatten() {
            if !cache.list(link, number as usize).is_empty() {
                self.fault(format!(
                    "list {number} of link {link} has guests, and none is loaded"
                ));
            }
        }
        self.spaces.check_free(&kernel.spaces);
        self.guests.check_free(&kernel.guests);
        if self.spaces.leaked.max(self.guests.leaked) as u64 > self.exited {
            let (spaces, guests) = (self.spaces.leaked, self.guests.leaked);
            self.fault(format!(
                "{spaces} spaces and {guests} guests are neither claimed nor free"
            ));
        }
        self.check_totals(
            &kernel.world,
            kernel.inboxes.iter().map(|inbox| inbox.len() as u64).sum(),
        );
    }

    fn check_totals(&mut self, world: &World, in_inboxes: u64) {
        let sum = |words: &[AtomicU64]| words.iter().map(|word| word.load(SeqCst)).sum::<u64>();
        let counted = |word: fn(&Worker) -> &AtomicU64| {
            world
                .workers
                .iter()
                .map(|worker| word(worker).load(SeqCst))
                .sum::<u64>()
        };
        let home = &world.home;
        for (name, at_home, counted) in [
            (
                "touches",
                sum(&home.touches),
                counted(|worker| &worker.touches),
            ),
            ("runs", sum(&home.runs), counted(|worker| &worker.runs)),
            (
                "signals",
                sum(&home.received),
                counted(|worker| &worker.received),
            ),
        ] {
            if !(counted..=counted + self.pending).contains(&at_home) {
                let pending = self.pending;
                self.fault(format!(
                    "{counted} {name} were counted, and up to {pending} more half; {at_home} were written back"
                ));
            }
        }
        let sent = counted(|worker| &worker.sent);
        let seen =
            counted(|worker| &worker.received) + counted(|worker| &worker.dropped) + in_inboxes;
        if sent.abs_diff(seen) > 2 * self.exited {
            self.fault(format!(
                "{sent} signals were sent, and {seen} received, dropped or not yet taken"
            ));
        }
    }
}

impl Fate {
    fn add<T: Descriptor, W: WriteBack<Member<T, LINKS>>, const LINKS: usize>(
        &mut self,
        (recovered, claimed): (usize, usize),
        loads: &Loads<T, W, LINKS>,
        ids: u64,
    ) {
        self.recovered += recovered;
        self.claimed = claimed;
        self.loaded = (0..ids).filter(|id| loads.get(*id).is_ok()).count();
        self.unpublished = claimed.saturating_sub(self.loaded);
    }

    /// Counts the descriptors that cannot be claimed although none is: an exited thread was moving
    /// them to or from the pool's pages.
    fn check_free<T: Descriptor, W: WriteBack<Member<T, LINKS>>, const LINKS: usize>(
        &mut self,
        loads: &Loads<T, W, LINKS>,
    ) {
        let mut uses = Vec::new();
        while let Ok(new) = loads.cache.load() {
            uses.push(new);
        }
        self.leaked = loads.cache.limit() - uses.len();
    }
}
