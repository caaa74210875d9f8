//! A queue for one producer and one consumer. It needs no read-modify-write instruction, because
//! each word is stored by one side only.
//!
//! ```text
//!   +------+---+------+---+---------+---------+----
//!   | head | … | tail | … | element | element |  …      a power of two of slots, `capacity` of them used at a time
//!   +------+---+------+---+---------+---------+----
//!    stored by  stored by
//!    consumer   producer          head & mask ^        ^ tail & mask
//! ```
//!
//! S92, section 5.1.4, calls this code isolation: "As long as the queue is neither full nor empty,
//! the producer and consumer work on different parts of it and need not synchronize." Only the
//! producer stores the tail and the slots from tail to head; only the consumer stores the head.
//! Each side knows its own word and never loads it. It keeps the last value it loaded of the other
//! side's word, and loads it again only if the queue seems full, or empty.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, needs_drop};
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Error, check_capacity};
use crate::distance::distance;
use crate::drops;
use crate::or_panic::OrPanic;
use crate::sync::{AtomicUsize, Ordering, fence};

mod consumer;
mod producer;

pub use consumer::Consumer;
pub use producer::Producer;

/// A bounded queue of values of any size, between one producer and one consumer.
///
/// Split a ring into a [`Producer`] and a [`Consumer`] to use it. Neither can be cloned, and both
/// need `&mut`, so there is at most one of each. The scope is `Machine`. All operations are
/// wait-free: none waits or retries, whatever state the other side was stopped in or exited in.
/// Pushes and pops use no atomic read-modify-write instruction and no fence: a store of the side's
/// own word, and sometimes a load of the other side's. Memory: slots for `capacity` elements,
/// rounded up to a power of two, and six cache lines. Only [`into_ends`](Ring::into_ends) allocates
/// after construction. S92, section 5.1.4.
///
/// # Full and empty
///
/// Neither side executes a fence, so its changes may reach the other side a moment later. A
/// producer that finds the ring full and a consumer that finds it empty are each right as far as
/// they can know, and both can happen at once. So a side that is about to sleep until the other
/// wakes it first stores a flag, executes a `SeqCst` fence, and tries again. The other side
/// executes a `SeqCst` fence after its operation and then checks the flag.
///
/// # Signal handlers
///
/// A handler may use one side while the thread that it interrupts is in any operation of the other
/// side. It must not use the side that it interrupts: that would take two `&mut` to one object.
/// With two producers or two consumers, use a [`local::Ring`](crate::local::Ring) or a
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
/// let mut ring = atomseq::nonblocking::spsc::Ring::<u32>::with_capacity(4);
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

/// A count of elements, on cache lines of its own, for processors that fetch lines in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Position(AtomicUsize);

type Slot<T> = UnsafeCell<MaybeUninit<T>>;

