//! The targets `stack`, `queue` and `ring`: containers of values. Each value that is pushed is
//! popped, stolen or drained once, whole, and in the order that each CPU's part keeps.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use atomseq::AsWord;
use atomseq::percpu::{Queue, Ring, Stack};

use super::element::{Element, Odd, Owned, Wide};
use crate::engine::invariant::{Checked, Violation};
use crate::engine::lane::{Activity, Lane};
use crate::engine::ledger::{Ledger, Origin};
use crate::engine::{Interruptions, Round, STEPS, Setting, Target};

/// The order in which values leave a CPU's part of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Oldest first.
    Fifo,
    /// Newest first.
    Lifo,
}

/// A per-CPU structure that holds values.
pub trait Container<E>: Send + Sync {
    /// The order in which values leave a CPU's part.
    const ORDER: Order;
    /// Returns how many CPUs have a part.
    fn cpus(&self) -> usize;
    /// Pushes an element.
    fn push(&self, element: E) -> Result<(), E>;
    /// Pops an element.
    fn pop(&self) -> Option<E>;
    /// Steals an element from any CPU.
    fn steal(&self) -> Option<E>;
    /// Steals an element from this CPU's part.
    fn steal_from(&self, cpu: usize) -> Option<E>;
    /// Drains all elements.
    fn drain(&self) -> impl Iterator<Item = E>;

    /// Pushes elements from the first on; those that do not fit stay.
    fn push_many(&self, elements: &mut Vec<E>) {
        while let Some(element) = (!elements.is_empty()).then(|| elements.remove(0)) {
            if let Err(back) = self.push(element) {
                elements.insert(0, back);
                break;
            }
        }
    }

    /// Pops up to `count` elements.
    fn pop_many(&self, elements: &mut Vec<E>, count: usize) {
        elements.extend((0..count).map_while(|_| self.pop()));
    }
}

macro_rules! containers {
    ($($container:ident: $order:ident, [$($bound:tt)*] { $($other:item)* })*) => {$(
        impl<E: Element $($bound)*> Container<E> for $container<E> {
            const ORDER: Order = Order::$order;
            fn cpus(&self) -> usize {
                self.cpus()
            }
            fn push(&self, element: E) -> Result<(), E> {
                self.push(element)
            }
            fn pop(&self) -> Option<E> {
                self.pop()
            }
            fn steal(&self) -> Option<E> {
                self.steal()
            }
            fn steal_from(&self, cpu: usize) -> Option<E> {
                self.steal_from(cpu)
            }
            fn drain(&self) -> impl Iterator<Item = E> {
                self.drain()
            }
            $($other)*
        }
    )*};
}

containers! {
    Stack: Lifo, [+ AsWord] {}
    Queue: Fifo, [+ AsWord] {}
    Ring: Fifo, [] {
        fn push_many(&self, elements: &mut Vec<E>) {
            E::push_many(self, elements);
        }
        fn pop_many(&self, elements: &mut Vec<E>, count: usize) {
            E::pop_many(self, elements, count);
        }
    }
}

/// How often a round makes which operation, in thousandths.
#[derive(Clone, Copy, Debug)]
pub struct OperationMix {
    steals: u32,
    many: u32,
    drains: u32,
}

impl OperationMix {
    /// Returns a random mix: mostly few steals and drains, sometimes many.
    pub fn any(rng: &mut fastrand::Rng) -> OperationMix {
        let (steals, drains) = if rng.u32(..4) == 0 { (250, 8) } else { (20, 1) };
        OperationMix {
            steals,
            many: rng.u32(..150),
            drains,
        }
    }

    /// Many steals and drains.
    pub const STORM: OperationMix = OperationMix {
        steals: 400,
        many: 50,
        drains: 20,
    };

    /// No operation that holds more than one value outside the structure.
    pub const SINGLE: OperationMix = OperationMix {
        steals: 50,
        many: 0,
        drains: 0,
    };
}

/// A container and its ledger.
pub struct ContainerRound<C, E: Element> {
    /// `None` only at the end of the round.
    container: Option<C>,
    ledger: Arc<Ledger>,
    mix: OperationMix,
    /// Whether lanes check the order of what they steal.
    watch: bool,
    /// Whether values stay in the container at the end, to be dropped with it.
    leave: bool,
    elements: PhantomData<fn(E)>,
}

/// The max number of values that one call pushes or pops.
const MANY: usize = 40;

/// The max number of values that a drain takes out while it holds a gate once.
const DRAINED_AT_ONCE: u64 = 16;

