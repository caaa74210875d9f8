//! Panics that are documented name the line of the caller, not one of this library.

use std::fs;
use std::panic::{self, AssertUnwindSafe, Location};
use std::path::Path;
use std::sync::{Arc, Mutex};

use atomseq::dcas::{Adjacent, Cell, Change, Domain, Packed};
use atomseq::mutex::Semaphore;
use atomseq::nonblocking::{self, HashMap, LinkedQueue, LinkedStack, List, MultiMap};
use atomseq::nonblocking::{ListCache, Member};
use atomseq::nonblocking::{OneVisitorList, PriorityQueue, RefHashMap, RefList, spsc};
use atomseq::percpu::{Area, Histogram, Pool, Queue, Ring, Stack};
use atomseq::type_stable::descriptor;

descriptor! {
    struct Empty {}
}

/// Returns the file and line of each panic of `fails`.
fn lines_of(fails: &[&dyn Fn()]) -> Vec<(String, u32)> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let noted = lines.clone();
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        let at = panicked.location().unwrap();
        noted
            .lock()
            .unwrap()
            .push((at.file().to_owned(), at.line()));
    }));
    for (number, fails) in fails.iter().enumerate() {
        let result = panic::catch_unwind(AssertUnwindSafe(fails));
        if result.is_ok() {
            lines
                .lock()
                .unwrap()
                .push((format!("call {number} did not panic"), 0));
        }
    }
    panic::set_hook(before);
    std::mem::take(&mut *lines.lock().unwrap())
}

#[test]
fn documented_panics_name_the_callers_line() {
    const NONE: usize = usize::MAX;
    let area = Area::try_new(0).unwrap();
    let (stack, ring) = (
        Stack::<usize>::with_capacity_per_cpu(4),
        Ring::<usize>::with_capacity_per_cpu(4),
    );
    let (queue, pool) = (
        Queue::<usize>::new(),
        Pool::with_capacity_per_cpu(4, || 1usize),
    );
    let histogram = Histogram::powers_of_two();
    let domain = Domain::new([Cell::new(1), Cell::new(2)]);
    let (adjacent, packed) = (Adjacent::new(1, 2), Packed::<32>::new(1, 2));
    let (other, list, another) = (Cell::new(1), RefList::new(), RefList::new());
    list.push_front(1).unwrap();
    let (timers, more_timers) = (PriorityQueue::new(), PriorityQueue::<u64, ()>::new());
    let timer = timers.insert(1_u64, ()).unwrap();
    // A value that cannot have one more guard.
    let lent = RefHashMap::new();
    lent.insert(1, ()).unwrap();
    let lease = lent.get(&1).unwrap();
    (0..(1 << 20) - 3).for_each(|_| std::mem::forget(lease.clone()));
    // A descriptor that cannot have one more use.
    let cache = ListCache::try_new(1, [1], |_: &Member<Empty, 1>| ()).unwrap();
    let used = cache.load().unwrap();
    let (name, members) = (used.loaded(), cache.list(0, 0));
    members.push_front(&used);
    (1..(1 << 15) - 1).for_each(|_| std::mem::forget(name.get()));
    let (large, pairs) = (u64::MAX, || (0..10_000u64).zip(0u64..));
    let one = || Change::of(&domain[0], 1, 1);
    let first = Location::caller().line() + 2;
    let fails: &[&dyn Fn()] = &[
        &|| _ = area.bulk(NONE),
        &|| _ = area.peek(NONE, Area::FIRST_WORD),
        &|| _ = area.peek(0, 0),
        &|| _ = area.peek(0, Area::FIRST_WORD + 4),
        &|| _ = area.peek(0, Area::BULK),
        &|| _ = area.close_gate(NONE),
        &|| _ = stack.len_on(NONE),
        &|| _ = stack.steal_from(NONE),
        &|| _ = ring.len_on(NONE),
        &|| _ = ring.steal_from(NONE),
        &|| _ = queue.is_empty_on(NONE),
        &|| _ = queue.steal_from(NONE),
        &|| _ = pool.steal_from(NONE),
        &|| _ = histogram.snapshot_on(NONE),
        &|| histogram.record_in(NONE, 0),
        &|| _ = Histogram::with_bounds(&[]),
        &|| _ = Histogram::log_linear(13, 1),
        &|| _ = Stack::<usize>::with_capacity_per_cpu(0),
        &|| _ = Ring::<usize>::with_capacity_per_cpu(0),
        &|| _ = Pool::with_capacity_per_cpu(0, || 1usize),
        &|| _ = domain.load(&other),
        &|| _ = domain.snapshot([&other]),
        &|| _ = domain.load_all([&other]),
        &|| _ = domain.compare_exchange_pair(one(), one()),
        &|| _ = domain.compare_exchange(Change::of(&other, 1, 2)),
        &|| _ = domain.compare_exchange_all(&[Change::of(&other, 1, 2)]),
        &|| _ = domain.store_pair_if(domain.version(), (&other, 1), (&domain[0], 1)),
        &|| _ = domain.fetch_update(&other, |_| None),
        &|| _ = Cell::new(large),
        &|| _ = Adjacent::new(large, 0),
        &|| _ = adjacent.compare_exchange((1, 2), (large, 0)),
        &|| _ = adjacent.fetch_update(|_| Some((large, 0))),
        &|| _ = Packed::<32>::new(large, 0),
        &|| _ = packed.compare_exchange((1, 2), (large, 0)),
        &|| _ = packed.fetch_update(|_| Some((large, 0))),
        &|| _ = Semaphore::new(Semaphore::MAX + 1),
        &|| _ = nonblocking::Stack::<usize>::with_capacity(0),
        &|| _ = nonblocking::Queue::<usize>::with_capacity(0),
        &|| _ = spsc::Ring::<usize>::with_capacity(0),
        &|| LinkedStack::try_with_limit(1).unwrap().extend(0..10_000),
        &|| LinkedQueue::try_with_limit(1).unwrap().extend(0..10_000),
        &|| List::try_with_limit(1).unwrap().extend(pairs()),
        &|| RefList::try_with_limit(1).unwrap().extend(0..10_000),
        &|| OneVisitorList::try_with_limit(1).unwrap().extend(0..10_000),
        &|| PriorityQueue::try_with_limit(1).unwrap().extend(pairs()),
        &|| _ = HashMap::<u64, u64>::with_capacity(NONE),
        &|| _ = MultiMap::<u64, u64>::with_buckets(0),
        &|| _ = another.remove(&list.front().unwrap()),
        &|| _ = more_timers.priority(timer),
        &|| _ = more_timers.remove(timer),
        &|| _ = more_timers.change_priority(timer, 2),
        &|| _ = lent.get(&1),
        &|| _ = lease.clone(),
        &|| _ = name.get(),
        &|| _ = members.pop_front(),
        &|| _ = members.find(|_| true),
    ];
    let expected: Vec<_> = (first..)
        .take(fails.len())
        .map(|line| (file!().to_owned(), line))
        .collect();
    assert_eq!(lines_of(fails), expected);
}

