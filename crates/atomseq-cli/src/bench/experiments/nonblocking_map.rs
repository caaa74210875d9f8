//! `nonblocking-map`: a hash map that all threads share; and `map-footprint`: the memory of a
//! million entries.

use std::collections::HashMap as Std;

use atomseq::nonblocking::HashMap;
use dashmap::DashMap;
use papaya::HashMap as Papaya;

use super::{Experiment, Method, Threads, cases};
use crate::bench::peers::mutexed::Mutexed;
use crate::bench::workloads::mapping::{Growing, churn, get90};
use crate::bench::workloads::ordered::Ordered;

type Locked = Mutexed<Std<u64, u64>>;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "nonblocking-map",
    about: "a hash map of 8,192 keys a thread; get90: 18 lookups, a removal and an insertion; churn: a removal and an insertion; grow: an insertion into a map that grows to 32,768 keys",
    cases: cases! {
        "get90:atomseq", "nonblocking::HashMap",
            |threads| get90(threads, HashMap::<u64, u64>::new());
        "get90:papaya", "papaya::HashMap, which retires its entries by seize",
            |threads| get90(threads, Papaya::<u64, u64>::new());
        "get90:dashmap", "dashmap::DashMap, shards behind locks",
            |threads| get90(threads, DashMap::<u64, u64>::new());
        "get90:mutex", "std::sync::Mutex<HashMap>",
            |threads| get90(threads, Locked::default());
        "churn:atomseq", "nonblocking::HashMap",
            |threads| churn(threads, HashMap::<u64, u64>::new());
        "churn:papaya", "papaya::HashMap, which retires its entries by seize",
            |threads| churn(threads, Papaya::<u64, u64>::new());
        "churn:dashmap", "dashmap::DashMap, shards behind locks",
            |threads| churn(threads, DashMap::<u64, u64>::new());
        "churn:mutex", "std::sync::Mutex<HashMap>",
            |threads| churn(threads, Locked::default());
        "grow:atomseq", "nonblocking::HashMap",
            |threads| Growing::boxed(threads, HashMap::<u64, u64>::new);
        "grow:papaya", "papaya::HashMap, which retires its entries by seize",
            |threads| Growing::boxed(threads, Papaya::<u64, u64>::new);
        "grow:dashmap", "dashmap::DashMap, shards behind locks",
            |threads| Growing::boxed(threads, DashMap::<u64, u64>::new);
        "grow:mutex", "std::sync::Mutex<HashMap>",
            |threads| Growing::boxed(threads, Locked::default);
    },
    peers: &["papaya", "dashmap", "mutex"],
    method: Method::Timed,
    threads: Threads::Spread,
    beside: None,
};

impl Ordered for HashMap<u64, u64> {
    #[inline(always)]
    fn insert(&self, key: u64, value: u64) -> bool {
        Self::insert(self, key, value).is_ok()
    }

    #[inline(always)]
    fn remove(&self, key: u64) -> Option<u64> {
        Self::remove(self, &key)
    }

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        Self::get(self, &key)
    }
}

impl Ordered for Papaya<u64, u64> {
    #[inline(always)]
    fn insert(&self, key: u64, value: u64) -> bool {
        self.pin().insert(key, value);
        true
    }

    #[inline(always)]
    fn remove(&self, key: u64) -> Option<u64> {
        self.pin().remove(&key).copied()
    }

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.pin().get(&key).copied()
    }
}

impl Ordered for DashMap<u64, u64> {
    #[inline(always)]
    fn insert(&self, key: u64, value: u64) -> bool {
        Self::insert(self, key, value);
        true
    }

    #[inline(always)]
    fn remove(&self, key: u64) -> Option<u64> {
        Self::remove(self, &key).map(|(_, value)| value)
    }

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        Self::get(self, &key).map(|value| *value)
    }
}

#[cfg(target_os = "linux")]
pub use footprint::FOOTPRINT;

#[cfg(target_os = "linux")]
mod footprint {
    use super::*;
    use crate::bench::engine::Effort;
    use crate::bench::fault::{Fault, Results};
    use crate::bench::record::Series;
    use crate::error::Error;

