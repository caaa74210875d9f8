//! Consuming iterators over structures.

use std::fmt;
use std::iter::FusedIterator;

use super::spsc::Ring;
use super::{LinkedQueue, LinkedStack, OneVisitorList, Queue, RefList, Stack};
use crate::AsWord;

/// The iterator that `into_iter` of a [`Stack`], a [`LinkedStack`], a [`Queue`], a [`LinkedQueue`],
/// a [`RefList`], a [`OneVisitorList`] or an [`spsc::Ring`](Ring) returns. It owns the structure
/// and takes its values out in the structure's order. Dropping it drops the remaining values.
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
/// It skips a value of a [`RefList`] or a [`OneVisitorList`] whose guard or visit was leaked by
/// `std::mem::forget`. Such a value is dropped with the iterator.
pub struct Values<S>(S);

impl<S: fmt::Debug> fmt::Debug for Values<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Values").field(&self.0).finish()
    }
}

/// For each structure: how to take the next value, and the bounds of the number of values.
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
    LinkedQueue<T: Send>, |queue| queue.pop(), |_| UNCOUNTED;
    OneVisitorList<T: Send>, |list| list.pop_front(), |_| UNCOUNTED;
    RefList<T: Send, Sync>,
        |list| std::iter::from_fn(|| list.pop_front()).find_map(|guard| guard.into_inner().ok()),
        |_| UNCOUNTED;
}

fn exactly(count: usize) -> (usize, Option<usize>) {
    (count, Some(count))
}

/// No bounds: counting the values takes as long as taking them out.
const UNCOUNTED: (usize, Option<usize>) = (0, None);
