//! Channels between coroutines, many to many, as in crossbeam: [`bounded`] and [`unbounded`].
//!
//! Messages arrive in the order in which they were sent. Each is received once. A channel is
//! disconnected when all its senders or all its receivers have been dropped. The errors are those
//! of [`std::sync::mpsc`]. Sending and receiving take no atomic instruction and no system call,
//! unless the channel's queue grows: it starts empty, and grows up to the capacity.
//!
//! ```
//! use atomseq_threads::coroutine::{self, channel};
//!
//! let sum = || -> u32 {
//!     let (sender, receiver) = channel::bounded(1);
//!     for n in 1..=3 {
//!         let sender = sender.clone();
//!         drop(coroutine::spawn(move || sender.send(n)));
//!     }
//!     drop(sender);
//!     receiver.iter().sum()
//! };
//! // SAFETY: switches outside of thread-locals.
//! assert_eq!(unsafe { coroutine::run(sum) }, 6);
//! ```

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::sync::mpsc::{RecvError, SendError, TryRecvError, TrySendError};
use std::{iter, process};

use super::scheduler::{Control, Queue, Scheduler, expect_scheduler, inside};

/// What the two sides of a channel share. Accessed between `begin` and `end`, in which no code of a
/// user runs.
///
/// While a receiver waits, there are no messages. While a sender waits, there are as many as the
/// channel holds.
struct Shared<T> {
    messages: UnsafeCell<VecDeque<T>>,
    /// How many messages the channel holds.
    capacity: Option<usize>,
    /// Coroutines that wait to send the message in their slot.
    sending: Queue,
    /// Coroutines that wait to receive a message into their slot.
    receiving: Queue,
    senders: Cell<usize>,
    receivers: Cell<usize>,
}

/// The place of the message that a waiting coroutine sends or receives.
type Slot<T> = Cell<Option<T>>;

/// Returns the slot of a coroutine that waits for a channel.
///
/// # Safety
///
/// It is in a queue of a channel of `T`, or has just been taken out and has not run since.
unsafe fn slot<'a, T>(waiter: NonNull<Control>) -> &'a Slot<T> {
    // SAFETY: `Shared::wait` sets it, to what lives until the coroutine runs again.
    unsafe { &*waiter.as_ref().slot.get().cast() }
}

impl<T> Shared<T> {
    /// # Safety
    ///
    /// Called between `begin` and `end`. No other result of this is used any more.
    #[allow(clippy::mut_from_ref, reason = "the caller's promise")]
    unsafe fn messages(&self) -> &mut VecDeque<T> {
        // SAFETY: one kernel thread, and no other coroutine runs before `end`.
        unsafe { &mut *self.messages.get() }
    }

    /// Sends a message if that takes no wait. Called between `begin` and `end`, as all of these.
    fn try_send(&self, scheduler: Option<&Scheduler>, message: T) -> Result<(), TrySendError<T>> {
        if self.receivers.get() == 0 {
            return Err(TrySendError::Disconnected(message));
        }
        if let Some(scheduler) = scheduler
            && let Some(receiver) = self.receiving.pop_of(scheduler.run())
        {
            // SAFETY: it waits for this channel, in no other queue.
            unsafe {
                slot(receiver).set(Some(message));
                scheduler.make_ready(receiver);
            }
            return Ok(());
        }
        // SAFETY: the only one here.
        let messages = unsafe { self.messages() };
        if self.capacity.is_some_and(|max| messages.len() >= max) {
            return Err(TrySendError::Full(message));
        }
        messages.push_back(message);
        Ok(())
    }

    /// Receives a message if there is one, and lets a sender that waits have its place.
    fn try_receive(&self, scheduler: Option<&Scheduler>) -> Result<T, TryRecvError> {
        // SAFETY: the only one here.
        let messages = unsafe { self.messages() };
        let first = messages.pop_front();
        let sender = scheduler.and_then(|scheduler| {
            let sender = self.sending.pop_of(scheduler.run())?;
            // SAFETY: it waits for this channel, in no other queue.
            unsafe {
                scheduler.make_ready(sender);
                slot(sender).take()
            }
        });
        if first.is_some() {
            messages.extend(sender);
            return first.ok_or(TryRecvError::Empty);
        }
        sender.ok_or(match self.senders.get() {
            0 => TryRecvError::Disconnected,
            _ => TryRecvError::Empty,
        })
    }

