//! Checks linearizability: whether there is an order of all calls of a history in which a
//! sequential structure gives every call its recorded answer, and which contradicts no lane's
//! observations.
//!
//! **What it proves.** `Ok` is a proof for this history: the returned order can be replayed against
//! the model. `Err` is a proof as well: the search below is exhaustive, so no order exists, and the
//! structure is wrong. Nothing follows for histories that were not recorded. The clock
//! ([`crate::history`]) may record two calls as concurrent that were not, which only allows more
//! orders: the checker can miss an error, and never rejects a correct history.
//!
//! **How it works** (Wing and Gong 1993). The search builds an order call by call. Each lane's
//! calls are taken in the lane's order. A position in the search consists of the number of calls
//! taken of each lane, and the model's state after these calls. From a position, every lane's next
//! call is tried:
//!
//! ```text
//! may it be next?   all calls are taken that its lane had seen return before it began
//! does it fit?      the model, stepped by the call, may answer as recorded
//! ```
//!
//! A call that never returned fits with any answer, and may be left out: the search ends when all
//! *answered* calls are taken. If no lane leads on, the search backtracks to the last position with
//! an untried lane.
//!
//! The number of orders is exponential, that of positions is not: two orders of the same calls that
//! leave the model in the same state have the same future. The search enters each position only
//! once (as in Lowe, *Testing for Linearizability*, 2017).
//!
//! [`is_linearizable`] answers the same question in the simplest way; tests compare the two.

use std::collections::HashSet;
use std::fmt;

use crate::history::{History, LANES, Model};

/// How many calls of each lane are taken: a position in the search, together with the model's
/// state.
type Taken = [u32; LANES];

/// An order that explains a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linearization {
    /// Lanes; each entry stands for that lane's next call.
    pub order: Vec<usize>,
    /// The number of positions that the search visited.
    pub states: usize,
}

/// No order explains the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLinearizable {
    /// The history, call by call.
    pub history: String,
    /// The largest number of calls that some order explains, lane by lane.
    pub explained: Vec<u32>,
    /// The number of positions that the search visited.
    pub states: usize,
}

impl fmt::Display for NotLinearizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no order explains this history; the longest that explains a part takes so many calls of each lane: {:?}\n{}",
            self.explained, self.history
        )
    }
}

/// A position on the search's current path. The path runs from the start to the current position.
struct Place<M> {
    taken: Taken,
    state: M,
    /// The lane whose next call is tried next. All lanes below it were tried from here.
    lane: usize,
}

/// Returns an order of the calls in which a sequential structure answers as recorded.
///
/// # Errors
///
/// [`NotLinearizable`]: there is none.
///
/// # Panics
///
/// If a call that never returned is not its lane's last, or there are more than [`LANES`] lanes.
pub fn linearize<M: Model>(history: &History<M>) -> Result<Linearization, NotLinearizable> {
    let lanes = &history.lanes;
    assert!(lanes.len() <= LANES, "too many lanes");
    let answered: Vec<u32> = lanes
        .iter()
        .map(|events| events.iter().filter(|event| event.answer.is_some()).count() as u32)
        .collect();
    for (events, answered) in lanes.iter().zip(&answered) {
        let early = events[..*answered as usize]
            .iter()
            .any(|event| event.answer.is_none());
        assert!(
            !early && events.len() <= *answered as usize + 1,
            "a call after one that never returned"
        );
    }

    // Depth first, with the current path as an explicit stack. `seen` holds every position that was
    // ever on the path: its future was explored, or is being explored.
    let mut seen: HashSet<(Taken, M)> = HashSet::new();
    let mut best: Taken = [0; LANES];
    let mut path = vec![Place {
        taken: [0; LANES],
        state: history.before.clone(),
        lane: 0,
    }];
    while let Some(place) = path.last_mut() {
        let all = answered
            .iter()
            .zip(&place.taken)
            .all(|(answered, taken)| taken >= answered);
        if all {
            // Each place's `lane` is one past the lane that led on from it.
            path.pop();
            let order = path.iter().map(|place| place.lane - 1).collect();
            return Ok(Linearization {
                order,
                states: seen.len(),
            });
        }
        let lane = place.lane;
        // Every lane was tried from here: backtrack.
        if lane == lanes.len() {
            path.pop();
            continue;
        }
        place.lane += 1;
        let Some(event) = lanes[lane].get(place.taken[lane] as usize) else {
            continue;
        };
        // A call comes after all calls that its lane had seen return before it began. The calls of
        // its own lane are taken in order, which `taken` ensures by itself.
        let may_be_next = event
            .seen
            .iter()
            .zip(&place.taken)
            .all(|(seen, taken)| taken >= seen);
        // Only answers that the model allows in this state lead on.
        let mut state = place.state.clone();
        if !may_be_next || !state.step(&event.call, event.answer.as_ref()) {
            continue;
        }
        let mut taken = place.taken;
        taken[lane] += 1;
        if taken.iter().sum::<u32>() > best.iter().sum::<u32>() {
            best = taken;
        }
        // Another order of the same calls that led to the same state has the same future.
        if seen.insert((taken, state.clone())) {
            path.push(Place {
                taken,
                state,
                lane: 0,
            });
        }
    }
    Err(NotLinearizable {
        history: history.to_string(),
        explained: best[..lanes.len()].to_vec(),
        states: seen.len(),
    })
}

/// Returns whether an order explains the history. Tries every order of every choice of the
/// unanswered calls: slow, and too simple to be wrong. It shares only the history and the model
/// with [`linearize`].
pub fn is_linearizable<M: Model>(history: &History<M>) -> bool {
    let mut calls = Vec::new();
    for (lane, events) in history.lanes.iter().enumerate() {
        for index in 0..events.len() {
            calls.push((lane, index));
        }
    }
    let open: Vec<_> = calls
        .iter()
        .filter(|&&(lane, index)| history.lanes[lane][index].answer.is_none())
        .collect();
    // Each unanswered call has either taken effect or not.
    (0..1_u32 << open.len()).any(|choice| {
        let left_out: Vec<_> = (0..open.len())
            .filter(|bit| choice >> bit & 1 == 1)
            .map(|bit| *open[bit])
            .collect();
        let mut rest: Vec<_> = calls
            .iter()
            .copied()
            .filter(|call| !left_out.contains(call))
            .collect();
        some_order(history, &mut rest, &history.before)
    })
}

fn some_order<M: Model>(history: &History<M>, rest: &mut Vec<(usize, usize)>, state: &M) -> bool {
    if rest.is_empty() {
        return true;
    }
    for place in 0..rest.len() {
        let call = rest[place];
        if rest.iter().any(|other| history.precedes(*other, call)) {
            continue;
        }
        let event = &history.lanes[call.0][call.1];
        let mut after = state.clone();
        if after.step(&event.call, event.answer.as_ref()) {
            rest.remove(place);
            let found = some_order(history, rest, &after);
            rest.insert(place, call);
            if found {
                return true;
            }
        }
    }
    false
}
