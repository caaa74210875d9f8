//! Every structure of the library, and what threads, handlers and children do with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use atomseq::percpu::{Counter, Histogram, Link, List, Node, Pool, Queue, Ring, Stack};

use crate::books::{Books, Tally, mark};
use crate::ledger::{Handlers, Ledger};

/// Values that own memory and count themselves.
pub struct Probe(pub u64);

static PROBES: AtomicU64 = AtomicU64::new(0);

impl Probe {
    fn new(value: u64) -> Probe {
        PROBES.fetch_add(1, Ordering::Relaxed);
        Probe(value)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        PROBES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A probe in a list.
pub struct Listed {
    link: Link,
    probe: Probe,
}

// SAFETY: the offset of the link.
unsafe impl Node for Listed {
    const LINK: usize = std::mem::offset_of!(Listed, link);
}

/// An object that one thread at a time has in its hands.
pub struct Tool {
    probe: Probe,
    in_use: AtomicBool,
}

type Tools = Pool<Box<Tool>, fn() -> Box<Tool>>;

/// A value of three words that fit together only if they were copied at one time.
type Whole = [u64; 3];

fn whole(value: u64) -> Whole {
    [value, mark(value), !value]
}

fn value_of(element: Whole) -> u64 {
    assert_eq!(element, whole(element[0]), "an element was torn");
    element[0]
}

/// One of each structure.
pub struct Structures {
    counter: Counter,
    histogram: Histogram,
    stack: Stack<Box<Probe>>,
    list: List<Box<Listed>>,
    queue: Queue<Arc<Probe>>,
    ring: Ring<Whole>,
    pool: Tools,
    /// Handlers and children use these: no memory comes or goes with their elements.
    plain_stack: Stack<u64>,
    plain_queue: Queue<u64>,
    plain_ring: Ring<u64>,
}

impl Structures {
    /// Empty ones, small enough to be full at times.
    pub fn new() -> Structures {
        fn make() -> Box<Tool> {
            Box::new(Tool {
                probe: Probe::new(0),
                in_use: AtomicBool::new(false),
            })
        }
        Structures {
            counter: Counter::new(),
            histogram: Histogram::powers_of_two(),
            stack: Stack::with_capacity_per_cpu(32),
            list: List::new(),
            queue: Queue::new(),
            ring: Ring::with_capacity_per_cpu(48),
            pool: Pool::with_capacity_per_cpu(16, make),
            plain_stack: Stack::with_capacity_per_cpu(32),
            plain_queue: Queue::new(),
            plain_ring: Ring::with_capacity_per_cpu(48),
        }
    }

    /// One operation of a thread, chosen at random.
    pub fn operate(&self, ledger: &mut Ledger, value: u64) {
        ledger.operations += 1;
        match fastrand::u8(..32) {
            0..4 => {
                self.counter.add(1);
                ledger.counter.gone_in.count += 1;
            }
            4..8 => {
                self.histogram.record(value);
                ledger.histogram.gone_in.count += 1;
            }
            8..10 => {
                if self.stack.push(Box::new(Probe::new(value))).is_ok() {
                    ledger.stack.gone_in.add(value);
                }
            }
            10..12 => take(&mut ledger.stack, self.stack.pop().map(|probe| probe.0)),
            12..14 => {
                let (link, probe) = (Link::new(), Probe::new(value));
                self.list.push(Box::new(Listed { link, probe }));
                ledger.list.gone_in.add(value);
            }
            14..16 => take(&mut ledger.list, self.list.pop().map(|node| node.probe.0)),
            16..18 => {
                let pushed = self.queue.push(Arc::new(Probe::new(value)));
                assert!(pushed.is_ok(), "no memory for a queue");
                ledger.queue.gone_in.add(value);
            }
            18..20 => take(&mut ledger.queue, self.queue.pop().map(|probe| probe.0)),
            20..22 => self.push_batch(&mut ledger.ring, value),
            22..24 => self.pop_batch(&mut ledger.ring),
            24..27 => self.use_tool(),
            27..31 => self.operate_plainly(&mut ledger.plain, value),
            31.. => self.operate_remotely(ledger),
        }
    }

    fn push_batch(&self, books: &mut Books, value: u64) {
        // Values are 16 apart.
        let batch: [Whole; 8] = std::array::from_fn(|index| whole(value + index as u64));
        let pushed = self.ring.push_batch(&batch);
        batch[..pushed]
            .iter()
            .for_each(|element| books.gone_in.add(element[0]));
    }

    fn pop_batch(&self, books: &mut Books) {
        let mut batch = [[0; 3]; 8];
        let popped = self.ring.pop_batch(&mut batch);
        batch[..popped]
            .iter()
            .for_each(|element| books.come_out.add(value_of(*element)));
    }

    fn use_tool(&self) {
        let tool = self.pool.get().expect("a source that always makes one");
        let before = tool.in_use.swap(true, Ordering::Relaxed);
        assert!(
            !before,
            "two threads have object {:p}, {}",
            tool, tool.probe.0
        );
        std::hint::spin_loop();
        tool.in_use.store(false, Ordering::Relaxed);
        self.pool.put(tool);
    }

    /// What takes no memory and gives none back.
    fn operate_plainly(&self, books: &mut Books, value: u64) {
        let push = |pushed: bool, books: &mut Books| {
            if pushed {
                books.gone_in.add(value);
            }
        };
        match value / 16 % 6 {
            0 => push(self.plain_stack.push(value).is_ok(), books),
            1 => take(books, self.plain_stack.pop()),
            2 => push(self.plain_ring.push(value).is_ok(), books),
            3 => take(books, self.plain_ring.pop()),
            4 => push(self.plain_queue.push(value).is_ok(), books),
            _ => take(books, self.plain_queue.pop()),
        }
    }

    /// What closes gates, and what moves base lines.
    fn operate_remotely(&self, ledger: &mut Ledger) {
        let cpu = fastrand::usize(..self.stack.cpus());
        match fastrand::u8(..16) {
            0 => ledger.counter.come_out.count += self.counter.take(),
            1 => ledger.histogram.come_out.count += self.histogram.take().total(),
            2 => take(
                &mut ledger.stack,
                self.stack.steal_from(cpu).map(|probe| probe.0),
            ),
            3 => take(&mut ledger.list, self.list.steal().map(|node| node.probe.0)),
            4 => take(
                &mut ledger.queue,
                self.queue.steal_from(cpu).map(|probe| probe.0),
            ),
            5 => take(&mut ledger.ring, self.ring.steal().map(value_of)),
            6 => take(&mut ledger.plain, self.plain_stack.steal()),
            7 => take(&mut ledger.plain, self.plain_ring.steal_from(cpu)),
            8 => drop(self.pool.steal()),
            9 => self.drain_into(ledger),
            // Mostly nothing: a drain takes as long as a thousand other operations.
            _ => {}
        }
    }

    /// What a handler does on the thread it interrupts.
    pub fn handle(&self, books: &Handlers, value: u64) {
        self.counter.add(1);
        self.histogram.record(value);
        books.counted.fetch_add(1, Ordering::Relaxed);
        books.plain.keep(|books| {
            self.operate_plainly(books, value);
            self.operate_plainly(books, value + 16);
        });
    }

    /// What a child does: everything that could find a gate closed, then takes out what it can. It
    /// has no other thread, and leaves without a word.
    #[cfg(atomseq_sections)]
    pub fn live_as_child(&self) -> bool {
        let mut books = Books::default();
        for round in 0..12 {
            self.operate_plainly(&mut books, round * 16);
        }
        self.counter.add(1);
        self.histogram.record(1);
        let drained = self.counter.take() + self.histogram.take().total();
        let left = self.plain_stack.drain().chain(self.plain_ring.drain());
        left.chain(self.plain_queue.drain()).for_each(drop);
        self.stack.drain().for_each(drop);
        self.list.drain().for_each(drop);
        self.queue.drain().for_each(drop);
        self.ring.drain().map(value_of).for_each(drop);
        self.use_tool();
        drained >= 2 && self.stack.is_empty() && self.ring.is_empty() && self.queue.is_empty()
    }

    /// Takes everything out.
    pub fn drain_into(&self, ledger: &mut Ledger) {
        let all = |books: &mut Tally, values: &mut dyn Iterator<Item = u64>| {
            values.for_each(|value| books.add(value));
        };
        all(
            &mut ledger.stack.come_out,
            &mut self.stack.drain().map(|probe| probe.0),
        );
        all(
            &mut ledger.list.come_out,
            &mut self.list.drain().map(|node| node.probe.0),
        );
        all(
            &mut ledger.queue.come_out,
            &mut self.queue.drain().map(|probe| probe.0),
        );
        all(
            &mut ledger.ring.come_out,
            &mut self.ring.drain().map(value_of),
        );
        let plain = self.plain_stack.drain().chain(self.plain_ring.drain());
        all(
            &mut ledger.plain.come_out,
            &mut plain.chain(self.plain_queue.drain()),
        );
        ledger.counter.come_out.count += self.counter.take();
        ledger.histogram.come_out.count += self.histogram.take().total();
    }

    /// No value is left over once the pool is empty too.
    ///
    /// # Panics
    ///
    /// If one is.
    pub fn end(&self) {
        self.pool.drain().for_each(drop);
        let left = PROBES.load(Ordering::Relaxed);
        assert_eq!(left, 0, "{left} values were never dropped");
    }
}

impl Default for Structures {
    fn default() -> Structures {
        Structures::new()
    }
}

fn take(books: &mut Books, taken: Option<u64>) {
    if let Some(value) = taken {
        books.come_out.add(value);
    }
}
