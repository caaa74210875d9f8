//! Rounds on words of one domain, between which amounts move.

use atomseq::dcas::{Cell, Change, Changed, Domain, Mechanism};

use crate::torture::harness::Round;
use crate::torture::harness::lane::{Doing, Lane};
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::harness::sabotage::Sabotage;

/// How many accounts there are.
const ACCOUNTS: usize = 4;
/// What each has at first.
const AT_FIRST: u64 = 1_000_000;
/// What a lane has moved, and how often.
const MOVES: usize = 0;

/// Words of one domain, between which amounts move: their sum stays.
pub struct Accounts(Domain<[Cell; ACCOUNTS]>);

impl Accounts {
    /// All of them alike.
    pub fn new(mechanism: Mechanism) -> Accounts {
        let words = std::array::from_fn(|_| Cell::new(AT_FIRST));
        Accounts(Domain::forced(words, mechanism))
    }

    fn sum(&self) -> u64 {
        self.0.snapshot(self.0.each_ref()).0.iter().sum()
    }

    fn check(&self) -> Checked {
        match self.sum() {
            sum if sum == ACCOUNTS as u64 * AT_FIRST => Ok(()),
            sum => {
                Err(Broken::new("words that change together do not agree").with("their sum", sum))
            }
        }
    }

    fn operate(&self, lane: &mut Lane) -> Checked {
        if lane.one_in(4) {
            lane.begin(Doing::Sum);
            return self.check();
        }
        lane.begin(Doing::Add);
        let from = lane.rng.usize(..ACCOUNTS);
        let to = (from + lane.rng.usize(1..ACCOUNTS)) % ACCOUNTS;
        let more = match () {
            () if lane.strikes(Sabotage::Lose) => 0,
            () if lane.strikes(Sabotage::Duplicate) => 2,
            () => 1,
        };
        // An empty one has nothing to give.
        while self.0.load(&self.0[from]) > 0 {
            let done = match lane.rng.u32(..3) {
                0 => self.by_version(from, to, more),
                1 => self.by_values(from, to, more),
                _ => self.all_at_once(from, to, more),
            };
            if done.is_ok() {
                lane.totals[MOVES] += 1;
                break;
            }
        }
        Ok(())
    }

    fn by_version(&self, from: usize, to: usize, more: u64) -> Result<(), Changed> {
        let (from, to) = (&self.0[from], &self.0[to]);
        let ([here, there], version) = self.0.snapshot([from, to]);
        let less = here.checked_sub(1).ok_or(Changed)?;
        self.0
            .store_pair_if(version, (from, less), (to, there + more))
    }

    fn by_values(&self, from: usize, to: usize, more: u64) -> Result<(), Changed> {
        let (from, to) = (&self.0[from], &self.0[to]);
        let [here, there] = self.0.snapshot([from, to]).0;
        let less = here.checked_sub(1).ok_or(Changed)?;
        let (taken, given) = (
            Change::of(from, here, less),
            Change::of(to, there, there + more),
        );
        self.0.compare_exchange_pair(taken, given)
    }

    /// Compares every account that it does not change; where it may change more than two, two
    /// others swap.
    fn all_at_once(&self, from: usize, to: usize, more: u64) -> Result<(), Changed> {
        let amounts = self.0.snapshot(self.0.each_ref()).0;
        let mut changed = amounts;
        changed[from] = amounts[from].checked_sub(1).ok_or(Changed)?;
        changed[to] += more;
        if self.0.mechanism() == Mechanism::Kcas {
            let mut others = (0..ACCOUNTS).filter(|other| ![from, to].contains(other));
            if let (Some(one), Some(other)) = (others.next(), others.next()) {
                changed.swap(one, other);
            }
        }
        let of = |account: usize| Change::of(&self.0[account], amounts[account], changed[account]);
        self.0
            .compare_exchange_all(&std::array::from_fn::<_, ACCOUNTS, _>(of))
    }
}

impl Round for Accounts {
    fn step(&self, lane: &mut Lane) -> Checked {
        self.operate(lane)
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        self.operate(lane)
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        self.check()?;
        let moves: u64 = lanes.iter().map(|lane| lane.totals[MOVES]).sum();
        match self.0.version().number() {
            version if version >= moves => Ok(()),
            version => Err(
                Broken::new("a version counts fewer changes than there were")
                    .with("version", version)
                    .with("changes", moves),
            ),
        }
    }
}
