//! Records which entries are passing a signal on to a handler of other code. That handler may call
//! an entry with the same context, and an entry that finds itself recorded must not pass the signal
//! on again.
//!
//! ```text
//!  context ──> record of the last entry ──> record of the one before ──> 0
//!              whose it is, entries         whose it is, entries
//! ```
//!
//! Each record lies on the stack, below the context, while the handler runs that the signal was
//! passed on to. The context points at it, not the thread's words: a handler that never returns,
//! because it jumps, takes the record along, and the kernel clears the place in the next context.
//! That place is what the kernel leaves free of `uc_flags`. Nothing else reads that, whereas
//! `uc_link` is what a handler that makes a context out of its own returns to.
//!
//! Other copies of atomseq in the process use the same place, in the same way: none changes the
//! other's records, and none takes them for its own.

use crate::platform::Context;

/// Every copy of atomseq has this layout, whatever its version.
#[repr(C, align(16))]
struct Passing {
    /// What the place in the context held before.
    before: u64,
    /// Which copy of atomseq passes on: the address of its `COPY`.
    copy: usize,
    /// The set of its entries that do.
    entries: usize,
}

/// Its address identifies this copy.
static COPY: u8 = 1;

fn this_copy() -> usize {
    &raw const COPY as usize
}

/// Calls a handler of other code, to which `entries` pass on the signal that was delivered with
/// `context`.
#[inline(always)]
pub fn while_passing_on<R>(context: Context, entries: usize, call: impl FnOnce() -> R) -> R {
    let before = context.flags();
    let record = Passing {
        before,
        copy: this_copy(),
        entries,
    };
    context.set_flags(flags_with(before, (&raw const record).expose_provenance()));
    let result = call();
    // The kernel's own are the handler's to change.
    let changed = (before ^ context.flags()) & KERNELS_MASK;
    context.set_flags(before ^ changed);
    result
}

/// Returns the entries of this copy that are passing on the signal that was delivered with
/// `context`; `None` if none is.
pub fn passing_on(context: Context) -> Option<usize> {
    let mut flags = context.flags();
    let mut set = None;
    while let Some(address) = record_in(flags) {
        let record: *const Passing = core::ptr::with_exposed_provenance(address);
        // SAFETY: a record on the stack, which lives: `while_passing_on` removes its address from
        // the context before it returns. What other code has put there by chance fails the check.
        let record = unsafe { &*record };
        if record.copy == this_copy() {
            set = Some(set.unwrap_or(0) | record.entries);
        }
        flags = record.before;
    }
    set
}

/// The kernel's own flags: the lowest bits.
const KERNELS: u32 = 8;
const KERNELS_MASK: u64 = (1 << KERNELS) - 1;
/// After them a check: the kernel writes zeros, but the flags of a context that other code has made
/// up may be anything.
const CHECKED: u32 = 12;
/// A record is aligned to 16 bytes, and user space ends below 2^48, unless a program asks for more.
const ALIGNED: u32 = 4;

/// `flags` with the address of a record; as they were if it has no room.
fn flags_with(flags: u64, address: usize) -> u64 {
    let address = address as u64;
    if address >> (64 - KERNELS - CHECKED + ALIGNED) != 0 {
        return flags;
    }
    let kernels = flags & KERNELS_MASK;
    address >> ALIGNED << (KERNELS + CHECKED) | check(address) << KERNELS | kernels
}

/// The address of the record, if there is one.
fn record_in(flags: u64) -> Option<usize> {
    let address = flags >> (KERNELS + CHECKED) << ALIGNED;
    let checked = flags >> KERNELS & ((1 << CHECKED) - 1);
    (address != 0 && checked == check(address)).then_some(address as usize)
}

/// One of 4,096, which the whole address decides about.
fn check(address: u64) -> u64 {
    (address >> ALIGNED).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CHECKED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_hold_an_address_beside_the_kernel_s() {
        for address in [16, 0x7fff_ffff_fff0, 0xffff_ffff_fff0] {
            for kernels in [0, 7, 255] {
                let flags = flags_with(kernels, address);
                assert_eq!(record_in(flags), Some(address));
                assert_eq!(flags & 255, kernels);
                assert_eq!(record_in(flags ^ 1 << KERNELS), None, "a wrong check");
            }
        }
        assert_eq!(flags_with(7, 1 << 48), 7, "no room");
        for made_up in [0, 7, 0x5555_5555_5555, 0x7fff_ffff_e000] {
            assert_eq!(record_in(made_up), None, "{made_up:#x}");
        }
    }

    #[test]
    fn each_copy_finds_its_own() {
        // SAFETY: plain old data.
        let mut memory: libc::ucontext_t = unsafe { core::mem::zeroed() };
        let context = Context::of_caller(&mut memory, 0);
        let passed_on_by_another = |call: &dyn Fn()| {
            let before = context.flags();
            let other = Passing {
                before,
                copy: this_copy() + 1,
                entries: 4,
            };
            context.set_flags(flags_with(before, (&raw const other).expose_provenance()));
            call();
            context.set_flags(before);
        };
        passed_on_by_another(&|| {
            assert_eq!(passing_on(context), None);
            while_passing_on(context, 1, || {
                passed_on_by_another(&|| {
                    assert_eq!(passing_on(context), Some(1));
                    while_passing_on(context, 2, || assert_eq!(passing_on(context), Some(3)));
                });
                while_passing_on(context, 0, || assert_eq!(passing_on(context), Some(1)));
            });
            assert_eq!(passing_on(context), None);
        });
        assert_eq!(context.flags(), 0);
    }
}
