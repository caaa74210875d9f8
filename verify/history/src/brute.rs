//! The same question answered by trying every order of every choice of unanswered calls: slow, and
//! too simple to be wrong. It shares nothing with the checker but the history.

use crate::history::History;
use crate::model::Model;

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
