//! One producer, one consumer: a queue that needs no synchronization, since each word has one who
//! stores it.
//!
//! ```text
//!   +------+---+------+---+---------+---------+----
//!   | head | … | tail | … | element | element |  …      a power of two of places, `capacity` of them used at a time
//!   +------+---+------+---+---------+---------+----
//!    stored by  stored by
//!    consumer   producer          head & mask ^        ^ tail & mask
//! ```
//!
//! S92 5.1.4 calls this code isolation: "As long as the queue is neither full nor empty, the
//! producer and consumer work on different parts of it and need not synchronize." The producer
//! alone stores the tail and the places from tail to head, the consumer alone the head. Who stores
//! a word knows its value and never reads it; each end keeps what it last read of the other's word,
//! and reads it again only when it seems to have no room, or no element, left.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, needs_drop};
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Error, check_capacity};
use crate::distance::distance;
use crate::drops;
use crate::sync::{AtomicUsize, Ordering, fence};

mod consumer;
mod producer;

pub use consumer::Consumer;
pub use producer::Producer;

/// A bounded first-in-first-out store of values of any size, between one producer and one consumer.
///
/// A ring does nothing until it is taken apart, into a [`Producer`] and a [`Consumer`]: neither can
/// be cloned, and both need `&mut`, so that there are never two of a kind. Scope `Machine`.
/// Wait-free: no operation waits or begins again, whatever state the other end was stopped or ended
/// in. Cost: no atomic read-modify-write instruction and no fence; a load and a store of a word of
/// its own, and now and then a load of the other's. Memory: room for `capacity` elements, rounded
/// up to a power of two, and six cache lines; nothing allocates after construction. S92 5.1.4.
///
/// # Full and empty
///
/// Neither end makes a fence, so what one has done may reach the other a moment later. A producer
/// that finds the ring full, and a consumer that finds it empty, are each right as far as they
/// know, and both can happen at once. An end that is about to sleep until the other one wakes it
/// first stores that it sleeps, makes a `SeqCst` fence, and looks once more. The other end makes a
/// `SeqCst` fence after its operation and then looks for a sleeper.
///
/// # Signal handlers
///
/// A handler may have one end while the thread that it interrupts is in any operation of the other
/// one. It must not use the very end that it interrupts: that takes two `&mut` to one thing. What
/// has two producers or two consumers goes through [`local::Ring`](crate::local::Ring) or
/// [`Queue`](super::Queue).
///
/// ```
/// use atomseq::nonblocking::spsc::Ring;
///
/// let mut ring = Ring::with_capacity(100);
/// let (mut lines, mut consumer) = ring.split();
/// std::thread::scope(|scope| {
///     scope.spawn(move || {
///         for line in ["one", "two", "three"] {
///             lines.push(line).unwrap();
///         }
///     });
/// });
/// assert_eq!(consumer.pop(), Some("one"));
/// assert_eq!(consumer.drain().collect::<Vec<_>>(), ["two", "three"]);
/// ```
///
/// Two consumers do not compile:
///
/// ```compile_fail,E0499
/// let mut ring = atomseq::nonblocking::spsc::Ring::<u32>::new(4);
/// let (_, one) = ring.split();
/// let (_, another) = ring.split();
/// drop((one, another));
/// ```
pub struct Ring<T> {
    head: Position,
    tail: Position,
    places: Box<[Slot<T>]>,
    capacity: usize,
}

/// A count of elements on cache lines of its own, for processors that fetch them in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Position(AtomicUsize);

type Slot<T> = UnsafeCell<MaybeUninit<T>>;

// SAFETY: elements move between threads as values.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: a shared ring tells only how many elements it has.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// An empty ring.
    ///
    /// # Panics
    ///
    /// If [`try_with_capacity`](Ring::try_with_capacity) fails.
    pub fn with_capacity(capacity: usize) -> Ring<T> {
        Ring::try_with_capacity(capacity).unwrap_or_else(|error| panic!("{error}"))
    }

    /// An empty ring with room for so many elements.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCapacity`], [`Error::OutOfMemory`]; this also for more than `isize::MAX`
    /// elements without a size.
    pub fn try_with_capacity(capacity: usize) -> Result<Ring<T>, Error> {
        check_capacity(capacity)?;
        let count = capacity.checked_next_power_of_two();
        let count = count.ok_or(Error::OutOfMemory)?;
        let mut places = Vec::<Slot<T>>::new();
        let reserved = places.try_reserve_exact(count);
        reserved.map_err(|_| Error::OutOfMemory)?;
        // SAFETY: there is room for so many, and a place need not be initialized. One by one,
        // places without a size, of which there can be any number, would take for ever.
        unsafe { places.set_len(count) };
        Ok(Ring {
            head: Position::default(),
            tail: Position::default(),
            places: places.into_boxed_slice(),
            capacity,
        })
    }

    /// Both ends, for as long as the ring is borrowed. What they leave in it stays.
    pub fn split(&mut self) -> (Producer<'_, T>, Consumer<'_, T>) {
        let ring = NonNull::from(&*self);
        // SAFETY: borrowed for as long as both live, and borrowed mutably: there are no others.
        unsafe { ends(ring, None) }
    }

    /// Both ends, which keep the ring themselves, so that they may go to threads that nobody waits
    /// for. They share an `Arc`: without memory for it, the process ends.
    ///
    /// ```
    /// use atomseq::nonblocking::spsc::Ring;
    ///
    /// let (mut producer, mut consumer) = Ring::with_capacity(8).into_ends();
    /// let thread = std::thread::spawn(move || producer.push(5));
    /// assert_eq!(thread.join().unwrap(), Ok(()));
    /// assert_eq!(consumer.pop(), Some(5));
    /// assert!(consumer.is_abandoned());
    /// ```
    pub fn into_ends<'ring>(self) -> (Producer<'ring, T>, Consumer<'ring, T>)
    where
        T: 'ring,
    {
        let ring = Arc::new(self);
        // SAFETY: both own the ring, which nobody else has.
        unsafe { ends(NonNull::from(&*ring), Some(ring)) }
    }

    /// How many elements there is room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many elements there are at one moment of the call. While the consumer takes some out, so
    /// that eight readings in a row find the ring changed: at least one, and otherwise no more than
    /// there are at one moment.
    pub fn len(&self) -> usize {
        // Acquire: pairs with the releases in `Consumer::advance` and `Producer::advance`: a tail
        // is read after the head that made room for it, and the head after that is no older.
        let [head, tail] =
            [&self.head, &self.tail].map(|position| || position.0.load(Ordering::Acquire));
        distance(head, tail, 1, self.capacity)
    }

    /// Is there no element?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn mask(&self) -> usize {
        self.places.len() - 1
    }

    /// The place of a position.
    #[inline(always)]
    fn place(&self, position: usize) -> *mut MaybeUninit<T> {
        // SAFETY: masked, it is below the number of places.
        unsafe { self.places.get_unchecked(position & self.mask()) }.get()
    }

    /// The places of so many positions, no more than there are places, from this one on: those up
    /// to the end, and the rest, from the beginning. Slices, since what points to one place must
    /// not be used for the next.
    #[inline(always)]
    fn stretches(&self, position: usize, count: usize) -> [&[Slot<T>]; 2] {
        let from_there = &self.places[position & self.mask()..];
        let to_the_end = from_there.len().min(count);
        let rest = &self.places[..count - to_the_end];
        [&from_there[..to_the_end], rest]
    }
}

