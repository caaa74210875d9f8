//! The interface to Linux: sections and registration, the fence, blocking signals, waiting, memory,
//! CPUs. `portable/` offers the same names without the kernel's help.
//!
//! Nothing here allocates with Rust's global allocator, takes a lock of the standard library, or
//! uses a thread-local that is initialized on first use. All of it may therefore run inside an
//! allocator or a signal handler, except where a function says otherwise.

mod context;
mod cpus;
mod dispositions;
mod fork;
mod futex;
mod kernel;
mod membarrier;
mod memory;
pub mod objects;
mod on_cpu;
mod process;
mod rseq;
mod selftest;
mod signals;
mod start;
mod thread_storage;
mod threads;
mod traffic;

pub use crate::arch::{
    compare_exchange_double, compare_exchange_here, has_double_width, prefetch, prefetch_for_store,
};
pub use context::Context;
pub use cpus::{cpu_slots, current_cpu};
pub use dispositions::{
    Disposition, Entry, RESERVED, RESERVED_SET, SIGNALS, are_same, bit, change_mask, disposition,
    install_entry_if, is_any_pending, is_readable, kernel_mask, pending, queue_to_this_thread,
    replace_disposition, replace_disposition_if, send_to_this_thread,
};
pub(crate) use fork::await_fork;
pub use fork::{Hook, Waiting, Walk, enter_uncounted, leave, try_enter, watch};
pub use futex::{wait, wait_at_most, wait_briefly, wake_all, wake_many, wake_one};
pub use membarrier::{ORDERS_ALL, barrier, can_order_all, fence_all, membarrier_rseq};
pub use memory::{discard, map, page_size, unmap};
pub use on_cpu::{rseq_offset, started_rseq_offset};
pub use process::generation;
#[cfg(feature = "unstable-internals")]
pub use rseq::cpu_id;
pub use rseq::{RSEQ_OFFSET, register_this_thread};
pub use signals::{
    SignalsBlocked, are_signals_blocked, leave_blocked, mask_to_restore, set_unblocking_hook,
};
pub use start::{own_process, start, start_at_once};
pub use threads::{NAME_BITS, has_ended, is_gone, knows_who_has_ended, thread_id, thread_name};
