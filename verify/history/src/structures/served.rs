//! A `nonblocking::Server` whose object is a queue with two ends.

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{Operation, Server, plain};
use fastrand::Rng;

use crate::record::Subject;
use crate::structures::ends::{Answer, Call, Ends};

/// How many values the queue has room for.
const ROOM: usize = 6;

plain! {
    /// The object: a queue whose first value is at the head.
    #[derive(Debug, Default)]
    pub struct Row {
        values: [u64; ROOM],
        count: u64,
    }
}

plain! {
    /// An operation: one of the numbers below, and a value.
    pub struct Change {
        kind: u64,
        value: u64,
    }
}

const PUT_HEAD: u64 = 0;
const PUT_TAIL: u64 = 1;
const TAKE: u64 = 2;
/// Shortens the queue to that many values, whatever is in it; for the control alone.
const REPLACE: u64 = 3;

impl Operation<Row> for Change {
    /// Whether there was room, or a value; and the value.
    type Output = [u64; 2];

    fn apply(self, row: &mut Row) -> [u64; 2] {
        let count = row.count as usize;
        match self.kind {
            TAKE if count == 0 => [0, 0],
            TAKE => {
                let head = row.values[0];
                row.values.copy_within(1.., 0);
                row.count -= 1;
                [1, head]
            }
            REPLACE => {
                row.count = self.value;
                [1, 0]
            }
            _ if count == ROOM => [0, 0],
            PUT_HEAD => {
                row.values.copy_within(..count, 1);
                row.values[0] = self.value;
                row.count += 1;
                [1, 0]
            }
            _ => {
                row.values[count] = self.value;
                row.count += 1;
                [1, 0]
            }
        }
    }
}

/// The server.
pub struct Served(Server<Row, Change>);

impl Served {
    /// Makes one with an empty queue under this mechanism.
    pub fn fresh(mechanism: Mechanism) -> (Served, Ends) {
        let server = Server::forced(Row::default(), mechanism);
        (Served(server), Ends::empty(ROOM))
    }

    fn run(&self, kind: u64, value: u64) -> [u64; 2] {
        let output = self.0.run(Change { kind, value });
        output.expect("memory for a copy of a row")
    }
}

fn choose(rng: &mut Rng, value: u64) -> Call {
    match rng.u32(..16) {
        0 => Call::Count,
        1 | 2 => Call::Look,
        3..6 => Call::PutHead(value),
        6..10 => Call::PutTail(value),
        _ => Call::Take,
    }
}

fn take_all(before: Option<&Answer>) -> Option<Call> {
    (before != Some(&Answer::Value(None))).then_some(Call::Take)
}

impl Subject for Served {
    type Model = Ends;
    type Memory = ();

    fn choose(&self, rng: &mut Rng, (): &(), value: u64) -> Option<Call> {
        Some(choose(rng, value))
    }

    fn operate(&self, call: &Call, (): &mut ()) -> Answer {
        match *call {
            Call::PutHead(value) => Answer::Put(self.run(PUT_HEAD, value)[0] == 1),
            Call::PutTail(value) => Answer::Put(self.run(PUT_TAIL, value)[0] == 1),
            Call::Count => Answer::Count(self.0.load().count as usize),
            Call::Look => {
                let row = self.0.load();
                Answer::Value((row.count > 0).then_some(row.values[0]))
            }
            _ => {
                let [done, value] = self.run(TAKE, 0);
                Answer::Value((done == 1).then_some(value))
            }
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        take_all(before)
    }
}

/// A server whose callers take a value in two operations: the object may change between them.
pub struct InTwo(Served);

impl InTwo {
    /// Makes one with an empty queue under this mechanism.
    pub fn fresh(mechanism: Mechanism) -> (InTwo, Ends) {
        let (served, ends) = Served::fresh(mechanism);
        (InTwo(served), ends)
    }
}

impl Subject for InTwo {
    type Model = Ends;
    type Memory = ();

    fn choose(&self, rng: &mut Rng, (): &(), value: u64) -> Option<Call> {
        Some(match rng.bool() {
            true => Call::PutTail(value),
            false => Call::Take,
        })
    }

    fn operate(&self, call: &Call, (): &mut ()) -> Answer {
        match *call {
            Call::Take => {
                let row = self.0.0.load();
                let Some(rest) = row.count.checked_sub(1) else {
                    return Answer::Value(None);
                };
                // Takes the last value; it is the only one, so that it is the first as well.
                if rest == 0 {
                    self.0.run(REPLACE, 0);
                    return Answer::Value(Some(row.values[0]));
                }
                self.0.operate(call, &mut ())
            }
            _ => self.0.operate(call, &mut ()),
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        take_all(before)
    }
}
