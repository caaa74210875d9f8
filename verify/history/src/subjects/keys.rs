//! `nonblocking::List` with an order: few keys, so that they meet.

use std::mem::ManuallyDrop;

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{Ascending, CheckedOut, Checkout, List, Refused};
use fastrand::Rng;

use crate::models::keys::{Answer, Call, KEYS, Keys};
use crate::record::Subject;

/// A list.
pub struct Ordered(List<u64, u64>);

/// Lists whose nodes come from one pool, so that what one has freed the next one uses.
pub fn lists(mechanism: Mechanism) -> impl FnMut(&mut Rng) -> (Ordered, Keys) {
    let first = List::forced(mechanism);
    move |_| (Ordered(first.sibling()), Keys::default())
}

type Out<'list> = Checkout<'list, u64, u64, Ascending>;

/// What a lane has removed for change.
#[derive(Default)]
pub struct Hands(Option<Held>);

/// Never dropped: at the end of a history the entry stays removed.
struct Held(ManuallyDrop<Out<'static>>);

// SAFETY: handed from thread to thread only while its lane is not used, and forgotten there.
unsafe impl Send for Held {}

impl Subject for Ordered {
    type Model = Keys;
    type Memory = Hands;

    fn choose(&self, rng: &mut Rng, hands: &Hands, value: u64) -> Option<Call> {
        let key = rng.u64(..KEYS as u64);
        if let Some(Held(removed)) = &hands.0 {
            if rng.bool() {
                return Some(Call::Reinsert(removed.key(), value));
            }
        }
        Some(match rng.u32(..16) {
            0..4 => Call::Insert(key, value),
            4 | 5 => Call::Put(key, value),
            6 => Call::Replace(key, value),
            7 | 8 => Call::Find(key),
            9 | 10 => Call::Delete(key),
            11 => Call::TakeFirst,
            12 | 13 if hands.0.is_none() => Call::RemoveForChange(key),
            _ => Call::Entries,
        })
    }

    fn operate(&self, call: &Call, hands: &mut Hands) -> Answer {
        match *call {
            Call::Insert(key, value) => match self.0.try_insert(key, value) {
                Ok(()) => Answer::Done,
                Err(Refused::Present) => Answer::Present,
                Err(refused) => being_changed(refused),
            },
            Call::Put(key, value) => self
                .0
                .insert(key, value)
                .map_or_else(being_changed, Answer::Value),
            Call::Replace(key, value) => self
                .0
                .replace(&key, value)
                .map_or_else(being_changed, Answer::Value),
            Call::Find(key) => value(self.0.get(&key)),
            Call::Delete(key) => value(self.0.remove(&key)),
            Call::TakeFirst => Answer::First(self.0.pop_first()),
            Call::Entries => {
                let mut entries = [(0, 0); KEYS];
                let count = self.0.copy_first(&mut entries);
                entries[count..].fill((0, 0));
                Answer::Entries((entries, count))
            }
            Call::RemoveForChange(key) => value(self.0.check_out(&key).map(|removed| {
                let removed = removed?;
                let value = removed.value();
                // SAFETY: the list stays where it is and as it is until the history is over, and
                // nobody uses it after that.
                let removed = unsafe { std::mem::transmute::<Out<'_>, Out<'static>>(removed) };
                hands.0 = Some(Held(ManuallyDrop::new(removed)));
                Some(value)
            })),
            Call::Reinsert(_, value) => {
                let Held(removed) = hands.0.take().expect("chosen by what the lane holds");
                let back = ManuallyDrop::into_inner(removed).check_in(value);
                back.expect("nobody gives it up");
                Answer::Done
            }
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        match before {
            None => Some(Call::Entries),
            Some(Answer::First(None)) => None,
            Some(_) => Some(Call::TakeFirst),
        }
    }
}

fn value(found: Result<Option<u64>, CheckedOut>) -> Answer {
    found.map_or(Answer::CheckedOut, Answer::Value)
}

fn being_changed(refused: Refused) -> Answer {
    match refused {
        Refused::CheckedOut(_) => Answer::CheckedOut,
        other => panic!("{other}"),
    }
}
