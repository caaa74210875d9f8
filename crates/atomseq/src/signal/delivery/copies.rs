//! Other copies of atomseq in the process. Each adopts what it finds, which may be an entry of
//! another copy; that one must see that signals still come to its own entry, or the two would adopt
//! each other in turn, a layer each time.
//!
//! ```text
//!  kernel ──> entry of a second copy ──adopted──> entry of this copy ──adopted──> handler of the program
//! ```
//!
//! So an entry can be asked what it passes signals on to. What is around it in memory says that it
//! is one:
//!
//! ```text
//!  -32  MARK        16 bytes
//!  -16  where `below` is, from here, 4 bytes
//!    0  entry 0     code; at 12 its number beside NUMBERED, 4 bytes
//!   16  entry 1     …
//! ```
//!
//! Every copy of atomseq has this layout, whatever its version.

use core::ffi::c_int;

use super::actions::{self, Action, By, ENTRIES};
use super::cover;
use crate::arch::ENTRY_NUMBERED;
use crate::platform::is_readable;

const MARK: [u8; 16] = *b"atomseq: entries";

/// Returns the handler that an entry of a copy calls for every signal; 0 if there is none, or if it
/// may not call it.
type Below = unsafe extern "C" fn(signal: c_int, entry: usize) -> usize;

/// Implements [`Below`] for this copy. Async-signal-safe.
pub unsafe extern "C" fn below(signal: c_int, entry: usize) -> usize {
    match actions::of_entry(signal, entry) {
        Some(action) if action.is_retired() => action.rest().handler,
        Some(action) if matches!(action.by, By::Adopted) => action.previous.disposition().handler,
        _ => 0,
    }
}

/// Returns the action of this copy to which `handler`, which the kernel calls on `signal`, passes
/// the signal on through other copies.
pub fn action_below(signal: c_int, handler: usize) -> Option<&'static Action> {
    // A bound on the number of copies' entries in a chain: a longer one is a cycle without this
    // copy.
    const LAYERS: usize = 4 * ENTRIES;
    let mut at = handler;
    for _ in 0..LAYERS {
        let (entry, below) = other_entry(at)?;
        // SAFETY: what is around the entry says that this is the function.
        at = unsafe { below(signal, entry) };
        if let Some(own) = cover::entry_at(at) {
            return actions::live_of_entry(signal, own);
        }
    }
    None
}

/// Returns the number of an entry of another copy, and the function that returns what is below it.
fn other_entry(handler: usize) -> Option<(usize, Below)> {
    /// How far before the entry with number 0.
    const MARKED: usize = 32;
    const BELOW: usize = 16;
    /// How far behind an entry's beginning.
    const NUMBER: usize = 12;
    let read = |address: usize| {
        let place = core::ptr::with_exposed_provenance::<u64>(address & !7);
        // The handler may lie in an object that was unloaded. SAFETY: eight aligned bytes, which
        // the kernel could read.
        is_readable(address & !7).then(|| unsafe { place.read() }.to_ne_bytes())
    };
    if !handler.is_multiple_of(16) || handler < 16 * ENTRIES + MARKED {
        return None;
    }
    // The second half of an aligned word.
    let [.., a, b, c, d] = read(handler + NUMBER)?;
    let number = u32::from_ne_bytes([a, b, c, d]).wrapping_sub(ENTRY_NUMBERED) as usize;
    if number >= ENTRIES {
        return None;
    }
    let first = handler - 16 * number;
    let (begin, end) = MARK.split_at(8);
    if read(first - MARKED)? != begin || read(first - MARKED + 8)? != end {
        return None;
    }
    let [a, b, c, d, ..] = read(first - BELOW)?;
    let below = (first - BELOW).wrapping_add_signed(i32::from_ne_bytes([a, b, c, d]) as isize);
    let below = core::ptr::with_exposed_provenance::<()>(below);
    // SAFETY: what is around the entry says that this function has this type.
    let below = unsafe { core::mem::transmute::<*const (), Below>(below) };
    Some((number, below))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::signal_entry;

    #[test]
    fn an_entry_says_that_it_is_one_and_other_code_does_not() {
        for number in 0..ENTRIES {
            let (found, below) = other_entry(signal_entry(number) as usize).expect("an entry");
            assert_eq!(found, number);
            // SAFETY: this copy's own function.
            assert_eq!(unsafe { below(libc::SIGWINCH, number) }, 0);
        }
        let entry = signal_entry(0) as usize;
        for other in [0, 16, entry - 16, entry + 4, entry + 16 * ENTRIES] {
            assert!(other_entry(other).is_none(), "{other:#x}");
        }
        let all_same = [ENTRY_NUMBERED; 512];
        let middle = (&raw const all_same[256]) as usize & !15;
        assert!(other_entry(middle).is_none(), "numbered, but not marked");
        assert!(!is_readable(16));
    }
}
