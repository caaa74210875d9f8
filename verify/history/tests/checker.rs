//! Tests of the checker itself: it accepts histories that have an order, rejects histories that
//! have none, and on small histories agrees with the trial of every order.
#![cfg(target_os = "linux")]

use fastrand::Rng;
use verify_history::checker::is_linearizable;
use verify_history::checker::linearize;
use verify_history::history::Model;
use verify_history::history::{Event, History, LANES, Seen};
use verify_history::structures::ends::{self, Ends, SeenFromOneEnd};
use verify_history::structures::registers::{self, Registers};

/// Generates calls and wrong answers.
trait Arbitrary: Model {
    fn fresh(rng: &mut Rng) -> Self;
    fn call(rng: &mut Rng, number: u64) -> Self::Call;
    /// Returns the answer of a sequential structure.
    fn answer(&mut self, call: &Self::Call) -> Self::Answer;
    /// Returns another answer that this call could have in some state.
    fn other(rng: &mut Rng, answer: &Self::Answer) -> Self::Answer;
    /// Returns an answer that no order explains.
    fn impossible(answer: &Self::Answer) -> Option<Self::Answer>;
}

impl Arbitrary for Ends {
    fn fresh(rng: &mut Rng) -> Ends {
        Ends::empty(rng.usize(1..4))
    }

    fn call(rng: &mut Rng, number: u64) -> ends::Call {
        match rng.u32(..8) {
            0..3 => ends::Call::PutHead(number),
            3 => ends::Call::PutTail(number),
            4 => ends::Call::Look,
            5 if rng.bool() => ends::Call::Delete(rng.u64(1..=number)),
            5 => ends::Call::Count,
            _ => ends::Call::Take,
        }
    }

    fn answer(&mut self, call: &ends::Call) -> ends::Answer {
        let candidates = [
            ends::Answer::Put(true),
            ends::Answer::Put(false),
            ends::Answer::Value(None),
            ends::Answer::Deleted(true),
            ends::Answer::Deleted(false),
        ];
        let values = (0..64).map(|value| ends::Answer::Value(Some(value)));
        the_one(
            self,
            call,
            candidates
                .into_iter()
                .chain(values)
                .chain((0..8).map(ends::Answer::Count)),
        )
    }

    fn other(rng: &mut Rng, answer: &ends::Answer) -> ends::Answer {
        match *answer {
            ends::Answer::Put(put) => ends::Answer::Put(!put),
            ends::Answer::Value(Some(_)) if rng.bool() => ends::Answer::Value(None),
            ends::Answer::Value(_) => ends::Answer::Value(Some(rng.u64(1..8))),
            ends::Answer::Count(count) => ends::Answer::Count(count + 1),
            ends::Answer::Deleted(deleted) => ends::Answer::Deleted(!deleted),
        }
    }

    fn impossible(answer: &ends::Answer) -> Option<ends::Answer> {
        match answer {
            ends::Answer::Put(_) | ends::Answer::Deleted(_) => None,
            ends::Answer::Value(_) => Some(ends::Answer::Value(Some(1_000))),
            ends::Answer::Count(_) => Some(ends::Answer::Count(1_000)),
        }
    }
}

impl Arbitrary for Registers {
    fn fresh(rng: &mut Rng) -> Registers {
        Registers::zeros(1, rng.bool())
    }

    fn call(rng: &mut Rng, _number: u64) -> registers::Call {
        let mut small = || rng.u64(..2);
        let mut change = |word: usize| (word, small(), small());
        let changes = [change(0), change(1)];
        match rng.u32(..6) {
            0 => registers::Call::Load(rng.usize(..2)),
            1 => registers::Call::Snapshot,
            2 => registers::Call::Add(rng.usize(..2), 1),
            3 => registers::Call::ExchangeOne(changes[0]),
            4 => registers::Call::ExchangeSince(rng.u64(1..4), [(0, 1), (1, 0)]),
            _ => registers::Call::Exchange(changes),
        }
    }