// SAFETY: the ring owns its elements, which are `Send`.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: a shared ring gives access to its length only, which is atomic.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// Creates an empty ring of up to `capacity` elements.
    ///
    /// # Panics
    ///
    /// If [`try_with_capacity`](Ring::try_with_capacity) fails.
    #[track_caller]
    pub fn with_capacity(capacity: usize) -> Ring<T> {
        Ring::try_with_capacity(capacity).or_panic()
    }

    /// Creates an empty ring of up to `capacity` elements.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCapacity`]; [`Error::OutOfMemory`], also for more than `isize::MAX` elements
    /// without a size.
    pub fn try_with_capacity(capacity: usize) -> Result<Ring<T>, Error> {
        check_capacity(capacity)?;
        let count = capacity.checked_next_power_of_two();
        let count = count.ok_or(Error::OutOfMemory)?;
        let mut places = Vec::<Slot<T>>::new();
        let reserved = places.try_reserve_exact(count);
        reserved.map_err(|_| Error::OutOfMemory)?;
        // SAFETY: the capacity was reserved, and slots need not be initialized. Pushing them one by
        // one would practically never end for slots without a size, of which there can be any
        // number.
        unsafe { places.set_len(count) };
        Ok(Ring {
            head: Position::default(),
            tail: Position::default(),
            places: places.into_boxed_slice(),
            capacity,
        })
    }

    /// Returns both ends, which borrow the ring. Elements that they leave in it stay there.
    pub fn split(&mut self) -> (Producer<'_, T>, Consumer<'_, T>) {
        let ring = NonNull::from(&*self);
        // SAFETY: the ring is borrowed exclusively for as long as both ends live, so there are no
        // others.
        unsafe { ends(ring, None) }
    }

    /// Returns both ends, which own the ring together, so that they can move to detached threads.
    /// They share an `Arc`; if there is no memory for it, the process aborts.
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
        // SAFETY: both ends share the ownership of the ring, to which no other code has access.
        unsafe { ends(NonNull::from(&*ring), Some(ring)) }
    }

    /// Returns the maximum number of elements.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of elements at some time during the call. If a consumer takes elements
    /// out so fast that eight loads in a row find the ring changed, returns at least one, and
    /// otherwise at most the number at some time.
    pub fn len(&self) -> usize {
        // Acquire: pairs with the releases in `Consumer::advance` and `Producer::advance`. The tail
        // is loaded after the head that made room for it, and the head loaded after that is no
        // older.
        let [head, tail] =
            [&self.head, &self.tail].map(|position| || position.0.load(Ordering::Acquire));
        distance(head, tail, 1, self.capacity)
    }

    /// Returns whether the ring was empty at some time during the call.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn mask(&self) -> usize {
        self.places.len() - 1
    }

    /// Returns the slot of a position.
    #[inline(always)]
    fn place(&self, position: usize) -> *mut MaybeUninit<T> {
        // SAFETY: the masked position is below the number of slots.
        unsafe { self.places.get_unchecked(position & self.mask()) }.get()
    }

    /// Returns the slots of `count` positions from this one on, at most all: those up to the end of
    /// the array, and the rest from its beginning. They are slices, because a pointer to one slot
    /// must not be used to access the next.
    #[inline(always)]
    fn stretches(&self, position: usize, count: usize) -> [&[Slot<T>]; 2] {
        let from_there = &self.places[position & self.mask()..];
        let to_the_end = from_there.len().min(count);
        let rest = &self.places[..count - to_the_end];
        [&from_there[..to_the_end], rest]
    }
}

/// Copies one element into each of these slots.
///
/// # Safety
///
/// As many elements lie at `from`, and no other code accesses the slots.
#[inline(always)]
unsafe fn fill<T>(places: &[Slot<T>], from: *const T) {
    // SAFETY: the caller's promise; a slot has the size and alignment of an element.
    unsafe {
        let start = UnsafeCell::raw_get(places.as_ptr()).cast::<T>();
        start.copy_from_nonoverlapping(from, places.len());
    }
}

/// Copies the elements of these slots out.
///
/// # Safety
///
/// The slots hold elements, no other code accesses them, and there is room for as many at `into`.
#[inline(always)]
unsafe fn empty<T>(places: &[Slot<T>], into: *mut T) {
    // SAFETY: the caller's promise; a slot has the size and alignment of an element.
    unsafe {
        let start = UnsafeCell::raw_get(places.as_ptr()).cast::<T>();
        into.copy_from_nonoverlapping(start, places.len());
    }
}

/// Creates both ends.
///
/// # Safety
///
/// The ring lives as long as `'ring` or the owner, and has no other ends.
unsafe fn ends<'ring, T>(
    ring: NonNull<Ring<T>>,
    owner: Option<Arc<Ring<T>>>,
) -> (Producer<'ring, T>, Consumer<'ring, T>) {
    // SAFETY: the caller's promise.
    let words = unsafe { ring.as_ref() };
    // Relaxed: handing the ring to this thread has ordered all earlier operations.
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

/// What both ends contain: their own position, and the other's when it was last loaded.
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
        // SAFETY: the ring lives as long as the borrow or the owner.
        unsafe { self.ring.as_ref() }
    }

    fn is_abandoned(&self) -> bool {
        let alone = |owner: &Arc<Ring<T>>| Arc::strong_count(owner) == 1;
        let is_abandoned = self.owner.as_ref().is_some_and(alone);
        // Acquire fence: pairs with the release by which the other end dropped its share of the
        // `Arc`, so that all its pushes and pops are visible.
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

/// Collects elements into a full ring.
impl<T> FromIterator<T> for Ring<T> {
    /// # Panics
    ///
    /// As [`with_capacity`](Ring::with_capacity), except that no elements make an empty ring of
    /// capacity 1.
    #[track_caller]
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
