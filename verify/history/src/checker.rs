//! The checker: is there an order of all calls, one that no lane saw otherwise, in which a
//! sequential structure answers as recorded? (Wing and Gong 1993; states that were seen before are
//! not entered again, as in Lowe's *Testing for Linearizability*, 2017.)
//!
//! Each lane's calls are taken in the lane's order, so how far a search has come is one number a
//! lane. A call may be next if all calls are taken that its lane had seen return. A call that never
//! returned may be taken or left out.

use std::collections::HashSet;
use std::fmt;

use crate::history::{History, LANES};
use crate::model::Model;

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
