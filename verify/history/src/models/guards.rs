//! Values in a row, some of which somebody has a guard of: `nonblocking::RefList`.

use super::ends::{self, Answer, Ends};
use crate::model::{Model, agrees};

/// The row, and every value that was ever in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Guards {
    row: Ends,
    /// In the order in which they came.
    came: Vec<u64>,
}

impl Guards {
    /// An empty row.
    pub fn empty(capacity: usize) -> Guards {
        Guards {
            row: Ends::empty(capacity),
            came: Vec::new(),
        }
    }

    /// The first that came before this one, which need not be in the row any more.
    fn behind(&self, value: u64) -> Option<u64> {
        let of_this = |other: &u64| *other == value;
        let place = self.came.iter().position(of_this)?;
        let mut row = self.row.values();
        row.find(|value| self.came[..place].contains(value))
    }
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// One that needs no guard.
    Row(ends::Call),
    /// A guard of the first one.
    Enter,
    /// A guard of the one behind this, of which the caller has one.
    Next(u64),
    /// Is this one, of which the caller has a guard, removed?
    IsRemoved(u64),
}

impl Model for Guards {
    type Call = Call;
    type Answer = Answer;

    fn step(&mut self, call: &Call, answer: Option<&Answer>) -> bool {
        let right = match *call {
            Call::Row(call) => {
                if let ends::Call::PutHead(value) = call {
                    self.came.push(value);
                }
                return self.row.step(&call, answer);
            }
            Call::Enter => Answer::Value(self.row.values().next()),
            Call::Next(value) => Answer::Value(self.behind(value)),
            Call::IsRemoved(value) => Answer::Deleted(!self.row.values().any(|it| it == value)),
        };
        agrees(answer, right)
    }
}