impl<C: Container<E>, E: Element> ContainerRound<C, E> {
    /// Returns a round on this container, with its own ledger.
    pub fn new(container: C, setting: &mut Setting) -> ContainerRound<C, E> {
        let ledger = Arc::new(Ledger::new(setting.salt, setting.lanes, STEPS));
        let mix = OperationMix::any(&mut setting.rng);
        ContainerRound {
            watch: true,
            leave: !E::FOR_HANDLERS && setting.rng.bool(),
            ..ContainerRound::with(container, ledger, mix)
        }
    }

    /// Returns a round on this container, with the ledger of a larger round.
    pub fn with(container: C, ledger: Arc<Ledger>, mix: OperationMix) -> ContainerRound<C, E> {
        ContainerRound {
            container: Some(container),
            ledger,
            mix,
            watch: false,
            leave: false,
            elements: PhantomData,
        }
    }

    /// Returns the container.
    pub fn container(&self) -> &C {
        self.container
            .as_ref()
            .expect("the container lives until the round is finished")
    }

    /// Makes any operation.
    pub fn step(&self, lane: &mut Lane) -> Checked {
        let OperationMix {
            steals,
            many,
            drains,
        } = self.mix;
        let dice = lane.rng.u32(..1000);
        if dice < drains {
            self.drain(lane)
        } else if dice < drains + steals {
            self.steal(lane)
        } else if dice < drains + steals + many {
            if lane.rng.bool() {
                self.push_many(lane)
            } else {
                self.pop_many(lane)
            }
        } else if dice % 100 < 52 {
            self.push(lane)
        } else {
            self.pop(lane)
        }
    }

    /// Makes an operation that signal handlers may make.
    pub fn interrupt(&self, lane: &mut Lane) -> Checked {
        match E::FOR_HANDLERS {
            false => Ok(()),
            true if lane.rng.bool() => self.push(lane),
            true => self.pop(lane),
        }
    }

    fn push(&self, lane: &mut Lane) -> Checked {
        let Some(value) = self.ledger.issue(lane) else {
            return self.pop(lane);
        };
        lane.begin(Activity::Push);
        match self.container().push(E::wrap(value, &self.ledger)) {
            Ok(()) => Ok(()),
            Err(back) => self.refused_value(lane, back, value),
        }
    }

    fn refused_value(&self, lane: &mut Lane, back: E, value: u64) -> Checked {
        if back.value()? != value {
            let violation =
                Violation::new("a full structure returned another value than it was given");
            return Err(violation
                .with("given", value)
                .with("returned", back.value()?));
        }
        back.open(&self.ledger, lane).map(drop)
    }

    fn pop(&self, lane: &mut Lane) -> Checked {
        lane.begin(Activity::Pop);
        match self.container().pop() {
            Some(element) => element.open(&self.ledger, lane).map(drop),
            None => Ok(()),
        }
    }

    fn push_many(&self, lane: &mut Lane) -> Checked {
        let count = lane.rng.usize(1..=MANY);
        let values: Vec<u64> = (0..count).map_while(|_| self.ledger.issue(lane)).collect();
        let mut elements: Vec<E> = values
            .iter()
            .map(|value| E::wrap(*value, &self.ledger))
            .collect();
        lane.begin(Activity::PushMany);
        self.container().push_many(&mut elements);
        let refused = elements.len();
        for (element, value) in elements.into_iter().zip(&values[values.len() - refused..]) {
            self.refused_value(lane, element, *value)?;
        }
        Ok(())
    }

    fn pop_many(&self, lane: &mut Lane) -> Checked {
        let count = lane.rng.usize(1..=MANY);
        let mut elements = Vec::new();
        lane.begin(Activity::PopMany);
        self.container().pop_many(&mut elements, count);
        for element in elements {
            element.open(&self.ledger, lane)?;
        }
        Ok(())
    }

    fn steal(&self, lane: &mut Lane) -> Checked {
        lane.begin(Activity::Steal);
        let container = self.container();
        if lane.one_in(4) {
            let Some(element) = container.steal() else {
                return Ok(());
            };
            lane.closings += 1;
            return element.open(&self.ledger, lane).map(drop);
        }
        let cpu = lane.rng.usize(..container.cpus());
        let Some(element) = container.steal_from(cpu) else {
            return Ok(());
        };
        lane.closings += 1;
        let origin = element.open(&self.ledger, lane)?;
        self.in_order(lane, cpu, origin)
    }

