//! The gaps between the sequences of one operation, where a handler may come between.
//!
//! A sequence is atomic, so these gaps are all that an operation of several has to be right about.
//! Each is marked by [`point`], which is nothing, but in this crate's own tests runs what they ask
//! for: another operation on the same structure, as a handler would.

/// A handler may interrupt here.
#[cfg(not(test))]
#[inline(always)]
pub(super) fn point() {}

#[cfg(test)]
pub(super) use testing::point;

#[cfg(test)]
pub(super) mod testing {
    use std::cell::RefCell;

    type Handler = Box<dyn FnMut()>;

    thread_local! {
        /// How many points are still to be passed, and what happens then.
        static PENDING: RefCell<Vec<(usize, Handler)>> = const { RefCell::new(Vec::new()) };
    }

    pub(in super::super) fn point() {
        let due = PENDING.with_borrow_mut(|pending| match pending.last_mut() {
            Some((0, _)) => pending.pop(),
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        });
        if let Some((_, mut handler)) = due {
            handler();
        }
    }

    /// Runs `operation`, interrupted at its `at`-th point by `handler`. `None` if it has no more
    /// points than that.
    pub(in super::super) fn interrupted<R>(
        at: usize,
        handler: impl FnMut(),
        operation: impl FnOnce() -> R,
    ) -> Option<R> {
        let handler: Box<dyn FnMut() + '_> = Box::new(handler);
        // SAFETY: it is taken out again, called or not, before this function returns; no operation
        // here panics without ending the test.
        let handler: Handler = unsafe { std::mem::transmute(handler) };
        let depth = PENDING.with_borrow_mut(|pending| {
            pending.push((at, handler));
            pending.len()
        });
        let result = operation();
        let came = PENDING.with_borrow_mut(|pending| {
            let came = pending.len() < depth;
            pending.truncate(depth - 1);
            came
        });
        came.then_some(result)
    }
}
