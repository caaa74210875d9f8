//! A round on a container of values: what goes in comes out once, whole, and on each CPU in order.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use super::container::{Container, Order};
use super::element::Element;
use crate::torture::harness::lane::{Doing, Lane};
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::harness::ledger::{Ledger, Origin};
use crate::torture::harness::{Round, STEPS, Setting};

/// How often a round does what, in thousandths.
#[derive(Clone, Copy, Debug)]
pub struct Mood {
    steals: u32,
    many: u32,
    drains: u32,
}

impl Mood {
    /// From the seed: mostly calm, now and then stormy.
    pub fn any(rng: &mut fastrand::Rng) -> Mood {
        let (steals, drains) = if rng.u32(..4) == 0 { (250, 8) } else { (20, 1) };
        Mood {
            steals,
            many: rng.u32(..150),
            drains,
        }
    }

    /// A storm of steals and drains.
    pub const STORM: Mood = Mood {
        steals: 400,
        many: 50,
        drains: 20,
    };

    /// Nothing that holds more than one value at a time outside the structure.
    pub const SINGLE: Mood = Mood {
        steals: 50,
        many: 0,
        drains: 0,
    };
}

/// A container and its books.
pub struct Conserving<C, E: Element> {
    /// `None` only at the very end.
    container: Option<C>,
    ledger: Arc<Ledger>,
    mood: Mood,
    /// Lanes watch the order of what they steal.
    watch: bool,
    /// Values are left in the container at the end, for its drop.
    leave: bool,
    elements: PhantomData<fn(E)>,
}

/// The most that goes in or out by one call.
const MANY: usize = 40;

/// What one closing of a gate takes out at most when a structure is drained.
const DRAINED_AT_ONCE: u64 = 16;

impl<C: Container<E>, E: Element> Conserving<C, E> {
    /// A round on this container, with a ledger of its own.
    pub fn new(container: C, setting: &mut Setting) -> Conserving<C, E> {
        let ledger = Arc::new(Ledger::new(setting.salt, setting.lanes, STEPS));
        let mood = Mood::any(&mut setting.rng);
        Conserving {
            watch: true,
            leave: !E::FOR_HANDLERS && setting.rng.bool(),
            ..Conserving::with(container, ledger, mood)
        }
    }

    /// The same with the books of a larger round.
    pub fn with(container: C, ledger: Arc<Ledger>, mood: Mood) -> Conserving<C, E> {
        Conserving {
            container: Some(container),
            ledger,
            mood,
            watch: false,
            leave: false,
            elements: PhantomData,
        }
    }

    /// The container.
    pub fn container(&self) -> &C {
        self.container
            .as_ref()
            .expect("the container goes when the round is finished")
    }

    /// Puts a value in, or takes one out, or more than one, or from other CPUs.
    pub fn step(&self, lane: &mut Lane) -> Checked {
        let Mood {
            steals,
            many,
            drains,
        } = self.mood;
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

    /// What handlers do.
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
        lane.begin(Doing::Push);
        match self.container().push(E::wrap(value, &self.ledger)) {
            Ok(()) => Ok(()),
            Err(back) => self.came_back(lane, back, value),
        }
    }

    fn came_back(&self, lane: &mut Lane, back: E, value: u64) -> Checked {
        if back.value()? != value {
            let broken = Broken::new("a full structure gave another value back than it got");
            return Err(broken.with("it got", value).with("it gave", back.value()?));
        }
        back.open(&self.ledger, lane).map(drop)
    }

    fn pop(&self, lane: &mut Lane) -> Checked {
        lane.begin(Doing::Pop);
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
        lane.begin(Doing::PushMany);
        self.container().push_many(&mut elements);
        let refused = elements.len();
        for (element, value) in elements.into_iter().zip(&values[values.len() - refused..]) {
            self.came_back(lane, element, *value)?;
        }
        Ok(())
    }

    fn pop_many(&self, lane: &mut Lane) -> Checked {
        let count = lane.rng.usize(1..=MANY);
        let mut elements = Vec::new();
        lane.begin(Doing::PopMany);
        self.container().pop_many(&mut elements, count);
        for element in elements {
            element.open(&self.ledger, lane)?;
        }
        Ok(())
    }

    fn steal(&self, lane: &mut Lane) -> Checked {
        lane.begin(Doing::Steal);
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

    /// What one lane puts into a CPU's queue leaves it in the order it was put in, whoever looks.
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
        lane.begin(Doing::Drain);
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
            Some(_) => Err(Broken::new("an emptied structure had another value")),
        }
    }
}

fn out_of_order(cpu: usize, origin: Origin, last: u32) -> Broken {
    Broken::new("values left a CPU's part out of order")
        .with("CPU", cpu as u64)
        .with("issued by lane", origin.lane as u64)
        .with("number", origin.number.into())
        .with("after number", last.into())
}

impl<C: Container<E>, E: Element> Round for Conserving<C, E> {
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
        // What is left is dropped, and thereby comes out.
        drop(self.container.take());
        self.ledger.settle()
    }
}
