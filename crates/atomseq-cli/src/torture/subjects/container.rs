//! The structures that hold values, behind one interface.

use atomseq::AsWord;
use atomseq::percpu::{Queue, Ring, Stack};

use super::element::Element;

/// Which way values come out of a CPU's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The oldest first.
    Fifo,
    /// The newest first.
    Lifo,
}

/// The structures that hold values.
pub trait Container<E>: Send + Sync {
    /// Which way values come out.
    const ORDER: Order;
    /// How many CPUs have a part.
    fn cpus(&self) -> usize;
    /// Puts one in.
    fn push(&self, element: E) -> Result<(), E>;
    /// Takes one out.
    fn pop(&self) -> Option<E>;
    /// Takes one from any CPU.
    fn steal(&self) -> Option<E>;
    /// Takes one from this CPU's part.
    fn steal_from(&self, cpu: usize) -> Option<E>;
    /// Takes all out.
    fn drain(&self) -> impl Iterator<Item = E>;

    /// Puts many in, from the first on; those that did not fit stay.
    fn push_many(&self, elements: &mut Vec<E>) {
        while let Some(element) = (!elements.is_empty()).then(|| elements.remove(0)) {
            if let Err(back) = self.push(element) {
                elements.insert(0, back);
                break;
            }
        }
    }

    /// Takes up to `count` out.
    fn pop_many(&self, elements: &mut Vec<E>, count: usize) {
        elements.extend((0..count).map_while(|_| self.pop()));
    }
}

macro_rules! containers {
    ($($container:ident: $order:ident, [$($bound:tt)*] { $($own:item)* })*) => {$(
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
            $($own)*
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