    /// Checks that the values of one lane leave a CPU's queue in the order in which it pushed them.
    fn in_order(&self, lane: &mut Lane, cpu: usize, origin: Origin) -> Checked {
        if C::ORDER != Order::Fifo || !self.watch || lane.seen.is_empty() {
            return Ok(());
        }
        let lanes = lane.seen.len() / self.container().cpus();
        match lane.seen.get_mut(cpu * lanes + origin.lane) {
            Some(seen) if *seen > origin.number => Err(out_of_order(cpu, origin, *seen - 1)),
            Some(seen) => {
                *seen = origin.number + 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn drain(&self, lane: &mut Lane) -> Checked {
        lane.begin(Activity::Drain);
        let mut drained = 0;
        for element in self.container().drain() {
            element.open(&self.ledger, lane)?;
            drained += 1;
        }
        lane.closings += u64::div_ceil(drained, DRAINED_AT_ONCE);
        Ok(())
    }

    /// Takes out what is left, CPU by CPU, and checks its order.
    pub fn empty(&self, lane: &mut Lane) -> Checked {
        for cpu in 0..self.container().cpus() {
            let mut last: BTreeMap<usize, u32> = BTreeMap::new();
            while let Some(element) = self.container().steal_from(cpu) {
                let origin = element.open(&self.ledger, lane)?;
                if let Some(last) = last.insert(origin.lane, origin.number) {
                    let ordered = match C::ORDER {
                        Order::Fifo => last < origin.number,
                        Order::Lifo => last > origin.number,
                    };
                    if !ordered {
                        return Err(out_of_order(cpu, origin, last));
                    }
                }
            }
        }
        match self.container().pop().or_else(|| self.container().steal()) {
            None => Ok(()),
            Some(_) => Err(Violation::new("an empty structure returned a value")),
        }
    }
}

fn out_of_order(cpu: usize, origin: Origin, last: u32) -> Violation {
    Violation::new("values left a CPU's part out of order")
        .with("CPU", cpu as u64)
        .with("issued by lane", origin.lane as u64)
        .with("number", origin.number.into())
        .with("after number", last.into())
}

impl<C: Container<E>, E: Element> Round for ContainerRound<C, E> {
    fn step(&self, lane: &mut Lane) -> Checked {
        self.step(lane)
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        self.interrupt(lane)
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        if !self.leave {
            self.empty(&mut lanes[0])?;
        }
        // Dropping the container drops what is left in it, which records that it was taken out.
        drop(self.container.take());
        self.ledger.check_final()
    }
}

/// The target `stack`.
pub const STACK: Target = Target {
    name: "stack",
    group: "percpu",
    about: "each value is popped once, newest first on each CPU; boxes are dropped once",
    round: stack,
    steps: STEPS,
    interruptions: Interruptions::Sent,
    counts: "",
};

fn stack(setting: &mut Setting) -> Arc<dyn Round> {
    // From always full to never full.
    let capacity = 1 << setting.rng.u32(0..=10);
    let boxes = || Stack::<Box<Owned>>::with_capacity_per_cpu(capacity);
    match setting.rng.u32(..3) {
        0 => Arc::new(ContainerRound::new(boxes(), setting)),
        _ => Arc::new(ContainerRound::new(
            Stack::<u64>::with_capacity_per_cpu(capacity),
            setting,
        )),
    }
}

/// The target `queue`.
pub const QUEUE: Target = Target {
    name: "queue",
    group: "percpu",
    about: "each value is popped once, oldest first on each CPU; boxes are dropped once",
    round: queue,
    steps: STEPS,
    interruptions: Interruptions::Sent,
    counts: "",
};

fn queue(setting: &mut Setting) -> Arc<dyn Round> {
    match setting.rng.u32(..6) {
        0 => Arc::new(ContainerRound::new(Queue::<Box<Owned>>::new(), setting)),
        1 => Arc::new(ContainerRound::new(Queue::<Arc<Owned>>::new(), setting)),
        _ => Arc::new(ContainerRound::new(Queue::<u64>::new(), setting)),
    }
}

/// The target `ring`.
pub const RING: Target = Target {
    name: "ring",
    group: "percpu",
    about: "elements of several sizes: each is popped once, whole, oldest first on each CPU",
    round: ring,
    steps: STEPS,
    interruptions: Interruptions::Sent,
    counts: "",
};

fn ring(setting: &mut Setting) -> Arc<dyn Round> {
    fn of<E: Element>(capacity: usize, setting: &mut Setting) -> Arc<dyn Round> {
        let ring = Ring::<E>::with_capacity_per_cpu(capacity);
        Arc::new(ContainerRound::new(ring, setting))
    }
    // Not only powers of two.
    let max = 1 << setting.rng.u32(1..=10);
    let capacity = setting.rng.usize(1..=max);
    let make = match setting.rng.u32(..6) {
        0 => of::<Box<Owned>>,
        1 => of::<Odd>,
        2 => of::<Wide<3>>,
        3 => of::<Wide<17>>,
        _ => of::<u64>,
    };
    make(capacity, setting)
}
