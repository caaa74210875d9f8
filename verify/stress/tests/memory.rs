//! Type-stable memory under signals, moves and trims: a descriptor has one owner at a time, a
//! validated read is one of the allocation that was meant, and memory does not grow.
#![cfg(target_os = "linux")]

use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::thread;
use std::time::{Duration, Instant};

use atomseq::type_stable::{Allocated, Cache, Pool, Reference, descriptor};
use atomseq_stress::system;
use verify_stress::Victim;
use verify_stress::lengthened;
use verify_support::signals::install_short;

const WORKERS: usize = 4;
/// The max number of descriptors that a worker keeps.
const KEPT: usize = 300;

descriptor! {
    struct Marked {
        /// The owner; 0 if there is none.
        owner: AtomicU64,
        /// A number of this allocation only.
        mark: AtomicU64,
        /// The same while the allocation lives; 0 before and after.
        again: AtomicU64,
    }
}

struct Stage {
    pool: Pool<Marked>,
    cache: Cache<AtomicU64, fn(&AtomicU64)>,
    marks: AtomicU64,
    signals: AtomicU64,
    /// Descriptors that had another owner when they were allocated or freed.
    shared: AtomicUsize,
    /// Cache entries that were written back without a value, or changed while in use.
    lost: AtomicUsize,
    loaded: AtomicU64,
    written_back: AtomicU64,
}

fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| Stage {
        // So few on a CPU that most operations go to the pages; so short a time that pages are
        // returned while readers read them.
        pool: Pool::options()
            .cached(4)
            .stable_for(Duration::from_millis(1))
            .try_build()
            .expect("a pool"),
        cache: Cache::try_new(40, written_back as fn(&AtomicU64)).expect("a cache"),
        marks: AtomicU64::new(1),
        signals: AtomicU64::new(0),
        shared: AtomicUsize::new(0),
        lost: AtomicUsize::new(0),
        loaded: AtomicU64::new(0),
        written_back: AtomicU64::new(0),
    })
}

fn written_back(victim: &AtomicU64) {
    stage().written_back.fetch_add(1, Relaxed);
    let value = victim.swap(0, Relaxed);
    stage().lost.fetch_add(usize::from(value == 0), Relaxed);
}

/// Allocates a descriptor, and marks it.
fn take(owner: u64) -> (Allocated<'static, Marked>, u64) {
    let stage = stage();
    let marked = stage.pool.allocate().expect("there is no limit");
    let before = marked.owner.swap(owner, Relaxed);
    stage.shared.fetch_add(usize::from(before != 0), Relaxed);
    let mark = stage.marks.fetch_add(1, Relaxed);
    marked.mark.store(mark, Relaxed);
    // Release: pairs with the Acquire in `marks`.
    marked.again.store(mark, Release);
    (marked, mark)
}

/// Frees a descriptor, after a check that it was not changed.
fn give_back((marked, mark): (Allocated<'static, Marked>, u64), owner: u64) {
    let same = marked.mark.load(Relaxed) == mark && marked.again.swap(0, Relaxed) == mark;
    let shared = marked.owner.swap(0, Relaxed) != owner || !same;
    stage().shared.fetch_add(usize::from(shared), Relaxed);
    drop(marked);
}

/// Loads an entry of the cache and uses it.
fn use_cache(value: u64) {
    let stage = stage();
    // All may be in use by interrupted threads.
    let Ok(place) = stage.cache.load() else {
        return;
    };
    stage.loaded.fetch_add(1, Relaxed);
    place.store(value, Relaxed);
    let loaded = place.loaded();
    drop(place);
    if let Ok(again) = loaded.get() {
        let changed = again.load(Relaxed) != value;
        stage.lost.fetch_add(usize::from(changed), Relaxed);
    }
}

/// Makes the same operations as the thread that it interrupts.
extern "C" fn handle(_signal: libc::c_int) {
    stage().signals.fetch_add(1, Relaxed);
    const HANDLER: u64 = 99;
    let three = [(); 3].map(|()| take(HANDLER));
    for marked in three {
        give_back(marked, HANDLER);
    }
    use_cache(HANDLER);
}

fn install() {
    stage();
    install_short(libc::SIGUSR1, handle, libc::SA_RESTART);
}

/// One allocation that other threads read while it is freed.
#[derive(Default)]
struct Shown {
    address: AtomicUsize,
    mark: AtomicU64,
}

fn work(number: usize, victim: &Victim, shown: &Shown, over: &AtomicBool) -> u64 {
    victim.volunteer();
    let owner = number as u64 + 1;
    let mut kept = Vec::with_capacity(KEPT);
    let mut operations = 0;
    while !over.load(Relaxed) {
        operations += 1;
        // Their number rises and falls, so that pages become free.
        let rising = operations / 4096 % 2 == 0;
        if kept.is_empty() || kept.len() < KEPT && fastrand::u8(..4) < if rising { 3 } else { 1 } {
            let taken = take(owner);
            shown.mark.store(taken.1, Relaxed);
            shown.address.store(taken.0.address(), Relaxed);
            kept.push(taken);
        } else {
            give_back(kept.swap_remove(fastrand::usize(..kept.len())), owner);
        }
        if operations % 8 == 0 {
            use_cache(owner);
        }
    }
    victim.resign();
    kept.into_iter().for_each(|taken| give_back(taken, owner));
    operations
}

/// What readers read: validated reads, those of another allocation among them, and how many would
/// have been of another one without validation.
#[derive(Default)]
struct Reads {
    valid: u64,
    wrong: u64,
    wrong_unless_validated: u64,
}

/// Reads what the workers show, while it is freed.
fn read(shown: &[Shown], over: &AtomicBool) -> Reads {
    let mut reads = Reads::default();
    while !over.load(Relaxed) {
        let shown = &shown[fastrand::usize(..shown.len())];
        let found = stage().pool.reference_at(shown.address.load(Relaxed));
        let Some(reference) = found else { continue };
        // The first read determines which allocation it is.
        let Some(mark) = marks(&reference) else {
            continue;
        };
        for _ in 0..200 {
            let Some(now) = marks(&reference) else {
                // It was freed. A reader that goes on without validation reads what the next owner
                // writes.
                let next = || reference.descriptor().mark.load(Relaxed) != mark;
                let found = (0..1000).any(|_| next());
                reads.wrong_unless_validated += u64::from(found);
                break;
            };
            reads.valid += 1;
            reads.wrong += u64::from(now != mark);
        }
    }
    reads
}

/// Returns the mark of an allocation while it lives.
fn marks(reference: &Reference<'_, Marked>) -> Option<u64> {
    let (again, mark) = reference.read(|marked| {
        // Acquire: pairs with the Release in `take`.
        let again = marked.again.load(Acquire);
        (again, marked.mark.load(Relaxed))
    })?;
    (again != 0).then_some(mark)
}

fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("/proc");
    let pages = text.split(' ').nth(1).expect("the second number");
    // SAFETY: a number only.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    page * pages.parse::<usize>().expect("a number")
}

