//! Structures that are taken apart by their owner, value by value.

use std::fmt;
use std::iter::FusedIterator;

use super::spsc::Ring;
use super::{LinkedStack, OneVisitorList, Queue, RefList, Stack};
use crate::AsWord;

/// Takes the values out of a structure that nobody else has: what `into_iter` makes of a [`Stack`],
/// a [`LinkedStack`], a [`Queue`], a [`RefList`], a [`OneVisitorList`] or an [`spsc::Ring`](Ring).
/// They come in the order in which the structure gives them; what is left when this is dropped is
/// dropped with it.
///
/// ```
/// use atomseq::nonblocking::{Queue, Stack};
///
/// let queue: Queue<u64> = (1..=3).collect();
/// assert_eq!(queue.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
/// let stack: Stack<u64> = (1..=3).collect();
/// assert_eq!(stack.into_iter().collect::<Vec<_>>(), [3, 2, 1]);
/// ```
///
/// A value whose guard or visit was forgotten (`std::mem::forget`) is passed by. A
/// [`OneVisitorList`] drops it when this is dropped; that of a [`RefList`] is leaked, for the guard
/// still counts.
pub struct Values<S>(S);

impl<S: fmt::Debug> fmt::Debug for Values<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Values").field(&self.0).finish()
    }
}

/// What a structure gives next, and how many there are at least and at most.
macro_rules! values {
    ($($structure:ident<T $(: $bound:path $(, $more:path)?)?>, $next:expr, $count:expr;)*) => {$(
        impl<T $(: $bound $(+ $more)?)?> Iterator for Values<$structure<T>> {
            type Item = T;

            fn next(&mut self) -> Option<T> {
                let next: fn(&mut $structure<T>) -> Option<T> = $next;
                next(&mut self.0)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                let count: fn(&$structure<T>) -> (usize, Option<usize>) = $count;
                count(&self.0)
            }
        }

        impl<T $(: $bound $(+ $more)?)?> FusedIterator for Values<$structure<T>> {}

        impl<T $(: $bound $(+ $more)?)?> IntoIterator for $structure<T> {
            type Item = T;
            type IntoIter = Values<$structure<T>>;

            fn into_iter(self) -> Values<$structure<T>> {
                Values(self)
            }
        }
    )*};
}

values! {
    Stack<T: AsWord>, |stack| stack.pop(), |stack| exactly(stack.len());
    Queue<T: AsWord>, |queue| queue.pop(), |queue| exactly(queue.len());
    Ring<T>, |ring| ring.split().1.pop(), |ring| exactly(ring.len());
    LinkedStack<T: Send>, |stack| stack.pop(), |_| UNCOUNTED;
    OneVisitorList<T: Send>, |list| list.pop_front(), |_| UNCOUNTED;
    RefList<T: Send, Sync>,
        |list| std::iter::from_fn(|| list.pop_front()).find_map(|guard| guard.into_inner().ok()),
        |_| UNCOUNTED;
}

fn exactly(count: usize) -> (usize, Option<usize>) {
    (count, Some(count))
}

/// Counting takes as long as taking them out.
const UNCOUNTED: (usize, Option<usize>) = (0, None);
