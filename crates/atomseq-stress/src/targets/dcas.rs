//! The target `dcas`: words of one domain, between which amounts move, so that their sum stays.

use std::sync::Arc;

use atomseq::dcas::{Cell, Change, Changed, Domain, Mechanism};

use crate::engine::invariant::{Checked, Violation};
use crate::engine::lane::{Activity, Lane};
use crate::engine::{Interruptions, Round, STEPS, Sabotage, Target};

/// The target `dcas`.
pub const TARGET: Target = Target {
    name: "dcas",
    group: "dcas",
    about: "the sum of several words stays the same, by both mechanisms",
    round: |setting| {
        Arc::new(Accounts::new(match setting.rng.bool() {
            true => Mechanism::Assisted,
            false => Mechanism::Kcas,
        }))
    },
    steps: STEPS,
    interruptions: Interruptions::Timed,
    counts: "",
};

/// How many accounts there are.
const ACCOUNTS: usize = 4;
/// The amount of each at first.
const AT_FIRST: u64 = 1_000_000;
/// The index of the lanes' number of moves.
const MOVES: usize = 0;

/// Words of one domain, between which amounts move.
pub struct Accounts(Domain<[Cell; ACCOUNTS]>);

impl Accounts {
    /// Returns accounts of the same amount each.
    pub fn new(mechanism: Mechanism) -> Accounts {
        let words = std::array::from_fn(|_| Cell::new(AT_FIRST));
        Accounts(Domain::forced(words, mechanism))
    }

    fn sum(&self) -> u64 {
        self.0.load_all(self.0.each_ref()).iter().sum()
    }

    fn check(&self) -> Checked {
        match self.sum() {
            sum if sum == ACCOUNTS as u64 * AT_FIRST => Ok(()),
            sum => Err(
                Violation::new("words that are changed together were seen half changed")
                    .with("their sum", sum),
            ),
        }
    }

    fn operate(&self, lane: &mut Lane) -> Checked {
        if lane.one_in(4) {
            lane.begin(Activity::Sum);
            return self.check();
        }
        lane.begin(Activity::Add);
        let from = lane.rng.usize(..ACCOUNTS);
        let to = (from + lane.rng.usize(1..ACCOUNTS)) % ACCOUNTS;
        let given = match () {
            () if lane.inject(Sabotage::Lose) => 0,
            () if lane.inject(Sabotage::Duplicate) => 2,
            () => 1,
        };
        // Nothing moves from an empty one.
        while self.0.load(&self.0[from]) > 0 {
            let done = match lane.rng.u32(..3) {
                0 => self.by_version(from, to, given),
                1 => self.by_values(from, to, given),
                _ => self.all_at_once(from, to, given),
            };
            if done.is_ok() {
                lane.totals[MOVES] += 1;
                break;
            }
        }
        Ok(())
    }

    fn by_version(&self, from: usize, to: usize, given: u64) -> Result<(), Changed> {
        let (from, to) = (&self.0[from], &self.0[to]);
        let ([here, there], version) = self.0.snapshot([from, to]);
        let less = here.checked_sub(1).ok_or(Changed)?;
        self.0
            .store_pair_if(version, (from, less), (to, there + given))
    }

    fn by_values(&self, from: usize, to: usize, given: u64) -> Result<(), Changed> {
        let (from, to) = (&self.0[from], &self.0[to]);
        let [here, there] = self.0.load_all([from, to]);
        let less = here.checked_sub(1).ok_or(Changed)?;
        let (decrease, increase) = (
            Change::of(from, here, less),
            Change::of(to, there, there + given),
        );
        self.0.compare_exchange_pair(decrease, increase)
    }

    /// Compares each account that it does not change. Where a mechanism can change more than two,
    /// two others are swapped.
    fn all_at_once(&self, from: usize, to: usize, given: u64) -> Result<(), Changed> {
        let amounts = self.0.load_all(self.0.each_ref());
        let mut changed = amounts;
        changed[from] = amounts[from].checked_sub(1).ok_or(Changed)?;
        changed[to] += given;
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
                Violation::new("a version is less than the number of changes")
                    .with("version", version)
                    .with("changes", moves),
            ),
        }
    }
}