    fn answer(&mut self, call: &registers::Call) -> registers::Answer {
        let done = [true, false].map(registers::Answer::Done);
        let values = (0..8).map(registers::Answer::Value);
        let words = |number: u64| [number >> 4, number & 15, 0];
        // The lowest version that fits; there is always one.
        let snapshots = (1..24).flat_map(|version| {
            (0..256).map(move |number| registers::Answer::Snapshot(words(number), version))
        });
        the_one(self, call, done.into_iter().chain(values).chain(snapshots))
    }

    fn other(rng: &mut Rng, answer: &registers::Answer) -> registers::Answer {
        match *answer {
            registers::Answer::Done(done) => registers::Answer::Done(!done),
            registers::Answer::Value(_) => registers::Answer::Value(rng.u64(..3)),
            registers::Answer::Snapshot(words, version) if rng.bool() => {
                registers::Answer::Snapshot(words, version + 1)
            }
            registers::Answer::Snapshot([first, second, third], version) => {
                registers::Answer::Snapshot([second, first, third], version)
            }
            other => other,
        }
    }

    fn impossible(answer: &registers::Answer) -> Option<registers::Answer> {
        match *answer {
            registers::Answer::Value(_) => Some(registers::Answer::Value(1_000)),
            registers::Answer::Snapshot(_, version) => {
                Some(registers::Answer::Snapshot([1_000; 3], version))
            }
            _ => None,
        }
    }
}

/// Returns the first of these answers that the call may have, and applies its effect to the state.
fn the_one<M: Model>(
    state: &mut M,
    call: &M::Call,
    mut candidates: impl Iterator<Item = M::Answer>,
) -> M::Answer {
    let before = state.clone();
    let right = candidates.find(|answer| {
        *state = before.clone();
        state.step(call, Some(answer))
    });
    right.expect("every call has an answer")
}

/// A call, its answer, and the moment at which it took effect.
type Moment<M> = (<M as Model>::Call, <M as Model>::Answer, f64);

/// Makes a history that has an order: a sequential one whose calls are widened around the moments
/// at which they took effect.
fn widened<M: Arbitrary>(rng: &mut Rng, lanes: usize, calls: usize) -> History<M> {
    let mut state = M::fresh(rng);
    let before = state.clone();
    let mut sequence: Vec<Vec<Moment<M>>> = vec![Vec::new(); lanes];
    for moment in 0..calls {
        let call = M::call(rng, moment as u64 + 1);
        let answer = state.answer(&call);
        sequence[rng.usize(..lanes)].push((call, answer, moment as f64));
    }
    // A call ends and the lane's next one begins somewhere between their moments, in this order.
    let mut times: Vec<Vec<[f64; 2]>> = Vec::new();
    for lane in &sequence {
        let mut begin = lane
            .first()
            .map_or(0.0, |(_, _, moment)| moment - rng.f64() * calls as f64);
        let mut lane_times = Vec::new();
        for (index, (_, _, moment)) in lane.iter().enumerate() {
            let next = lane
                .get(index + 1)
                .map_or(2.0 * calls as f64, |(_, _, moment)| *moment);
            let end = moment + rng.f64() * (next - moment);
            lane_times.push([begin, end]);
            begin = end + rng.f64() * (next - end);
        }
        times.push(lane_times);
    }
    let seen = |begin: f64| -> Seen {
        std::array::from_fn(|lane| {
            let lane = times.get(lane).map_or(&[][..], |lane| lane);
            lane.iter().filter(|[_, end]| *end < begin).count() as u32
        })
    };
    let lanes = sequence.into_iter().enumerate().map(|(lane, events)| {
        let events = events
            .into_iter()
            .enumerate()
            .map(|(index, (call, answer, _))| {
                let answer = Some(answer);
                Event {
                    call,
                    answer,
                    seen: seen(times[lane][index][0]),
                }
            });
        events.collect()
    });
    History {
        before,
        lanes: lanes.collect(),
    }
}

