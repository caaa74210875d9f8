//! The mechanisms: the forms of the sequences, and plain Rust under a mask.

use std::marker::PhantomData;
use std::sync::LazyLock;

use atomseq::signal::{self, Masked};
use atomseq_papers::rollforward::Scheme;

use super::sequences::{self, plain};
use crate::bench::peers::kernel_mask::{Blocked, Signals};
use crate::bench::signals;

/// A way to run the sequences with one visible store.
pub trait Mechanism: Default + Sync + 'static {
    /// # Safety
    ///
    /// As for the sequence of that name, here and below: the addresses are those of the structure
    /// and of a node of its kind, which live, and only this thread and its handlers use them.
    unsafe fn null(&self, word: usize, value: usize);

    /// # Safety
    ///
    /// As above; the node is in no stack.
    unsafe fn push(&self, stack: usize, node: usize);

    /// # Safety
    ///
    /// As above.
    unsafe fn pop(&self, stack: usize) -> Option<usize>;

    /// # Safety
    ///
    /// As above; the node is in no queue.
    unsafe fn enqueue(&self, queue: usize, node: usize, value: usize);

    /// # Safety
    ///
    /// As above.
    unsafe fn dequeue(&self, queue: usize) -> Option<(usize, usize)>;
}

/// A way to run the sequences with several.
pub trait Stores: Default + Sync + 'static {
    /// # Safety
    ///
    /// As for [`Mechanism`]; the node is in no queue.
    unsafe fn append(&self, queue: usize, node: usize);

    /// # Safety
    ///
    /// As for [`Mechanism`].
    unsafe fn remove(&self, queue: usize) -> Option<usize>;
}

/// One of the two, by calling functions of that signature.
macro_rules! calls {
    ($mechanism:ty, $trait:ident $([$($bounds:tt)*])?, $($name:ident => $path:path: ($($word:ident),*) $(-> $result:ty)?;)*) => {
        impl $(<$($bounds)*>)? $trait for $mechanism {
            $(
                #[inline(always)]
                unsafe fn $name(&self $(, $word: usize)*) $(-> $result)? {
                    // SAFETY: the caller's promise is the sequence's.
                    unsafe { $path($($word),*) }
                }
            )*
        }
    };
}

/// A form of the sequences with one visible store.
macro_rules! form {
    ($mechanism:ident, $form:ident) => {
        calls! { $mechanism, Mechanism,
            null => sequences::null::$form: (word, value);
            push => sequences::push::$form: (stack, node);
            pop => sequences::pop::$form: (stack) -> Option<usize>;
            enqueue => sequences::enqueue::$form: (queue, node, value);
            dequeue => sequences::dequeue::$form: (queue) -> Option<(usize, usize)>;
        }
    };
}

/// A form of the sequences with several.
macro_rules! stores {
    ($mechanism:ident, $form:ident) => {
        calls! { $mechanism, Stores,
            append => sequences::append::$form: (queue, node);
            remove => sequences::remove::$form: (queue) -> Option<usize>;
        }
    };
}

/// The template alone, which no handler knows of.
#[derive(Default)]
pub struct Unprotected;
form!(Unprotected, unprotected);
stores!(Unprotected, unprotected);

/// Restarted if interrupted.
#[derive(Default)]
pub struct Restarting;
form!(Restarting, restarting);

/// Rolled forward if interrupted.
#[derive(Default)]
pub struct Rolling;
form!(Rolling, rolling);
stores!(Rolling, rolling);

/// Rolled forward if interrupted, by a scheme of M94.
#[derive(Default)]
pub struct By<S>(PhantomData<S>);

calls! { By<S>, Mechanism [S: Scheme + Default + Sync + 'static],
    null => sequences::null::by::<S>: (word, value);
    push => sequences::push::by::<S>: (stack, node);
    pop => sequences::pop::by::<S>: (stack) -> Option<usize>;
    enqueue => sequences::enqueue::by::<S>: (queue, node, value);
    dequeue => sequences::dequeue::by::<S>: (queue) -> Option<(usize, usize)>;
}

calls! { By<S>, Stores [S: Scheme + Default + Sync + 'static],
    append => sequences::append::by::<S>: (queue, node);
    remove => sequences::remove::by::<S>: (queue) -> Option<usize>;
}

/// A mask.
pub trait Shield: Default + Sync + 'static {
    /// What takes the mask off again when dropped.
    type Guard;

    /// Masks the signals.
    fn mask(&self) -> Self::Guard;
}

/// `signal::mask()`.
#[derive(Default)]
pub struct Mask;

impl Shield for Mask {
    type Guard = Masked;

    #[inline(always)]
    fn mask(&self) -> Masked {
        signal::mask()
    }
}

/// The kernel's mask.
pub struct KernelMask(Signals);

impl Default for KernelMask {
    fn default() -> Self {
        static MANAGED: LazyLock<Signals> = LazyLock::new(|| Signals::of(&[signals::MANAGED]));
        Self(*MANAGED)
    }
}

impl Shield for KernelMask {
    type Guard = Blocked;

    #[inline(always)]
    fn mask(&self) -> Blocked {
        self.0.block()
    }
}

/// Plain Rust under a mask.
#[derive(Default)]
pub struct Shielded<S>(S);

macro_rules! shielded {
    ($trait:ident, $($name:ident: ($($word:ident),*) $(-> $result:ty)?;)*) => {
        impl<S: Shield> $trait for Shielded<S> {
            $(
                #[inline(always)]
                unsafe fn $name(&self $(, $word: usize)*) $(-> $result)? {
                    let _guard = self.0.mask();
                    // SAFETY: the caller's promise, and handlers wait for the guard.
                    unsafe { plain::$name($($word),*) }
                }
            )*
        }
    };
}

shielded! { Mechanism,
    null: (word, value);
    push: (stack, node);
    pop: (stack) -> Option<usize>;
    enqueue: (queue, node, value);
    dequeue: (queue) -> Option<(usize, usize)>;
}

shielded! { Stores,
    append: (queue, node);
    remove: (queue) -> Option<usize>;
}
