//! The ways to count. All read, cut and hash alike, and all intern a word when it is new to them;
//! they differ in where the counts are.

use std::sync::{Mutex, PoisonError};

use atomseq::percpu::Error;

use super::counts::Counts;
use super::text::{Arena, Map, Store, hash};
use super::work::Work;

/// What came of it.
pub struct Outcome<'a> {
    pub map: Map<'a>,
    /// How many words with their counts there were in all tables or maps together.
    pub entries: usize,
}

/// A way to count, with an arena a thread.
pub type Way = for<'a> fn(&Work<'_>, &'a mut [Arena]) -> Result<Outcome<'a>, Error>;

pub const PER_CPU: &str = "per-CPU tables";
pub const THREAD_LOCAL: &str = "thread-local maps, merged";
pub const LOCKED_SHARDS: &str = "64 locked maps";
pub const LOCKED: &str = "one locked map";

/// All but the check, [`alone`].
pub const WAYS: [(&str, Way); 4] = [
    (PER_CPU, per_cpu),
    (THREAD_LOCAL, thread_local),
    (LOCKED_SHARDS, locked_shards),
    (LOCKED, locked),
];

/// One thread and one map: what the others are checked against.
pub fn alone<'a>(work: &Work<'_>, arena: &'a mut Arena) -> Outcome<'a> {
    let (mut map, mut store) = (Map::default(), arena.store());
    work.alone(|word| add(&mut map, &mut store, word));
    let entries = map.len();
    Outcome { map, entries }
}

/// The per-CPU hash of counters.
fn per_cpu<'a>(work: &Work<'_>, arenas: &'a mut [Arena]) -> Result<Outcome<'a>, Error> {
    let mut counts = Counts::new()?;
    let counters = stores(arenas).map(|store| counts.counter(store));
    work.together(counters.collect(), |counter, word| counter.count(word));
    let (map, entries) = counts.merged();
    Ok(Outcome { map, entries })
}

/// A map a thread, merged by one thread at the end.
fn thread_local<'a>(work: &Work<'_>, arenas: &'a mut [Arena]) -> Result<Outcome<'a>, Error> {
    let states = stores(arenas).map(|store| (Map::default(), store));
    let states = work.together(states.collect(), |(map, store), word| add(map, store, word));
    let mut maps: Vec<Map> = states.into_iter().map(|(map, _)| map).collect();
    let entries = maps.iter().map(Map::len).sum();
    let mut all = maps.pop().unwrap_or_default();
    for (word, count) in maps.into_iter().flatten() {
        *all.entry(word).or_default() += count;
    }
    Ok(Outcome { map: all, entries })
}

/// One map behind one lock, taken for every word.
fn locked<'a>(work: &Work<'_>, arenas: &'a mut [Arena]) -> Result<Outcome<'a>, Error> {
    let map = Mutex::new(Map::default());
    work.together(stores(arenas).collect(), |store, word| {
        let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
        add(&mut map, store, word);
    });
    let map = map.into_inner().unwrap_or_else(PoisonError::into_inner);
    let entries = map.len();
    Ok(Outcome { map, entries })
}

/// Maps behind locks of their own, chosen by the word's hash.
fn locked_shards<'a>(work: &Work<'_>, arenas: &'a mut [Arena]) -> Result<Outcome<'a>, Error> {
    /// On cache lines of its own.
    #[derive(Default)]
    #[repr(align(128))]
    struct Shard<'a>(Mutex<Map<'a>>);
    let shards: [Shard; 64] = std::array::from_fn(|_| Shard::default());
    work.together(stores(arenas).collect(), |store, word| {
        // Bits that the maps themselves use little.
        let shard = &shards[(hash(word) >> 40) as usize % shards.len()];
        let mut map = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
        add(&mut map, store, word);
    });
    let maps = shards.map(|shard| shard.0.into_inner().unwrap_or_else(PoisonError::into_inner));
    let map: Map = maps.into_iter().flatten().collect();
    let entries = map.len();
    Ok(Outcome { map, entries })
}

fn stores(arenas: &mut [Arena]) -> impl Iterator<Item = Store<'_>> {
    arenas.iter_mut().map(Arena::store)
}

/// Counts a word once.
#[inline]
fn add<'a>(map: &mut Map<'a>, store: &mut Store<'a>, word: &[u8]) {
    match map.get_mut(word) {
        Some(count) => *count += 1,
        None => {
            map.insert(store.text(hash(word), word).bytes(), 1);
        }
    }
}
