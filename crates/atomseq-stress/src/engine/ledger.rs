//! The ledger of a round: every issued value must be taken out exactly once.
//!
//! ```text
//! value   63 .. 48   47 .. 32   31 .. 0
//!         check      lane       number        check: a hash of the rest, different in each round
//! ```

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use super::Sabotage;
use super::invariant::{Checked, Violation};
use super::lane::Lane;

/// The lane that issued a value, and the number of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The lane.
    pub lane: usize,
    /// The value's number among those of the lane, from 0.
    pub number: u32,
}

impl Origin {
    fn in_facts(self, violation: Violation) -> Violation {
        violation
            .with("issued by lane", self.lane as u64)
            .with("number", self.number.into())
    }
}

/// The values that were issued, and those that were taken out.
#[derive(Debug)]
pub struct Ledger {
    salt: u64,
    quota: u32,
    issued: Vec<CachePadded<AtomicU32>>,
    /// One bit a value, lane by lane: set once it was taken out.
    out: Vec<AtomicU64>,
}

impl Ledger {
    /// Returns a ledger for so many lanes, each of which issues at most `quota` values.
    pub fn new(salt: u64, lanes: usize, quota: u32) -> Ledger {
        let quota = quota.next_multiple_of(64);
        let words = lanes * quota as usize / 64;
        Ledger {
            salt,
            quota,
            issued: (0..lanes).map(|_| CachePadded::default()).collect(),
            out: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Issues the next value of a lane; `None` when the lane has used up its quota.
    pub fn issue(&self, lane: &mut Lane) -> Option<u64> {
        if lane.issued == self.quota {
            return None;
        }
        let origin = Origin {
            lane: lane.number,
            number: lane.issued,
        };
        lane.issued += 1;
        // Relaxed: a lane gets the value through the structure under test, which orders this store
        // before that.
        self.issued[lane.number].store(lane.issued, Ordering::Relaxed);
        Some(self.seal(origin))
    }

    /// Returns the origin of a value.
    ///
    /// # Errors
    ///
    /// If it was never issued.
    pub fn read(&self, value: u64) -> Checked<Origin> {
        let origin = Origin {
            lane: (value >> 32) as usize & 0xffff,
            number: value as u32,
        };
        let strange =
            Violation::new("a value was taken out that was never put in").with("value", value);
        if origin.lane >= self.issued.len() || self.seal(origin) != value {
            return Err(strange);
        }
        // Relaxed: see `issue`.
        if origin.number >= self.issued[origin.lane].load(Ordering::Relaxed) {
            return Err(
                origin.in_facts(Violation::new("a value was taken out before it was put in"))
            );
        }
        Ok(origin)
    }

    /// Records that a value was taken out.
    ///
    /// # Errors
    ///
    /// If it was never issued, or was taken out before.
    pub fn out(&self, value: u64) -> Checked<Origin> {
        let origin = self.read(value)?;
        let bit = origin.lane * self.quota as usize + origin.number as usize;
        // Relaxed: each bit is independent; the final count comes after all threads have stopped.
        let before = self.out[bit / 64].fetch_or(1 << (bit % 64), Ordering::Relaxed);
        if before >> (bit % 64) & 1 == 1 {
            return Err(origin.in_facts(Violation::new("a value was taken out twice")));
        }
        Ok(origin)
    }

    /// Records the same for a lane, which may have to inject a lost or a duplicated value.
    pub fn out_by(&self, lane: &mut Lane, value: u64) -> Checked<Origin> {
        if lane.inject(Sabotage::Lose) {
            return self.read(value);
        }
        let origin = self.out(value)?;
        if lane.inject(Sabotage::Duplicate) {
            return self.out(value);
        }
        Ok(origin)
    }

    /// Returns how many values were issued and not taken out.
    pub fn missing(&self) -> u64 {
        self.issued_in_all() - self.came_out()
    }

    /// Checks that every issued value was taken out.
    pub fn check_final(&self) -> Checked {
        let missing = self.missing();
        if missing == 0 {
            return Ok(());
        }
        let lost = (0..self.issued.len()).find_map(|lane| {
            let issued = self.issued[lane].load(Ordering::Relaxed);
            let numbers = (0..issued).map(|number| Origin { lane, number });
            numbers.into_iter().find(|origin| !self.is_out(*origin))
        });
        let violation =
            Violation::new("values were put in and never taken out").with("missing", missing);
        Err(match lost {
            Some(origin) => origin.in_facts(violation),
            None => violation,
        })
    }

    /// Returns for how many lanes it is.
    pub fn lanes(&self) -> usize {
        self.issued.len()
    }

    /// Returns how many values were issued.
    pub fn issued_in_all(&self) -> u64 {
        let issued = self.issued.iter();
        issued
            .map(|issued| u64::from(issued.load(Ordering::Relaxed)))
            .sum()
    }

    fn came_out(&self) -> u64 {
        let words = self.out.iter();
        words
            .map(|word| u64::from(word.load(Ordering::Relaxed).count_ones()))
            .sum()
    }

    fn is_out(&self, origin: Origin) -> bool {
        let bit = origin.lane * self.quota as usize + origin.number as usize;
        self.out[bit / 64].load(Ordering::Relaxed) >> (bit % 64) & 1 == 1
    }

    fn seal(&self, origin: Origin) -> u64 {
        let identity = (origin.lane as u64) << 32 | u64::from(origin.number);
        let check = super::mix(identity ^ self.salt) >> 48;
        check << 48 | identity
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::lane::Board;
    use super::*;

    fn lane(number: usize) -> Lane {
        Lane::new(number, 1, 0, Arc::new(CachePadded::new(Board::default())))
    }

    #[test]
    fn values_taken_out_once_are_correct() {
        let ledger = Ledger::new(1, 2, 64);
        let (mut first, mut second) = (lane(0), lane(1));
        for _ in 0..64 {
            let value = ledger.issue(&mut first).unwrap();
            assert_eq!(ledger.out(value).unwrap().lane, 0);
        }
        assert_eq!(ledger.issue(&mut first), None);
        let value = ledger.issue(&mut second).unwrap();
        assert_eq!(
            ledger.out_by(&mut first, value).unwrap(),
            Origin { lane: 1, number: 0 }
        );
        assert_eq!(ledger.check_final(), Ok(()));
    }

    #[test]
    fn each_violation_is_named() {
        let ledger = Ledger::new(1, 2, 64);
        let mut lane = lane(1);
        let value = ledger.issue(&mut lane).unwrap();
        let lost = ledger.check_final().unwrap_err();
        assert_eq!(lost.what(), "values were put in and never taken out");
        assert_eq!(lost.facts(), "missing 1, issued by lane 1, number 0");
        ledger.out(value).unwrap();
        assert_eq!(
            ledger.out(value).unwrap_err().what(),
            "a value was taken out twice"
        );
        let strange = ledger.out(value ^ 1 << 63).unwrap_err();
        assert_eq!(
            strange.what(),
            "a value was taken out that was never put in"
        );
        let early = ledger.seal(Origin { lane: 0, number: 5 });
        assert_eq!(
            ledger.out(early).unwrap_err().what(),
            "a value was taken out before it was put in"
        );
    }

    #[test]
    fn an_injected_fault_is_detected() {
        let ledger = Ledger::new(1, 1, 64);
        let mut lane = lane(0);
        lane.sabotage = Some(Sabotage::Duplicate);
        let value = ledger.issue(&mut lane).unwrap();
        assert!(ledger.out_by(&mut lane, value).is_err());
        let ledger = Ledger::new(1, 1, 64);
        (lane.sabotage, lane.issued) = (Some(Sabotage::Lose), 0);
        let value = ledger.issue(&mut lane).unwrap();
        assert!(ledger.out_by(&mut lane, value).is_ok());
        assert!(ledger.check_final().is_err());
    }
}
