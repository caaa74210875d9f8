//! A pool that gives out what was freed last, and notices what is freed twice.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Deref;

/// As the library's.
///
/// # Safety
///
/// None is needed here.
pub unsafe trait Descriptor: Sync + Sized {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    Zero,
    TooLarge,
    OutOfMemory,
    LimitReached,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Error {}

pub struct Options<T> {
    limit: usize,
    descriptors: PhantomData<T>,
}

impl<T: Descriptor> Options<T> {
    pub fn limit(self, limit: usize) -> Options<T> {
        Options { limit, ..self }
    }

    pub fn build(self) -> Result<Pool<T>, Error> {
        Ok(Pool {
            limit: self.limit,
            all: RefCell::new(Vec::new()),
            free: RefCell::new(Vec::new()),
            descriptors: PhantomData,
        })
    }
}

pub struct Pool<T> {
    limit: usize,
    all: RefCell<Vec<*mut u8>>,
    free: RefCell<Vec<*mut u8>>,
    descriptors: PhantomData<T>,
}

// SAFETY: all threads of a model run on one, and no use of the cells lasts over a step.
unsafe impl<T: Descriptor> Sync for Pool<T> {}
// SAFETY: as above.
unsafe impl<T: Descriptor> Send for Pool<T> {}

/// Where descriptors lie: at multiples of 64.
fn layout<T>() -> Layout {
    let layout = Layout::new::<T>().align_to(64).expect("a layout");
    layout.pad_to_align()
}

impl<T: Descriptor> Pool<T> {
    pub fn options() -> Options<T> {
        Options {
            limit: usize::MAX,
            descriptors: PhantomData,
        }
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn allocate(&self) -> Result<Allocated<'_, T>, Error> {
        let freed = self.free.borrow_mut().pop();
        let node = freed.unwrap_or_else(|| {
            // SAFETY: nodes have a size.
            let node = unsafe { alloc_zeroed(layout::<T>()) };
            self.all.borrow_mut().push(node);
            node
        });
        node.expose_provenance();
        // SAFETY: zeros are an instance, and so is what was freed.
        let descriptor = unsafe { &*node.cast::<T>() };
        Ok(Allocated {
            pool: self,
            descriptor,
        })
    }

    /// # Safety
    ///
    /// As the library's, and checked.
    pub unsafe fn adopt(&self, descriptor: &T) -> Allocated<'_, T> {
        let node = std::ptr::from_ref(descriptor).cast::<u8>().cast_mut();
        assert!(self.all.borrow().contains(&node), "freed elsewhere");
        // SAFETY: as in `allocate`.
        let descriptor = unsafe { &*node.cast::<T>() };
        Allocated {
            pool: self,
            descriptor,
        }
    }

    fn put(&self, descriptor: &T) {
        let node = std::ptr::from_ref(descriptor).cast::<u8>().cast_mut();
        // A model that has failed already leaves anything behind.
        let is_free = self.free.borrow().contains(&node) && !std::thread::panicking();
        assert!(!is_free, "freed twice");
        self.free.borrow_mut().push(node);
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for node in self.all.take() {
            // SAFETY: allocated like this, and nobody has a list in here any more.
            unsafe { dealloc(node, layout::<T>()) };
        }
    }
}

pub struct Allocated<'pool, T: Descriptor> {
    pool: &'pool Pool<T>,
    descriptor: &'pool T,
}

impl<'pool, T: Descriptor> Allocated<'pool, T> {
    pub fn into_raw(self) -> &'pool T {
        let descriptor = self.descriptor;
        std::mem::forget(self);
        descriptor
    }
}

impl<T: Descriptor> Deref for Allocated<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.descriptor
    }
}

impl<T: Descriptor> Drop for Allocated<'_, T> {
    fn drop(&mut self) {
        self.pool.put(self.descriptor);
    }
}
