//! Generators: iterators whose function runs on a stack of its own.

use core::any::Any;
use core::cell::Cell;
use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicPtr, compiler_fence};
use std::panic::{self, AssertUnwindSafe};

use atomseq::local::per_thread;

use super::scheduler::inside;
use super::{DEFAULT_STACK_SIZE, Error, MIN_STACK_SIZE, preempt};
use crate::arch;
use crate::stack::Stack;

/// An iterator over the values that a function passes to [`Yielder::suspend`]. The function runs on
/// a stack of its own, so it may suspend at any depth of calls: where it walks a tree by recursion,
/// for example.
///
/// Works with and without a [`run`](super::run). [`next`](Iterator::next) switches to the function,
/// and `suspend` switches back. Neither takes an atomic instruction or a system call. The function
/// begins with the first `next`.
///
/// ```
/// use atomseq_threads::coroutine::{Generator, Yielder};
///
/// enum Tree {
///     Leaf(u32),
///     Node(Box<Tree>, Box<Tree>),
/// }
///
/// fn walk(tree: &Tree, yielder: &Yielder<u32>) {
///     match tree {
///         Tree::Leaf(value) => yielder.suspend(*value),
///         Tree::Node(left, right) => {
///             walk(left, yielder);
///             walk(right, yielder);
///         }
///     }
/// }
///
/// let leaf = |value| Box::new(Tree::Leaf(value));
/// let tree = Tree::Node(leaf(1), Box::new(Tree::Node(leaf(2), leaf(3))));
/// // SAFETY: `walk` suspends outside of thread-locals, and none owns the generator.
/// let leaves = unsafe { Generator::new(move |yielder| walk(&tree, yielder)) };
/// assert_eq!(Vec::from_iter(leaves), [1, 2, 3]);
/// ```
///
/// The function belongs to the coroutine, or the thread, that calls `next`. It may call all of this
/// module, but suspend only as the coroutine that has resumed it. The region of a
/// [`preemptible`](super::preemptible) must not resume a generator, nor drop one whose function has
/// not returned.
///
/// # Drop
///
/// A generator that is dropped before its function has returned makes `suspend` unwind, so that the
/// destructors of the function run. The drop returns when it has unwound, also if it catches that
/// and continues. In programs that abort where others unwind, the stack and what it owns is leaked.
/// If the function is suspended in a destructor while it unwinds already, the process ends.
///
/// The destructor of a thread-local can find a generator whose function runs: if the function exits
/// the process, or waits in a run that has ended in a deadlock. The function is left as it is then,
/// so a drop leaks it.
pub struct Generator<T: 'static>(NonNull<Yielder<T>>);

/// What the function of a [`Generator`] suspends by. It lies at the top of the function's stack.
///
/// Invariant in the type of the values, which it takes, and which the generator returns:
///
/// ```compile_fail
/// use atomseq_threads::coroutine::Yielder;
///
/// fn narrow<'a>(yielder: &'a Yielder<fn(&str)>) -> &'a Yielder<fn(&'static str)> {
///     yielder
/// }
/// ```
#[repr(C)]
pub struct Yielder<T: 'static> {
    /// The stack pointer of the side that does not run: the caller's or the function's. Null when
    /// the function has ended.
    other: Cell<*mut u8>,
    link: Link,
    is_started: Cell<bool>,
    /// Whether the generator is being dropped, so that the function is to end.
    is_dropped: Cell<bool>,
    panic: Cell<Option<Box<dyn Any + Send>>>,
    values: PhantomData<fn(T) -> T>,
}

/// The stack of a generator, in the list of those of its thread, which the handler of faults reads.
#[repr(C)]
struct Link {
    /// How far below the yielder the stack reaches: where the function may suspend. Code on the
    /// stack runs as the coroutine that has resumed it, and other code is elsewhere. 0 while a run
    /// has begun on the stack, whose first coroutine that code is, and while it is dropped.
    room: Cell<usize>,
    stack: Stack,
    next: Cell<*mut Link>,
    previous: Cell<*mut Link>,
}

