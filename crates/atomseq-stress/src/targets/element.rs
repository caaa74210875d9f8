//! What is put into containers: values of the ledger as words, in larger and odd sizes, and in
//! boxes.

use std::sync::Arc;

use atomseq::percpu::Ring;

use crate::engine::invariant::{Checked, Violation, report};
use crate::engine::lane::Lane;
use crate::engine::ledger::{Ledger, Origin};
use crate::engine::mix;

/// A value in a container.
pub trait Element: Sized + Send + Sync + 'static {
    /// Whether signal handlers may wrap and open it: it needs no allocation.
    const FOR_HANDLERS: bool;

    /// Wraps a value of the ledger.
    fn wrap(value: u64, ledger: &Arc<Ledger>) -> Self;

    /// Returns the value, after a check that it is whole.
    fn value(&self) -> Checked<u64>;

    /// Unwraps the value, and records that it was taken out.
    fn open(self, ledger: &Ledger, lane: &mut Lane) -> Checked<Origin> {
        let value = self.value()?;
        ledger.out_by(lane, value)
    }

    /// Pushes as many as fit into a ring.
    fn push_many(ring: &Ring<Self>, elements: &mut Vec<Self>) {
        ring.append(elements);
    }

    /// Pops up to `count` from a ring.
    fn pop_many(ring: &Ring<Self>, elements: &mut Vec<Self>, count: usize) {
        elements.reserve_exact(count);
        ring.pop_into(elements);
    }
}

impl Element for u64 {
    const FOR_HANDLERS: bool = true;

    fn wrap(value: u64, _ledger: &Arc<Ledger>) -> u64 {
        value
    }

    fn value(&self) -> Checked<u64> {
        Ok(*self)
    }

    fn push_many(ring: &Ring<u64>, elements: &mut Vec<u64>) {
        push_copies(ring, elements);
    }

    fn pop_many(ring: &Ring<u64>, elements: &mut Vec<u64>, count: usize) {
        pop_copies(ring, elements, count, 0);
    }
}

const TORN: Violation = Violation::new("a value was taken out in pieces");

/// Several words, from each of which the value can be computed.
#[derive(Clone, Copy, Debug)]
pub struct Wide<const WORDS: usize>([u64; WORDS]);

impl<const WORDS: usize> Element for Wide<WORDS> {
    const FOR_HANDLERS: bool = true;

    fn wrap(value: u64, _ledger: &Arc<Ledger>) -> Self {
        Wide(std::array::from_fn(|index| value.rotate_left(index as u32)))
    }

    fn value(&self) -> Checked<u64> {
        let value = self.0[0];
        let whole = (0..)
            .zip(self.0)
            .all(|(index, word)| word == value.rotate_left(index));
        if whole {
            Ok(value)
        } else {
            Err(TORN.with("its first word", value))
        }
    }

    fn push_many(ring: &Ring<Self>, elements: &mut Vec<Self>) {
        push_copies(ring, elements);
    }

    fn pop_many(ring: &Ring<Self>, elements: &mut Vec<Self>, count: usize) {
        pop_copies(ring, elements, count, Wide([0; WORDS]));
    }
}

/// An element whose size is no multiple of a word, with an alignment of 1.
#[derive(Clone, Copy, Debug)]
pub struct Odd([u8; 13]);

impl Odd {
    fn tail(value: u64) -> [u8; 5] {
        let [a, b, c, d, e, ..] = mix(value).to_le_bytes();
        [a, b, c, d, e]
    }
}

impl Element for Odd {
    const FOR_HANDLERS: bool = true;

    fn wrap(value: u64, _ledger: &Arc<Ledger>) -> Odd {
        let mut bytes = [0; 13];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        bytes[8..].copy_from_slice(&Odd::tail(value));
        Odd(bytes)
    }

    fn value(&self) -> Checked<u64> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[..8]);
        let value = u64::from_le_bytes(bytes);
        if self.0[8..] == Odd::tail(value) {
            Ok(value)
        } else {
            Err(TORN.with("its first word", value))
        }
    }

    fn push_many(ring: &Ring<Self>, elements: &mut Vec<Self>) {
        push_copies(ring, elements);
    }

    fn pop_many(ring: &Ring<Self>, elements: &mut Vec<Self>, count: usize) {
        pop_copies(ring, elements, count, Odd([0; 13]));
    }
}

fn push_copies<T: Element + Copy>(ring: &Ring<T>, elements: &mut Vec<T>) {
    let pushed = ring.push_batch(elements);
    elements.drain(..pushed);
}

fn pop_copies<T: Element + Copy>(ring: &Ring<T>, elements: &mut Vec<T>, count: usize, blank: T) {
    let start = elements.len();
    elements.resize(start + count, blank);
    let popped = ring.pop_batch(&mut elements[start..]);
    elements.truncate(start + popped);
}

/// A value that counts as taken out when it is dropped, wherever that is.
#[derive(Debug)]
pub struct Owned {
    value: u64,
    ledger: Arc<Ledger>,
}

macro_rules! owned {
    ($($pointer:ident)*) => {$(
        impl Element for $pointer<Owned> {
            const FOR_HANDLERS: bool = false;

            fn wrap(value: u64, ledger: &Arc<Ledger>) -> $pointer<Owned> {
                let ledger = ledger.clone();
                $pointer::new(Owned { value, ledger })
            }

            fn value(&self) -> Checked<u64> {
                Ok(self.value)
            }

            fn open(self, ledger: &Ledger, _lane: &mut Lane) -> Checked<Origin> {
                // Dropped here, which records it.
                ledger.read(self.value)
            }
        }
    )*};
}

owned! { Box Arc }

impl Drop for Owned {
    fn drop(&mut self) {
        if let Err(violation) = self.ledger.out(self.value) {
            report(violation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_values_are_detected() {
        let ledger = Arc::new(Ledger::new(0, 1, 64));
        let mut wide = Wide::<3>::wrap(0x1234_5678, &ledger);
        assert_eq!(wide.value(), Ok(0x1234_5678));
        wide.0[2] ^= 1;
        assert!(wide.value().is_err());
        let mut odd = Odd::wrap(77, &ledger);
        assert_eq!(odd.value(), Ok(77));
        odd.0[12] ^= 1;
        assert!(odd.value().is_err());
    }
}