    /// The experiment.
    pub const FOOTPRINT: Experiment = Experiment {
        name: "map-footprint",
        about: "resident memory of a map of a million entries of 16 bytes: filled, and after every other entry was removed (always one thread)",
        cases: cases! {
            "filled:atomseq", "nonblocking::HashMap";
            "filled:papaya", "papaya::HashMap";
            "filled:dashmap", "dashmap::DashMap";
            "filled:mutex", "std's HashMap";
            "halved:atomseq", "nonblocking::HashMap";
            "halved:papaya", "papaya::HashMap";
            "halved:dashmap", "dashmap::DashMap";
            "halved:mutex", "std's HashMap";
        },
        peers: &["papaya", "dashmap", "mutex"],
        method: Method::Own { threads: 1, run },
        threads: Threads::Alone,
        beside: None,
    };

    const ENTRIES: u64 = 1_000_000;

    /// Resident bytes of a full map and of a half empty one, or how many entries it lost.
    type Measure = fn() -> Result<[f64; 2], u64>;

    const WAYS: [(&str, &str, Measure); 4] = [
        ("filled:atomseq", "halved:atomseq", || {
            measure(HashMap::<u64, u64>::new)
        }),
        ("filled:papaya", "halved:papaya", || {
            measure(Papaya::<u64, u64>::new)
        }),
        ("filled:dashmap", "halved:dashmap", || {
            measure(DashMap::<u64, u64>::new)
        }),
        ("filled:mutex", "halved:mutex", || measure(Locked::default)),
    ];

    fn run(effort: Effort, advance: &dyn Fn(f64)) -> Result<Results, Error> {
        let mut values = WAYS.map(|_| [const { Vec::new() }; 2]);
        let mut faults = WAYS.map(|_| None);
        for crowd in 0..effort.crowds {
            for (index, (_, _, measure)) in WAYS.iter().enumerate() {
                match measure() {
                    Ok(bytes) => {
                        for (series, bytes) in values[index].iter_mut().zip(bytes) {
                            series.push(bytes);
                        }
                    }
                    Err(there) => {
                        let sentence = format!("{there} of {ENTRIES} entries were there");
                        faults[index] = Some(Fault::count(ENTRIES, [there], sentence));
                    }
                }
            }
            advance(f64::from(crowd + 1) / f64::from(effort.crowds));
        }
        let mut measured = Results::default();
        for ((way, values), fault) in WAYS.iter().zip(values).zip(faults) {
            for (case, values) in [way.0, way.1].into_iter().zip(values) {
                let unit = "bytes";
                measured.add(Series { case, unit, values }, fault.clone());
            }
        }
        Ok(measured)
    }

    fn measure<M: Ordered>(make: impl Fn() -> M) -> Result<[f64; 2], u64> {
        let before = resident();
        let map = make();
        // Spread over all values, so that no hasher has it easier.
        let keys = || (0..ENTRIES).map(|index| index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for key in keys() {
            map.insert(key, key);
        }
        let filled = resident();
        let there = keys().filter(|key| map.get(*key) == Some(*key)).count() as u64;
        if there != ENTRIES {
            return Err(there);
        }
        for key in keys().step_by(2) {
            map.remove(key);
        }
        let halved = resident();
        Ok([filled, halved].map(|after| after.saturating_sub(before) as f64))
    }

    /// Returns the resident bytes of this process, after the allocator has given back what it can.
    fn resident() -> u64 {
        #[cfg(target_env = "gnu")]
        // SAFETY: it may be called at any time.
        unsafe {
            libc::malloc_trim(0);
        }
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = statm
            .split(' ')
            .nth(1)
            .and_then(|pages| pages.parse::<u64>().ok());
        // SAFETY: it only returns a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        pages.unwrap_or(0) * page as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::all_is_accounted_for;
    use super::*;

    #[test]
    fn every_map_keeps_every_key() {
        all_is_accounted_for(&EXPERIMENT, |_| true);
    }
}
