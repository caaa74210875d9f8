//! The checker: is there an order of all calls, one that no lane saw otherwise, in which a
//! sequential structure answers as recorded? (Wing and Gong 1993; states that were seen before are
//! not entered again, as in Lowe's *Testing for Linearizability*, 2017.)
//!
//! Each lane's calls are taken in the lane's order, so how far a search has come is one number a
//! lane. A call may be next if all calls are taken that its lane had seen return. A call that never
//! returned may be taken or left out.

use std::collections::HashSet;
use std::fmt;

use crate::history::Model;
use crate::history::{History, LANES};

/// How many calls of each lane are taken.
type Taken = [u32; LANES];

/// An order that explains a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linearization {
    /// Lanes, each standing for its next call.
    pub order: Vec<usize>,
    /// How many states were looked at.
    pub states: usize,
}

/// No order explains the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLinearizable {
    /// The history, call by call.
    pub history: String,
    /// The most calls that some order explains, lane by lane.
    pub explained: Vec<u32>,
    /// How many states were looked at.
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

struct Place<M> {
    taken: Taken,
    state: M,
    /// The next lane to take a call from.
    lane: usize,
}

/// An order of the calls in which a sequential structure answers as recorded.
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
            // The lane of a place is the one behind the lane that led on from it.
            path.pop();
            let order = path.iter().map(|place| place.lane - 1).collect();
            return Ok(Linearization {
                order,
                states: seen.len(),
            });
        }
        let lane = place.lane;
        if lane == lanes.len() {
            path.pop();
            continue;
        }
        place.lane += 1;
        let Some(event) = lanes[lane].get(place.taken[lane] as usize) else {
            continue;
        };
        let may_be_next = event
            .seen
            .iter()
            .zip(&place.taken)
            .all(|(seen, taken)| taken >= seen);
        let mut state = place.state.clone();
        if !may_be_next || !state.step(&event.call, event.answer.as_ref()) {
            continue;
        }
        let mut taken = place.taken;
        taken[lane] += 1;
        if taken.iter().sum::<u32>() > best.iter().sum::<u32>() {
            best = taken;
        }
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

// The same question answered by trying every order of every choice of unanswered calls: slow, and
// too simple to be wrong. It shares nothing with the checker but the history.

/// Is there an order that explains the history?
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
    // Each unanswered call has happened, or it has not.
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