/// What has a section `# Panics` and no `#[track_caller]`.
const EXCEPTIONS: &[(&str, &str)] = &[
    // One more argument would change the reviewed machine code of their fast paths.
    ("percpu/histogram.rs", "record"),
    ("percpu/histogram.rs", "record_duration"),
    // The panic is that of another function, or comes from a closure.
    ("coroutine/channel.rs", "iter"),
    ("coroutine/generator.rs", "next"),
    ("atomseq-papers/src/lib.rs", "paper"),
    ("runtime/mod.rs", "start"),
    ("runtime/mod.rs", "new"),
    // Not public: their callers check.
    ("dcas/bare.rs", "exchange"),
    ("dcas/versioned_words.rs", "store_cell_if_by_kcas"),
];

/// Calls `visit` with each source file below a directory, apart from tests.
fn each_source(directory: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.file_stem().unwrap() == "tests" {
            continue;
        }
        match path.is_dir() {
            true => each_source(&path, visit),
            false if path.extension().is_some_and(|of| of == "rs") => visit(&path),
            false => {}
        }
    }
}

/// Returns the name and the attributes of each function that others can call, and that says when it
/// panics.
fn panicking(source: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let is_open = |text: &str| text.matches('[').count() > text.matches(']').count();
    let (mut panics, mut attributes) = (false, String::new());
    for line in source.lines().map(str::trim) {
        match line {
            _ if line.starts_with("///") => panics |= line == "/// # Panics",
            _ if line.starts_with("#[") || is_open(&attributes) => attributes += line,
            _ if line.starts_with("//") => {}
            _ => {
                let name = line.split_once("fn ").map(|(_, name)| name);
                let is_callable = line.starts_with("pub ") || line.starts_with("fn ");
                if let (true, true, Some(name)) = (panics, is_callable, name) {
                    let end = name.find(['(', '<']).unwrap_or(name.len());
                    found.push((name[..end].to_owned(), std::mem::take(&mut attributes)));
                }
                (panics, attributes) = (false, String::new());
            }
        }
    }
    found
}

#[test]
fn each_documented_panic_is_the_callers() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut count, mut excepted, mut missing) = (0, 0, Vec::new());
    let mut check = |path: &Path| {
        for (name, attributes) in panicking(&fs::read_to_string(path).unwrap()) {
            count += 1;
            let is_exception =
                |(file, of): &(&str, &str)| path.ends_with(file) && *of == name.as_str();
            match attributes.contains("#[track_caller]") {
                true => {}
                false if EXCEPTIONS.iter().any(is_exception) => excepted += 1,
                false => missing.push(format!("{}: {name}", path.display())),
            }
        }
    };
    // With the other crates of the workspace, unless this one is alone.
    let is_alone = !own.join("../atomseq-threads").is_dir();
    match is_alone {
        true => each_source(&own.join("src"), &mut check),
        false => each_source(own.parent().unwrap(), &mut check),
    }
    assert!(missing.is_empty(), "{missing:#?}");
    // Each exception is one, and the sections are found at all.
    let known = EXCEPTIONS.len();
    assert!(excepted == known || is_alone, "{excepted} of {known}");
    assert!(count > 80, "{count}");
    // The control.
    let source =
        "/// Does it.\n///\n/// # Panics\n///\n/// Always.\n#[inline]\npub const fn f(a: u8) {";
    assert_eq!(
        panicking(source),
        [("f".to_owned(), "#[inline]".to_owned())]
    );
}