#[test]
fn a_descriptor_has_one_owner_and_memory_is_bounded() {
    install();
    let stage = stage();
    let victims: [Victim; WORKERS] = Default::default();
    let shown: [Shown; WORKERS] = Default::default();
    let over = AtomicBool::new(false);
    let end = Instant::now() + lengthened(Duration::from_millis(1500));
    let (mut operations, mut moves, mut trimmed, mut sizes) = (0, 0, 0, Vec::new());
    let mut reads = Reads::default();
    thread::scope(|scope| {
        let (shown, over) = (&shown, &over);
        let working: Vec<_> = (victims.iter().zip(shown).enumerate())
            .map(|(number, (victim, shown))| scope.spawn(move || work(number, victim, shown, over)))
            .collect();
        let reading = scope.spawn(|| read(shown, over));
        let trimming = scope.spawn(|| {
            let mut bytes = 0;
            while !over.load(Relaxed) {
                bytes += stage.pool.trim();
                stage.pool.audit(Duration::from_secs(1000), |_| ());
                thread::sleep(Duration::from_millis(2));
            }
            bytes
        });
        let cpus = system::allowed_cpus();
        // So many of each, however long that takes.
        let enough = |moves: u64| {
            let signals = stage.signals.load(Relaxed);
            moves > 50 && signals > 50 && stage.loaded.load(Relaxed) > 1000
        };
        while Instant::now() < end || !enough(moves) {
            let victim = &victims[fastrand::usize(..WORKERS)];
            match fastrand::u8(..8) {
                0 => moves += u64::from(victim.move_to(&[cpus[fastrand::usize(..cpus.len())]])),
                1 => thread::sleep(Duration::from_micros(fastrand::u64(..300))),
                2 => sizes.push(resident()),
                _ => victim.interrupt(),
            }
        }
        victims.iter().for_each(|victim| _ = victim.move_to(&cpus));
        over.store(true, Relaxed);
        for worker in working {
            operations += worker.join().expect("a worker");
        }
        trimmed += trimming.join().expect("the trimmer");
        reads = reading.join().expect("the reader");
    });
    let signals = stage.signals.load(Relaxed);
    println!(
        "stress: memory: {operations} operations, {signals} signals, {moves} moves, {trimmed} bytes trimmed, {} reads; \
         without validation {} wrong",
        reads.valid, reads.wrong_unless_validated
    );
    assert!(operations > 1000 && reads.valid > 100);
    assert_eq!(stage.shared.load(Relaxed), 0, "two owners at once");
    assert_eq!(reads.wrong, 0, "a validated read was of another allocation");
    assert_ne!(reads.wrong_unless_validated, 0, "the readers saw no reuse");
    assert_eq!(
        stage.pool.allocated().count(),
        0,
        "freed, and still allocated"
    );
    if cfg!(atomseq_sections) {
        assert!(trimmed > 0, "no page was returned");
    }

    // In the second half it does not grow, except by what the measurement takes.
    let (early, late) = sizes.split_at(sizes.len() / 2);
    let growth = late
        .iter()
        .max()
        .unwrap()
        .saturating_sub(*early.iter().max().unwrap());
    assert!(
        growth < 1 << 20,
        "grew by {growth} bytes in the second half"
    );

    assert_eq!(
        stage.lost.load(Relaxed),
        0,
        "overwritten while in use, or written back twice"
    );
    stage.cache.write_back();
    let loaded = stage.loaded.load(Relaxed);
    assert_eq!(stage.written_back.load(Relaxed), loaded, "not written back");
    assert!(loaded > 1000);
}

/// The control: an owner that uses a descriptor after it was freed is detected.
#[test]
fn two_owners_are_detected() {
    static POOL: OnceLock<Pool<Marked>> = OnceLock::new();
    let pool = POOL.get_or_init(Pool::new);
    let first = pool.allocate().expect("a descriptor");
    let kept = first.reference();
    first.owner.store(1, Relaxed);
    drop(first);
    let mut second = None;
    // The system may have moved this thread to another CPU.
    for _ in 0..1000 {
        let next = pool.allocate().expect("a descriptor");
        if next.address() == kept.address() {
            second = Some(next.owner.swap(2, Relaxed));
            break;
        }
        next.into_raw();
    }
    assert_eq!(second, Some(1), "not detected");
}