per_thread! {
    static GENERATORS: AtomicPtr<Link> = AtomicPtr::new(ptr::null_mut());
}

/// The message of a switch that ends the function.
const DROPPED: *const () = ptr::without_provenance(1);

/// The payload with which a function unwinds whose generator is dropped.
struct Dropped;

#[repr(C)]
struct Packet<F, T: 'static> {
    yielder: Yielder<T>,
    function: ManuallyDrop<F>,
}

impl<T: 'static> Generator<T> {
    /// Makes a generator of a function, on a stack of [`DEFAULT_STACK_SIZE`].
    ///
    /// # Safety
    ///
    /// As [`with_stack_size`](Generator::with_stack_size).
    ///
    /// # Panics
    ///
    /// If [`with_stack_size`](Generator::with_stack_size) fails.
    #[track_caller]
    pub unsafe fn new(f: impl FnOnce(&Yielder<T>) + 'static) -> Generator<T> {
        // SAFETY: the caller's promise.
        match unsafe { Generator::with_stack_size(DEFAULT_STACK_SIZE, f) } {
            Ok(generator) => generator,
            Err(error) => panic!("{error}"),
        }
    }

    /// Makes a generator of a function, on a stack of that many bytes, rounded up to whole pages.
    ///
    /// A thread that has no alternate signal stack, as one that other languages have started, ends
    /// without a message if the function overflows the stack outside of a run.
    ///
    /// # Safety
    ///
    /// `f`, and all that resumes or drops the generator, keep the [rules of the
    /// module](super#safety): they do not switch inside of a thread-local's initial value or
    /// destructor, nor inside of scopes that must end in the reverse order, and no thread-local
    /// owns the generator while `f` is suspended with a reference to another one. Nor is the
    /// generator forgotten while `f` is suspended in a scope whose threads have such a reference.
    ///
    /// # Errors
    ///
    /// [`Error::Stack`], and [`Error::StackTooSmall`] if what `f` owns leaves less than half of the
    /// stack, or if the stack is smaller than [`MIN_STACK_SIZE`]. `f` moves what it owns to its
    /// frames, so one that owns nearly half of the stack overflows it.
    pub unsafe fn with_stack_size<F>(bytes: usize, f: F) -> Result<Generator<T>, Error>
    where
        F: FnOnce(&Yielder<T>) + 'static,
    {
        let (size, align) = (
            size_of::<Packet<F, T>>(),
            align_of::<Packet<F, T>>().max(16),
        );
        let needs = size.saturating_add(align).saturating_mul(2);
        let needs = needs.max(MIN_STACK_SIZE);
        if bytes < needs {
            return Err(Error::StackTooSmall { size: bytes, needs });
        }
        // Inside, so that no tick switches in the middle of a change of the thread's lists.
        let stack = inside(|_| Stack::take(bytes)).map_err(Error::Stack)?;
        preempt::install_report();
        let top = stack.top().wrapping_sub(size);
        let top = top.wrapping_sub(top as usize % align);
        let packet = top.cast::<Packet<F, T>>();
        // SAFETY: inside the stack, aligned, and below nothing else's; `prepare` writes below it.
        unsafe {
            packet.write(Packet {
                yielder: Yielder {
                    other: Cell::new(arch::prepare(top, body::<F, T>, packet.cast())),
                    link: Link {
                        room: Cell::new(top as usize - stack.limit() as usize),
                        stack,
                        next: Cell::new(ptr::null_mut()),
                        previous: Cell::new(ptr::null_mut()),
                    },
                    is_started: Cell::new(false),
                    is_dropped: Cell::new(false),
                    panic: Cell::new(None),
                    values: PhantomData,
                },
                function: ManuallyDrop::new(f),
            });
            inside(|_| Link::insert(&raw mut (*packet).yielder.link));
            Ok(Generator(NonNull::new_unchecked(packet.cast())))
        }
    }

    /// Returns whether the function has returned or panicked.
    pub fn is_finished(&self) -> bool {
        self.yielder().other.get().is_null()
    }

    fn yielder(&self) -> &Yielder<T> {
        // SAFETY: its stack is mapped until the drop.
        unsafe { self.0.as_ref() }
    }

    /// Where the function is not suspended.
    #[cold]
    fn end(&self) -> Option<T> {
        if !self.is_finished() {
            panic!("the function of this generator runs, so it cannot be resumed");
        }
        match self.yielder().panic.take() {
            Some(payload) => panic::resume_unwind(payload),
            None => None,
        }
    }
}

