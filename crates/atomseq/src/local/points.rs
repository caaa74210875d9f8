//! Injection points: the gaps between the sequences of one operation, where a handler may interrupt
//! it.
//!
//! A sequence is atomic, so an operation of several sequences only has to be correct for
//! interruptions in these gaps. Each gap calls [`point`], which does nothing except in this crate's
//! own tests. There it runs another operation on the same structure, as a handler would.

/// Marks a gap where a handler may interrupt.
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
        /// For each pending handler, the number of points to pass before it runs.
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

    /// Runs `operation`, and calls `handler` at its `at`-th point. `None` if the operation has no
    /// more points than that.
    pub(in super::super) fn interrupted<R>(
        at: usize,
        handler: impl FnMut(),
        operation: impl FnOnce() -> R,
    ) -> Option<R> {
        let handler: Box<dyn FnMut() + '_> = Box::new(handler);
        // SAFETY: the handler is removed from `PENDING` before this function returns, called or
        // not. An operation that panics here ends the test, so the reference is not used
        // afterwards.
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