/// Makes lanes see fewer returns than there had been.
fn forget(rng: &mut Rng, history: &mut History<impl Model>) {
    for (number, events) in history.lanes.iter_mut().enumerate() {
        let mut least = [0; LANES];
        for event in events {
            for lane in (0..LANES).filter(|lane| *lane != number) {
                event.seen[lane] = rng.u32(least[lane]..=event.seen[lane].max(least[lane]));
                least[lane] = event.seen[lane];
            }
        }
    }
}

/// Makes the last call of a lane one that never returned.
fn cut(rng: &mut Rng, history: &mut History<impl Model>) {
    let lane = rng.usize(..history.lanes.len());
    let last = history.lanes[lane].len();
    let seen_by_others = history
        .lanes
        .iter()
        .flatten()
        .any(|event| event.seen[lane] as usize == last);
    if last > 0 && !seen_by_others {
        history.lanes[lane][last - 1].answer = None;
    }
}

/// Replays the order that was found, and checks that it explains the history.
fn replay<M: Model>(history: &History<M>, order: &[usize]) {
    let mut state = history.before.clone();
    let mut taken = [0; LANES];
    for &lane in order {
        let event = &history.lanes[lane][taken[lane] as usize];
        assert!(
            event
                .seen
                .iter()
                .zip(&taken)
                .all(|(seen, taken)| taken >= seen),
            "{history}{order:?}"
        );
        assert!(
            state.step(&event.call, event.answer.as_ref()),
            "{history}{order:?}"
        );
        taken[lane] += 1;
    }
    for (events, taken) in history.lanes.iter().zip(taken) {
        let left = &events[taken as usize..];
        assert!(
            left.iter().all(|event| event.answer.is_none()),
            "{history}{order:?}"
        );
    }
}

fn passes<M: Arbitrary>(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut concurrent = 0;
    for round in 0..2_000 {
        let (lanes, calls) = (rng.usize(1..=LANES), rng.usize(..24));
        let mut history = widened::<M>(&mut rng, lanes, calls);
        if round % 2 == 1 {
            forget(&mut rng, &mut history);
            cut(&mut rng, &mut history);
        }
        concurrent += history.concurrent();
        let order = linearize(&history).unwrap_or_else(|error| panic!("round {round}: {error}"));
        replay(&history, &order.order);
    }
    assert!(concurrent > 2_000, "nothing was widened: {concurrent}");
}

#[test]
fn what_has_an_order_passes() {
    passes::<Ends>(1);
    passes::<Registers>(2);
}

fn fails<M: Arbitrary>(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut broken = 0;
    while broken < 500 {
        let mut history = widened::<M>(&mut rng, 4, 12);
        let lane = rng.usize(..4);
        let events = &mut history.lanes[lane];
        if events.is_empty() {
            continue;
        }
        let event = rng.usize(..events.len());
        let Some(answer) = events[event].answer.as_ref().and_then(M::impossible) else {
            continue;
        };
        events[event].answer = Some(answer);
        broken += 1;
        let error = linearize(&history).expect_err("no order explains it");
        assert!(error.explained.iter().sum::<u32>() < 12, "{error}");
    }
}

#[test]
fn what_has_no_order_fails() {
    fails::<Ends>(3);
    fails::<Registers>(4);
}