/// Copies an element into each of these places.
///
/// # Safety
///
/// So many elements lie at `from`, and nobody else uses the places.
#[inline(always)]
unsafe fn fill<T>(places: &[Slot<T>], from: *const T) {
    // SAFETY: the caller's promise; a place is as large as an element.
    unsafe {
        let start = UnsafeCell::raw_get(places.as_ptr()).cast::<T>();
        start.copy_from_nonoverlapping(from, places.len());
    }
}

/// Copies the elements of these places out.
///
/// # Safety
///
/// They are there, nobody else uses the places, and there is room for so many at `into`.
#[inline(always)]
unsafe fn empty<T>(places: &[Slot<T>], into: *mut T) {
    // SAFETY: as above.
    unsafe {
        let start = UnsafeCell::raw_get(places.as_ptr()).cast::<T>();
        into.copy_from_nonoverlapping(start, places.len());
    }
}

/// # Safety
///
/// The ring lives as long as `'ring` or the owner, and there is no other end.
unsafe fn ends<'ring, T>(
    ring: NonNull<Ring<T>>,
    owner: Option<Arc<Ring<T>>>,
) -> (Producer<'ring, T>, Consumer<'ring, T>) {
    // SAFETY: the caller's promise.
    let words = unsafe { ring.as_ref() };
    // Relaxed: whoever hands a ring from thread to thread orders what was done with it.
    let head = words.head.0.load(Ordering::Relaxed);
    let tail = words.tail.0.load(Ordering::Relaxed);
    let end = |owner| End {
        ring,
        head,
        tail,
        owner,
        borrowed: PhantomData,
    };
    (Producer(end(owner.clone())), Consumer(end(owner)))
}

/// What either end has: where it is itself, and where the other one was when it last looked.
struct End<'ring, T> {
    ring: NonNull<Ring<T>>,
    head: usize,
    tail: usize,
    owner: Option<Arc<Ring<T>>>,
    borrowed: PhantomData<&'ring Ring<T>>,
}

impl<T> End<'_, T> {
    #[inline(always)]
    fn ring(&self) -> &Ring<T> {
        // SAFETY: it lives as long as the borrow, or its owner.
        unsafe { self.ring.as_ref() }
    }

    fn is_abandoned(&self) -> bool {
        let alone = |owner: &Arc<Ring<T>>| Arc::strong_count(owner) == 1;
        let is_abandoned = self.owner.as_ref().is_some_and(alone);
        // Acquire: pairs with the release by which the other end gave up its share: whatever it did
        // is there.
        fence(Ordering::Acquire);
        is_abandoned
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        if needs_drop::<T>() {
            let (_, mut consumer) = self.split();
            drops::each(|| consumer.pop().is_some());
        }
    }
}

/// A ring that is full of these elements.
impl<T> FromIterator<T> for Ring<T> {
    /// # Panics
    ///
    /// As [`with_capacity`](Ring::with_capacity); none for no elements: then there is room for one.
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Ring<T> {
        let mut elements: Vec<T> = elements.into_iter().collect();
        let mut ring = Ring::with_capacity(elements.len().max(1));
        ring.split().0.append(&mut elements);
        ring
    }
}

macro_rules! debug {
    ($($name:ident $($lifetime:lifetime)?;)*) => {$(
        impl<T> fmt::Debug for $name<$($lifetime,)? T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("len", &self.len())
                    .field("capacity", &self.capacity())
                    .finish()
            }
        }
    )*};
}

debug! {
    Ring;
    Producer '_;
    Consumer '_;
}

#[cfg(test)]
mod tests;
