//! Every operation of every structure on several threads, none of which may allocate.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use atomseq::percpu::{
    Batch, Counter, Histogram, Link, List, Node, Pool, Queue, RawNode, Ring, Source, Stack,
};
use atomseq::type_stable;

use super::watch::watched;

#[derive(Default)]
struct Item {
    link: Link,
}

// SAFETY: the offset of the link.
unsafe impl Node for Item {
    const LINK: usize = std::mem::offset_of!(Item, link);
}

/// An inexhaustible source of numbers.
struct Numbers;

impl Source<usize> for Numbers {
    fn refill(&self, batch: &mut Batch<usize>) {
        while batch.push(7).is_ok() {}
    }

    fn spill(&self, batch: &mut Batch<usize>) {
        batch.for_each(drop);
    }
}

struct Structures {
    counter: Counter,
    powers: Histogram,
    bounds: Histogram,
    stack: Stack<usize>,
    list: List<RawNode<Item>>,
    queue: Queue<usize>,
    ring: Ring<[u8; 24]>,
    pool: Pool<usize, Numbers>,
    descriptors: type_stable::Pool<AtomicUsize>,
    cache: type_stable::Cache<AtomicUsize, fn(&AtomicUsize)>,
}

fn write_back(victim: &AtomicUsize) {
    victim.store(0, Ordering::Relaxed);
}

impl Structures {
    fn new() -> Structures {
        watched(|| Structures {
            counter: Counter::new(),
            powers: Histogram::powers_of_two(),
            bounds: Histogram::with_bounds(&[1, 10, 100]),
            stack: Stack::with_capacity_per_cpu(50),
            list: List::new(),
            queue: Queue::new(),
            ring: Ring::with_capacity_per_cpu(20),
            pool: Pool::with_capacity_per_cpu(8, Numbers),
            descriptors: type_stable::Pool::options()
                .cached(8)
                .stable_for(Duration::ZERO)
                .try_build()
                .unwrap(),
            cache: type_stable::Cache::try_new(10, write_back as fn(&AtomicUsize)).unwrap(),
        })
    }

    /// Calls every operation, with items and memory that the caller allocated.
    fn use_all(&self, items: &mut [Item], room: &mut Vec<[u8; 24]>) {
        self.counter.add(3);
        self.counter.increment();
        std::hint::black_box((self.counter.sum(), self.counter.per_cpu().count()));
        self.counter.take();
        for value in [0, 5, 5000] {
            self.powers.record(value);
            self.bounds.record(value);
        }
        for histogram in [&self.powers, &self.bounds] {
            let snapshot = histogram.snapshot();
            std::hint::black_box((snapshot.quantile(0.5), snapshot.total()));
            std::hint::black_box(snapshot.buckets().count());
            histogram.take();
        }

        // More than the capacity, so that the structure becomes full and empty.
        for value in 0..60 {
            let _ = self.stack.push(value);
        }
        for cpu in 0..self.stack.cpus() {
            self.stack.steal_from(cpu);
        }
        std::hint::black_box((self.stack.steal(), self.stack.len()));
        for _ in 0..40 {
            self.stack.pop();
        }
        self.stack.drain().for_each(drop);

        for item in &mut *items {
            // SAFETY: the item is not used until all lists are empty again, below.
            self.list.push(unsafe { RawNode::new(item.into()) });
        }
        std::hint::black_box((self.list.pop().is_some(), self.list.steal().is_some()));

        // More than the first block of cells, so that the queue grows.
        for value in 0..3000 {
            let _ = self.queue.push(value);
        }
        std::hint::black_box((self.queue.pop(), self.queue.steal()));
        for cpu in 0..self.queue.cpus() {
            self.queue.steal_from(cpu);
        }
        self.queue.drain().for_each(drop);

        for _ in 0..25 {
            let _ = self.ring.push([1; 24]);
        }
        std::hint::black_box((self.ring.pop(), self.ring.steal(), self.ring.len()));
        self.ring.pop_batch(&mut [[0; 24]; 5]);
        self.ring.push_batch(&[[2; 24]; 30]);
        room.clear();
        self.ring.pop_into(room);
        self.ring.append(room);
        self.ring.drain().for_each(drop);

        let out: [Option<usize>; 40] = std::array::from_fn(|_| self.pool.get());
        out.into_iter()
            .flatten()
            .for_each(|object| self.pool.put(object));
        drop(self.pool.lease());
        std::hint::black_box((self.pool.cached(), self.pool.steal()));
        for cpu in 0..self.pool.cpus() {
            self.pool.steal_from(cpu);
        }
        self.pool.drain().for_each(drop);
        self.use_memory();
    }

    fn use_memory(&self) {
        // More than a chunk contains, so that another one is mapped.
        let mut allocated: [_; 1500] = std::array::from_fn(|_| self.descriptors.allocate().ok());
        std::hint::black_box(self.descriptors.allocated().count());
        self.descriptors.audit(Duration::from_secs(100), drop);
        let address = allocated[700].as_ref().map_or(0, |words| words.address());
        let reference = self.descriptors.reference_at(address);
        allocated.fill_with(|| None);
        assert!(reference.is_some_and(|reference| !reference.is_current()));
        std::hint::black_box(self.descriptors.trim());

        for _ in 0..30 {
            let loaded = self.cache.load().map(|place| place.loaded());
            std::hint::black_box(loaded.map(|loaded| loaded.get().is_ok())).ok();
        }
        std::hint::black_box(self.cache.write_back());
    }

    fn empty_lists(&self) {
        self.list.drain().for_each(drop);
    }
}

pub fn use_structures() {
    let structures = Structures::new();
    const THREADS: usize = 4;
    let (used, emptied) = (Barrier::new(THREADS), Barrier::new(THREADS));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut items: Vec<Item> = (0..10).map(|_| Item::default()).collect();
                let mut room = Vec::with_capacity(100);
                for _ in 0..20 {
                    // The first pass is also this thread's first use of atomseq.
                    watched(|| structures.use_all(&mut items, &mut room));
                    used.wait();
                    watched(|| structures.empty_lists());
                    emptied.wait();
                }
            });
        }
    });
    watched(|| drop((structures.powers, structures.bounds)));
    watched(|| drop(structures.stack));
    watched(|| drop(structures.queue));
    watched(|| drop(structures.pool));
    watched(|| drop(structures.descriptors));
    watched(|| drop(structures.cache));
}