    /// Waits in `queue` until another coroutine has emptied or filled `slot`, or the channel is
    /// disconnected. Returns false if no other coroutine can run.
    fn wait(&self, scheduler: &Scheduler, queue: &Queue, slot: &Slot<T>) -> bool {
        scheduler.current().slot.set((&raw const *slot).cast());
        scheduler.wait_in(queue)
    }
}

/// Adds a reference to one of a channel's sides. Aborts if there are too many.
fn add(count: &Cell<usize>) {
    match count.get().checked_add(1) {
        Some(more) => count.set(more),
        None => process::abort(),
    }
}

/// Creates a channel that holds at most `capacity` messages. A sender waits until there is room; if
/// the capacity is 0, until a receiver takes the message.
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    with(Some(capacity))
}

/// Creates a channel that holds any number of messages: sending never waits.
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    with(None)
}

fn with<T>(capacity: Option<usize>) -> (Sender<T>, Receiver<T>) {
    let shared = Shared {
        messages: UnsafeCell::new(VecDeque::new()),
        capacity,
        sending: Queue::new(),
        receiving: Queue::new(),
        senders: Cell::new(1),
        receivers: Cell::new(1),
    };
    let shared = NonNull::from(inside(|_| Box::leak(Box::new(shared))));
    (Sender { shared }, Receiver { shared })
}

/// Releases a reference to one side; with the last one, wakes the other side, and with the last one
/// of both, frees the channel.
///
/// # Safety
///
/// The caller owns the reference, which `side` counts.
unsafe fn release<T>(shared: NonNull<Shared<T>>, side: fn(&Shared<T>) -> &Cell<usize>) {
    let messages = inside(|scheduler| {
        // SAFETY: not freed before the last reference is released.
        let channel = unsafe { shared.as_ref() };
        let count = side(channel);
        count.set(count.get() - 1);
        if count.get() == 0
            && let Some(scheduler) = scheduler
        {
            scheduler.wake_all(&channel.sending);
            scheduler.wake_all(&channel.receiving);
        }
        let has_receivers = channel.receivers.get() > 0;
        // SAFETY: the only one here. Nothing receives these any more.
        let messages = (!has_receivers).then(|| unsafe { core::mem::take(channel.messages()) });
        if !has_receivers && channel.senders.get() == 0 {
            // SAFETY: made by `with`, and this was the last reference of both sides.
            drop(unsafe { Box::from_raw(shared.as_ptr()) });
        }
        messages
    });
    if let Some(mut messages) = messages {
        // The destructors of users last: they may run other coroutines. Their memory is freed where
        // no tick finds the allocator.
        messages.clear();
        inside(|_| drop(messages));
    }
}

/// The sending side of a channel.
pub struct Sender<T> {
    shared: NonNull<Shared<T>>,
}

impl<T> Sender<T> {
    fn shared(&self) -> &Shared<T> {
        // SAFETY: a reference.
        unsafe { self.shared.as_ref() }
    }