fn agrees<M: Arbitrary>(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut verdicts = [0, 0];
    for round in 0..3_000 {
        let (lanes, calls) = (rng.usize(1..=4), rng.usize(1..=6));
        let mut history = widened::<M>(&mut rng, lanes, calls);
        if rng.bool() {
            forget(&mut rng, &mut history);
        }
        if rng.bool() {
            cut(&mut rng, &mut history);
        }
        for _ in 0..rng.usize(..3) {
            let lane = rng.usize(..lanes);
            if let Some(event) = rng.choice(&mut history.lanes[lane]) {
                event.answer = event
                    .answer
                    .as_ref()
                    .map(|answer| M::other(&mut rng, answer));
            }
        }
        let tried = is_linearizable(&history);
        let searched = linearize(&history);
        assert_eq!(
            searched.is_ok(),
            tried,
            "round {round}: {history}{searched:?}"
        );
        if let Ok(order) = searched {
            replay(&history, &order.order);
        }
        verdicts[usize::from(tried)] += 1;
    }
    assert!(
        verdicts.iter().all(|count| *count > 300),
        "one verdict only: {verdicts:?}"
    );
}

#[test]
fn it_says_what_trying_every_order_says() {
    agrees::<Ends>(5);
    agrees::<Registers>(6);
}

/// Makes a call whose lane has seen no returns of the others.
fn call(call: ends::Call, answer: ends::Answer) -> Event<Ends> {
    Event {
        call,
        answer: Some(answer),
        seen: [0; LANES],
    }
}

/// A lane's own order counts even where no lane has seen a return.
#[test]
fn a_lane_is_in_order() {
    let pushed = vec![
        call(ends::Call::PutTail(1), ends::Answer::Put(true)),
        call(ends::Call::PutTail(2), ends::Answer::Put(true)),
    ];
    let taken = |value| call(ends::Call::Take, ends::Answer::Value(Some(value)));
    let history = |lanes| History {
        before: Ends::empty(2),
        lanes,
    };
    assert!(linearize(&history(vec![pushed.clone(), vec![taken(1), taken(2)]])).is_ok());
    assert!(linearize(&history(vec![pushed.clone(), vec![taken(2), taken(1)]])).is_err());
    assert!(linearize(&history(vec![pushed, vec![taken(2)], vec![taken(1)]])).is_ok());
}

/// Each end looks before it sees the other's store: no order explains both refusals, and one each
/// explains either.
#[test]
fn refusals_of_two_ends_need_not_agree() {
    let put = |value, is_put| call(ends::Call::PutTail(value), ends::Answer::Put(is_put));
    let take = |value| call(ends::Call::Take, ends::Answer::Value(value));
    let explained = |lanes: Vec<Vec<Event<Ends>>>| {
        let seen_from = |is_producer| {
            let events = |lane: &Vec<Event<Ends>>| {
                let event = |event: &Event<Ends>| Event {
                    call: event.call,
                    answer: event.answer,
                    seen: event.seen,
                };
                lane.iter().map(event).collect()
            };
            let history = History {
                before: SeenFromOneEnd::empty(2, is_producer),
                lanes: lanes.iter().map(events).collect(),
            };
            linearize(&history).is_ok()
        };
        let (producer, consumer) = (seen_from(true), seen_from(false));
        let before = Ends::empty(2);
        let both = linearize(&History { before, lanes }).is_ok();
        (both, producer, consumer)
    };
    let puts = vec![put(1, true), put(2, true), put(3, false)];
    let both_refused = vec![puts.clone(), vec![take(Some(1)), take(None)]];
    assert_eq!(explained(both_refused), (false, true, true));
    // A refusal despite a value that the end must have seen is wrong.
    let refused_with_room = vec![vec![put(1, true), put(2, false)], vec![]];
    assert_eq!(explained(refused_with_room), (false, false, true));
    let mut seen = puts;
    seen[2].seen[1] = 1;
    let refused_after_a_take = vec![seen, vec![take(Some(1))]];
    assert_eq!(explained(refused_after_a_take), (false, false, true));
    let mut nothing = take(None);
    nothing.seen[0] = 1;
    let empty_after_a_put = vec![vec![put(1, true)], vec![nothing]];
    assert_eq!(explained(empty_after_a_put), (false, true, false));
}
