//! What the subjects of an experiment do, a workload each: a trait that atomseq's structures and
//! their peers implement, one loop for all of them, and the check that every operation is accounted
//! for.

pub mod borrowing;
pub mod counting;
pub mod exchange;
pub mod flow;
pub mod locking;
pub mod mapping;
pub mod ordered;
pub mod paging;
pub mod pair;
pub mod pending;
pub mod relay;

/// Implements `Container` or `Conveyor` by a function that pushes, one that pops, and, for
/// containers of which `pop` sees a part only, one that pops anywhere.
macro_rules! push_and_pop {
    (Container for $type:ty: $push:expr, $pop:expr $(, $anywhere:expr)?) => {
        impl $crate::bench::workloads::exchange::Container for $type {
            #[inline(always)]
            unsafe fn push(&self, element: u64) -> Result<(), u64> {
                $push(self, element)
            }

            #[inline(always)]
            fn pop(&self) -> Option<u64> {
                $pop(self)
            }

            $(fn pop_anywhere(&self) -> Option<u64> {
                $anywhere(self)
            })?
        }
    };
    (Conveyor for $type:ty: $push:expr, $pop:expr) => {
        impl $crate::bench::workloads::flow::Conveyor for $type {
            #[inline(always)]
            fn push(&self, number: u64) -> Result<(), u64> {
                $push(self, number)
            }

            #[inline(always)]
            fn pop(&self) -> Option<u64> {
                $pop(self)
            }
        }
    };
}
pub(in crate::bench) use push_and_pop;