    /// Sends a message, waiting until there is room.
    ///
    /// # Errors
    ///
    /// If all receivers have been dropped, with the message.
    ///
    /// # Panics
    ///
    /// If there is no room, and this is outside of [`run`](super::run), or no other coroutine can
    /// run, so that none can receive. The message is dropped then.
    #[track_caller]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        let shared = self.shared();
        let message = match self.try_send(message) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Disconnected(message)) => return Err(SendError(message)),
            Err(TrySendError::Full(message)) => message,
        };
        let scheduler = expect_scheduler();
        scheduler.begin();
        // Again, for others may have run before `begin`.
        let (message, can_be) = match shared.try_send(Some(scheduler), message) {
            Ok(()) => (None, true),
            Err(TrySendError::Disconnected(message)) => (Some(message), true),
            Err(TrySendError::Full(message)) => {
                let slot = Cell::new(Some(message));
                let can_be = shared.wait(scheduler, &shared.sending, &slot);
                (slot.take(), can_be)
            }
        };
        scheduler.end();
        if !can_be {
            panic!("all coroutines wait, so none can receive this message");
        }
        message.map_or(Ok(()), |message| Err(SendError(message)))
    }

    /// Sends a message if there is room, or a receiver waits for one.
    ///
    /// # Errors
    ///
    /// If there is not, or all receivers have been dropped, with the message.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        inside(|scheduler| self.shared().try_send(scheduler, message))
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        let shared = self.shared;
        inside(|_| add(&self.shared().senders));
        Sender { shared }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // SAFETY: this one's reference.
        unsafe { release(self.shared, |shared| &shared.senders) };
    }
}

/// The receiving side of a channel.
pub struct Receiver<T> {
    shared: NonNull<Shared<T>>,
}

impl<T> Receiver<T> {
    fn shared(&self) -> &Shared<T> {
        // SAFETY: a reference.
        unsafe { self.shared.as_ref() }
    }

    /// Receives a message, waiting until there is one.
    ///
    /// # Errors
    ///
    /// If there is none and all senders have been dropped.
    ///
    /// # Panics
    ///
    /// If there is none, and this is outside of [`run`](super::run), or no other coroutine can run,
    /// so that none can send.
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        let shared = self.shared();
        match self.try_recv() {
            Ok(message) => return Ok(message),
            Err(TryRecvError::Disconnected) => return Err(RecvError),
            Err(TryRecvError::Empty) => {}
        }
        let scheduler = expect_scheduler();
        scheduler.begin();
        // Again, for others may have run before `begin`.
        let (message, can_be) = match shared.try_receive(Some(scheduler)) {
            Ok(message) => (Some(message), true),
            Err(TryRecvError::Disconnected) => (None, true),
            Err(TryRecvError::Empty) => {
                let slot = Cell::new(None);
                let can_be = shared.wait(scheduler, &shared.receiving, &slot);
                (slot.take(), can_be)
            }
        };
        scheduler.end();
        if !can_be {
            panic!("all coroutines wait, so none can send a message");
        }
        message.ok_or(RecvError)
    }

    /// Receives a message if there is one.
    ///
    /// # Errors
    ///
    /// If there is none. The error says whether all senders have been dropped.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        inside(|scheduler| self.shared().try_receive(scheduler))
    }

    /// Returns an iterator over messages. It waits for each, and ends when all senders have been
    /// dropped.
    ///
    /// # Panics
    ///
    /// As [`recv`](Receiver::recv), in `next`.
    pub fn iter(&self) -> impl Iterator<Item = T> {
        iter::from_fn(|| self.recv().ok())
    }

    /// Returns an iterator over the messages that are there. It does not wait.
    pub fn try_iter(&self) -> impl Iterator<Item = T> {
        iter::from_fn(|| self.try_recv().ok())
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        let shared = self.shared;
        inside(|_| add(&self.shared().receivers));
        Receiver { shared }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // SAFETY: this one's reference.
        unsafe { release(self.shared, |shared| &shared.receivers) };
    }
}

macro_rules! observed {
    ($($side:ident)*) => {$(
        impl<T> $side<T> {
            /// Returns how many messages are in the channel; those of senders that wait do not
            /// count.
            pub fn len(&self) -> usize {
                // SAFETY: the only one here.
                inside(|_| unsafe { self.shared().messages() }.len())
            }

            /// Returns whether there are none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Returns how many messages the channel holds, or `None` if any number.
            pub fn capacity(&self) -> Option<usize> {
                self.shared().capacity
            }
        }

        impl<T> fmt::Debug for $side<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($side))
                    .field("len", &self.len())
                    .field("capacity", &self.capacity())
                    .finish_non_exhaustive()
            }
        }
    )*};
}

observed! { Sender Receiver }