impl<T: 'static> Iterator for Generator<T> {
    type Item = T;

    /// Lets the function run until it suspends, and returns the value; `None` once it has returned.
    ///
    /// # Panics
    ///
    /// With the panic of the function. In the destructor of a thread-local that finds the function
    /// [running](Generator#drop).
    #[inline(always)] // as `yield_now`
    fn next(&mut self) -> Option<T> {
        let yielder = self.yielder();
        let to = yielder.other.get();
        if !yielder.is_at(to) {
            return self.end();
        }
        // SAFETY: of `prepare`, or saved as the function suspended; it does not run.
        let value = unsafe { arch::switch(yielder.other.as_ptr(), to, ptr::null()) };
        match value.is_null() {
            // SAFETY: `suspend` gives it away. It stays there until the function continues.
            false => Some(unsafe { value.cast::<T>().read() }),
            true => self.end(),
        }
    }
}

impl<T: 'static> FusedIterator for Generator<T> {}

impl<T: 'static> Drop for Generator<T> {
    fn drop(&mut self) {
        let yielder = self.yielder();
        let to = yielder.other.get();
        if !to.is_null() {
            // One that runs is left as it is: what it has called never returns.
            if !yielder.is_at(to) || cfg!(panic = "abort") && yielder.is_started.get() {
                return;
            }
            yielder.is_dropped.set(true);
            yielder.link.room.set(0);
            // SAFETY: as in `next`. It switches back once, when it has ended.
            unsafe { arch::switch(yielder.other.as_ptr(), to, DROPPED) };
        }
        let payload = yielder.panic.take();
        // SAFETY: the function has ended, so its stack is used no more, and what was left of the
        // packet needs no drop. The link is taken out of the list before the stack is.
        unsafe {
            let link = &raw mut (*self.0.as_ptr()).link;
            inside(|_| {
                Link::remove(link);
                (&raw const (*link).stack).read().keep();
            });
        }
        if let Some(payload) = payload
            && !payload.is::<Dropped>()
        {
            panic::resume_unwind(payload);
        }
    }
}

impl<T: 'static> fmt::Debug for Generator<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generator")
            .field("is_finished", &self.is_finished())
            .finish()
    }
}

impl<T: 'static> Yielder<T> {
    /// Returns whether the function is suspended, or has not begun, at this stack pointer, which is
    /// `other`: it lies on the function's stack. False if the function has ended, or runs.
    #[inline(always)] // as `yield_now`
    fn is_at(&self, other: *mut u8) -> bool {
        ptr::from_ref(self).addr().wrapping_sub(other.addr()) <= self.link.room.get()
    }

    /// Lets the call of [`next`](Iterator::next) return the value. Returns at the next such call.
    ///
    /// Unwinds if the generator is dropped.
    ///
    /// # Panics
    ///
    /// In a coroutine, or a run, that the function itself has begun: only the caller of `next` may
    /// be switched back to.
    #[inline(always)] // as `yield_now`
    #[track_caller]
    pub fn suspend(&self, value: T) {
        let depth = ptr::from_ref(self)
            .addr()
            .wrapping_sub(arch::stack_pointer());
        if depth >= self.link.room.get() {
            self.refuse();
        }
        let value = ManuallyDrop::new(value);
        let message: *const ManuallyDrop<T> = &value;
        // SAFETY: the side that has resumed this one waits there, with the same coroutine.
        let message =
            unsafe { arch::switch(self.other.as_ptr(), self.other.get(), message.cast()) };
        if !message.is_null() {
            end_function();
        }
    }

    #[cold]
    #[track_caller]
    fn refuse(&self) -> ! {
        if self.is_dropped.get() {
            end_function();
        }
        panic!("only the coroutine that has called `next` can suspend this generator's function");
    }
}

