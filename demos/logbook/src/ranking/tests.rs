//! Between any two steps of one update runs another complete update, as in a signal handler.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::{Rc, Weak};

use super::*;

/// A word of one letter.
fn word(letter: u8) -> Word {
    let mut word = Word::default();
    word[0] = letter;
    word
}

type Work = Box<dyn FnOnce()>;

/// A ledger on one thread, which runs `work` before its step number `left`.
#[derive(Default)]
struct Steps {
    known: RefCell<HashMap<Word, Known>>,
    ranks: RefCell<BTreeSet<Rank>>,
    left: Cell<usize>,
    work: RefCell<Option<Work>>,
    /// The negative control: the check after an insertion does not see a changed count.
    careless: bool,
    has_inserted: Cell<bool>,
}

impl Steps {
    fn step(&self) {
        let work = match self.left.get() {
            0 => self.work.take(),
            left => {
                self.left.set(left - 1);
                None
            }
        };
        if let Some(work) = work {
            let has_inserted = self.has_inserted.take();
            work();
            self.has_inserted.set(has_inserted);
        }
    }
}

impl Ledger for Steps {
    fn change(&self, word: &Word, change: impl Fn(Known) -> Known) -> Known {
        self.step();
        let mut all = self.known.borrow_mut();
        let known = all.entry(*word).or_default();
        let changed = change(*known);
        std::mem::replace(known, changed)
    }

    fn known(&self, word: &Word) -> Known {
        self.step();
        let known = self.known.borrow().get(word).copied().unwrap_or_default();
        match self.has_inserted.take() && self.careless {
            true => Known {
                count: known.listed,
                ..known
            },
            false => known,
        }
    }

    fn insert(&self, rank: Rank) {
        self.step();
        assert!(
            self.ranks.borrow_mut().insert(rank),
            "{rank:?} is in the ranking already"
        );
        self.has_inserted.set(true);
    }

    fn remove(&self, rank: &Rank) -> bool {
        self.step();
        self.ranks.borrow_mut().remove(rank)
    }

    fn first(&self, ranks: &mut [Rank]) -> usize {
        self.step();
        let all = self.ranks.borrow();
        let pairs = ranks.iter_mut().zip(all.iter());
        pairs.map(|(to, from)| *to = *from).count()
    }
}

/// An update: the word of a letter, and a count.
type Entry = (u8, u64);

/// Enters `before`, then `entry`, interrupted before its step number `at` by `between`. Returns
/// whether there is such a step, and the ranking.
fn interrupted(
    before: &[Entry],
    entry: Entry,
    at: usize,
    between: Entry,
    careless: bool,
) -> (bool, Vec<Entry>) {
    let ranking = Rc::new_cyclic(|ranking: &Weak<Ranking<Steps>>| {
        let (ranking, (letter, more)) = (ranking.clone(), between);
        let work: Work = Box::new(move || {
            let ranking = ranking.upgrade().expect("the ranking is in use");
            ranking.enter(&word(letter), more);
        });
        let ledger = Steps {
            left: usize::MAX.into(),
            work: Some(work).into(),
            careless,
            ..Steps::default()
        };
        Ranking::new(ledger, 2)
    });
    for (letter, count) in before {
        ranking.enter(&word(*letter), *count);
    }
    ranking.ledger.left.set(at);
    ranking.enter(&word(entry.0), entry.1);
    let came = ranking.ledger.work.borrow().is_none();
    let ranks = ranking.ledger.ranks.borrow();
    let ranks = ranks.iter().map(|rank| (rank.word[0], rank.count()));
    (came, ranks.collect())
}

/// Returns the correct ranking.
fn expected(entries: &[Entry]) -> Vec<Entry> {
    let mut counts = HashMap::new();
    for (letter, more) in entries {
        *counts.entry(*letter).or_insert(0) += more;
    }
    let mut ranks: Vec<_> = counts.into_iter().collect();
    ranks.sort_by_key(|(letter, count)| (std::cmp::Reverse(*count), *letter));
    ranks.truncate(2);
    ranks
}

/// Returns the number of interruptions, and after how many of them the ranking is wrong.
fn wrong(careless: bool) -> (usize, usize) {
    let before = [(b'a', 10), (b'b', 8), (b'c', 7)];
    let entries = [
        (b'a', 1),
        (b'b', 5),
        (b'c', 2),
        (b'c', 9),
        (b'd', 8),
        (b'd', 20),
    ];
    let (mut places, mut wrong) = (0, 0);
    for entry in entries {
        for between in entries {
            for at in 0.. {
                let (came, ranks) = interrupted(&before, entry, at, between, careless);
                if !came {
                    break;
                }
                let mut all = before.to_vec();
                all.extend([entry, between]);
                places += 1;
                wrong += usize::from(ranks != expected(&all));
            }
        }
    }
    (places, wrong)
}

#[test]
fn the_ranking_is_right_after_an_interruption_at_any_step() {
    let (places, wrong) = wrong(false);
    assert!(places > 200, "{places} places");
    assert_eq!(wrong, 0);
}

#[test]
fn without_the_second_check_it_is_wrong() {
    assert!(wrong(true).1 > 0);
}