impl<T: 'static> fmt::Debug for Yielder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Yielder").finish_non_exhaustive()
    }
}

#[cold]
fn end_function() -> ! {
    // Not a panic that is reported.
    panic::resume_unwind(Box::new(Dropped));
}

/// The whole life of a generator's function.
///
/// # Safety
///
/// The first switch to it calls this, with its packet.
unsafe extern "C" fn body<F, T: 'static>(packet: *const ()) -> !
where
    F: FnOnce(&Yielder<T>),
{
    let packet = packet.cast_mut().cast::<Packet<F, T>>();
    // SAFETY: the packet lives until the generator's drop, which waits for the end of this. The
    // function is taken out once.
    unsafe {
        let yielder = &(*packet).yielder;
        let function = ManuallyDrop::take(&mut (*packet).function);
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
            if !yielder.is_dropped.get() {
                yielder.is_started.set(true);
                function(yielder);
            }
        }));
        yielder.panic.set(outcome.err());
        let to = yielder.other.replace(ptr::null_mut());
        let mut never = ptr::null_mut();
        arch::switch(&raw mut never, to, ptr::null());
    }
    unreachable!("a generator's function that has ended does not run");
}

impl Link {
    /// Adds a link to the list of this thread.
    ///
    /// # Safety
    ///
    /// It lives until `remove`, which the same thread calls.
    unsafe fn insert(link: *mut Link) {
        let first = GENERATORS.with(|first| first.load(Relaxed));
        // SAFETY: all of the list live.
        unsafe {
            (*link).next.set(first);
            if let Some(first) = first.as_ref() {
                first.previous.set(link);
            }
        }
        // The handler finds all of it or none.
        compiler_fence(SeqCst);
        GENERATORS.with(|first| first.store(link, Relaxed));
    }

    /// Takes a link out.
    ///
    /// # Safety
    ///
    /// It is in the list of this thread.
    unsafe fn remove(link: *mut Link) {
        // SAFETY: all of the list live.
        unsafe {
            let (next, previous) = ((*link).next.get(), (*link).previous.get());
            match previous.as_ref() {
                Some(previous) => previous.next.set(next),
                None => GENERATORS.with(|first| first.store(next, Relaxed)),
            }
            if let Some(next) = next.as_ref() {
                next.previous.set(previous);
            }
        }
        compiler_fence(SeqCst);
    }
}

/// While it lives, the function on whose stack it was made does not suspend: a run has begun there,
/// which would be left.
pub(super) struct NoSuspension(Option<(*const Link, usize)>);

impl NoSuspension {
    pub fn new() -> NoSuspension {
        let here = arch::stack_pointer();
        NoSuspension(find(|stack| stack.contains(here)).map(|link| {
            // SAFETY: in the list, and its function, which runs, ends before its drop.
            (link, unsafe { &*link }.room.replace(0))
        }))
    }
}

impl Drop for NoSuspension {
    fn drop(&mut self) {
        if let Some((link, room)) = self.0 {
            // SAFETY: still in the list: its function runs, and ends before its drop.
            unsafe { &*link }.room.set(room);
        }
    }
}

/// Returns the size of this thread's generator stack whose guard page contains `address`.
pub(super) fn overflowed(address: usize) -> Option<usize> {
    // SAFETY: in the list.
    find(|stack| stack.guards(address)).map(|link| unsafe { &*link }.stack.size())
}

/// Returns the first link of this thread whose stack is the one.
fn find(is_it: impl Fn(&Stack) -> bool) -> Option<*const Link> {
    let mut link = GENERATORS.with(|first| first.load(Relaxed)).cast_const();
    // SAFETY: all of the list live, and only this thread changes it.
    while let Some(found) = unsafe { link.as_ref() } {
        if is_it(&found.stack) {
            return Some(link);
        }
        link = found.next.get();
    }
    None
}
